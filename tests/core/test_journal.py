"""The journal: a record for every message published, whatever became of it."""

import json
import struct
from hashlib import blake2b

import pytest
from conversation import Conversation, batch, broker_with

from zaichik.core.settings import TopicSettings
from zaichik_protocol import (
    FOREVER,
    CreateTopic,
    Describe,
    EndCode,
    Error,
    ErrorCode,
    Kind,
    Lagged,
    Messages,
    Publish,
    Setting,
    Start,
    Subscribe,
    TopicCreated,
)

MIB = 2**20
STORED, COMPACTED = 0, 1


@pytest.fixture
def client():
    return Conversation(broker_with())


def create(client, *, topic="t", journal=MIB, **settings):
    pairs = [(Setting[name.upper()], value) for name, value in settings.items()]
    (reply,) = client.ask(CreateTopic(2, topic, (*pairs, (Setting.JOURNAL_BYTES, journal))))
    assert isinstance(reply, TopicCreated)
    return reply


def publish(client, *messages, topic="t"):
    client.ask(Publish(3, topic, batch(*messages)))


def read(client, topic="$journal/t"):
    """The frames of messages that a new reader is sent, from the beginning."""
    reader = Conversation(client.broker)
    _, *events = reader.ask(Subscribe(1, topic, start=Start.OFFSET, credit=1000, credit_bytes=MIB))
    return events


def records(client):
    """(key, accepted_us, offset, other, hash, size, status) of every message published."""
    return [
        (key, *struct.unpack("<qqqQIB3x", record))
        for frame in read(client)
        for key, record in zip(frame.batch.keys(), frame.batch.payloads(), strict=True)
    ]


def hashed(payload):
    return int.from_bytes(blake2b(payload, digest_size=8).digest(), "little")


def test_a_record_says_when_and_where_a_message_was_stored(client):
    """JRN-1."""
    create(client)
    publish(client, (b"k", b"one"), b"two")
    client.broker.clock.advance(0.000_005)
    publish(client, b"three!")
    assert records(client) == [
        (b"k", 1_000, 0, -1, hashed(b"one"), 3, STORED),
        (b"", 1_000, 1, -1, hashed(b"two"), 3, STORED),
        (b"", 1_005, 2, -1, hashed(b"three!"), 6, STORED),
    ]


