"""One reader's place: credit, lag, pieces, the end."""

from itertools import pairwise

import pytest
from conversation import batch
from hypothesis import given
from hypothesis import strategies as st

import zaichik_protocol.batch
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.reader import TRACKED_FRAMES, Reader
from zaichik.core.settings import TopicSettings
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import (
    FOREVER,
    EndCode,
    ErrorCode,
    Lagged,
    Messages,
    Refused,
    Subscribe,
    SubscriptionEnded,
)


class Reading:
    """A topic and a subscription to it; `wakes` counts how often it asked for a turn."""

    def __init__(self, *, start=0, settings=None, **request):
        self.topic = TopicController("t", TopicSettings(**(settings or {})), 1, explicit=True)
        self.wakes = 0
        request = Subscribe(7, "t", **request)
        self.subscription = Reader(
            request, self.topic, ExclusivePosition(start), self._ready, "a test", 1
        )
        self.subscription.join()

    def _ready(self, subscription):
        assert subscription is self.subscription
        self.wakes += 1

    def publish(self, *payloads, at=0):
        self.topic.publish(batch(*payloads), at)

    def take(self, at=0):
        return self.subscription.take(at)

    def offsets(self, at=0):
        """What comes until nothing more does: (first, count) of messages, "lag", "end"."""
        seen = []
        while (frame := self.take(at)) is not None:
            match frame:
                case Messages():
                    seen.append((frame.base, frame.batch.count))
                case Lagged():
                    seen.append(f"lag {frame.from_offset} to {frame.to_offset}")
                case SubscriptionEnded():
                    seen.append(f"end {frame.next}")
        return seen


# -- delivery and credit -------------------------------------------------------------------------


def test_a_whole_batch_is_delivered_as_the_bytes_that_were_stored():
    reading = Reading(credit=10)
    stored = batch(b"a", b"b")
    reading.topic.publish(stored, 5)
    frame = reading.take()
    assert frame == Messages(7, 0, 5, stored)
    assert frame.batch.data is stored.data
    assert reading.take() is None


def test_messages_of_two_batches_never_share_a_frame():
    reading = Reading(credit=10)
    reading.publish(b"a", b"b", at=1)
    reading.publish(b"c", at=1)
    assert reading.offsets() == [(0, 2), (2, 1)]


@pytest.mark.parametrize(("credit", "first"), [(1, (0, 1)), (2, (0, 2)), (3, (0, 3)), (4, (0, 3))])
def test_credit_cuts_a_batch_into_pieces(credit, first):
    """CMT-1."""
    reading = Reading(credit=credit)
    reading.publish(b"0", b"1", b"2")
    assert reading.offsets() == [first]
    assert reading.subscription.in_flight == first[1]


def test_a_piece_has_the_offsets_and_payloads_of_its_messages():
    reading = Reading(credit=2)
    reading.publish(b"0", b"1", b"2", at=9)
    assert reading.take() == Messages(7, 0, 9, batch(b"0", b"1"))
    assert reading.take() is None
    assert reading.subscription.commit(1) == 1
    assert reading.take() == Messages(7, 2, 9, batch(b"2"))


@pytest.mark.parametrize(("credit_bytes", "count"), [(19, 1), (20, 2), (21, 2), (29, 2), (30, 3)])
def test_bytes_cut_a_batch_into_pieces(credit_bytes, count):
    """CMT-1: one below, at, and above what two messages have."""
    reading = Reading(credit=10, credit_bytes=credit_bytes)
    reading.publish(*[b"p" * 10] * 3)
    assert reading.offsets() == [(0, count)]
    assert reading.subscription.in_flight_bytes == 10 * count


def test_one_message_of_any_size_is_allowed_while_nothing_is_in_flight():
    """CMT-1."""
    reading = Reading(credit=10, credit_bytes=1)
    reading.publish(b"p" * 1000, b"q")
    assert reading.offsets() == [(0, 1)]
    reading.subscription.commit(1)
    assert reading.offsets() == [(1, 1)]


