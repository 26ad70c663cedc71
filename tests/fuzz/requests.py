"""Requests that make sense nearly: of names that exist, offsets at the edges, and now and then of
neither.
"""

from zaichik.base.clock import LAST_US
from zaichik_protocol import (
    FOREVER,
    HEARTBEAT,
    AdvanceClock,
    Batch,
    Close,
    Commit,
    CreateTopic,
    Dead,
    Delete,
    Describe,
    Disconnect,
    Explain,
    Hello,
    Outcome,
    Ping,
    Publish,
    Setting,
    Settle,
    Start,
    Subscribe,
    Unsubscribe,
)

ODD = 0.04  # how often a field is
TOPICS = ["a", "a", "a", "b"]
ODD_TOPICS = ["c", "d", "e", "$journal/a", "$journal/b", "", "$x", "\n", "n" * 201, "é"]
VALUES = {
    Setting.RETENTION_TTL_MS: ([0, 1, 2, 1000, FOREVER], [FOREVER - 1]),
    Setting.COMPACTION_WINDOW_MS: ([0, 1, 2, 1000, FOREVER], [FOREVER - 1]),
    Setting.CAPACITY: ([17, 20, 50], [0, 1, 5, 10**9]),
    Setting.MAX_BYTES: ([400, 700, 1000], [0, 1, 100, 2**40]),
    Setting.MAX_KEYS: ([1, 3, 100], [0]),
    Setting.JOURNAL_BYTES: ([0, 100, 500], [1, 2**50]),
    Setting.OVERFLOW: ([0, 1], [2]),
}


def _of(rng, usual, odd):
    return rng.choice(odd if rng.random() < ODD else usual)


def _hello(rng, request_id, manager, broker):
    return Hello(
        request_id,
        _of(rng, [1], [0, 2]),
        _of(rng, [1], [0, 9]),
        _of(rng, [0], [HEARTBEAT, 2]),
        _of(rng, ["somebody"], ["", "x" * 200]),
        _of(rng, [0], [1, 3]),
    )


def beginning(rng):
    """A client that makes the topics, before anybody uses them: with settings of their own."""
    return [Hello(1), *(CreateTopic(2, name, _settings(rng)) for name in ("a", "b"))]


def _settings(rng):
    pairs = [(setting, _of(rng, *VALUES[setting])) for setting in VALUES if rng.random() < 0.4]
    if rng.random() < ODD:
        pairs.append((rng.randrange(256), rng.choice((0, 1, FOREVER))))
    return tuple(pairs)


def _create(rng, request_id, manager, broker):
    return CreateTopic(request_id, _of(rng, TOPICS, ODD_TOPICS), _settings(rng))


def _publish(rng, request_id, manager, broker):
    count = _of(rng, [1, 1, 1, 2, 3, 9], [16, 17])
    keys, sizes = [b"", b"", b"k", b"l", b"m"], [0, 1, 5, 20]
    messages = [
        (_of(rng, keys, [b"n" * 9]), b"p" * _of(rng, sizes, [60, 250])) for _ in range(count)
    ]
    producer = _of(rng, [0, 0, 1, 2], [3])
    known = broker.producers._known.get(producer)
    sequence = _of(
        rng, [known.next if known else 0], [1, 2, 99, max(known.next - 1, 0) if known else 5]
    )
    numbers = {"producer": producer, "sequence": sequence if producer else 0}
    return Publish(request_id, _of(rng, TOPICS, ODD_TOPICS), Batch.of(messages), **numbers)


def _offset(rng, broker, name):
    """One at an edge of that topic."""
    topic = next((topic for topic in broker.registry if topic.name == name), None)
    edges = [0, 1]
    if topic is not None:
        edges += [
            topic.retained.ring.head,
            topic.retained.ring.next_offset,
            topic.retained.ring.next_offset - 1,
            topic.retained.ring.head + 1,
        ]
    return max(0, _of(rng, edges, [edges[-1] + 1, FOREVER, rng.randrange(60)]))


def _subscribe(rng, request_id, manager, broker):
    name = _of(rng, [*TOPICS, "$journal/a"], ODD_TOPICS)
    until = FOREVER if rng.random() < 0.8 else _offset(rng, broker, name)
    epoch = _of(rng, [0], [1, broker.clock.now_us()])
    start = _of(rng, [*Start], [4])
    value = (
        broker.clock.now_us() - rng.randrange(3000)
        if start == Start.TIME
        else _offset(rng, broker, name)
    )
    own = "" if rng.random() < 0.7 else _of(rng, ["s", "t", "u"], ["s" * 201, "\0"])
    credit, credit_bytes = _of(rng, [1, 2, 5, 20], [0, 21]), _of(rng, [1, 50, 10**6, 10**6], [0])
    owner = {}
    if rng.random() < 0.2:
        owner = {
            "owner": _of(rng, [1, 2], [0]),
            "attempt": rng.choice((0, 1, request_id)),
            "owned": True,
        }
    return Subscribe(
        request_id, name, own, start, value, epoch, until, credit, credit_bytes, **owner
    )