def test_a_record_names_the_message_that_kept_another_out(client):
    """JRN-1, COM-2: of an earlier batch, or of its own."""
    create(client, compaction_window_ms=FOREVER)
    publish(client, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    publish(client, (b"b", b"4"), b"5", (b"a", b"6"))
    found = [
        (key, offset, winner, status) for key, _, offset, winner, _, _, status in records(client)
    ]
    assert found == [
        (b"a", 0, -1, STORED),
        (b"b", 1, -1, STORED),
        (b"a", -1, 0, COMPACTED),
        (b"b", -1, 1, COMPACTED),
        (b"", 2, -1, STORED),
        (b"a", -1, 0, COMPACTED),
    ]


def test_in_a_table_a_record_names_the_message_that_was_superseded(client):
    """TAB-7: of an earlier batch, or of its own; a deletion supersedes, too."""
    create(client, table=1)
    publish(client, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    client.ask(Publish(3, "t", batch((b"a", b""), b"4", (b"b", b"5")), tombstones=True))
    client.ask(Publish(3, "t", batch((b"a", b"")), tombstones=False))
    publish(client, (b"a", b"6"))
    found = [(key, *record[1:3], record[5]) for key, *record in records(client)]
    assert found == [
        (b"a", 0, -1, STORED),
        (b"b", 1, -1, STORED),
        (b"a", 2, 0, STORED),
        (b"a", 3, 2, STORED),
        (b"", 4, -1, STORED),
        (b"b", 5, 1, STORED),
        (b"a", 6, 3, STORED),
    ]
    (state,) = json.loads(client.ask(Describe(9, Kind.TOPICS, "t"))[0].json)["topics"]
    assert state["superseded"] == sum(other >= 0 for _, _, other, _ in found)


def test_the_winner_is_the_message_that_opened_the_window(client):
    """JRN-1, COM-1."""
    create(client, compaction_window_ms=1)
    for seconds in (0, 0.001, 0.0005):
        client.broker.clock.advance(seconds)
        publish(client, (b"k", b""))
    assert [record[2:4] for record in records(client)] == [(0, -1), (1, -1), (-1, 1)]


def test_no_more_winners_are_remembered_than_windows(client):
    """COM-6."""
    create(client, compaction_window_ms=FOREVER, max_keys=2)
    for key in (b"a", b"b", b"c", b"a", b"c"):
        publish(client, (key, b""))
    assert [record[2:4] for record in records(client)] == [
        (0, -1),
        (1, -1),
        (2, -1),
        (3, -1),
        (-1, 2),
    ]
    assert len(client.broker.registry._journals["t"]._winners) == 2


def test_winners_of_an_idle_topic_are_forgotten_with_their_windows(client):
    """RET-10: they are counted with the windows, so none may outlive its own."""
    create(client, compaction_window_ms=1)
    publish(client, (b"k", b""))
    client.broker.clock.advance(1)
    client.broker.sweep()
    assert len(client.broker.registry._journals["t"]._winners) == 0


def test_a_batch_has_a_batch_of_records_with_its_keys(client):
    """JRN-1."""
    create(client)
    publish(client, (b"a", b""), (b"b", b""))
    publish(client, (b"c", b""))
    frames = read(client)
    assert [type(frame) for frame in frames] == [Messages, Messages]
    assert [frame.batch.keys() for frame in frames] == [[b"a", b"b"], [b"c"]]


def test_the_journal_has_the_epoch_of_its_topic_and_endless_retention(client):
    """JRN-1."""
    reply = create(client)
    journal = client.broker.registry.get_or_create("$journal/t", 0)
    assert (journal.epoch, journal.settings.retention_ttl_ms) == (reply.epoch, FOREVER)


def test_a_topic_without_journal_bytes_has_no_journal(client):
    """JRN-1."""
    create(client, journal=0)
    assert [topic.name for topic in client.broker.registry] == ["t"]


def test_a_topic_created_by_first_use_may_get_a_journal_before_its_first_message(client):
    """TOP-3."""
    client.ask(Subscribe(2, "t", credit=1, credit_bytes=1))
    create(client)
    publish(client, b"a")
    assert len(records(client)) == 1


@pytest.fixture
def with_journals():
    """A client of a broker whose topics have a journal if they do not say otherwise."""
    return Conversation(broker_with(topic=TopicSettings(journal_bytes=100_000)))


def test_an_explicit_create_after_first_use_sets_the_journals_size(with_journals):
    """TOP-3, JRN-1: and no other setting of it."""
    client = with_journals
    client.ask(Subscribe(2, "t"))
    create(client, journal=150, compaction_window_ms=FOREVER)
    for _ in range(5):
        publish(client, (b"k", b""))
    journal = client.broker.registry.get_or_create("$journal/t", 0)
    assert (journal.settings.max_bytes, journal.settings.retention_ttl_ms) == (150, FOREVER)
    assert (journal.retained.ring.bytes <= 150, journal.retained.ring.batches, journal.end) == (
        True,
        2,
        5,
    )


def test_a_journal_older_than_the_compaction_window_knows_the_winners(with_journals):
    """TOP-3, JRN-1: its topic of first use had no windows."""
    client = with_journals
    client.ask(Subscribe(2, "t"))
    create(client, journal=MIB, compaction_window_ms=FOREVER)
    publish(client, (b"a", b""), (b"b", b""))
    publish(client, (b"b", b""), (b"a", b""))
    assert [record[2:4] for record in records(client)] == [(0, -1), (1, -1), (-1, 1), (-1, 0)]


def test_an_explicit_create_without_a_journal_removes_the_one_of_first_use(with_journals):
    """TOP-3, JRN-1: its readers receive the end."""
    client = with_journals
    client.ask(Subscribe(2, "t"))
    reader = Conversation(client.broker)
    reader.ask(Subscribe(1, "$journal/t"))
    create(client, journal=0)
    assert [frame.code for frame in reader.heard()] == [EndCode.DELETED]
    publish(client, b"a")
    assert [topic.name for topic in client.broker.registry] == ["t"]
    assert client.broker.registry.budget.used == client.broker.registry.get_or_create("t", 0).memory


def test_creating_the_topic_again_creates_no_second_journal(client):
    """TOP-2."""
    create(client)
    publish(client, b"a")
    create(client)
    publish(client, b"b")
    assert len(records(client)) == 2


def test_only_the_broker_publishes_to_it(client):
    """JRN-2."""
    create(client)
    (refusal,) = client.ask(Publish(3, "$journal/t", batch(b"false")))
    assert isinstance(refusal, Error)
    assert (refusal.code, refusal.field) == (ErrorCode.INVALID_FIELD, "topic")
    assert read(client) == []


def test_evicted_records_are_lag(client):
    """JRN-2; also a batch of records larger than the whole ring."""
    create(client, journal=100)
    publish(client, b"a")
    publish(client, b"b")
    lagged, frame = read(client)
    assert (lagged.from_offset, lagged.to_offset, frame.base) == (0, 1, 1)
    publish(client, b"c", b"d")
    (lagged,) = read(client)
    assert isinstance(lagged, Lagged)
    assert (lagged.from_offset, lagged.to_offset) == (0, 4)


def test_a_refused_batch_leaves_no_record(client):
    """RET-6."""
    create(client, capacity=1)
    publish(client, b"a", b"b")
    assert read(client) == []


def test_its_counts_add_up_as_in_any_topic(client):
    create(client, journal=100)
    for _ in range(5):
        publish(client, b"a", b"b")
    journal = client.broker.registry.get_or_create("$journal/t", 0)
    assert (
        journal.published
        == journal.retained.ring.next_offset
        == journal.retained.ring.evicted
        == 10
    )
