"""Durable topics in the core: what waits for the disk, in which order it is answered, and how it is
taken back.
"""

import json

import pytest
from conversation import Conversation, batch, broker_with
from fake_log import Durably, FakeLog, FakeLogs, durable_broker

from zaichik.core import write_queue
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing.prices import ENTRY, TOPIC
from zaichik_protocol import (
    FOREVER,
    Close,
    Closed,
    Commit,
    CreateTopic,
    Delete,
    Deleted,
    Describe,
    Disconnect,
    EndCode,
    Error,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Hello,
    Kind,
    Messages,
    Overflow,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Subscribe,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribe,
)

MIB = 1024 * 1024
MINUTE_MS = 60_000
DURABLE = (Setting.DURABLE, 1)


@pytest.fixture
def client():
    """A client of a broker whose topic "t" is durable and keeps everything."""
    durably = Durably()
    assert durably.create() == TopicCreated(
        2, 1, durably.topic.epoch, durably.topic.settings.pairs()
    )
    return durably


def durably(**settings):
    """A client of a broker whose topic "t" is durable, with these settings."""
    client = Durably()
    client.create(**settings)
    return client


def stored(request_id, offset, count=1, subscribers=0, **more):
    return Published(request_id, offset, count, 0, subscribers, durable=True, **more)


def codes(frames):
    return [(frame.id, ErrorCode(frame.code)) for frame in frames if isinstance(frame, Error)]


def state(client, name="t"):
    (page,) = client.ask(Describe(98, Kind.TOPICS, name, limit=1))
    (topic,) = json.loads(page.json)["topics"]
    assert set(topic["left_over"].values()) == {0}, topic
    return topic


def payloads(frames):
    return [
        payload
        for frame in frames
        if isinstance(frame, Messages)
        for payload in frame.batch.each_payload()
    ]


# -- nothing before it is on the disk ------------------------------------------------------------


def test_a_publish_is_answered_and_delivered_when_it_is_on_the_disk(client):
    """DUR-1: the answer first, then the echo."""
    client.ask(Subscribe(3, "t", credit=100))
    assert client.publish(4, b"a", b"b") == []
    assert state(client)["next_offset"] == 0
    client.log.sync()
    answer, echo = client.heard()
    assert answer == stored(4, 0, 2, subscribers=1)
    assert (echo.base, echo.batch) == (0, batch(b"a", b"b"))


def test_a_publisher_is_called_before_the_readers_of_its_message(client):
    """DUR-1: it knows before others do, and before it receives its own message."""
    reader, order = Durably(client.broker), []
    reader.ask(Subscribe(3, "t", credit=100))
    client.manager.replies._on_output = lambda: order.append("answer")
    reader.manager._on_output = lambda: order.append("message")
    client.publish(4, b"a")
    assert order == []
    client.log.sync()
    assert order[0] == "answer"
    assert "message" in order


def test_publishes_are_answered_in_their_order_as_far_as_they_are_synced(client):
    for number in range(4):
        assert client.publish(10 + number, b"x") == []
    client.log.sync(3)
    assert client.heard() == [stored(10, 0), stored(11, 1), stored(12, 2)]
    client.log.sync()
    assert client.heard() == [stored(13, 3)]


def test_an_answer_that_all_was_compacted_waits_for_the_message_that_won():
    """DUR-1: or else a power cut could take the winner, and its repeat was refused for nothing."""
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS)
    assert client.publish(10, (b"k", b"won"), (b"k", b"lost")) == []
    assert client.publish(11, (b"k", b"lost")) == []
    assert state(client)["compacted"] == 0
    client.log.sync(1)
    assert client.heard() == [Published(10, 0, 1, 1, 0, b"\x02", durable=True)]
    client.log.sync()
    assert client.heard() == [Published(11, 1, 0, 1, 0, b"\x01", durable=True)]
    assert (state(client)["compacted"], state(client)["stored"]) == (2, 1)


def test_replies_of_other_requests_do_not_wait(client):
    """DUR-2: a memory topic on the same connection is as fast as ever."""
    client.publish(10, b"slow")
    replies = client.ask(Publish(11, "memory", batch(b"fast")), Ping(12, 5))
    assert replies == [Published(11, 0, 1, 0, 0), Pong(12, 5)]
    client.log.sync()
    assert client.heard() == [stored(10, 0)]


def test_a_publish_that_asks_for_no_reply_gets_none_unless_it_is_refused(client):
    client.publish(0, b"a")
    client.log.sync()
    assert client.heard() == []
    client.publish(0, b"b")
    client.log.refuse_all()
    assert codes(client.heard()) == [(0, ErrorCode.STORAGE_FULL)]


