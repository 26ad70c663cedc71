"""Numbered producers: stored once, however often a batch is sent (PUB-4)."""

from dataclasses import replace

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core import producers as producers_module
from zaichik.core.pending import Pending
from zaichik.core.producers import REMEMBERED_ANSWERS, Producers
from zaichik.core.rights import ANYBODY
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing.prices import CONNECTION, PRODUCER
from zaichik.core.sharing.quota import Quota
from zaichik_protocol import (
    Commit,
    CreateTopic,
    Error,
    ErrorCode,
    Publish,
    Published,
    Refused,
    Setting,
    Subscribe,
)

KEEP = ((Setting.RETENTION_TTL_MS, 2**64 - 1),)


def numbered(sequence, *payloads, producer=7, topic="t", number=5):
    return Publish(
        number,
        topic,
        batch(*(payloads or (b"%d" % sequence,))),
        producer=producer,
        sequence=sequence,
    )


@pytest.fixture
def client():
    return Conversation(broker_with(max_producers=3, producer_ttl=600.0))


def stored(client):
    return sum(topic.retained.ring.next_offset for topic in client.broker.registry)


def answer(client, request):
    (reply, *_) = client.ask(request)
    return reply


def code(client, request):
    reply = answer(client, request)
    assert isinstance(reply, Error)
    return ErrorCode(reply.code), reply.field


def test_a_retried_batch_gets_the_same_answer_and_is_not_stored_again(client):
    client.ask(CreateTopic(2, "t", ((Setting.COMPACTION_WINDOW_MS, 1000),)))
    first = answer(client, numbered(0, (b"k", b"1"), (b"k", b"2"), b"3"))
    assert first == Published(5, 0, 2, 1, 0, b"\x02")
    client.ask(numbered(1), Subscribe(9, "t"))
    assert answer(client, numbered(0, (b"k", b"1"), (b"k", b"2"), b"3", number=6)) == replace(
        first, id=6, duplicate=True
    )
    assert stored(client) == 3


def test_a_producer_is_recognised_on_another_connection(client):
    answer(client, numbered(0))
    other = Conversation(client.broker)
    assert answer(other, numbered(0)).duplicate
    assert not answer(other, numbered(1)).duplicate
    assert answer(client, numbered(1)).duplicate
    assert stored(client) == 2


def test_a_gap_is_refused_and_stores_nothing(client):
    answer(client, numbered(0))
    assert code(client, numbered(2)) == (ErrorCode.SEQUENCE_GAP, "sequence")
    assert stored(client) == 1
    assert [answer(client, numbered(sequence)).first_offset for sequence in (1, 2)] == [1, 2]


def test_producers_do_not_share_their_numbers(client):
    assert [answer(client, numbered(0, producer=producer)).first_offset for producer in (7, 8)] == [
        0,
        1,
    ]


def test_without_a_producer_the_number_is_ignored(client):
    assert [answer(client, numbered(5, producer=0)).first_offset for _ in range(2)] == [0, 1]
    assert len(client.broker.producers) == 0


@pytest.mark.parametrize("topic", ["t", ""])
def test_a_permanent_refusal_uses_its_number_up(client, topic):
    """Also if there is no topic; and what was sent behind it is stored."""
    client.ask(CreateTopic(2, "t", ((Setting.CAPACITY, 1),)))
    refused = numbered(0, b"1", b"2", topic=topic)
    expected = (ErrorCode.BATCH_TOO_LARGE, "batch") if topic else (ErrorCode.INVALID_FIELD, "topic")
    assert code(client, refused) == expected
    assert answer(client, numbered(1)).first_offset == 0
    assert code(client, refused) == expected, "remembered, not tried again"
    assert answer(client, numbered(1)).duplicate


def test_a_temporary_refusal_keeps_its_number(client):
    """RET-9: nothing overtakes what waits for room."""
    client.ask(
        CreateTopic(
            2, "t", (*KEEP, (Setting.CAPACITY, 1), (Setting.OVERFLOW, 1), (Setting.MAX_BYTES, 1000))
        )
    )
    reader = Conversation(client.broker)
    reader.ask(Subscribe(1, "t"))
    answer(client, numbered(0))
    assert code(client, numbered(1)) == (ErrorCode.TOPIC_FULL, "topic")
    assert code(client, numbered(2)) == (ErrorCode.SEQUENCE_GAP, "sequence")
    reader.ask(Commit(0, 1, 1))
    assert not answer(client, numbered(1)).duplicate


