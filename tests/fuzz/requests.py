"""Requests that make sense nearly: of names that exist, offsets at the edges, and now and then of neither."""

from zaichik_protocol import (
    FOREVER,
    HEARTBEAT,
    Batch,
    Close,
    Commit,
    CreateTopic,
    Describe,
    Hello,
    Ping,
    Publish,
    Setting,
    Start,
    Subscribe,
    Unsubscribe,
)

TOPICS = ["a", "a", "a", "b", "b", "c", "d", "e", "$journal/a", "$journal/b", "", "$x", "\n", "n" * 201, "é"]
VALUES = {
    Setting.RETENTION_TTL_MS: [0, 0, 1, 2, 1000, FOREVER, FOREVER - 1],
    Setting.COMPACTION_WINDOW_MS: [0, 1, 2, 1000, FOREVER],
    Setting.CAPACITY: [0, 1, 2, 5, 50, 10**9],
    Setting.MAX_BYTES: [0, 1, 100, 400, 1000, 2**40],
    Setting.MAX_KEYS: [0, 1, 3, 100],
    Setting.JOURNAL_BYTES: [0, 1, 100, 500, 2**50],
}


def _hello(rng, request_id, manager, broker):
    return Hello(request_id, rng.choice((1, 1, 1, 0, 2)), rng.choice((1, 1, 1, 0, 9)), rng.choice((0, HEARTBEAT, 2)),
                 rng.choice(("", "somebody", "x" * 200)), rng.choice((0, 0, 0, 1, 3)))  # fmt: skip


def _create(rng, request_id, manager, broker):
    pairs = [(setting, rng.choice(VALUES[setting])) for setting in Setting if setting in VALUES and rng.random() < 0.3]
    if rng.random() < 0.05:
        pairs.append((rng.randrange(256), rng.choice((0, 1, FOREVER))))
    return CreateTopic(request_id, rng.choice(TOPICS), tuple(pairs))


def _publish(rng, request_id, manager, broker):
    count = rng.choice((1, 1, 1, 2, 3, 8, 9, 17))
    messages = [(rng.choice((b"", b"k", b"l", b"m", b"n" * 9)), b"p" * rng.choice((0, 1, 5, 60, 250))) for _ in range(count)]
    numbered = {"producer": rng.randint(1, 3), "sequence": rng.choice((0, 0, 1, 2, 3, 9))} if rng.random() < 0.2 else {}
    return Publish(request_id, rng.choice(TOPICS), Batch.of(messages), **numbered)


def _offset(rng, broker, name):
    """One at an edge of that topic."""
    topic = next((topic for topic in broker.registry if topic.name == name), None)
    edges = [0, 1, FOREVER, rng.randrange(60)]
    if topic is not None:
        edges += [topic.ring.head, topic.ring.next_offset, topic.ring.next_offset + 1, topic.ring.head + 1]
    return max(0, rng.choice(edges) - rng.choice((0, 0, 1)))


def _subscribe(rng, request_id, manager, broker):
    name = rng.choice(TOPICS)
    until = FOREVER if rng.random() < 0.6 else _offset(rng, broker, name)
    epoch = rng.choice((0, 0, 0, 0, 1, broker.clock.now_us()))
    value = _offset(rng, broker, name) if rng.random() < 0.9 else broker.clock.now_us() - rng.randrange(3000)
    start = rng.choice((*Start, 4))
    own = "" if rng.random() < 0.7 else rng.choice(("s", "t", "s" * 201, "\0"))
    credit, credit_bytes = rng.choice((0, 1, 2, 5, 20, 21)), rng.choice((0, 1, 50, 10**6))
    return Subscribe(request_id, name, own, start, value, epoch, until, credit, credit_bytes)


def _own_subscription(rng, manager):
    return rng.choice([*manager.subscriptions, *manager.subscriptions, 0, 7])


def _commit(rng, request_id, manager, broker):
    number = _own_subscription(rng, manager)
    edges = [0, 1, FOREVER]
    if (subscription := manager.subscriptions.get(number)) is not None:
        cursor, committed = subscription.cursor, subscription.committed
        edges += [cursor, cursor, cursor, cursor + 1, committed, committed + 1, (cursor + committed) // 2]
    return Commit(request_id, number, rng.choice(edges))


def _unsubscribe(rng, request_id, manager, broker):
    return Unsubscribe(request_id, _own_subscription(rng, manager), forget=rng.random() < 0.3)


def _describe(rng, request_id, manager, broker):
    return Describe(request_id, rng.choice((0, 1, 2, 3)), rng.choice(("", "a")), rng.choice(("", "b")), rng.choice((0, 1, 9)))


def _rare(rng, request_id, manager, broker):
    return rng.choice((Ping(request_id, 7), Ping(request_id), Close(request_id)))


_KINDS = [_publish] * 8 + [_commit] * 5 + [_subscribe] * 4 + [_create] * 2 + [_unsubscribe, _describe, _rare, _hello]


def request(rng, request_id, manager, broker):
    """Any request of that conversation."""
    kind = _hello if not manager.greeted and rng.random() < 0.9 else rng.choice(_KINDS)
    return kind(rng, request_id, manager, broker)