def test_only_a_client_that_knows_the_flag_gets_it(client):
    """DUR-1: retries as well, whether they are answered at once or not."""
    plain = Conversation(client.broker)
    for speaker, durable in ((plain, False), (client, True)):
        numbered = Publish(5, "t", batch(b"x"), producer=speaker.manager.number)
        speaker.tell(numbered, numbered)
        client.log.sync()
        answers = speaker.heard() + speaker.ask(numbered)
        assert [answer.durable for answer in answers] == [durable] * 3
    assert client.ask(Publish(6, "memory", batch(b"x"))) == [Published(6, 0, 1, 0, 0)]


def test_a_topic_is_created_when_it_is_on_the_disk():
    client = Durably()
    assert client.ask(CreateTopic(2, "t", (DURABLE,))) == []
    assert client.ask(Ping(3, 0)) == [], "replies keep their order"
    client.log.sync()
    created, pong = client.heard()
    assert (type(created), type(pong)) == (TopicCreated, Pong)


def test_whoever_creates_it_again_waits_as_well(client):
    """DUR-1: the first creation may not be on the disk yet."""
    other = Durably(client.broker)
    other.tell(CreateTopic(3, "new", (DURABLE,)))
    assert client.ask(CreateTopic(4, "new", (DURABLE,))) == []
    client.logs.known["new"].sync()
    assert [frame.created for frame in (*other.heard(), *client.heard())] == [1, 0]


def test_a_topic_that_finds_no_room_is_not_there():
    client = Durably()
    client.ask(CreateTopic(2, "t", (DURABLE,)))
    log = client.log
    log.refuse_all()
    assert codes(client.heard()) == [(2, ErrorCode.STORAGE_FULL)]
    assert client.topic is None
    log.sync()
    assert log.gone is None, "what there is of it on the disk is removed"
    assert client.create().created == 1


@pytest.mark.parametrize("use", ["published", "read", "named", "known"])
def test_a_topic_that_is_used_stays_although_its_creator_found_no_room(use):
    """A retry finds it, and waits until it is on the disk."""
    client = durably() if use == "known" else Durably()
    client.tell(CreateTopic(2, "t", (DURABLE,)))
    other = Durably(client.broker)
    if use == "published":
        client.log.sync()
        other.publish(3, b"x")
        client.tell(CreateTopic(4, "t", (DURABLE,)))
        client.log.sync(1)
    elif use != "known":
        other.ask(Subscribe(3, "t", name="n" if use == "named" else "", credit=1))
    if use == "named":
        other.ask(Unsubscribe(4, 3))
    client.log.refuse_all()
    assert codes(client.heard())[0][1] == ErrorCode.STORAGE_FULL
    assert client.topic is not None
    assert client.ask(CreateTopic(5, "t", (DURABLE,))) == []
    client.log.sync()
    (created,) = client.heard()
    assert created.created == 0


# -- no room -------------------------------------------------------------------------------------


def test_without_room_everything_that_waits_is_taken_back():
    """DUR-3: offsets, windows and numbers are as if nothing had come."""
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS)
    client.publish(10, (b"old", b"1"), producer=7)
    client.log.sync()
    client.heard()
    for number in (1, 2, 3):
        client.publish(
            10 + number, (b"k%d" % number, b"2"), (b"k1", b"3"), producer=7, sequence=number
        )
    client.publish(20, b"no key")
    client.log.refuse_all()
    assert codes(client.heard()) == [
        (number, ErrorCode.STORAGE_FULL) for number in (20, 13, 12, 11)
    ]
    assert (state(client)["open_windows"], state(client)["waiting_bytes"]) == (1, 0)
    client.publish(11, (b"k1", b"2"), (b"k1", b"3"), producer=7, sequence=1)
    client.log.sync()
    assert client.heard() == [Published(11, 1, 1, 1, 0, b"\x02", durable=True)]
    (gap,) = client.publish(13, (b"k3", b"2"), producer=7, sequence=3)
    assert gap.code == ErrorCode.SEQUENCE_GAP
    assert state(client)["stored"] == 2


def test_the_window_of_a_message_that_is_on_the_disk_stays_when_others_are_taken_back():
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS)
    client.publish(10, (b"k", b"1"))
    client.publish(11, (b"j", b"1"))
    client.log.sync(1)
    client.log.refuse_all()
    client.heard()
    client.publish(12, (b"k", b"2"), (b"j", b"2"))
    client.log.sync()
    assert client.heard() == [Published(12, 1, 1, 1, 0, b"\x01", durable=True)]


