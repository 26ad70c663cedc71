"""Reading durable topics in the core: from the ring, and below it from the disk; what has expired,
and what is gone.
"""

import json
from itertools import pairwise

import pytest
from fake_log import Durably
from test_durable import codes, durably, payloads, state

from zaichik_protocol import (
    Commit,
    Committed,
    Delete,
    Describe,
    Disconnect,
    EndCode,
    ErrorCode,
    GoAwayCode,
    Kind,
    Lagged,
    Ping,
    Pong,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)

SECOND_MS = 1000
SOME = [b"%d" % index for index in range(10)]


@pytest.fixture
def client():
    """A topic of ten messages, of which two are in the ring."""
    client = durably(CAPACITY=2)
    client.filled(*SOME)
    return client


def expiring(*, capacity=2):
    """A topic of ten messages, accepted a second apart, which live for 8 s; two are in the ring."""
    client = durably(CAPACITY=capacity, RETENTION_TTL_MS=8 * SECOND_MS)
    for payload in SOME:
        client.filled(payload)
        client.pass_time(1)
    return client


def read_all(client):
    """Returns the frames received while the disk is read as often as a reader asks for it."""
    frames = client.heard()
    while client.log.read():
        frames += client.heard()
    return frames


# -- below the ring ------------------------------------------------------------------------------


def test_what_has_left_the_ring_is_read_from_the_disk_without_a_seam(client):
    """DUR-4: capacity loses nothing."""
    (subscribed,) = client.ask(Subscribe(3, "t", credit=100))
    assert (subscribed.start, subscribed.live) == (0, 10)
    (page,) = client.ask(Describe(9, Kind.SUBSCRIPTIONS, "t"))
    assert json.loads(page.json)["subscriptions"][0]["waiting_for"].startswith(
        "the disk: offset 0 is being read"
    )
    client.filled(b"10")
    assert payloads(read_all(client)) == [*SOME, b"10"]
    client.publish(0, b"11")
    client.log.sync()
    (echo,) = client.heard()
    assert (echo.base, client.log.reads) == (11, {}), "whoever keeps up never touches the disk"
    told = state(client)
    assert (told["head"], told["evicted"], told["expired"]) == (0, 0, 0)


def test_others_are_served_while_a_reader_waits_for_the_disk(client):
    client.ask(Subscribe(3, "t", credit=100))
    (subscribed, first, second) = client.ask(
        Subscribe(4, "t", start=Start.OFFSET, value=8, credit=100)
    )
    assert isinstance(subscribed, Subscribed)
    assert payloads([first, second]) == SOME[8:]
    assert client.ask(Ping(5, 0)) == [Pong(5, 0)]


def test_a_reader_begins_and_ends_inside_a_batch_on_the_disk():
    client = durably(CAPACITY=5)
    for first in (0, 5, 10):
        client.publish(0, *[b"%d" % (first + index) for index in range(5)])
    client.log.sync()
    client.ask(Subscribe(3, "t", start=Start.OFFSET, value=2, until=7, credit=100))
    *messages, ended = read_all(client)
    assert payloads(messages) == [b"2", b"3", b"4", b"5", b"6"]
    assert (ended.code, ended.next) == (EndCode.UNTIL, 7)


def test_credit_bounds_what_comes_from_the_disk(client):
    client.ask(Subscribe(3, "t", credit=3))
    assert payloads(read_all(client)) == SOME[:3]
    client.tell(Commit(4, 3, 2))
    committed, *messages = read_all(client)
    assert (committed, payloads(messages)) == (Committed(4, 2), SOME[3:5])


def test_a_reader_that_leaves_while_the_disk_is_read_hears_no_more(client):
    client.ask(Subscribe(3, "t", credit=100))
    ((wake, offset),) = client.log.reads.items()
    assert client.ask(Unsubscribe(4, 3)) == [Unsubscribed(4)]
    assert (offset, client.log.reads) == (0, {})
    wake()
    assert client.heard() == []


def test_files_that_go_while_they_are_read_are_lag_to_the_message(client):
    """DUR-4, LAG-1."""
    client.ask(Subscribe(3, "t", credit=1))
    assert payloads(read_all(client)) == [b"0"]
    client.log.remove_files(6)
    client.tell(Commit(4, 3, 1))
    _, *rest = read_all(client)
    assert rest[0] == Lagged(3, 1, 6)
    assert payloads(rest) == [b"6"]
    told = state(client)
    assert (told["head"], told["evicted"], told["resident"]) == (6, 6, 4)


