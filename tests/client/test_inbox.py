"""What a right broker sends is taken, in its place; all else breaks the protocol: RET-4, LAG-1.

So a program that reads from `start` up to `until` has `until - start - lagged` messages, or an
error.
"""

import pytest
from brokers import messages

import zaichik
from zaichik.client.inbox import Inbox, check_end
from zaichik_protocol import (
    FOREVER,
    Batch,
    DeletionsMissed,
    EndCode,
    Error,
    ErrorCode,
    Lagged,
    Messages,
    ProtocolError,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

ID = 3
EPOCH = 77
START = 5
UNTIL = 9


def request(start=START, **fields):
    return Subscribe(ID, "t", start=Start.OFFSET, value=start, until=UNTIL, **fields)


def subscribed(start=START, *, epoch=EPOCH, live=100, **flags):
    return Subscribed(ID, epoch, start, live, start, **flags)


def made(asked=None, reply=None):
    inbox = Inbox(asked or request())
    answer(inbox, reply or subscribed())
    return inbox


def answer(inbox, reply):
    inbox.check(reply)
    inbox.answer(reply)


def batch(base, count=1):
    return messages(base, *[b"x"] * count, subscription=ID)


def holes(base, *deltas):
    rows = [(b"", b"x")] * len(deltas)
    return Messages(ID, base, 0, Batch.of(rows), deltas=deltas, holes=True)


def ended(at, code=EndCode.UNTIL):
    return SubscriptionEnded(ID, code, at, "it has ended")


def put_all(inbox, events):
    for event in events:
        inbox.put(event)


# -- the right place -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "events",
    [
        [batch(5), batch(6, 3), ended(9)],
        [batch(5, 4), ended(9)],
        [Lagged(ID, 5, 8), batch(8), ended(9)],
        [batch(5), Lagged(ID, 6, 9), ended(9)],
        [holes(6, 0, 2), ended(9)],
        [holes(5, 0, 3), ended(9)],
        [holes(5, 0, 1), batch(8), ended(9)],
        [holes(5, 0, 1), Lagged(ID, 8, 9), ended(9)],
        [holes(5, 0, 1), ended(9)],
        [batch(5), ended(6, EndCode.TAKEN_OVER)],
        [ended(5, EndCode.DELETED)],
    ],
)
def test_what_follows_is_taken(events):
    inbox = made()
    put_all(inbox, events)
    assert list(inbox.events) == events


@pytest.mark.parametrize(
    "events",
    [
        [batch(6)],
        [batch(4)],
        [batch(5), batch(5)],
        [batch(5, 2), batch(6)],
        [batch(5), batch(9)],
        [batch(2**64 - 3)],
        [batch(5, 5)],
        [holes(4, 0, 2)],
        [holes(5, 0, 4)],
        [holes(5, 0, 1), ended(8)],
        [holes(5, 0, 1), batch(6)],
        [Lagged(ID, 6, 8)],
        [Lagged(ID, 4, 8)],
        [Lagged(ID, 5, 5)],
        [Lagged(ID, 5, 4)],
        [Lagged(ID, 5, 10)],
        [Lagged(ID, 5, 2**64 - 1)],
        [Lagged(ID, 5, 7), Lagged(ID, 5, 7)],
        [ended(5)],
        [batch(5), ended(9)],
        [batch(5, 4), ended(8)],
        [batch(5, 4), ended(10)],
        [batch(5, 4), ended(9), ended(9)],
        [batch(5, 4), ended(9), batch(9)],
        [batch(5), ended(6, EndCode.TAKEN_OVER), batch(6)],
        [batch(5), ended(6, EndCode.DELETED), Lagged(ID, 6, 7)],
    ],
)
def test_whatever_else_comes_breaks_the_protocol(events):
    """Skipped, sent again, beyond the end, or after it: the last one is refused, and not kept."""
    inbox = made()
    put_all(inbox, events[:-1])
    before = list(inbox.events)
    with pytest.raises(ProtocolError, match="subscription 3, to t, ") as caught:
        inbox.put(events[-1])
    assert caught.value.code.fatal
    assert list(inbox.events) == before


@pytest.mark.parametrize(
    "events",
    [
        [batch(6), ended(9)],
        [batch(5), batch(8), ended(9)],
        [Lagged(ID, 5, 6), batch(8)],
        [batch(5), Lagged(ID, 7, 9)],
        [DeletionsMissed(ID, 8), batch(7), ended(9)],
        [ended(9)],
    ],
)
def test_a_table_has_holes_where_no_frame_shows_them(events):
    """TAB-2."""
    inbox = made(reply=subscribed(table=True))
    put_all(inbox, events)
    assert list(inbox.events) == events