@given(st.lists(st.tuples(st.integers(-1, 3), st.booleans()), max_size=60))
def test_every_batch_is_stored_once_in_its_place_whatever_the_order(steps):
    """Some come too early, some again, and some while there is no room for them."""
    client = Conversation(broker_with())
    client.ask(
        CreateTopic(
            2, "t", (*KEEP, (Setting.CAPACITY, 2), (Setting.OVERFLOW, 1), (Setting.MAX_BYTES, 1000))
        )
    )
    reader = Conversation(client.broker)
    reader.ask(Subscribe(1, "t"))
    answer(client, numbered(0))
    answered, frames = 1, []
    for back, reads in steps:
        sequence = max(0, answered - back)
        reply = answer(client, numbered(sequence))
        if isinstance(reply, Error):
            assert reply.code == (
                ErrorCode.TOPIC_FULL if sequence == answered else ErrorCode.SEQUENCE_GAP
            )
            assert sequence >= answered
        else:
            assert (reply.first_offset, reply.duplicate) == (sequence, sequence < answered)
            answered = max(answered, sequence + 1)
        if reads:
            frames += reader.heard()
            reader.tell(Commit(0, 1, reader.manager.readers[1].cursor))
    assert stored(client) == answered
    payloads = [payload for frame in frames for payload in frame.batch.each_payload()]
    assert payloads == [b"%d" % sequence for sequence in range(len(payloads))]


@pytest.mark.parametrize(
    ("back", "known"),
    [(REMEMBERED_ANSWERS - 1, True), (REMEMBERED_ANSWERS, True), (REMEMBERED_ANSWERS + 1, False)],
)
def test_the_last_64_answers_are_kept(client, back, known):
    last = 2 * REMEMBERED_ANSWERS
    for sequence in range(last):
        client.ask(numbered(sequence))
    again = numbered(last - back)
    if known:
        assert answer(client, again) == Published(5, last - back, 1, 0, 0, duplicate=True)
    else:
        assert code(client, again) == (ErrorCode.INVALID_FIELD, "sequence")


def test_an_unknown_producer_begins_at_0(client):
    assert code(client, numbered(1)) == (ErrorCode.PRODUCER_UNKNOWN, "producer")
    assert len(client.broker.producers) == stored(client) == 0


@pytest.mark.parametrize(("seconds", "known"), [(599, True), (600, False), (601, False)])
def test_a_producer_silent_for_ten_minutes_is_forgotten(client, seconds, known):
    """And cannot have anything stored again that may be stored."""
    for sequence in range(2):
        client.ask(numbered(sequence))
    client.broker.clock.advance(400)
    assert answer(client, numbered(1)).duplicate, "that is a use, too"
    client.broker.clock.advance(seconds)
    client.broker.sweep()
    if known:
        assert answer(client, numbered(1)).duplicate
    else:
        assert code(client, numbered(1)) == (ErrorCode.PRODUCER_UNKNOWN, "producer")
    assert stored(client) == 2


def test_producers_are_forgotten_in_the_order_of_their_last_use(client):
    for producer in (1, 2):
        answer(client, numbered(0, producer=producer))
        client.broker.clock.advance(300)
    answer(client, numbered(1, producer=1))
    client.broker.clock.advance(300)
    client.broker.sweep()
    assert len(client.broker.producers) == 1
    assert answer(client, numbered(1, producer=1)).duplicate


def test_a_producer_without_memory_left_is_refused_for_that_reason():
    """LAG-6: other producers are allowed, so the limit that is reached is not `max_producers`."""
    client = Conversation(broker_with(max_client_bytes=CONNECTION + PRODUCER - 1))
    refused = answer(client, numbered(0))
    assert (refused.code, refused.field, refused.retry_after_ms) == (
        ErrorCode.NO_MEMORY,
        "producer",
        1000,
    )
    assert f"max_client_bytes is {CONNECTION + PRODUCER - 1}" in refused.message
    assert f"a new producer needs {PRODUCER} bytes" in refused.message
    assert "max_producers" not in refused.message


def test_their_number_is_limited(client):
    """P6: a new one has to wait, and no other is forgotten for it early."""
    for producer in (1, 2, 3):
        answer(client, numbered(0, producer=producer))
    refused = answer(client, numbered(0, producer=4))
    assert (refused.code, refused.field, refused.retry_after_ms) == (
        ErrorCode.NO_MEMORY,
        "producer",
        1000,
    )
    assert "max_producers" in refused.message
    assert "max_client_bytes" not in refused.message
    assert answer(client, numbered(0, producer=1)).duplicate
    client.broker.clock.advance(600)
    client.broker.sweep()
    assert answer(client, numbered(0, producer=4)).first_offset == 3


def test_the_producer_of_a_user_is_never_0(monkeypatch):
    """PUB-4, ACC-3: that would be a batch without a number. One digest of 2 to the 64 is 0."""

    class Zero:
        def digest(self):
            return bytes(8)

    monkeypatch.setattr(producers_module, "blake2b", lambda *_, digest_size: Zero())
    producers = broker_with().producers
    request, scope = producers.owned(ANYBODY, numbered(5), "")
    assert request == numbered(5, producer=request.producer)
    assert (request.producer > 0, scope) == (True, "")


def test_producers_that_a_start_has_found_count_as_all_others(client):
    """PUB-4, DUR-3: in their number and their memory, until they are forgotten."""
    producers, memory = client.broker.producers, client.broker.memory
    before = memory.used
    for producer in (1, 2, 3):
        producers.restore("d", producer, 1, [(0, 1, 1, 0, b"\1")], 1_000)
    assert (len(producers), memory.used - before) == (3, 3 * (PRODUCER + 1))
    assert code(client, numbered(0)) == (ErrorCode.NO_MEMORY, "producer")
    producers.forget_all_of("d")
    assert (len(producers), memory.used) == (0, before)
    assert answer(client, numbered(0)).first_offset == 0