def test_damage_ends_whoever_reaches_it_and_nobody_else(client):
    """DUR-7."""
    client.log.bad = {4}
    client.ask(
        Subscribe(3, "t", credit=100), Subscribe(4, "t", start=Start.OFFSET, value=5, credit=100)
    )
    frames = read_all(client)
    mine = [frame for frame in frames if frame.id == 3]
    assert payloads(mine) == SOME[:4]
    assert (mine[-1].code, mine[-1].next) == (EndCode.DAMAGED, 4)
    assert payloads(frame for frame in frames if frame.id == 4) == SOME[5:]
    client.publish(5, b"10")
    client.log.sync()
    assert payloads(client.heard()) == [b"10"]


# -- expiry --------------------------------------------------------------------------------------


def test_nothing_is_delivered_from_the_disk_after_it_has_expired():
    """RET-1: to the microsecond, although files go in one piece, and later."""
    client = expiring()  # it is second 10: message 2 expires now
    client.ask(Subscribe(3, "t", start=Start.OFFSET, value=0, credit=100))
    frames = read_all(client)
    lags = [frame for frame in frames if isinstance(frame, Lagged)]
    assert (lags[0].from_offset, lags[-1].to_offset) == (0, 3)
    assert all(one.to_offset == after.from_offset for one, after in pairwise(lags))
    assert payloads(frames) == SOME[3:]
    told = state(client)
    assert (told["head"], told["expired"], told["evicted"]) == (3, 3, 0)


def test_what_expires_while_it_is_read_is_lag():
    client = expiring()
    client.ask(Subscribe(3, "t", start=Start.OFFSET, value=3, credit=100))
    client.pass_time(1)
    frames = read_all(client)
    assert frames[0] == Lagged(3, 3, 4)
    assert payloads(frames) == SOME[4:]


@pytest.mark.parametrize("later", [0, 3, 6, 7, 8, 100])
def test_a_sweep_removes_files_that_have_expired(later):
    client = expiring()
    client.pass_time(later)
    client.broker.sweep()
    told = state(client)
    gone = min(3 + later, 10)
    assert gone - client.log.files <= told["head"] <= gone
    assert (told["expired"], told["evicted"]) == (told["head"], 0)
    assert client.log.head <= told["head"]
    client.tell(Subscribe(3, "t", start=Start.OFFSET, value=0, credit=100))
    assert payloads(read_all(client)) == SOME[gone:]
    assert state(client)["head"] == gone


def test_a_sweep_expires_nothing_that_still_waits():
    """A slow disk, and a short retention: what waits comes late, and the head is never beyond the
    end.
    """
    client = durably(RETENTION_TTL_MS=SECOND_MS)
    client.publish(10, b"a")
    client.publish(11, b"b")
    client.log.expired_until = lambda time_us: 1
    client.pass_time(5)
    client.broker.sweep()
    assert (client.topic.head, client.topic.end) == (0, 0)
    (subscribed,) = client.ask(Subscribe(3, "t", credit=10))
    assert subscribed.start == 0
    client.log.sync()
    assert payloads(client.heard()) == []
    assert state(client)["expired"] == 2


# -- where a subscription begins -----------------------------------------------------------------


def test_a_start_that_must_be_looked_up_is_answered_in_its_place():
    """DUR-2."""
    client = expiring()
    assert client.ask(Subscribe(3, "t", credit=100), Ping(4, 0)) == []
    client.log.look()
    subscribed, pong, *rest = read_all(client)
    assert (subscribed.start, subscribed.live, pong) == (3, 10, Pong(4, 0))
    assert payloads(rest) == SOME[3:]


@pytest.mark.parametrize(("second", "start"), [(-1, 3), (2, 3), (3, 3), (3.5, 4), (7, 7), (7.5, 8)])
def test_a_time_below_the_ring_is_looked_up(second, start):
    """RET-4: never at a message that has expired."""
    client = expiring()
    value = max(1000 + int(second * 1_000_000), 0)
    client.tell(Subscribe(3, "t", start=Start.TIME, value=value, credit=100))
    client.log.look()
    subscribed, *rest = read_all(client)
    assert subscribed.start == start
    assert payloads(rest) == SOME[start:]
    assert not [frame for frame in rest if isinstance(frame, Lagged)]