@pytest.mark.parametrize(
    "events",
    [
        [batch(4)],
        [batch(6), batch(6)],
        [holes(5, 0, 4)],
        [batch(7), ended(8)],
        [batch(7), ended(9), DeletionsMissed(ID, 8)],
    ],
)
def test_a_table_too_has_its_offsets_in_order_and_up_to_the_end(events):
    inbox = made(reply=subscribed(table=True))
    put_all(inbox, events[:-1])
    with pytest.raises(ProtocolError, match="subscription 3, to t, "):
        inbox.put(events[-1])


def test_deletions_that_were_missed_change_no_offset():
    """TAB-5."""
    inbox = made()
    put_all(inbox, [batch(5), DeletionsMissed(ID, 8), batch(6)])
    assert inbox.delivered == 7


@pytest.mark.parametrize(
    "event",
    [batch(5), batch(0), Lagged(ID, 0, 5), DeletionsMissed(ID, 5), ended(9), ended(0)],
)
def test_nothing_comes_before_the_subscription_is_made(event):
    """open.4, also over a new socket."""
    with pytest.raises(ProtocolError, match="before it was made"):
        Inbox(request()).put(event)
    inbox = made()
    inbox.put(batch(5))
    inbox.interrupted()
    with pytest.raises(ProtocolError, match="before it was made"):
        inbox.put(event)
    inbox.again()
    with pytest.raises(ProtocolError, match="before it was made"):
        inbox.put(event)


def test_an_until_below_the_start_ends_it_at_once():
    """until.3."""
    inbox = made(request(start=20), subscribed(start=20))
    inbox.put(ended(20))
    assert inbox.delivered == 20


def test_without_an_end_it_goes_on():
    inbox = made(Subscribe(ID, "t"), subscribed(start=40))
    put_all(inbox, [batch(40, 5000), Lagged(ID, 5040, 2**40), batch(2**40)])
    with pytest.raises(ProtocolError, match=f"ends before offset {FOREVER} and was sent"):
        inbox.put(Lagged(ID, 2**40 + 1, FOREVER + 1))
    with pytest.raises(ProtocolError, match=f"ends at offset {FOREVER}"):
        inbox.put(ended(2**40 + 1))


# -- made, and made again ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (request(epoch=EPOCH), subscribed(epoch=EPOCH + 1)),
        (request(), subscribed(start=START + 1)),
        (request(), subscribed(start=START - 1)),
        (request(), subscribed(start=START + 1, resumed=True)),
        (request(name="n"), subscribed(start=START + 1)),
    ],
)
def test_a_subscription_that_was_not_asked_for_is_refused(asked, reply):
    inbox = Inbox(asked)
    with pytest.raises(ProtocolError, match="subscription 3, to t, is to be"):
        inbox.check(reply)


@pytest.mark.parametrize(
    ("asked", "reply"),
    [
        (request(epoch=EPOCH), subscribed()),
        (request(name="n"), subscribed()),
        (request(name="n"), subscribed(start=2, named=True, resumed=True)),
        (request(name="n"), subscribed(start=50, named=True, resumed=True)),
        (Subscribe(ID, "t"), subscribed(start=8)),
        (Subscribe(ID, "t", start=Start.LATEST), subscribed(start=8)),
        (Subscribe(ID, "t", start=Start.TIME, value=1), subscribed(start=8)),
    ],
)
def test_where_it_starts_is_told_by_the_broker_unless_it_was_asked_for(asked, reply):
    inbox = made(asked, reply)
    inbox.put(ended(reply.start, EndCode.DELETED))


def test_it_resumes_in_its_epoch_at_the_first_message_not_taken():
    inbox = made()
    inbox.put(batch(5, 2))
    inbox.interrupted()
    inbox.taken = 6
    asked = inbox.again()
    assert (asked.value, asked.epoch) == (6, EPOCH)
    for wrong in (subscribed(start=6, epoch=EPOCH + 1), subscribed(start=7), subscribed(start=5)):
        with pytest.raises(ProtocolError):
            inbox.check(wrong)
    answer(inbox, subscribed(start=6))
    with pytest.raises(ProtocolError):
        inbox.put(batch(7))
    put_all(inbox, [batch(6, 3), ended(9)])


