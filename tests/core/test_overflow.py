"""Topics that may lose nothing: a publish waits for the readers instead (RET-9)."""

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.settings import MIB, BrokerSettings, TopicSettings
from zaichik.core.sharing.prices import ENTRY, TOPIC
from zaichik_protocol import (
    FOREVER,
    Commit,
    CreateTopic,
    Error,
    ErrorCode,
    Lagged,
    Messages,
    Overflow,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    TopicCreated,
    Unsubscribe,
)

SIZE = len(batch(b"x" * 88).data)


def lossless(capacity=10, max_bytes=100_000, topic="t", number=2):
    settings = {
        Setting.RETENTION_TTL_MS: FOREVER,
        Setting.CAPACITY: capacity,
        Setting.MAX_BYTES: max_bytes,
    }
    return CreateTopic(
        number, topic, tuple((settings | {Setting.OVERFLOW: Overflow.REJECT}).items())
    )


@pytest.fixture
def client():
    client = Conversation(broker_with(max_bytes=1_000_000))
    client.ask(lossless())
    return client


def publish(client, count, topic="t"):
    """Single messages until one is refused: how many were stored."""
    for stored in range(count):
        (reply,) = client.ask(Publish(3, topic, batch(b"x" * 88)))
        if isinstance(reply, Error):
            assert (reply.code, reply.field, reply.retryable) == (
                ErrorCode.TOPIC_FULL,
                "topic",
                True,
            )
            assert reply.retry_after_ms > 0
            return stored
        assert isinstance(reply, Published)
    return count


def reading(client, *, credit=1, name="", number=1, **options):
    reader = Conversation(client.broker)
    reader.ask(Subscribe(number, "t", name, credit=credit, **options))
    return reader


def ring(client):
    return client.broker.registry.get_or_create("t", 0).retained.ring


def test_a_publish_that_would_cost_a_reader_a_message_is_refused(client):
    """And stores nothing: not one message of a batch."""
    reading(client)
    assert publish(client, 20) == 10
    before = ring(client).next_offset, ring(client).head, ring(client).bytes
    (reply,) = client.ask(Publish(3, "t", batch(b"1", b"2", b"3")))
    assert reply.code == ErrorCode.TOPIC_FULL
    assert (ring(client).next_offset, ring(client).head, ring(client).bytes) == before


@pytest.mark.parametrize(("needed", "taken"), [(1, 1), (3, 3), (10, 10)])
def test_there_is_room_for_as_many_as_the_slowest_has_been_sent(client, needed, taken):
    fast = reading(client, credit=20)
    slow = reading(client, credit=needed)
    assert publish(client, 20) == 10
    fast.heard()
    slow.heard()
    assert publish(client, 20) == taken


@pytest.mark.parametrize(
    ("max_bytes", "taken"),
    [(4 * SIZE, 4), (4 * SIZE + 1, 4), (5 * SIZE - 1, 4), (5 * SIZE, 5), (5 * SIZE + 1, 5)],
)
def test_the_bound_in_bytes_counts_too(max_bytes, taken):
    client = Conversation(broker_with(max_bytes=1_000_000))
    client.ask(lossless(capacity=1000, max_bytes=max_bytes))
    slow = reading(client)
    assert publish(client, 20) == taken
    assert ring(client).evicted == 0
    slow.heard()
    assert publish(client, 20) == 1


@pytest.mark.parametrize(
    ("size", "fits"), [(3 * SIZE - 1, True), (3 * SIZE, True), (3 * SIZE + 1, False)]
)
def test_a_large_batch_may_take_the_place_of_several_that_were_read(size, fits):
    client = Conversation(broker_with(max_bytes=1_000_000))
    client.ask(lossless(capacity=1000, max_bytes=5 * SIZE))
    slow = reading(client, credit=3)
    assert publish(client, 20) == 5
    slow.heard()
    reply, *_ = client.ask(Publish(3, "t", batch(b"x" * (size - 20))))
    assert isinstance(reply, Published) if fits else reply.code == ErrorCode.TOPIC_FULL
    assert ring(client).head == (3 if fits else 0)


def test_without_readers_the_oldest_messages_are_evicted(client):
    assert publish(client, 25) == 25
    assert (ring(client).head, ring(client).evicted) == (15, 15)