@pytest.mark.parametrize(("second", "start"), [(8.5, 9), (9, 9), (99, 10)])
def test_a_time_in_the_ring_is_not_looked_up(second, start):
    client = expiring()
    value = 1000 + int(second * 1_000_000)
    subscribed, *_ = client.ask(Subscribe(3, "t", start=Start.TIME, value=value, credit=100))
    assert subscribed.start == start


def test_a_start_is_never_at_what_has_gone_while_it_was_looked_up(client):
    client.tell(Subscribe(3, "t", start=Start.TIME, value=0, credit=100))
    ((_, found),) = client.log.looks
    client.log.remove_files(4)
    found(0)
    subscribed, *rest = read_all(client)
    assert subscribed.start == 4
    assert payloads(rest) == SOME[4:]


@pytest.mark.parametrize("start", [Start.EARLIEST, Start.TIME])
def test_a_start_is_never_at_what_is_being_removed(client, start):
    """RET-9: it was decided that no reader needs that."""
    client.log.head = 4
    client.tell(Subscribe(3, "t", start=start, value=0, credit=100))
    client.log.look()
    subscribed, *rest = read_all(client)
    assert subscribed.start == 4
    client.log.remove_files(4)
    assert payloads(rest) == SOME[4:]


def test_requests_for_a_subscription_that_has_not_begun_wait_for_it():
    """DUR-2."""
    client = expiring()
    client.tell(Subscribe(3, "t", credit=100), Commit(4, 3, 3), Unsubscribe(5, 3))
    client.log.look()
    subscribed, *rest = client.heard()
    assert isinstance(subscribed, Subscribed)
    assert rest == [Committed(4, 3), Unsubscribed(5)]


def test_the_ids_of_subscriptions_grow_although_one_begins_late():
    """SUB-1: the later one has begun already."""
    client = expiring()
    client.tell(Subscribe(3, "t", credit=1), Subscribe(4, "other", credit=1))
    client.log.look()
    assert [frame.id for frame in client.heard() if isinstance(frame, Subscribed)] == [3, 4]
    (error,) = client.ask(Subscribe(4, "other", credit=1))[-1:]
    assert (error.code, error.field) == (ErrorCode.INVALID_FIELD, "id")
    assert sorted(client.manager.readers) == [3, 4]


def test_subscriptions_that_have_not_begun_count():
    """LAG-6: however many are sent at once, there are no more than may be."""
    client = expiring()
    object.__setattr__(client.broker.settings, "max_subscriptions", 2)
    client.tell(*[Subscribe(3 + index, "t", credit=1) for index in range(4)])
    replies = []
    while client.log.looks:
        client.log.look()
        replies += client.heard()
    assert [frame.id for frame in replies if isinstance(frame, Subscribed)] == [3, 4]
    assert codes(replies) == [
        (5, ErrorCode.TOO_MANY_SUBSCRIPTIONS),
        (6, ErrorCode.TOO_MANY_SUBSCRIPTIONS),
    ]


def test_two_that_begin_late_under_one_name_take_turns():
    client = expiring()
    other = Durably(client.broker)
    for each in (client, other):
        each.tell(Subscribe(3, "t", name="n", credit=1))
    client.log.look()
    subscribed, ended = client.heard()
    assert (subscribed.resumed, ended.code) == (False, EndCode.TAKEN_OVER)
    (resumed, *_) = other.heard()
    assert (resumed.resumed, resumed.start) == (True, 3)


@pytest.mark.parametrize("gone", ["closed", "deleted"])
def test_a_subscription_does_not_begin_where_there_is_nothing_any_more(client, gone):
    log = client.log
    client.tell(Subscribe(3, "t", start=Start.TIME, value=0, credit=1))
    if gone == "closed":
        Durably(client.broker).ask(Disconnect(1, client.manager.number))
        assert client.heard() == []
        log.look()
        error, goodbye = client.heard()
        assert (error.code, goodbye.code) == (
            ErrorCode.NO_SUCH_SUBSCRIPTION,
            GoAwayCode.DISCONNECTED,
        )
        assert client.manager.is_finished
    else:
        Durably(client.broker).tell(Delete(5, "t"))
        log.look()
        assert codes(client.heard()) == [(3, ErrorCode.EPOCH_CHANGED)]
    assert client.manager.readers == {}
    assert list(client.broker.readers.after("", "")) == []


