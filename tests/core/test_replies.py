"""The replies of one connection: their order, what is owed, and how much of it."""

import pytest
from conversation import batch

from zaichik.core.pending import Pending
from zaichik.core.replies import MOST_OWED, OWED, Replies, error
from zaichik_protocol import (
    Close,
    Closed,
    CreateTopic,
    Error,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Ping,
    Pong,
    Publish,
    Published,
    Refused,
    TopicCreated,
    encode,
)

STORED = Published(0, 7, 1, 0, 0)
FULL = Refused(ErrorCode.STORAGE_FULL, "no room", "topic")
LAST = Closed(9)


@pytest.fixture
def replies():
    replies = Replies(lambda: None)
    replies.tells_durable = True
    return replies


def owed(replies, request):
    answer = Pending()
    replies.owe(request, answer)
    return answer


def publish(size=20, number=3):
    """A publish whose batch has that many bytes."""
    return Publish(number, "t", batch(b"x" * (size - len(batch(b"").data))))


# -- known ---------------------------------------------------------------------------------------


def test_replies_are_taken_in_their_order_and_once(replies):
    replies.add(Pong(1, 5))
    replies.add(Pong(2, 6))
    assert replies.bytes == len(encode(Pong(1, 5))) + len(encode(Pong(2, 6)))
    assert replies.take() == [encode(Pong(1, 5)), encode(Pong(2, 6))]
    assert (replies.take(), replies.bytes) == ([], 0)


def test_replies_for_a_peer_that_is_gone_are_dropped(replies):
    replies.add(Pong(1, 5))
    replies.clear()
    assert (replies.take(), replies.bytes) == ([], 0)


def test_each_reply_says_that_there_is_output():
    calls = []
    replies = Replies(lambda: calls.append("output"))
    replies.add(Pong(1, 5))
    assert calls == ["output"]
    owed(replies, Publish(0, "t", batch(b"x"))).settle(STORED)
    assert len(calls) == 2, "more requests may be read, although id 0 gets no reply"


@pytest.mark.parametrize(("more", "is_backed_up"), [(-1, False), (0, False), (1, True)])
def test_a_connection_is_backed_up_with_more_replies_than_that(replies, more, is_backed_up):
    """LAG-3."""
    replies.add(Pong(1, 5))
    assert replies.is_backed_up(replies.bytes - more) is is_backed_up


# -- owed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "is_backed_up"), [(-1, False), (0, False), (1, True)])
def test_a_connection_is_backed_up_when_the_disk_owes_it_4_mib(replies, more, is_backed_up):
    """LAG-3: each batch takes memory besides its bytes."""
    assert MOST_OWED == 4 * 1024 * 1024
    half = MOST_OWED // 2
    first = owed(replies, publish(half - OWED))
    owed(replies, publish(half - OWED + more))
    assert replies.is_backed_up(1000) is is_backed_up
    first.settle(STORED)
    assert not replies.is_backed_up(1000)


@pytest.mark.parametrize(("count", "is_backed_up"), [(2_000, False), (8_000, True)])
def test_a_connection_is_backed_up_with_thousands_of_small_batches(replies, count, is_backed_up):
    """LAG-3: what waits for the disk takes about a KiB, however small the batch is."""
    request = publish()
    for _ in range(count):
        owed(replies, request)
    assert replies.is_backed_up(1000) is is_backed_up


def test_what_was_paid_is_owed_no_more(replies):
    for _ in range(3):
        owed(replies, publish(MOST_OWED - OWED)).settle(STORED)
        assert not replies.is_backed_up(1000)
        assert replies.owed == 0


def test_a_publish_may_be_overtaken_and_no_other_request(replies):
    """DUR-2."""
    owed(replies, publish())
    assert not replies.must_wait
    created = owed(replies, CreateTopic(4, "t"))
    assert replies.must_wait
    assert replies.is_backed_up(1000)
    created.settle(TopicCreated(4, 1, 5, ()))
    assert not replies.must_wait
    assert not replies.is_backed_up(1000)
    assert replies.take() == [encode(TopicCreated(4, 1, 5, ()))]


def test_a_publish_that_is_paid_leaves_the_reply_that_keeps_its_place_owed(replies):
    stored = owed(replies, publish())
    owed(replies, CreateTopic(4, "t"))
    stored.settle(STORED)
    assert replies.must_wait


@pytest.mark.parametrize("tells_durable", [True, False])
def test_a_stored_batch_is_answered_with_the_id_of_its_request(replies, tells_durable):
    """DUR-1: and marked as durable for a client that knows the flag."""
    replies.tells_durable = tells_durable
    owed(replies, publish()).settle(STORED)
    assert replies.take() == [encode(Published(3, 7, 1, 0, 0, durable=tells_durable))]


def test_a_refusal_is_answered_even_to_a_request_without_an_id(replies):
    owed(replies, publish(number=0)).settle(STORED)
    owed(replies, CreateTopic(0, "t")).settle(TopicCreated(0, 1, 5, ()))
    assert replies.take() == []
    owed(replies, publish(number=0)).settle(FULL)
    expected = error(FULL, 0, Publish.TYPE, fatal=False)
    assert replies.take() == [encode(expected)]


def test_the_last_frame_waits_for_all_that_is_owed(replies):
    answers = [owed(replies, publish()) for _ in range(2)]
    replies.add_last(LAST)
    replies.add_last(GoAway(0, GoAwayCode.STORAGE, "too late"))
    answers[0].settle(STORED)
    assert len(replies.take()) == 1
    answers[1].settle(STORED)
    assert replies.take()[1:] == [encode(LAST)]


def test_the_last_frame_is_sent_at_once_if_nothing_is_owed(replies):
    replies.add_last(LAST)
    assert replies.take() == [encode(LAST)]


def test_what_is_written_off_is_not_paid(replies):
    """The disk has failed: no answer will ever come, or it comes too late."""
    answer = owed(replies, publish())
    replies.add_last(LAST)
    replies.write_off(GoAway(0, GoAwayCode.STORAGE, "it failed"))
    answer.settle(STORED)
    assert replies.take() == [encode(GoAway(0, GoAwayCode.STORAGE, "it failed"))]
    assert replies.owed == 0


# -- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "wait_ms"),
    [
        (ErrorCode.TOPIC_FULL, 50),
        (ErrorCode.NO_MEMORY, 1000),
        (ErrorCode.STORAGE_FULL, 1000),
        (ErrorCode.SEQUENCE_GAP, 0),
        (ErrorCode.INVALID_FIELD, 0),
    ],
)
def test_a_refusal_says_how_soon_to_retry(code, wait_ms):
    """Soon if a reader makes room; after the next sweep if that does."""
    frame = error(Refused(code, "no", "topic"), 3, Ping.TYPE, fatal=True)
    assert frame == Error(
        3, code, Ping.TYPE, "topic", wait_ms, "no", retryable=code.retryable, fatal=True
    )
    assert not error(Refused(code, "no"), 3, Close.TYPE, fatal=False).fatal