@pytest.mark.parametrize("resumed", [True, False])
def test_a_name_resumes_where_the_broker_knows_it_to_be_settled(resumed):
    """CMT-3: below what was taken; what comes in between is known already."""
    inbox = made(request(name="n"), subscribed(named=True))
    inbox.put(batch(5, 3))
    inbox.taken = 8
    inbox.interrupted()
    asked = inbox.again()
    assert asked.value == 5
    answer(inbox, subscribed(start=5, named=True, resumed=resumed))
    assert (inbox.taken, inbox.delivered) == (8, 5)
    put_all(inbox, [Lagged(ID, 5, 6), batch(6, 3), ended(9)])


def test_one_that_has_ended_is_sent_nothing_more_over_another_socket():
    inbox = made()
    put_all(inbox, [batch(5, 4), ended(9)])
    inbox.interrupted()
    assert inbox.again() is None
    with pytest.raises(ProtocolError):
        inbox.put(batch(5))


def test_a_name_that_has_reached_its_end_is_made_again_and_ends_again():
    """name.11: commits for it are accepted until it is left."""
    inbox = made(request(name="n"), subscribed(named=True))
    put_all(inbox, [batch(5, 4), ended(9)])
    inbox.interrupted()
    inbox.again()
    answer(inbox, subscribed(start=5, named=True, resumed=True))
    put_all(inbox, [batch(5, 4), ended(9)])
    assert inbox.delivered == 9


def test_a_refusal_after_a_loss_is_not_followed_by_anything():
    inbox = made()
    inbox.interrupted()
    inbox.again()
    inbox.answer(Error(ID, ErrorCode.EPOCH_CHANGED, Subscribe.TYPE, "epoch", 0, "another one"))
    with pytest.raises(ProtocolError):
        inbox.put(batch(5))


# -- a topic that is shorter than it was ---------------------------------------------------------


@pytest.mark.parametrize("live", [5, 8])
def test_what_was_there_and_is_gone_is_not_waited_for(live):
    """Offsets that are given anew are other messages."""
    inbox = made()
    inbox.put(batch(5))
    inbox.interrupted()
    inbox.again()
    answer(inbox, subscribed(start=inbox.taken, live=live))
    with pytest.raises(zaichik.TopicShrunk, match=rf"t ends before offset {live}, and had .* 9 "):
        raise inbox.known_failure
    # They come in the same moment, before anybody has noticed.
    put_all(inbox, [batch(inbox.taken, 4), ended(9)])
    assert not inbox.events


@pytest.mark.parametrize(("live", "then"), [(100, 9), (100, 50), (8, 8), (5, 5)])
def test_what_was_still_to_come_may_be_waited_for(live, then):
    inbox = made(reply=subscribed(live=live))
    inbox.interrupted()
    asked = inbox.again()
    answer(inbox, subscribed(start=asked.value, live=then))
    assert inbox.known_failure is None


def test_an_end_that_was_told_before_must_still_be_there():
    check_end("t", 9, 9)
    check_end("t", 10, 9)
    with pytest.raises(zaichik.TopicShrunk, match=r"t ends before offset 8, .* \[TOPIC_SHRUNK\]$"):
        check_end("t", 8, 9)


# -- started over --------------------------------------------------------------------------------


def test_one_that_starts_over_has_nothing_and_knows_nothing():
    inbox = made()
    put_all(inbox, [batch(5, 4), ended(9)])
    inbox.taken = 7
    again = Subscribe(ID + 1, "t", until=UNTIL, epoch=EPOCH)
    inbox.start_over(again)
    assert (inbox.id, list(inbox.events), inbox.is_live) == (ID + 1, [], True)
    with pytest.raises(ProtocolError, match="before it was made"):
        inbox.put(batch(0))
    answer(inbox, Subscribed(ID + 1, EPOCH, 0, 100, 0))
    assert (inbox.taken, inbox.delivered, inbox.committed) == (0, 0, 0)
    put_all(inbox, [messages(0, *[b"x"] * 9, subscription=ID + 1)])
    assert inbox.delivered == 9


def test_one_that_starts_over_is_not_made_again_before_it_was_made():
    inbox = made()
    inbox.start_over(Subscribe(ID + 1, "t", epoch=EPOCH))
    inbox.interrupted()
    assert inbox.again() is None


def test_a_listener_is_called_for_each_event_and_at_the_end():
    called = []
    inbox = made()
    inbox.on_news = lambda: called.append(len(inbox.events))
    inbox.put(batch(START))
    inbox.close(lambda: zaichik.ConnectionLost("lost"))
    inbox.finish("over")
    assert called == [1, 1, 1]