def test_a_message_that_does_not_fit_waits_for_a_commit():
    """CMT-1: there is credit, but not enough of it."""
    reading = Reading(credit=10, credit_bytes=10)
    reading.publish(b"pppp")
    reading.publish(b"q" * 7)
    assert reading.offsets() == [(0, 1)]
    assert reading.subscription.has_credit
    reading.subscription.commit(1)
    assert reading.wakes == 1
    assert reading.offsets() == [(1, 1)]


def test_messages_without_bytes_need_byte_credit_too():
    """CMT-1: delivery needs both."""
    reading = Reading(credit=10, credit_bytes=4)
    reading.publish(b"pppp")
    reading.publish(b"")
    assert reading.offsets() == [(0, 1)]


def test_bytes_are_in_flight_until_the_last_message_of_their_frame_is_settled():
    """CMT-1."""
    reading = Reading(credit=3, credit_bytes=30)
    reading.publish(*[b"p" * 10] * 3)
    assert reading.offsets() == [(0, 3)]
    for settled, in_flight, in_flight_bytes in ((1, 2, 30), (2, 1, 30), (3, 0, 0)):
        reading.subscription.commit(settled)
        assert (reading.subscription.in_flight, reading.subscription.in_flight_bytes) == (
            in_flight,
            in_flight_bytes,
        )


class Decoding:
    """Counts the integers that are decoded out of batches."""

    def __init__(self, monkeypatch):
        self.integers = 0
        for name in ("_COUNT", "_OFFSET"):
            monkeypatch.setattr(
                zaichik_protocol.batch, name, Counted(self, getattr(zaichik_protocol.batch, name))
            )
        unpack_from = zaichik_protocol.batch.unpack_from
        monkeypatch.setattr(
            zaichik_protocol.batch, "unpack_from", lambda *where: self.count(unpack_from(*where))
        )

    def count(self, integers):
        self.integers += len(integers)
        return integers


class Counted:
    def __init__(self, decoding, struct):
        self.size, self.pack = struct.size, struct.pack
        self.unpack_from = lambda *where: decoding.count(struct.unpack_from(*where))


@pytest.mark.parametrize("count", [64, 8192])
def test_a_small_byte_credit_costs_the_same_for_a_piece_of_a_small_batch_and_of_a_large_one(
    monkeypatch, count
):
    """P5, CMT-1: or each reader could make the broker work for as many messages as there are in the
    batch.
    """
    reading = Reading(credit=100_000, credit_bytes=30)
    reading.publish(*[b"p" * 10] * count)
    decoding = Decoding(monkeypatch)
    for first in range(0, 60, 3):
        assert reading.offsets() == [(first, 3)]
        reading.subscription.commit(first + 3)
    assert decoding.integers / 20 <= 40


# -- many frames in flight -----------------------------------------------------------------------


def frames(reading):
    """(first, end, messages, bytes) of what is remembered of those in flight."""
    return [tuple(frame[:4]) for frame in reading.subscription._frames]


def test_neighbours_among_many_frames_in_flight_are_joined():
    """CMT-1: what is remembered does not grow with what is in flight, and every message and byte is
    counted.
    """
    reading = Reading(credit=100_000)
    for _ in range(5_000):
        reading.publish(b"pp")
        reading.offsets()
        assert len(frames(reading)) <= TRACKED_FRAMES
    assert (reading.subscription.in_flight, reading.subscription.in_flight_bytes) == (5_000, 10_000)
    assert all(one[1] == other[0] for one, other in pairwise(frames(reading)))


def test_the_bytes_of_joined_frames_are_settled_with_the_last_of_them():
    """CMT-1: never early, or more would be in flight than the client allows."""
    assert TRACKED_FRAMES == 16, "CMT-1"
    reading = Reading(credit=100_000)
    for _ in range(TRACKED_FRAMES + 1):
        reading.publish(b"pp")
    reading.offsets()
    subscription, total = reading.subscription, 2 * (TRACKED_FRAMES + 1)
    assert frames(reading)[0] == (0, 2, 2, 4)
    subscription.commit(1)
    assert (subscription.in_flight, subscription.in_flight_bytes) == (TRACKED_FRAMES, total)
    subscription.commit(2)
    assert (subscription.in_flight, subscription.in_flight_bytes) == (TRACKED_FRAMES - 1, total - 4)