def test_what_is_gathered_while_a_thread_works_is_answered_with_the_next_group(client):
    client.publish(10, b"a")
    finish = client.log.gather()
    client.publish(11, b"b")
    finish()
    assert client.heard() == [stored(10, 0)]
    client.log.sync()
    assert client.heard() == [stored(11, 1)]


# -- numbered batches ----------------------------------------------------------------------------


def test_a_batch_without_a_number_is_written_with_zeros(client):
    client.topic.publish(batch(b"x"), 5)
    (record,) = client.log.gathered
    assert (record.producer, record.sequence, record.accepted_us) == (0, 0, 5)


def test_a_copy_that_comes_while_the_first_waits_gets_its_answer(client):
    """DUR-3, PUB-4."""
    client.publish(10, b"x", producer=7)
    other = Durably(client.broker)
    assert other.publish(20, b"x", producer=7) == []
    assert len(client.log.gathered) == 1
    client.log.sync()
    assert client.heard() == [stored(10, 0)]
    assert other.heard() == [stored(20, 0, duplicate=True)]
    assert client.publish(11, b"x", producer=7) == [stored(11, 0, duplicate=True)]
    assert state(client)["stored"] == 1


def test_an_answer_that_is_forgotten_before_it_is_known_takes_no_others_place(client):
    """PUB-4: 64 batches were accepted after it."""
    for sequence in range(65):
        client.publish(0, b"x", producer=7, sequence=sequence)
    client.log.sync(1)
    assert client.publish(9, b"x", producer=7, sequence=64) == []
    (refused,) = client.publish(10, b"x", producer=7, sequence=0)
    assert (refused.code, refused.field) == (ErrorCode.INVALID_FIELD, "sequence")
    client.log.sync()
    assert client.heard() == [stored(9, 64, duplicate=True)]


def test_a_copy_is_refused_with_the_first(client):
    client.publish(10, b"x", producer=7)
    client.publish(11, b"x", producer=7)
    client.log.refuse_all()
    assert codes(client.heard()) == [(10, ErrorCode.STORAGE_FULL), (11, ErrorCode.STORAGE_FULL)]
    client.publish(12, b"x", producer=7)
    client.log.sync()
    assert client.heard() == [stored(12, 0)]


def test_a_refusal_for_good_uses_up_its_number_when_it_is_on_the_disk():
    """DUR-3: to a retry after a restart, a batch that was refused must not be the next one."""
    client = durably(CAPACITY=2)
    too_many = b"a", b"b", b"c"
    assert client.publish(10, *too_many, producer=7) == []
    assert client.publish(11, b"x", producer=7, sequence=1) == []
    client.log.sync()
    error, answer = client.heard()
    assert (error.id, error.code, error.field) == (10, ErrorCode.BATCH_TOO_LARGE, "batch")
    assert answer == stored(11, 0)
    (again,) = client.publish(12, *too_many, producer=7)
    assert (again.code, again.message) == (ErrorCode.BATCH_TOO_LARGE, error.message)
    refusal = client.log.disk[0]
    assert (refusal.what.code, refusal.producer, refusal.sequence) == (
        ErrorCode.BATCH_TOO_LARGE,
        7,
        0,
    )


def test_a_refusal_for_good_that_finds_no_room_can_be_tried_again():
    client = durably(CAPACITY=2)
    client.publish(10, b"a", b"b", b"c", producer=7)
    client.log.refuse_all()
    assert codes(client.heard()) == [(10, ErrorCode.STORAGE_FULL)]
    client.publish(11, b"a", b"b", b"c", producer=7)
    client.log.sync()
    assert codes(client.heard()) == [(11, ErrorCode.BATCH_TOO_LARGE)]


def test_without_a_number_a_refusal_is_told_at_once():
    client = durably(CAPACITY=2)
    assert codes(client.publish(10, b"a", b"b", b"c")) == [(10, ErrorCode.BATCH_TOO_LARGE)]
    assert client.log.gathered == []


def test_the_numbers_of_a_producer_count_in_each_durable_topic_alone(client):
    client.publish(10, b"x", producer=7)
    client.tell(Publish(11, "memory", batch(b"y"), producer=7))
    client.log.sync()
    assert client.heard() == [Published(11, 0, 1, 0, 0), stored(10, 0)]