def test_a_reader_behind_the_ring_needs_only_the_messages_left(client):
    publish(client, 15)
    late = reading(client, start=Start.OFFSET, value=0)
    assert publish(client, 5) == 1, "it has been told of its lag, and was sent one message"
    late.ask(Commit(0, 1, 6))
    assert publish(client, 5) == 1


def refusal(client):
    """Returns the refusal of a publish that finds no room."""
    (reply,) = client.ask(Publish(3, "t", batch(b"x")))
    assert reply.code == ErrorCode.TOPIC_FULL
    return reply.message


def test_a_refusal_names_the_reader_that_is_furthest_back(client):
    fast = reading(client, credit=20)
    reading(client, credit=2, number=7)
    publish(client, 20)
    fast.heard()
    assert refusal(client) == (
        "topic 't' is full, and subscription 7 of connection 3 (client 'somebody') still needs "
        "offset 0. "
        "Retry when it has read further."
    )


def test_a_refusal_names_the_first_readable_offset_not_a_dropped_one(client):
    publish(client, 15)
    Conversation(client.broker).tell(Subscribe(1, "t", start=Start.OFFSET, value=0))
    assert "still needs offset 5. " in refusal(client)


def test_a_refusal_gives_a_named_readers_name_and_says_if_it_is_away(client):
    """CMT-3."""
    reader = reading(client, name="billing", credit=100)
    publish(client, 20)
    reader.heard()
    assert refusal(client) == (
        "topic 't' is full, and the named subscription 'billing', read by subscription 1 of "
        "connection 2 "
        "(client 'somebody'), still needs offset 0. Retry when it has read further."
    )
    client.broker.disconnect(reader.manager, "GONE")
    assert refusal(client) == (
        "topic 't' is full, and the named subscription 'billing', whose reader is away, still "
        "needs offset 0. "
        "Retry when it has read further."
    )


def test_a_reader_that_left_or_reached_its_end_delays_no_publisher(client):
    one = reading(client)
    ended = reading(client, until=0)
    assert publish(client, 20) == 10
    one.ask(Unsubscribe(4, 1))
    assert ended.manager.readers[1].ended
    assert publish(client, 20) == 20


def test_a_named_reader_needs_the_messages_it_has_not_settled(client):
    """CMT-3: also while it is away, until its position is forgotten."""
    reader = reading(client, name="worker", credit=100)
    assert publish(client, 20) == 10
    reader.heard()
    assert publish(client, 20) == 0
    reader.ask(Commit(0, 1, 4))
    assert publish(client, 20) == 4
    client.broker.disconnect(reader.manager, "GONE")
    client.broker.sweep()
    assert publish(client, 20) == 0
    client.broker.clock.advance(client.broker.settings.session_ttl)
    client.broker.sweep()
    assert publish(client, 20) == 20


@pytest.mark.parametrize("name", ["", "worker"])
def test_expired_messages_take_no_room(name):
    """RET-5: though a reader stands before it and has no credit for a report."""
    settings = dict(lossless().settings) | {Setting.RETENTION_TTL_MS: 1000}
    client = Conversation(broker_with())
    client.ask(CreateTopic(2, "t", tuple(settings.items())))
    reader = reading(client, name=name)
    publish(client, 1)
    reader.heard()
    assert publish(client, 9) == 9
    client.broker.clock.advance(1)
    assert publish(client, 20) == 10, "and these are needed"
    assert [type(frame) for frame in reader.ask(Commit(0, 1, 1))] == [Lagged, Messages]


def test_compaction_has_not_begun_when_a_batch_is_refused():
    """COM-1: a window that was opened by nothing stored would keep the retry out."""
    client = Conversation(broker_with())
    settings = (*lossless(capacity=2).settings, (Setting.COMPACTION_WINDOW_MS, FOREVER))
    client.ask(CreateTopic(2, "t", settings))
    reader = reading(client, credit=9)
    client.ask(Publish(3, "t", batch((b"a", b"1"), (b"b", b"1"))))
    refused, *_ = client.ask(Publish(3, "t", batch((b"c", b"1"))))
    assert refused.code == ErrorCode.TOPIC_FULL
    reader.heard()
    stored, *_ = client.ask(Publish(3, "t", batch((b"c", b"1"))))
    assert (stored.stored, stored.compacted) == (1, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["publish", "turn", "commit"]), st.integers(1, 6)), max_size=80
    )
)
def test_live_readers_lose_nothing_whatever_the_order(steps):
    client = Conversation(broker_with())
    client.ask(lossless(capacity=8))
    readers = [reading(client, credit=credit) for credit in (1, 5)]
    seen = [[], []]
    for what, number in steps:
        if what == "publish":
            client.ask(Publish(3, "t", batch(*[b"x"] * number)))
        reader = readers[number % 2]
        if what == "turn":
            for frame in reader.heard():
                assert isinstance(frame, Messages)
                seen[number % 2] += range(frame.base, frame.base + frame.batch.count)
        if what == "commit":
            reader.tell(Commit(0, 1, reader.manager.readers[1].cursor))
    assert all(offsets == list(range(len(offsets))) for offsets in seen)