def _share(rng, request_id, manager, broker):
    """A Subscribe that shares its name; with an owner now and then, who may come back."""
    how = {}
    if rng.random() < 0.6:
        owner = rng.choice((manager.number, 1, 2))
        how = {"owned": True, "owner": owner, "attempt": rng.choice((1, 2, request_id))}
    known = [
        ticket
        for position in broker.shared_names.positions
        for absence in position.queue.absences._by_owner.values()
        for ticket in absence.held
    ]
    tickets = tuple(ticket for ticket in known if rng.random() < 0.5)
    return Subscribe(
        request_id,
        _of(rng, TOPICS, ODD_TOPICS),
        _of(rng, ["w", "w", "v", "s"], ["", "w" * 201]),
        credit=_of(rng, [1, 2, 5], [0, 21]),
        credit_bytes=_of(rng, [1, 50, 10**6, 10**6], [0]),
        timeout_ms=_of(rng, [0, 1000, 2000, 60_000], [86_400_001]),
        max_deliveries=_of(rng, [2, 2, 2, 1], [0]),
        tickets=tickets if rng.random() < 0.9 else (7,),
        shared=True,
        by_key=rng.random() < 0.1,
        **how,
    )


def _settle(rng, request_id, manager, broker):
    number = _own_subscription(rng, manager)
    known = [0]
    worker = getattr(manager.readers.get(number), "worker", None)
    if worker is not None:
        known += [*worker.held, *worker.overdue] * 3
    how = {"delayed": True, "delay_ms": _of(rng, [0, 1000, 3000], [2**63])}
    return Settle(
        request_id,
        number,
        _of(rng, [*Outcome, Outcome.DONE, Outcome.RETRY], [7]),
        reason=_of(rng, ["", "why"], ["r" * 1025]),
        tickets=tuple(rng.choice(known) for _ in range(rng.choice((1, 1, 1, 2, 0)))),
        **(how if rng.random() < 0.6 else {}),
    )


def _dead(rng, request_id, manager, broker):
    how = {"selected": True, "offsets": (0, 1, rng.randrange(60))} if rng.random() < 0.3 else {}
    return Dead(
        request_id,
        _of(rng, TOPICS, ODD_TOPICS),
        _of(rng, ["w", "v", "s"], ["", "w" * 201]),
        action=_of(rng, [0, 1, 1, 2, 2, 3], [4]),
        from_offset=_of(rng, [0], [5, FOREVER]),
        count=_of(rng, [1, 9], [0]),
        **how,
    )


def _own_subscription(rng, manager):
    return _of(rng, [*manager.readers] or [0], [0, 7])


def _commit(rng, request_id, manager, broker):
    number = _own_subscription(rng, manager)
    edges = [0]
    if (subscription := manager.readers.get(number)) is not None:
        cursor, committed = subscription.stands_at()
        edges += [cursor, cursor, cursor, committed, committed + 1, (cursor + committed) // 2]
    return Commit(
        request_id, number, _of(rng, edges, [edges[-1], edges[1 % len(edges)] + 1, FOREVER])
    )


def _unsubscribe(rng, request_id, manager, broker):
    return Unsubscribe(request_id, _own_subscription(rng, manager), forget=rng.random() < 0.3)


def _describe(rng, request_id, manager, broker):
    kind, limit = _of(rng, [0, 1, 2, 3], [4]), _of(rng, [1, 9], [0])
    return Describe(request_id, kind, rng.choice(("", "a")), rng.choice(("", "b")), limit)


def _explain(rng, request_id, manager, broker):
    name = _of(rng, [*TOPICS, "$journal/a"], ODD_TOPICS)
    now_us, number = broker.clock.now_us(), _own_subscription(rng, manager)
    which = _of(
        rng, ["", "", "s", "t", f"{manager.number}.{number}"], [f"{number}.", ".", "s" * 201, "\0"]
    )
    key = _of(rng, [b"", b"k", b"l", b"m"], [b"n", b"n" * 9])
    time_us = _of(
        rng, [0, max(0, now_us - rng.randrange(3000)), now_us], [1, now_us + 1, 2**63, 2**64 - 1]
    )
    return Explain(request_id, name, which, _offset(rng, broker, name), time_us, key)


def _advance(rng, request_id, manager, broker):
    now_us = broker.clock.now_us()
    later = [now_us + rng.choice((0, 1, 1000, 2000, 1_000_000))]
    return AdvanceClock(
        request_id, _of(rng, later, [0, now_us - 1, now_us + 10**10, LAST_US + 1, 2**64 - 1])
    )


def _delete(rng, request_id, manager, broker):
    epochs = [topic.epoch for topic in broker.registry]
    epoch = _of(rng, [0, *epochs], [1])
    return Delete(request_id, _of(rng, TOPICS, ODD_TOPICS), epoch, if_empty=rng.random() < 0.3)


def _rare(rng, request_id, manager, broker):
    delete, advance = (make(rng, request_id, manager, broker) for make in (_delete, _advance))
    disconnect = Disconnect(request_id, rng.choice([*broker.managers, 0]))
    return rng.choice(
        (Ping(request_id, 7), Ping(request_id), Close(request_id), delete, disconnect, advance)
    )


_OFTEN = [_publish] * 9 + [_commit] * 6 + [_subscribe] * 3 + [_settle] * 5 + [_share] * 2
_KINDS = [*_OFTEN, _dead, _create, _unsubscribe, _describe, _explain, _rare, _hello]


def request(rng, request_id, manager, broker):
    """Any request of that conversation."""
    kinds = _KINDS
    if not manager.greeted:
        kinds = [_hello]
    elif not manager.readers:
        kinds = [_subscribe, _share, _publish, rng.choice(_KINDS)]
    return rng.choice(kinds)(rng, request_id, manager, broker)
