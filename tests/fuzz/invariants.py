"""What is true of a broker after every step, whatever its clients have sent.

The conservation laws of docs/semantics.md, each table and buffer within its limit, and nothing kept for nobody.
"""

from itertools import pairwise


def check(broker):
    """Raises what is not true."""
    settings, topics = broker.settings, list(broker.registry)
    assert len(topics) <= settings.max_topics
    shared = broker.registry.budget
    assert shared.used == sum(topic.ring.bytes for topic in topics if topic.ring.budget is shared)
    assert sum(topic.ring.bytes for topic in topics) <= settings.max_bytes
    readers = {id(topic): set() for topic in topics}
    sessions = list(broker.sessions._sessions.values())
    assert len(sessions) <= settings.max_sessions
    assert len(broker.producers) <= settings.max_producers
    for manager in broker.managers.values():
        _check_manager(manager, settings)
        for subscription in manager.subscriptions.values():
            _check_subscription(subscription)
            if not subscription.ended and subscription._cut_off is None:
                readers[id(subscription.topic)].add(subscription)
    for topic in topics:
        assert set(topic.readers) == readers[id(topic)], "a topic knows its readers and no others"
        _check_topic(topic)
        named = [session for session in sessions if session.topic is topic]
        anonymous = [reader for reader in topic.readers if reader.session is None]
        assert set(topic.places) == {*anonymous, *named}, "for whom messages are kept"
    for session in sessions:
        assert session.committed <= session.topic.ring.next_offset
        assert session.reader is None or session.reader.session is session


def _check_topic(topic):
    ring, settings = topic.ring, topic.settings
    assert ring.budget.used >= ring.bytes
    assert topic.published == ring.next_offset + topic.compacted
    assert ring.head == ring.expired + ring.evicted
    assert 0 <= ring.next_offset - ring.head <= settings.capacity
    alive = ring._entries[ring._first :]
    assert not any(entry.batch.data for entry in ring._entries[: ring._first]), "dead entries hold no bytes"
    assert ring.bytes == sum(len(entry.batch.data) for entry in alive) <= settings.max_bytes
    assert len(ring._entries) == len(ring._bases) <= 2 * len(alive) + 1, "dead entries are forgotten"
    assert all(one.end == next_.base and one.accepted_us <= next_.accepted_us for one, next_ in pairwise(alive))
    assert not alive or (alive[0].base <= ring.head < alive[0].end and alive[-1].end == ring.next_offset)
    assert set(ring._waiting) <= set(topic.readers)
    if topic.window is not None:
        assert len(topic.window) <= settings.max_keys
    if topic.journal is not None:
        assert len(topic.journal._winners) <= settings.max_keys
        assert topic.journal.topic.published == topic.published, "the journal tells of every message"


def _check_subscription(subscription):
    ring = subscription.topic.ring
    assert subscription.start + subscription.delivered + subscription.skipped == subscription.cursor
    assert subscription.start <= subscription.committed <= subscription.cursor <= ring.next_offset
    frames = list(subscription._frames)
    assert subscription.in_flight == sum(end - first for first, end, _ in frames)
    assert subscription.in_flight_bytes == sum(size for _, _, size in frames)
    assert subscription.in_flight <= max(subscription.credit, 1), "no credit that was not given"
    assert subscription.in_flight_bytes <= subscription.credit_bytes or len(frames) == 1
    assert all(subscription.committed <= first < end <= subscription.cursor for first, end, _ in frames)
    if not subscription.ended and not subscription.is_ready and subscription.has_credit:
        is_waiting = subscription in ring._waiting if subscription.ahead == 0 else subscription.in_flight > 0
        assert is_waiting, "who may be sent something is woken by the ring, or by a commit if it is out of bytes"


def _check_manager(manager, settings):
    assert len(manager.subscriptions) <= settings.max_subscriptions
    assert manager.reply_bytes == sum(map(len, manager._out))
    ready = [one for one in manager._ready if one.id in manager.subscriptions]
    assert len(ready) == len(set(ready)), "one turn for each"
    assert set(ready) == {one for one in manager.subscriptions.values() if one.is_ready}
    assert not (manager.closing and manager.subscriptions), "a conversation that ends reads nothing"
