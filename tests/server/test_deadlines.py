"""Peers that take too long. The clock is a number; a check is a call."""

import pytest

from zaichik.core.settings import BrokerSettings
from zaichik.server.deadlines import Deadlines
from zaichik_protocol import ErrorCode

SECOND = 1_000_000
LIMITS = BrokerSettings(frame_timeout=10, frame_rate=1000, idle_timeout=90, write_timeout=10)


class Watched:
    """A connection as the deadlines see it; checked every second, as by a server."""

    def __init__(self, *, heartbeat=False):
        self.now = 7 * SECOND
        self.frames = self.buffered = self.sends = 0
        self.unacknowledged = None
        self.needed = 4
        self.heartbeat = heartbeat
        self.is_full, self.is_read = False, True
        self.deadlines = Deadlines(LIMITS, self.now)

    def check(self):
        self.deadlines.advance(self.now)
        if self.deadlines.is_stuck(self.sends, self.unacknowledged, is_full=self.is_full):
            return ErrorCode.SLOW_CONSUMER
        if not self.is_read:
            self.deadlines.excuse()
            return None
        refusal = self.deadlines.check(
            self.frames, self.buffered, self.needed, heartbeat=self.heartbeat
        )
        return None if refusal is None else refusal.code

    def seconds_until_disconnected(self, most=1000, each=lambda: None):
        for second in range(1, most + 1):
            self.now += SECOND
            each()
            if (code := self.check()) is not None:
                return second, code
        return None


@pytest.mark.parametrize(("needed", "seconds"), [(12, 11), (1000, 12), (90_000, 101)])
def test_a_frame_that_was_begun_must_end_in_time_for_its_size(needed, seconds):
    """TIM-2: ten seconds and what its bytes take at the slowest rate, from the last check before
    it.
    """
    client = Watched()
    client.frames, client.buffered, client.needed = 5, 3, needed

    def another_byte():
        client.buffered += 1

    found = client.seconds_until_disconnected(each=another_byte)
    assert found is not None
    assert found[1] is ErrorCode.FRAME_TIMEOUT
    assert seconds <= found[0] <= seconds + 2


def test_frames_that_end_give_the_next_one_its_own_time():
    """TIM-2: also if there is never a moment in which nothing is begun."""
    client = Watched()
    client.buffered = 3

    def one_more_frame():
        client.frames += client.now % (9 * SECOND) == 0

    assert client.seconds_until_disconnected(each=one_more_frame) is None


def test_silence_is_allowed_without_a_promised_heartbeat():
    """TIM-3."""
    assert Watched().seconds_until_disconnected() is None


def test_a_client_that_promised_a_heartbeat_must_not_be_silent():
    """TIM-3."""
    assert Watched(heartbeat=True).seconds_until_disconnected() == (91, ErrorCode.IDLE_TIMEOUT)


@pytest.mark.parametrize("what", ["frames", "buffered"])
def test_any_byte_is_a_heartbeat(what):
    """TIM-3."""
    client = Watched(heartbeat=True)
    client.needed = 10**9  # a very long frame

    def something():
        if client.now % (80 * SECOND) == 0:
            setattr(client, what, getattr(client, what) + 1)

    assert client.seconds_until_disconnected(each=something) is None


def test_time_in_which_the_broker_was_stalled_is_not_charged_to_clients():
    """It was stopped for a minute; what had come meanwhile is read between two checks."""
    client = Watched(heartbeat=True)
    client.now += 200 * SECOND
    assert client.check() is None
    client.frames += 1
    assert client.seconds_until_disconnected(80) is None


def test_a_frame_begun_before_a_stall_keeps_the_time_it_had_left():
    """Its buffers were full soon, and the client could not go on.

    90 s and ten are allowed, and four were used.
    """
    client = Watched()
    client.buffered, client.needed = 3, 90_000
    assert client.seconds_until_disconnected(4) is None
    client.now += 1000 * SECOND
    assert client.seconds_until_disconnected(90) is None
    assert client.seconds_until_disconnected(10) is not None


def test_time_in_which_nothing_is_read_counts_neither_for_a_frame_nor_for_a_heartbeat():
    """TIM-2, TIM-3, LAG-3: four seconds of ten, and of ninety, were used before."""
    for client, most in ((Watched(), 10), (Watched(heartbeat=True), 90)):
        client.buffered = 3 if most == 10 else 0
        client.check()
        assert client.seconds_until_disconnected(4) is None
        client.is_read = False
        assert client.seconds_until_disconnected(1000) is None
        client.is_read = True
        seconds, _ = client.seconds_until_disconnected()
        assert most - 4 <= seconds <= most - 4 + 2


def test_a_check_before_nothing_was_read_is_not_consecutive_to_one_after():
    """What came in between is read first."""
    client = Watched(heartbeat=True)
    assert client.seconds_until_disconnected(90) is None
    client.is_read = False
    assert client.seconds_until_disconnected(5) is None
    client.is_read = True
    assert client.seconds_until_disconnected(1) is None
    assert client.seconds_until_disconnected(1) == (1, ErrorCode.IDLE_TIMEOUT)


# -- a peer that does not read


def test_a_peer_that_reads_nothing_for_the_write_timeout_is_stuck():
    """LAG-3: at the earliest after ten seconds, at the latest a second later, whenever the socket
    filled.
    """
    client = Watched()
    assert client.seconds_until_disconnected(50) is None
    client.sends, client.is_full = 1, True  # since the last check
    assert client.seconds_until_disconnected() == (11, ErrorCode.SLOW_CONSUMER)


def test_a_socket_that_never_accepts_anything_has_the_whole_timeout():
    """LAG-3: it may have been full for a moment only when the first check comes, and has taken
    nothing since.
    """
    client = Watched()
    assert client.seconds_until_disconnected(50) is None
    client.is_full = True  # and has taken nothing
    assert client.seconds_until_disconnected() == (11, ErrorCode.SLOW_CONSUMER)


def test_any_byte_that_the_socket_accepts_is_progress():
    """LAG-3: a little, now and then, is enough."""
    client = Watched()
    client.is_full = True

    def a_little():
        client.sends += client.now % (9 * SECOND) == 0

    assert client.seconds_until_disconnected(each=a_little) is None


def test_a_full_socket_whose_peer_reads_a_little_is_not_stuck():
    """LAG-3: the system may accept nothing until much of what it holds is gone."""
    client = Watched()
    client.is_full, client.unacknowledged = True, 100_000

    def a_little():
        client.unacknowledged -= client.now % (9 * SECOND) == 0

    assert client.seconds_until_disconnected(each=a_little) is None


def test_a_full_socket_whose_peer_reads_no_more_is_stuck():
    """LAG-3: the timeout begins with the last byte that went."""
    client = Watched()
    client.is_full, client.unacknowledged = True, 100_000
    client.check()
    client.now += SECOND
    client.unacknowledged -= 1
    client.check()
    assert client.seconds_until_disconnected() == (10, ErrorCode.SLOW_CONSUMER)


def test_a_socket_that_was_empty_in_between_is_not_stuck():
    """LAG-3: there was nothing to send for a while."""
    client = Watched()

    def sometimes_full():
        client.is_full = client.now % (9 * SECOND) != 0

    assert client.seconds_until_disconnected(each=sometimes_full) is None


def test_a_stall_does_not_count_against_reading_either():
    """LAG-3: nobody was there to send."""
    client = Watched()
    client.is_full = True
    client.check()
    client.now += 1000 * SECOND
    assert client.check() is None
    seconds, code = client.seconds_until_disconnected()
    assert (seconds, code) == (8, ErrorCode.SLOW_CONSUMER)