def test_a_start_at_the_latest_or_at_an_offset_needs_no_look(client):
    client.publish(0, b"waits")
    (subscribed,) = client.ask(Subscribe(3, "t", start=Start.LATEST))
    assert subscribed.start == 10
    assert codes(client.ask(Subscribe(4, "t", start=Start.OFFSET, value=11))) == [
        (4, ErrorCode.OFFSET_AHEAD)
    ]


# -- the end -------------------------------------------------------------------------------------


def test_a_stop_waits_for_what_is_being_read(client):
    """CLO-2: every reader that has credit gets what was published."""
    client.ask(Subscribe(3, "t", credit=100))
    client.manager.stop()
    assert client.heard() == []
    frames = read_all(client)
    assert payloads(frames) == SOME
    assert (frames[-1].code, client.manager.is_finished) == (GoAwayCode.STOPPING, True)


DAMAGE = "damaged at position 5000"


def ended_by_damage(subscription):
    """The end of a subscription that has read all ten messages of a log with that damage."""
    return SubscriptionEnded(subscription, EndCode.DAMAGED, 10, DAMAGE)


def test_a_reader_that_begins_at_the_end_of_a_damaged_log_is_told(client):
    """DUR-7: what comes next is not known, and nothing is published any more."""
    client.log.damage = DAMAGE
    subscribed, ended = client.ask(Subscribe(3, "t", start=Start.LATEST))
    assert isinstance(subscribed, Subscribed)
    assert ended == ended_by_damage(3)


@pytest.mark.parametrize("first", [0, 8], ids=["from the disk", "from the ring"])
def test_a_reader_that_reaches_the_end_of_a_damaged_log_is_told(client, first):
    """DUR-7: after the last message, although it has credit for more and commits nothing."""
    client.log.damage = DAMAGE
    client.tell(Subscribe(3, "t", start=Start.OFFSET, value=first, credit=100))
    _, *messages, ended = read_all(client)
    assert payloads(messages) == SOME[first:]
    assert ended == ended_by_damage(3)
    assert client.heard() == []


def test_a_reader_without_credit_is_told_of_the_damage_when_it_has_some(client):
    """DUR-7: as of anything else that comes after its last message."""
    client.log.damage = DAMAGE
    client.tell(Subscribe(3, "t", start=Start.OFFSET, value=8, credit=2))
    _, *messages = read_all(client)
    assert payloads(messages) == SOME[8:]
    assert client.ask(Commit(4, 3, 10)) == [Committed(4, 10), ended_by_damage(3)]


def test_readers_that_have_everything_are_told_when_the_log_is_damaged(client):
    """DUR-7: no message will ever wake them. One that is behind has what is there first."""
    others = Durably(client.broker)
    client.ask(Subscribe(3, "t", start=Start.OFFSET, value=8, credit=100))
    client.ask(Subscribe(4, "t", start=Start.LATEST, until=11))
    others.ask(Subscribe(3, "t", start=Start.LATEST))
    others.ask(Subscribe(4, "t", start=Start.OFFSET, value=8, credit=1))
    client.publish(5, b"10")
    client.log.fail(DAMAGE)
    refused, *ends = client.heard()
    assert codes([refused]) == [(5, ErrorCode.DAMAGED)]
    assert ends == [ended_by_damage(3), ended_by_damage(4)]
    assert others.heard() == [ended_by_damage(3)]
    _, *messages = others.ask(Commit(5, 4, 9))
    assert payloads(messages) == [b"9"]
    assert others.ask(Commit(6, 4, 10)) == [Committed(6, 10), ended_by_damage(4)]
    assert not client.topic.readers


def test_a_start_that_was_looked_up_is_not_beyond_what_is_readable(client):
    """A thread may have seen what was synced before the topic has."""
    client.tell(Subscribe(3, "t", start=Start.TIME, value=0, credit=1))
    (_, found), client.log.looks[:] = client.log.looks[0], []
    found(99)
    (subscribed,) = [frame for frame in client.heard() if isinstance(frame, Subscribed)]
    assert subscribed.start == 10