def test_the_bytes_of_16_frames_are_settled_with_each_of_them():
    """CMT-1: as many are not joined."""
    reading = Reading(credit=100_000)
    for _ in range(16):
        reading.publish(b"pp")
    reading.offsets()
    reading.subscription.commit(1)
    assert (reading.subscription.in_flight, reading.subscription.in_flight_bytes) == (15, 30)


def test_frames_are_joined_over_a_gap_only_if_there_is_no_other_way():
    """CMT-1: skipped offsets are not in flight. What is joined over them is settled as a whole."""
    reading = Reading(credit=100_000, settings={"capacity": 1})
    for _ in range(TRACKED_FRAMES):
        reading.publish(b"x")
        reading.publish(b"x")
        reading.offsets()
    assert reading.subscription.in_flight == len(frames(reading)) == TRACKED_FRAMES
    reading.publish(b"x")
    reading.publish(b"x")
    reading.offsets()
    assert frames(reading)[0] == (1, 4, 2, 2)
    subscription = reading.subscription
    subscription.commit(3)
    assert (subscription.in_flight, subscription.in_flight_bytes) == (
        TRACKED_FRAMES + 1,
        TRACKED_FRAMES + 1,
    )
    subscription.commit(4)
    assert (subscription.in_flight, subscription.in_flight_bytes) == (
        TRACKED_FRAMES - 1,
        TRACKED_FRAMES - 1,
    )


def test_where_neighbours_can_be_joined_a_gap_stays_a_gap():
    """CMT-1: what is before the gap is settled by itself."""
    reading = Reading(credit=100_000, settings={"capacity": 2})
    reading.publish(b"a")
    reading.offsets()
    reading.publish(b"-")
    reading.publish(b"b")
    reading.publish(b"c")
    assert reading.offsets() == ["lag 1 to 2", (2, 1), (3, 1)]
    for _ in range(TRACKED_FRAMES - 2):
        reading.publish(b"d")
        reading.offsets()
    assert frames(reading)[:2] == [(0, 1, 1, 1), (2, 4, 2, 2)]
    before = reading.subscription.in_flight
    reading.subscription.commit(1)
    assert reading.subscription.in_flight == before - 1


def test_lag_between_all_frames_keeps_nothing_that_credit_allows():
    """CMT-1, P6: a reader that does not commit is still sent all that it has credit for."""
    reading = Reading(credit=400, settings={"capacity": 1})
    for _ in range(400):
        reading.publish(b"x")
        reading.publish(b"x")
        reading.offsets()
        assert len(frames(reading)) <= TRACKED_FRAMES
    assert reading.subscription.delivered == reading.subscription.in_flight == 400


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0, 0, 0, 0, 1, 7, 50])),
        min_size=100,
        max_size=400,
    )
)
def test_whatever_a_client_does_no_bytes_are_settled_early(steps):
    """CMT-1: beside frames that are all kept apart, with lag and commits in between."""
    reading = Reading(credit=100_000, settings={"capacity": 3})
    subscription, delivered = reading.subscription, []
    for publishes, size, back in steps:
        for _ in range(publishes):
            reading.publish(b"x" * size)
        while (frame := reading.take()) is not None:
            if isinstance(frame, Messages):
                delivered.append((frame.base, frame.base + frame.batch.count, frame.batch.size))
        if back:
            subscription.commit(max(subscription.cursor - back, 0))
        committed = subscription.committed
        delivered = [frame for frame in delivered if frame[1] > committed]
        in_flight = sum(end - max(first, committed) for first, end, _ in delivered)
        assert subscription.in_flight >= in_flight
        assert subscription.in_flight_bytes >= sum(size for *_, size in delivered)
        assert len(frames(reading)) <= TRACKED_FRAMES
    subscription.commit(subscription.cursor)
    assert (subscription.in_flight, subscription.in_flight_bytes) == (0, 0)


# -- commit --------------------------------------------------------------------------------------


def test_a_commit_settles_everything_below():
    """CMT-2."""
    reading = Reading(credit=10)
    reading.publish(b"", b"")
    reading.publish(b"", b"", b"")
    assert reading.offsets() == [(0, 2), (2, 3)]
    assert reading.subscription.commit(3) == 3
    assert reading.subscription.in_flight == 2