def test_a_remembered_refusal_holds_no_batch(client):
    """P6: neither by its traceback, nor by the exceptions before it."""
    client.ask(numbered(0, topic=""), numbered(0, topic=""))
    (known,) = client.broker.producers._known.values()
    (refusal,) = known.answers
    assert (refusal.__traceback__, refusal.__context__) == (None, None)


# -- what waits for a disk -----------------------------------------------------------------------

FULL = Refused(ErrorCode.STORAGE_FULL, "no room")
FORBIDDEN = Refused(ErrorCode.FORBIDDEN, "not any more")


class Waiting:
    """The numbers of one producer on a durable topic, whose batches wait for the disk."""

    def __init__(self):
        self.memory = Quota(10**9)
        self.producers = Producers(BrokerSettings(), self.memory)

    def is_next(self, sequence):
        return self.producers.answered(numbered(sequence), "d", 1) is None

    def remember(self, sequence, outcome):
        assert self.is_next(sequence)
        self.producers.remember(numbered(sequence), "d", outcome)
        return outcome

    def repeated(self, sequence):
        """What a retry is answered: an offset, or the name of an error."""
        try:
            answer = self.producers.answered(numbered(sequence), "d", 1)
        except Refused as refusal:
            return refusal.code.name
        return answer.first_offset


def published(offset):
    return Published(0, offset, 1, 0, 0, b"")


def test_a_batch_taken_back_leaves_the_answers_of_others_alone():
    """PUB-4, DUR-3: one was refused for good while the one before it waited for the disk."""
    waiting = Waiting()
    waiting.remember(0, published(0))
    first = waiting.remember(1, Pending())
    waiting.remember(2, FORBIDDEN)
    third = waiting.remember(3, Pending())
    waiting.remember(4, FORBIDDEN)
    # The newest first, as `Durable.on_refused` does.
    third.settle(FULL)
    first.settle(FULL)
    assert [waiting.repeated(number) for number in (0, 2, 3, 4)] == [
        0, "FORBIDDEN", "SEQUENCE_GAP", "FORBIDDEN",
    ]  # fmt: skip
    waiting.remember(1, published(1))
    waiting.remember(3, published(2))
    assert [waiting.repeated(number) for number in range(5)] == [
        0, 1, "FORBIDDEN", 2, "FORBIDDEN",
    ]  # fmt: skip
    assert waiting.is_next(5), "the numbers of those refused for good are used up"


def test_refusals_after_a_batch_taken_back_are_charged_until_they_are_evicted():
    """LAG-6."""
    waiting = Waiting()
    first = waiting.remember(0, Pending())
    for sequence in range(1, REMEMBERED_ANSWERS):
        waiting.remember(sequence, FORBIDDEN)
    first.settle(FULL)
    waiting.remember(0, published(0))
    for sequence in range(REMEMBERED_ANSWERS, 2 * REMEMBERED_ANSWERS):
        waiting.remember(sequence, published(sequence))
    assert waiting.memory.used == PRODUCER
    assert waiting.is_next(2 * REMEMBERED_ANSWERS)


def test_more_refusals_than_are_kept_do_not_move_the_batch_that_is_taken_back():
    waiting = Waiting()
    first = waiting.remember(0, Pending())
    for sequence in range(1, REMEMBERED_ANSWERS + 2):
        waiting.remember(sequence, FORBIDDEN)
    first.settle(FULL)
    waiting.remember(0, published(0))
    assert waiting.repeated(0) == 0
    assert waiting.is_next(1), "its answer was not kept"
    waiting.remember(1, published(1))
    assert waiting.repeated(REMEMBERED_ANSWERS + 1) == "FORBIDDEN"
    assert waiting.is_next(REMEMBERED_ANSWERS + 2)


# -- what they cost ------------------------------------------------------------------------------


def test_answers_are_charged_at_their_size_and_released():
    """LAG-6: one that reports thousands of messages holds a KiB, and a refusal its text."""
    broker = broker_with(max_producers=3, producer_ttl=600.0)
    client = Conversation(broker)
    client.ask(CreateTopic(2, "t", ((Setting.COMPACTION_WINDOW_MS, 1000),)))
    without = broker.memory.used
    large = [(b"k", b"")] * 8192
    for sequence in range(10):
        client.ask(numbered(sequence, *large))
    assert broker.memory.used - without == PRODUCER + 10 * 1024
    for sequence in range(10, 10 + REMEMBERED_ANSWERS):
        client.ask(numbered(sequence))
    assert broker.memory.used - without == PRODUCER, (
        "answers that are kept no more are not counted any more"
    )
    answer(client, numbered(10 + REMEMBERED_ANSWERS, topic="\n"))
    assert broker.memory.used - without > PRODUCER
    broker.clock.advance(600)
    broker.sweep()
    assert broker.memory.used == without