@pytest.mark.parametrize("keys", [1, 64])
def test_remembered_answers_are_charged_with_what_they_hold(keys):
    """LAG-6: an answer that lists what was compacted, as that of a memory topic is."""
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS)
    memory = Conversation(client.broker)
    memory.ask(CreateTopic(3, "m", ((Setting.COMPACTION_WINDOW_MS, MINUTE_MS),)))
    used = []
    for speaker, topic in ((client, "t"), (memory, "m")):
        before = client.broker.memory.used
        for number in range(70):
            messages = [(b"%d" % (index % keys), b"x") for index in range(200)]
            speaker.tell(Publish(0, topic, batch(*messages), producer=9, sequence=number))
            client.log.sync()
        used.append(client.broker.memory.used - before)
    assert used[0] == used[1]


# -- refused at once -----------------------------------------------------------------------------


def test_too_much_that_waits_is_refused_until_some_of_it_is_on_the_disk(monkeypatch):
    monkeypatch.setattr(write_queue, "WAITING_BYTES", 900)
    client = durably(MAX_BYTES=1000)
    client.publish(10, b"x" * 600)
    assert codes(client.publish(11, b"y" * 600)) == [(11, ErrorCode.NO_MEMORY)]
    client.log.sync()
    client.heard()
    assert client.publish(12, b"y" * 600) == []


def test_too_many_that_wait_are_refused_however_small(client, monkeypatch):
    monkeypatch.setattr(write_queue, "WAITING_BATCHES", 3)
    for _ in range(3):
        assert client.publish(0, b"x") == []
    assert codes(client.publish(11, b"x")) == [(11, ErrorCode.NO_MEMORY)]
    client.log.sync(1)
    assert client.publish(12, b"x") == []