def test_a_commit_of_settled_messages_changes_nothing():
    """CMT-2."""
    reading = Reading(credit=2)
    reading.publish(*[b""] * 9)
    assert reading.offsets() == [(0, 2)]
    assert reading.subscription.commit(2) == 2
    for again in (2, 1, 0):
        assert reading.subscription.commit(again) == 2
    assert reading.offsets() == [(2, 2)]


def test_a_commit_with_nothing_outstanding_grants_nothing():
    """CMT-2: in the original it granted a message."""
    reading = Reading(credit=1)
    for _ in range(5):
        assert reading.subscription.commit(0) == 0
    reading.publish(*[b""] * 9)
    assert reading.offsets() == [(0, 1)]
    for _ in range(5):
        reading.subscription.commit(0)
        assert reading.offsets() == []


@pytest.mark.parametrize(
    ("next_offset", "accepted"), [(1, True), (2, True), (3, False), (FOREVER, False)]
)
def test_a_commit_may_reach_the_cursor_and_not_beyond(next_offset, accepted):
    """CMT-2."""
    reading = Reading(credit=2)
    reading.publish(*[b""] * 5)
    reading.offsets()
    if accepted:
        assert reading.subscription.commit(next_offset) == next_offset
    else:
        with pytest.raises(Refused, match="the next to be delivered is 2") as error:
            reading.subscription.commit(next_offset)
        assert (error.value.code, error.value.field) == (ErrorCode.NOT_IN_FLIGHT, "next")
        assert (reading.subscription.committed, reading.subscription.in_flight) == (0, 2)


def test_a_commit_settles_gaps():
    """CMT-2: skipped offsets are settled with those around them, and never count as in flight
    (CMT-1).
    """
    reading = Reading(credit=2, settings={"capacity": 2})
    reading.publish(b"0")
    assert reading.offsets() == [(0, 1)]
    for payload in (b"1", b"2", b"3", b"4"):
        reading.publish(payload)
    assert reading.offsets() == ["lag 1 to 3", (3, 1)]
    assert reading.subscription.in_flight == 2
    assert reading.subscription.commit(2) == 2
    assert reading.subscription.in_flight == 1
    assert reading.offsets() == [(4, 1)]


# -- lag -----------------------------------------------------------------------------------------


def test_lag_is_reported_even_if_nothing_follows():
    """LAG-1, RET-5: in the original, a reader that lagged into silence got no report."""
    reading = Reading(settings={"retention_ttl_ms": 1})
    reading.publish(b"", b"", at=0)
    assert reading.take(1_000) == Lagged(7, 0, 2)
    assert reading.take(1_000) is None
    reading.publish(b"", at=1_000)
    assert reading.wakes == 1
    assert reading.take(1_000).base == 2


def test_lag_uses_no_credit():
    """LAG-1."""
    reading = Reading(credit=1, settings={"capacity": 1})
    reading.publish(b"")
    reading.publish(b"")
    assert reading.offsets() == ["lag 0 to 1", (1, 1)]


def test_a_reader_without_credit_gets_its_lag_report_after_a_commit():
    """LAG-1: all of it at once, and exactly."""
    reading = Reading(credit=1, settings={"capacity": 1})
    reading.publish(b"0")
    assert reading.offsets() == [(0, 1)]
    for _ in range(5):
        reading.publish(b"x")
        assert reading.take() is None
    assert reading.wakes == 0
    reading.subscription.commit(1)
    assert reading.wakes == 1
    assert reading.offsets() == ["lag 1 to 5", (5, 1)]
    assert (reading.subscription.delivered, reading.subscription.skipped) == (2, 4)


def test_a_reader_resumes_at_a_head_inside_a_batch():
    """LAG-1, RET-6: nothing below the head is delivered, nothing above it twice."""
    reading = Reading(credit=10, settings={"capacity": 4})
    reading.publish(b"0", b"1", b"2")
    reading.publish(b"3", b"4", b"5")
    assert reading.take() == Lagged(7, 0, 2)
    assert reading.take() == Messages(7, 2, 0, batch(b"2"))
    assert reading.take() == Messages(7, 3, 0, batch(b"3", b"4", b"5"))