# -- the bytes reserved for it -------------------------------------------------------------------


@pytest.mark.parametrize(("size", "fits"), [(9_999, True), (10_000, True), (10_001, False)])
def test_half_of_the_brokers_bytes_may_be_reserved(size, fits):
    """RET-10: the other half stays with all the others."""
    client = Conversation(broker_with(max_bytes=20_000))
    (reply,) = client.ask(lossless(max_bytes=size - 10 * ENTRY))
    if fits:
        assert isinstance(reply, TopicCreated)
        assert client.broker.registry.budget.limit == 20_000 - size
    else:
        assert (reply.code, reply.field) == (ErrorCode.NO_MEMORY, "settings")
        assert len(client.broker.registry) == 0
        assert client.broker.registry.budget.limit == 20_000


COST = ENTRY + SIZE


def broker_for(messages):
    """A broker for two topics and so many messages."""
    return broker_with(max_bytes=2 * TOPIC + messages * COST)


def test_reserved_room_is_free_at_once():
    """RET-10: if it was not, all topics together could hold more than the broker's bytes."""
    client = Conversation(broker_for(20))
    assert publish(client, 20, topic="other") == 20
    client.ask(lossless(capacity=8, max_bytes=8 * SIZE))
    budget = client.broker.registry.budget
    assert budget.used <= budget.limit
    assert publish(client, 8) == 8
    assert {topic.name: topic.retained.ring.batches for topic in client.broker.registry} == {
        "other": 12,
        "t": 8,
    }


def test_a_topic_that_could_not_be_created_leaves_nothing():
    """P6: nor a topic that is asked for its size for ever."""
    client = Conversation(broker_with(max_bytes=1_000))
    client.ask(*[lossless(max_bytes=501)] * 100)
    assert len(client.broker.registry.budget._holders) == client.broker.registry.budget.used == 0


def test_it_is_not_evicted_from_for_other_topics():
    client = Conversation(broker_for(20))
    client.ask(lossless(capacity=8, max_bytes=8 * SIZE))
    reader = reading(client, credit=100)
    assert publish(client, 8) == 8
    assert publish(client, 100, topic="other") == 100
    assert {topic.name: topic.retained.ring.batches for topic in client.broker.registry} == {
        "other": 12,
        "t": 8,
    }
    assert [type(frame) for frame in reader.heard()] == [Messages] * 8


def test_a_topic_created_by_first_use_may_become_lossless():
    """TOP-3: a reader that waits there for messages gets them."""
    client = Conversation(broker_with(max_bytes=1_000_000))
    reader = reading(client)
    assert isinstance(client.ask(lossless())[0], TopicCreated)
    assert client.broker.registry.budget.limit == 900_000 - 10 * ENTRY
    assert publish(client, 20) == 10
    assert [type(frame) for frame in reader.heard()] == [Messages]


def test_a_topic_that_cannot_become_lossless_stays_as_it_was():
    client = Conversation(broker_for(3))
    reading(client)
    refused, *_ = client.ask(lossless())
    assert refused.code == ErrorCode.NO_MEMORY
    topic = client.broker.registry.get_or_create("t", 0)
    assert (topic.settings.overflow, topic.explicit) == (Overflow.EVICT, False)
    assert publish(client, 3) == 3


def test_it_cannot_be_the_default():
    with pytest.raises(ValueError, match="cannot be a default"):
        BrokerSettings(topic=TopicSettings(overflow=Overflow.REJECT))
    assert BrokerSettings().topic.max_bytes == 64 * MIB