@pytest.mark.parametrize(
    ("max_bytes", "most"), [(MIB, 4 * MIB), (4 * MIB, 4 * MIB), (6 * MIB, 6 * MIB)]
)
def test_4_mib_may_wait_or_what_the_ring_may_hold(max_bytes, most):
    """DUR-4: to the byte."""
    client = durably(MAX_BYTES=max_bytes)
    empty = len(batch(b"").data)
    half = b"x" * (MIB // 2 - empty)
    for _ in range(most // len(batch(half).data) - 1):
        assert client.publish(3, half) == []
    assert codes(client.publish(4, half + b"x")) == [(4, ErrorCode.NO_MEMORY)]
    assert client.publish(5, half) == []
    assert client.topic.retained.waiting_bytes == most
    assert codes(client.publish(6, b"")) == [(6, ErrorCode.NO_MEMORY)]


@pytest.mark.parametrize("size", [8000, MIB // 4])
def test_what_waits_for_the_disk_counts_as_memory_when_it_is_accepted(size):
    """RET-10: other topics give up theirs then, and not with the next sweep."""
    logs = FakeLogs()
    client = Durably(durable_broker(logs, max_bytes=2 * MIB))
    client.create(MAX_BYTES=2 * MIB)
    client.ask(CreateTopic(3, "m", ((Setting.RETENTION_TTL_MS, FOREVER),)))
    for _ in range(30):
        client.ask(Publish(0, "m", batch(b"x" * (MIB // 16))))
    budget, topic = client.broker.registry.budget, client.topic
    resident = client.broker.registry.find("m").retained.ring
    assert resident.bytes > 1.8 * MIB
    for _ in range(2):
        while topic.retained.waiting_bytes < MIB:
            assert client.publish(0, b"x" * size) == []
            most = topic.retained.waiting_memory + TOPIC + topic.decisions.bytes
            assert most - write_queue.UNCOUNTED_BYTES < topic.memory <= most
            assert budget.used <= 2 * MIB
        assert 0 < resident.bytes < MIB
        client.log.refuse_all()
        assert topic.memory == TOPIC + topic.decisions.bytes, "it is not held any more"
        client.heard()


def test_a_batch_that_waits_costs_more_than_its_bytes(client):
    """RET-10: a small one takes twenty times as much memory as it has bytes."""
    size = len(batch(b"x").data)
    for _ in range(100):
        client.publish(0, b"x")
    client.broker.sweep()
    assert client.topic.memory == TOPIC + 100 * (1_250 + size)
    client.log.sync(40)
    assert client.topic.memory == TOPIC + 60 * (1_250 + size) + 40 * (ENTRY + size)
    client.log.sync()
    assert client.topic.memory == TOPIC + 100 * (ENTRY + size)


def test_what_takes_no_offset_costs_memory_while_it_waits():
    """RET-10: and none afterwards, although nothing is stored then."""
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS)
    client.filled((b"key", b"x"))
    before = client.topic.memory
    for _ in range(100):
        client.publish(0, (b"key", b"y"))
    assert client.topic.memory > before + 100 * 1_250 - write_queue.UNCOUNTED_BYTES
    client.log.sync()
    assert client.topic.memory == before + client.topic.decisions.bytes


def test_65536_batches_may_wait(client):
    """DUR-4."""
    assert client.publish(3, b"x") == []
    waiting = client.topic.retained.waiting
    waiting.extend([waiting[0]] * 65_534)
    assert client.publish(4, b"x") == []
    (refused,) = client.publish(5, b"x")
    assert refused.code == ErrorCode.NO_MEMORY
    assert "waits for the disk of 't': 65,536 batches of 42 bytes." in refused.message
    client.log.sync(1)
    assert client.heard() == [stored(3, 0)]
    assert client.publish(6, b"x") == []


def test_many_small_ones_that_wait_hold_up_their_connection(client):
    """LAG-3: each takes memory besides its bytes."""
    for number in range(4000):
        client.tell(Publish(0, "t", batch(b"x")))
        assert not client.manager.replies.is_backed_up(1000), number
    client.tell(*[Publish(0, "t", batch(b"x"))] * 100)
    assert client.manager.replies.is_backed_up(1000)
    client.log.sync()
    assert not client.manager.replies.is_backed_up(1000)


def test_a_damaged_log_takes_nothing(client):
    """DUR-7: where it ended is unknown. A refusal cannot be written, either."""
    client.filled(b"a")
    client.log.damage = "it is broken"
    for producer in (0, 7):
        (error,) = client.publish(10, b"x", producer=producer)
        assert (error.code, error.field) == (ErrorCode.DAMAGED, "topic")
        assert "it is broken" in error.message
    client.ask(Subscribe(11, "t", name="n"), Commit(12, 11, 1))
    client.broker.sweep()
    assert client.log.gathered == [], "nothing is written behind the damage, positions neither"
    assert state(client)["damage"] == "it is broken"


def lossless():
    """A topic that rejects, whose log is almost full: two files of half of it each."""
    client = durably(OVERFLOW=Overflow.REJECT, LOG_BYTES=MIB)
    client.filled(*[b"x" * (MIB // 4 - 200)] * 4)
    return client


def test_a_log_that_is_full_rejects_while_a_reader_needs_its_oldest_file():
    """DUR-4, RET-9."""
    client = lossless()
    client.ask(Subscribe(3, "t", credit=1))
    (refusal,) = client.publish(10, b"y" * 2000)
    assert (refusal.id, refusal.code) == (10, ErrorCode.TOPIC_FULL)
    assert refusal.message.startswith("the log of 't' is full, and subscription 3 of connection ")
    assert refusal.message.endswith(" still needs offset 1. Retry when it has read further.")
    assert client.log.owner.needed == 1
    client.ask(Commit(4, 3, 1))
    assert client.publish(11, b"y" * 2000) == [], (
        "its oldest file can go, although there is more to read"
    )


def test_a_full_log_that_nobody_reads_takes_everything():
    client = lossless()
    assert client.publish(10, b"y" * 2000) == []
    assert client.publish(11, b"y" * 2000) == []


def test_a_named_position_holds_on_to_its_files_without_a_reader():
    client = lossless()
    client.ask(Subscribe(3, "t", name="n", credit=9), Unsubscribe(4, 3))
    (refusal,) = client.publish(10, b"y" * 2000)
    assert refusal.code == ErrorCode.TOPIC_FULL
    assert "the named subscription 'n', whose reader is away, still needs" in refusal.message
    client.ask(Subscribe(5, "t", name="n", credit=9), Unsubscribe(6, 5, forget=True))
    assert client.publish(11, b"y" * 2000) == []


# -- settings ------------------------------------------------------------------------------------


def test_a_durable_topic_keeps_for_ever_unless_told_otherwise(client):
    told = state(client)["settings"]
    assert (told["durable"], told["log_bytes"], told["segment_bytes"]) == (1, 1024 * MIB, 64 * MIB)
    assert client.topic.settings.retention_ttl_ms == 2**64 - 1
    refused = [
        ((DURABLE, (Setting.RETENTION_TTL_MS, 0)), ErrorCode.INVALID_FIELD),
        ((DURABLE, (Setting.JOURNAL_BYTES, 1000)), ErrorCode.UNSUPPORTED),
        (((Setting.LOG_BYTES, MIB),), ErrorCode.INVALID_FIELD),
        ((DURABLE, (Setting.LOG_BYTES, MIB - 1)), ErrorCode.INVALID_FIELD),
    ]
    for settings, code in refused:
        (error,) = client.ask(CreateTopic(3, "other", settings))
        assert (error.code, error.field) == (code, "settings")


def test_creating_it_again_with_its_settings_changes_nothing(client):
    client.filled(b"a")
    client.tell(
        CreateTopic(3, "t", (DURABLE,)), CreateTopic(4, "t", (DURABLE, (Setting.LOG_BYTES, MIB)))
    )
    client.log.sync()
    again, error = client.heard()
    assert (again.created, again.epoch) == (0, client.topic.epoch)
    assert (error.code, error.field) == (ErrorCode.TOPIC_EXISTS, "settings")
    assert "log_bytes is 1073741824, asked for 1048576" in error.message


def test_an_empty_topic_of_first_use_becomes_durable():
    """TOP-3: a reader may have come before the client that creates it."""
    client = Durably()
    client.ask(Subscribe(3, "t", credit=10))
    assert client.ask(CreateTopic(2, "t", (DURABLE,))) == [], "not before it is on the disk"
    client.log.sync()
    (created,) = client.heard()
    assert created.created == 0
    client.publish(4, b"x")
    client.log.sync()
    answer, echo = client.heard()
    assert answer == stored(4, 0, subscribers=1)
    assert payloads([echo]) == [b"x"]


def test_a_topic_with_messages_does_not_become_durable():
    client = Durably()
    client.ask(Publish(3, "t", batch(b"x")))
    (error,) = client.ask(CreateTopic(4, "t", (DURABLE,)))
    assert error.code == ErrorCode.TOPIC_EXISTS
    assert client.logs.known == {}


def test_without_a_folder_it_is_refused():
    client = Conversation(broker_with())
    for name in ("new", "used"):
        client.ask(Subscribe(3, "used")) if name == "used" else None
        (error,) = client.ask(CreateTopic(4, name, (DURABLE,)))
        assert (error.code, error.field) == (ErrorCode.UNSUPPORTED, "settings")
        assert "--data" in error.message


@pytest.mark.parametrize("is_used", [False, True], ids=["new", "of first use"])
def test_a_name_whose_log_cannot_be_read_is_refused_and_nothing_of_it_stays(is_used):
    """DUR-7, DUR-1: above all, no topic that says it is durable and is not."""
    client = Durably()
    if is_used:
        client.ask(Subscribe(3, "t"), Unsubscribe(0, 3))
    client.logs.unreadable = ["t"]
    held = len(client.broker.registry.budget._holders)
    (error,) = client.ask(CreateTopic(4, "t", (DURABLE,)))
    assert (error.code, error.field) == (ErrorCode.DAMAGED, "topic")
    assert len(client.broker.registry.budget._holders) == held
    if is_used:
        assert client.ask(Publish(5, "t", batch(b"x"))) == [Published(5, 0, 1, 0, 0)]
    else:  # no topic in memory takes its place either: it would be gone after the next start
        assert codes(client.ask(Publish(5, "t", batch(b"x")))) == [(5, ErrorCode.DAMAGED)]


def test_durable_can_be_the_default_of_new_topics():
    """The numbers of a producer count in such a topic from its first batch on."""
    logs = FakeLogs()
    topic = TopicSettings().merged((DURABLE,))
    client = Durably(durable_broker(logs, topic=topic))
    client.publish(10, b"x", producer=7)
    client.log.sync()
    assert client.heard() == [stored(10, 0)]
    assert client.publish(11, b"x", producer=7) == [stored(11, 0, duplicate=True)]


# -- the end of a connection ---------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "stop", "disconnect", "fatal"])
def test_the_last_frame_comes_after_all_replies_that_are_owed(client, end):
    """DUR-2, CLO-2."""
    client.publish(10, b"a")
    client.publish(11, b"b")
    match end:
        case "close":
            client.tell(Close(12))
            last = Closed(12)
        case "stop":
            client.manager.stop()
            last = GoAway(0, GoAwayCode.STOPPING, GoAwayCode.STOPPING.meaning)
        case "disconnect":
            Conversation(client.broker).ask(Disconnect(1, client.manager.number))
            last = GoAway(0, GoAwayCode.DISCONNECTED, GoAwayCode.DISCONNECTED.meaning)
        case "fatal":
            client.tell(Hello(12))
            last = None
    if end == "fatal":
        assert codes(client.heard()) == [(12, ErrorCode.UNSUPPORTED)]
        return
    assert client.heard() == []
    assert not client.manager.is_finished
    client.log.sync(1)
    assert client.heard() == [stored(10, 0)]
    client.log.refuse_all()
    refused, *rest = client.heard()
    assert (refused.id, rest) == (11, [last])
    assert client.manager.is_finished
    assert client.ask(Ping(13, 0)) == []


def test_if_the_disk_has_failed_nobody_waits_for_what_is_owed(client):
    """DUR-6."""
    closing = Durably(client.broker)
    for each in (client, closing):
        each.publish(10, b"a")
    client.tell(CreateTopic(11, "another", (DURABLE,)))
    closing.tell(Close(11))
    assert client.heard() == closing.heard() == []
    for each in (client, closing):
        before = each.outputs
        each.manager.give_up()
        assert each.outputs > before
        assert each.heard() == [GoAway(0, GoAwayCode.STORAGE, GoAwayCode.STORAGE.meaning)]
        assert each.manager.is_finished


# -- deletion ------------------------------------------------------------------------------------


def test_a_deletion_is_answered_when_the_log_is_gone(client):
    """DUR-2, TOP-6: what waits is refused then, or a start after a crash could find it stored."""
    client.filled(b"a")
    client.publish(10, b"b", producer=7)
    log = client.log
    finish = log.gather()
    client.publish(11, b"c")
    assert client.ask(Delete(12, "t")) == []
    finish()
    *refused, deleted = client.heard()
    assert codes(refused) == [(11, ErrorCode.NO_SUCH_TOPIC), (10, ErrorCode.NO_SUCH_TOPIC)]
    assert deleted == Deleted(12)
    assert client.ask(Describe(13, Kind.TOPICS, "t")) == [
        client.ask(Describe(13, Kind.TOPICS, "none"))[0]
    ]
    assert client.broker.registry.budget.used == 0
    assert len(client.broker.producers) == 0
    log.sync()
    assert client.heard() == []


def test_a_topic_of_that_name_can_be_made_while_the_old_one_goes(client):
    client.filled(b"a")
    old, log = client.topic.epoch, client.log
    client.tell(Delete(10, "t"))
    other = Durably(client.broker)
    other.create()
    assert client.topic.epoch > old
    assert client.heard() == []
    log.sync()
    assert client.heard() == [Deleted(10)]
    client.publish(12, b"b")
    client.log.sync()
    assert client.heard() == [stored(12, 0)]


def test_whoever_reads_a_topic_that_is_deleted_is_told(client):
    client.filled(*[b"%d" % index for index in range(5)])
    reader = Durably(client.broker)
    reader.ask(Subscribe(3, "t", credit=2))
    client.tell(Delete(10, "t"))
    (ended,) = reader.heard()
    assert isinstance(ended, SubscriptionEnded)
    assert (ended.code, ended.next) == (EndCode.DELETED, 2)


# -- positions -----------------------------------------------------------------------------------


def named(client, name, commit):
    client.ask(Subscribe(20 + commit, "t", name=name, credit=100))
    client.ask(Commit(50, 20 + commit, commit))


def test_positions_that_have_moved_are_written_once_a_second(client):
    """DUR-5."""
    client.filled(*[b"x"] * 5)
    named(client, "n", 2)
    assert client.log.gathered == []
    client.broker.sweep()
    client.broker.sweep()
    client.log.sync()
    assert client.log.positions() == {"n": 2}
    assert len(client.log.disk) == 6, "once, although there were two sweeps"
    named(client, "n", 3)
    client.broker.sweep()
    client.log.sync()
    assert client.log.positions() == {"n": 3}
    assert client.log.disk[-1].base == client.topic.end


def test_a_position_that_was_forgotten_is_written_as_well(client):
    client.filled(b"x")
    named(client, "n", 1)
    client.broker.sweep()
    client.tell(Unsubscribe(60, 21, forget=True))
    client.broker.sweep()
    client.log.sync()
    assert client.log.positions() == {}
    before = len(client.log.disk)
    client.broker.sweep()
    assert (client.log.gathered, len(client.log.disk)) == ([], before)


def test_positions_are_written_again_if_there_was_no_room(client):
    """DUR-5: also that one is forgotten, or it would come back with the next start."""
    client.filled(*[b"x"] * 5)
    named(client, "stays", 2)
    named(client, "goes", 1)
    client.broker.sweep()
    client.log.sync()
    client.tell(Unsubscribe(60, 21, forget=True), Commit(61, 22, 4))
    client.publish(70, b"y")
    client.log.refuse_all()
    client.broker.sweep()
    client.log.refuse_all()
    client.broker.sweep()
    client.log.sync()
    assert client.log.positions() == {"stays": 4}


def test_a_position_in_a_durable_topic_lives_a_week(client):
    client.filled(b"x")
    named(client, "n", 1)
    client.ask(Unsubscribe(60, 21))
    client.broker.sweep()
    client.pass_time(7 * 86_400 - 1)
    client.broker.sweep()
    assert list(client.topic.names) == ["n"]
    client.pass_time(1)
    client.broker.sweep()
    assert list(client.topic.names) == []


def test_a_topic_gets_a_checkpoint_when_nothing_was_written_between_two_sweeps(client):
    """DUR-7: from then on a bad byte in its last group is known to be damage."""
    client.publish(10, b"x")
    client.broker.sweep()
    client.broker.sweep()
    assert client.log.saves == 0, "not while something waits"
    client.log.sync()
    client.broker.sweep()
    assert client.log.saves == 0
    client.broker.sweep()
    assert client.log.saves == 1


def _store(client, number):
    client.filled(b"x")


def _compact(client, number):
    client.filled((b"key", b"x"))


def _refuse(client, number):
    too_large = [b"x" * (MIB // 16)] * 17
    assert client.publish(0, *too_large, producer=9, sequence=number) == []
    client.log.sync()
    client.heard()


def _commit(client, number):
    if number == 0:
        client.filled(*[b"x"] * 9)
    named(client, "n", number + 1)


@pytest.mark.parametrize("use", [_store, _compact, _refuse, _commit])
def test_a_topic_that_is_written_between_any_two_sweeps_gets_no_checkpoint(use):
    """It would be written every second, and may have all the keys of all windows."""
    client = durably(COMPACTION_WINDOW_MS=MINUTE_MS, MAX_BYTES=MIB)
    client.filled((b"key", b"the first"))
    client.broker.sweep()
    for number in range(6):
        use(client, number)
        client.broker.sweep()
        client.log.sync()
    assert client.log.saves == 0
    assert len(client.log.disk) >= 7, "there was something to be written each time"
    for _ in range(3):
        client.broker.sweep()
    assert client.log.saves >= 1


def test_a_topic_that_a_start_has_found_gets_a_checkpoint(client):
    client.filled(b"x")
    broker = durable_broker(client.logs)
    broker.registry.restore("t", client.topic.epoch, client.topic.settings.by_name(), client.log)
    for _ in range(2):
        broker.sweep()
    assert client.log.saves == 1


@pytest.mark.parametrize(
    ("retention_ttl_ms", "expired", "evicted"), [(MINUTE_MS, 5, 0), (FOREVER, 0, 5)]
)
def test_what_was_gone_before_a_start_has_expired_if_the_topic_has_a_retention(
    retention_ttl_ms, expired, evicted
):
    """Which of the two it was is not on the disk: `describe` says what is likely."""
    client = Durably()
    settings = TopicSettings(retention_ttl_ms, durable=1).by_name()
    topic = client.broker.registry.restore("t", 7, settings, FakeLog(5))
    topic.published = topic.end
    told = state(client)
    assert (told["expired"], told["evicted"]) == (expired, evicted)
    assert (told["head"], told["next_offset"]) == (5, 5)


def test_files_whose_messages_have_all_expired_are_removed():
    """DUR-4: by the next sweep, and no others."""
    client = durably(RETENTION_TTL_MS=MINUTE_MS, CAPACITY=1)
    for _ in range(6):
        client.filled(b"x")
        client.pass_time(10)
    assert [record.base for record in client.log.disk] == [0, 1, 2, 3, 4, 5]
    client.pass_time(20)
    client.broker.sweep()
    assert [record.base for record in client.log.disk] == [2, 3, 4, 5]
    told = state(client)
    assert (told["head"], told["expired"], told["evicted"]) == (2, 2, 0)


def test_a_topic_that_was_on_the_disk_is_not_deleted_because_it_is_unused():
    """TOP-7: only a CreateTopic makes a durable topic, whichever broker has received that."""
    client = Durably()
    client.create()
    known, log = client.topic, client.log
    broker = durable_broker(client.logs, topic_ttl=10)
    topic = broker.registry.restore("t", known.epoch, known.settings.by_name(), log)
    for _ in range(2):
        broker.sweep()
        broker.clock.advance(10)
    assert broker.registry.durable("t") is topic
    assert topic.explicit