def test_a_message_expires_at_its_readers_turn():
    """RET-5: delivered a microsecond before its end, skipped at it."""
    for now, seen in ((999, [(0, 1)]), (1_000, ["lag 0 to 1"])):
        reading = Reading(settings={"retention_ttl_ms": 1})
        reading.publish(b"", at=0)
        assert reading.offsets(now) == seen


def test_a_start_below_the_head_is_lag():
    """RET-4."""
    reading = Reading(credit=9, settings={"capacity": 1})
    reading.publish(b"")
    reading.publish(b"")
    assert reading.subscription.start == 0
    assert reading.offsets() == ["lag 0 to 1", (1, 1)]


def test_the_lag_of_one_reader_does_not_affect_another():
    """LAG-2."""
    quick = Reading(credit=100, settings={"capacity": 1})
    slow = Reader(Subscribe(8, "t"), quick.topic, ExclusivePosition(0), lambda _: None, "a test", 1)
    slow.join()
    for number in range(5):
        quick.publish(b"")
        assert quick.offsets() == [(number, 1)]
    assert slow.take(0) == Lagged(8, 0, 4)


# -- until ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "seen"),
    [(0, ["end 0"]), (1, [(0, 1), "end 1"]), (2, [(0, 2), "end 2"]), (3, [(0, 2)])],
)
def test_until_is_exclusive(until, seen):
    """RET-4."""
    reading = Reading(credit=10, until=until)
    reading.publish(b"", b"")
    assert reading.offsets() == seen


def test_the_end_needs_no_credit_and_comes_once():
    """RET-4: commits are accepted after it, and bring nothing."""
    reading = Reading(credit=1, until=1)
    reading.publish(b"", b"")
    assert reading.take().base == 0
    assert reading.take() == SubscriptionEnded(7, EndCode.UNTIL, 1, "it reached offset 1")
    assert reading.take() is None
    assert not reading.topic.readers
    assert reading.subscription.commit(1) == 1
    reading.publish(b"")
    assert reading.offsets() == []


def test_until_can_be_reached_by_lag_which_does_not_go_beyond_it():
    """RET-4."""
    reading = Reading(until=3, settings={"capacity": 1})
    for _ in range(6):
        reading.publish(b"")
    assert reading.offsets() == ["lag 0 to 3", "end 3"]
    assert reading.subscription.ahead == 3


def test_an_until_below_the_start_ends_at_once_where_the_reader_stands():
    """RET-4."""
    reading = Reading(start=2, until=1)
    reading.publish(b"", b"", b"")
    assert reading.offsets() == ["end 2"]


# -- waiting -------------------------------------------------------------------------------------


def test_a_reader_that_is_caught_up_is_woken_by_the_next_message():
    """PUB-1."""
    reading = Reading(credit=9)
    assert reading.take() is None
    reading.publish(b"")
    assert reading.wakes == 1
    reading.publish(b"")
    assert reading.wakes == 1  # it has its turn already
    assert reading.offsets() == [(0, 1), (1, 1)]


def test_a_reader_without_credit_is_not_woken_by_messages():
    """CMT-1: it costs a publisher nothing."""
    reading = Reading(credit=1)
    reading.publish(b"")
    assert reading.offsets() == [(0, 1)]
    reading.publish(b"")
    assert reading.wakes == 0


def test_asking_for_a_turn_twice_is_asking_once():
    reading = Reading()
    reading.subscription.make_ready()
    reading.subscription.make_ready()
    assert reading.wakes == 1
    assert reading.take() is None
    reading.subscription.make_ready()
    assert reading.wakes == 2


def test_nothing_is_lost_in_silence():
    """P2: offsets since its start = delivered + skipped + ahead."""
    reading = Reading(credit=3, settings={"capacity": 4, "retention_ttl_ms": 1})
    subscription = reading.subscription
    for now in range(0, 50_000, 300):
        reading.publish(*[b""] * (1 + now % 4), at=now)
        if now % 7 == 0:
            reading.take(now)
        if now % 5 == 0:
            subscription.commit(subscription.cursor)
        since_start = reading.topic.retained.ring.next_offset - subscription.start
        assert since_start == subscription.delivered + subscription.skipped + subscription.ahead
