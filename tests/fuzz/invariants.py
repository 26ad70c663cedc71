"""What is true of a broker after every step, whatever its clients have sent.

The conservation laws of docs/understand/semantics.md, each table and buffer within its
limit, and nothing kept for nobody.
"""

from itertools import pairwise

from zaichik.core.reader import TRACKED_FRAMES, Reader
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.sharing import prices
from zaichik.core.tables.keep_last import KEY_COST
from zaichik.core.tables.table import Table
from zaichik_protocol import Batch

from .kept_rows import check_rows
from .shared_names import check_hand, check_shared


def check(broker):
    """Raises what is not true."""
    settings, topics = broker.settings, list(broker.registry)
    assert len(topics) <= settings.max_topics
    _check_memory(broker, topics)
    readers = {id(topic): set() for topic in topics}
    sessions = [place for _, place in broker.named_positions.directory.after("", "")]
    assert len(sessions) == len(broker.named_positions) <= settings.max_sessions
    assert len(broker.producers) <= settings.max_producers
    for manager in broker.managers.values():
        _check_manager(manager, settings)
        check_hand(manager)
        for subscription in manager.readers.values():
            if isinstance(subscription, Reader):
                _check_subscription(subscription)
            if not subscription.ended and subscription.why_cut_off is None:
                readers[id(subscription.topic)].add(subscription)
    for topic in topics:
        assert set(topic.readers) == readers[id(topic)], "a topic knows its readers and no others"
        _check_topic(topic)
        assert set(topic.names.values()) == {
            session for place, session in sessions if place is topic
        }
    check_shared(broker)
    for journal in broker.registry._journals.values():
        assert len(journal._winners) <= journal._of.settings.max_keys
        assert journal.topic.published == journal._of.published, (
            "the journal tells of every message"
        )
    for topic, session in sessions:
        assert topic.names[session.name] is session
        if isinstance(session, SharedPosition):
            continue
        assert session.committed <= topic.end
        assert session.reader is None or session.reader.position is session


def _check_memory(broker, topics):
    """RET-10, LAG-6: what is counted is what is there, and within the limits."""
    settings, shared = broker.settings, broker.registry.budget
    assert shared.used == sum(topic.unreserved for topic in topics)
    assert (
        shared.reserved
        == sum(topic.retained.reserved for topic in topics)
        == settings.max_bytes - shared.limit
    )
    # What cannot be evicted may be beyond the limit: the topics themselves, and the batch published
    # last.
    stays = prices.TOPIC * len(topics) + prices.ENTRY + settings.max_frame
    # A table asks for room for messages before it is known what their rows and keys take.
    stays += sum(topic.retained.reserved for topic in topics if isinstance(topic.retained, Table))
    assert sum(topic.memory for topic in topics) <= settings.max_bytes + stays
    memory = broker.memory
    assert memory.used == sum(memory._held.values())
    known = (
        prices.CONNECTION * len(broker.managers)
        + prices.SUBSCRIPTION * len(broker.readers)
        + prices.NAME * len(broker.named_positions)
        + sum(producer.memory for producer in broker.producers._known.values())
        + sum(position._charged for position in broker.shared_names.positions)
    )
    assert memory.used >= known, "and what connections hold, and have not sent"


def _check_topic(topic):
    if isinstance(topic.retained, Table):
        _check_table(topic)
        return
    ring, settings = topic.retained.ring, topic.settings
    keys = (
        [] if topic.window is None else [prices.KEY + len(key) for key in topic.window._opened_us]
    )
    tables = 1 if topic.observer is None else 2
    # Windows that are over are forgotten in passing, and no more counted when something is stored,
    # or at a sweep.
    assert topic.memory >= prices.TOPIC + ring.bytes + prices.ENTRY * ring.batches + tables * sum(
        keys
    )
    assert topic.published == ring.next_offset + topic.compacted
    assert ring.head == ring.expired + ring.evicted
    assert 0 <= ring.next_offset - ring.head <= settings.capacity
    first, alive, bases = ring._first, ring._batches[ring._first :], ring._bases[ring._first :]
    assert not any(ring._batches[:first]), "dead entries hold no bytes"
    assert ring.bytes == sum(map(len, alive)) <= settings.max_bytes
    assert len(ring._batches) == len(ring._accepted_us) == len(ring._bases) - 1 <= 2 * len(alive), (
        "dead ones are left"
    )
    assert [Batch.parse(data).count for data in alive] == [
        end - base for base, end in pairwise(bases)
    ]
    assert all(one <= other for one, other in pairwise(ring._accepted_us))
    assert bases[-1] == ring.next_offset
    assert not alive or bases[0] <= ring.head < bases[1]
    assert set(ring._waiting) <= {*topic.readers, *topic.names.values()}
    if topic.window is not None:
        assert len(topic.window) <= settings.max_keys


def _check_table(topic):
    """TAB-1, TAB-4: what is counted is what is there, and at most half of it is dead."""
    kept, settings = topic.retained.kept, topic.settings
    assert topic.published == kept.next_offset
    assert kept.next_offset == kept.live + kept.expired + kept.evicted + kept.superseded
    assert kept.messages <= settings.capacity
    assert kept.size <= settings.max_bytes
    assert kept.deleted_below == topic.retained.deleted_below < max(kept.next_offset, 1)
    assert topic.retained.reserved == kept.memory >= KEY_COST * len(kept._index)
    check_rows(kept)
    assert set(kept._waiting) <= {*topic.readers, *topic.names.values()}


def waiters(topic):
    """Returns who waits for the topic's next message."""
    retained = topic.retained
    return retained.kept._waiting if isinstance(retained, Table) else retained.ring._waiting


def _check_subscription(subscription):
    topic = subscription.topic
    got = subscription.delivered + subscription.skipped + subscription.passed
    assert subscription.start + got == subscription.cursor
    assert subscription.start <= subscription.committed <= subscription.cursor <= topic.end
    frames = list(subscription._frames)
    assert len(frames) <= TRACKED_FRAMES
    assert subscription.in_flight == sum(count for _, _, count, _, _ in frames)
    assert subscription.in_flight_bytes == sum(size for _, _, _, size, _ in frames)
    assert subscription.in_flight <= max(subscription.credit, 1), "no credit that was not given"
    assert subscription.in_flight_bytes <= subscription.credit_bytes or len(frames) == 1
    assert all(
        first < end <= subscription.cursor and subscription.committed < end
        for first, end, *_ in frames
    )
    assert all(
        subscription.committed <= first for first, end, count, *_ in frames if count == end - first
    )
    if not subscription.ended and not subscription.is_ready and subscription.has_credit:
        is_waiting = (
            subscription in waiters(topic)
            if subscription.ahead == 0
            else subscription.in_flight > 0
        )
        assert is_waiting, (
            "who may be sent something is woken by the ring, or by a commit if it is out of bytes"
        )


def _check_manager(manager, settings):
    assert len(manager.readers) <= settings.max_subscriptions
    assert manager.replies.bytes == sum(
        len(reply) for reply in manager.replies.waiting if isinstance(reply, bytes)
    )
    ready = [one for one in manager.ready if one.id in manager.readers]
    assert len(ready) == len(set(ready)), "one turn for each"
    assert set(ready) == {one for one in manager.readers.values() if one.is_ready}
    assert not (manager.closing and manager.readers), "a conversation that ends reads nothing"
