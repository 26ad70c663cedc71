"""Who takes too long. The clock is a number; a look is a call."""

import pytest

from zaichik.broker.deadlines import Deadlines
from zaichik.broker.settings import BrokerSettings
from zaichik_protocol import ErrorCode

SECOND = 1_000_000
LIMITS = BrokerSettings(handshake_timeout=5, frame_timeout=10, frame_rate=1000, idle_timeout=90)


class Watched:
    """A connection as the deadlines see it; looked at every second, as a server does."""

    def __init__(self, *, greeted=True, heartbeat=False):
        self.now = 7 * SECOND
        self.frames = self.buffered = 0
        self.needed = 4
        self.greeted, self.heartbeat = greeted, heartbeat
        self.deadlines = Deadlines(LIMITS, self.now)

    def look(self):
        refusal = self.deadlines.look(
            self.now, self.frames, self.buffered, self.needed, greeted=self.greeted, heartbeat=self.heartbeat
        )
        return None if refusal is None else refusal.code

    def seconds_until_cut_off(self, most=1000, each=lambda: None):
        for second in range(1, most + 1):
            self.now += SECOND
            each()
            if (code := self.look()) is not None:
                return second, code
        return None


def test_a_client_that_never_says_hello_is_cut_off():
    """TIM-1: overdue after five seconds, and still so at the next look."""
    assert Watched(greeted=False).seconds_until_cut_off() == (6, ErrorCode.HANDSHAKE_TIMEOUT)


def test_bytes_of_a_hello_do_not_give_it_more_time():
    """TIM-1."""
    client = Watched(greeted=False)

    def another_byte():
        client.buffered += 1

    assert client.seconds_until_cut_off(each=another_byte) == (6, ErrorCode.HANDSHAKE_TIMEOUT)


def test_a_hello_in_time_ends_that_deadline():
    client = Watched(greeted=False)
    assert client.seconds_until_cut_off(4) is None
    client.greeted, client.frames = True, 1
    assert client.seconds_until_cut_off() is None


@pytest.mark.parametrize(("needed", "seconds"), [(12, 11), (1000, 12), (90_000, 101)])
def test_a_frame_that_was_begun_must_end_in_time_for_its_size(needed, seconds):
    """TIM-2: ten seconds and what its bytes take at the slowest rate, from the last look before it."""
    client = Watched()
    client.frames, client.buffered, client.needed = 5, 3, needed

    def another_byte():
        client.buffered += 1

    found = client.seconds_until_cut_off(each=another_byte)
    assert found is not None
    assert found[1] is ErrorCode.FRAME_TIMEOUT
    assert seconds <= found[0] <= seconds + 2


def test_frames_that_end_give_the_next_one_its_own_time():
    """TIM-2: also if there is never a moment in which nothing is begun."""
    client = Watched()
    client.buffered = 3

    def one_more_frame():
        client.frames += client.now % (9 * SECOND) == 0

    assert client.seconds_until_cut_off(each=one_more_frame) is None


def test_silence_is_no_reason_without_a_promise():
    """TIM-3."""
    assert Watched().seconds_until_cut_off() is None


def test_a_client_that_promised_a_heartbeat_must_not_be_silent():
    """TIM-3."""
    assert Watched(heartbeat=True).seconds_until_cut_off() == (91, ErrorCode.IDLE_TIMEOUT)


@pytest.mark.parametrize("what", ["frames", "buffered"])
def test_any_byte_is_a_heartbeat(what):
    """TIM-3."""
    client = Watched(heartbeat=True)
    client.needed = 10**9  # a very long frame

    def something():
        if client.now % (80 * SECOND) == 0:
            setattr(client, what, getattr(client, what) + 1)

    assert client.seconds_until_cut_off(each=something) is None


def test_time_in_which_the_broker_stood_still_is_not_the_clients():
    """It was stopped for a minute; what had come meanwhile is read between two looks."""
    client = Watched(heartbeat=True)
    client.now += 200 * SECOND
    assert client.look() is None
    client.frames += 1
    assert client.seconds_until_cut_off(80) is None


def test_a_frame_that_was_begun_before_the_broker_stood_still_has_the_time_it_had_then():
    """Its buffers were full soon, and the client could not go on. 90 s and ten are allowed, and four were used."""
    client = Watched()
    client.buffered, client.needed = 3, 90_000
    assert client.seconds_until_cut_off(4) is None
    client.now += 1000 * SECOND
    assert client.seconds_until_cut_off(90) is None
    assert client.seconds_until_cut_off(10) is not None
