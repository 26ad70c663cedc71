"""Which address is tried when: RFC 8305."""

import errno
import math
import select
import socket

import pytest
from silence import address, listening, refusing, silent

from zaichik.net.attempts import DELAY_SECONDS, Attempts, interleaved

V4, V6 = socket.AF_INET, socket.AF_INET6
GUARD = 60  # seconds


def test_the_families_take_turns_beginning_with_the_first():
    found = [(V6, "a"), (V6, "b"), (V6, "c"), (V4, "d"), (V4, "e")]
    turns = interleaved([address(place, family) for family, place in found])
    assert "".join(turn[3] for turn in turns) == "adbec"


def driven(attempts):
    """Drive the attempts without an event loop, by a clock that jumps; when each began."""
    now, begun, waiting = 0.0, [], []
    while not attempts.is_over:
        seconds = attempts.seconds_left(now)
        if not seconds:
            begun.append(now)
            raw = attempts.begin(now)
            if raw is not None:
                waiting.append(raw)
            continue
        wait = 0.1 if seconds < math.inf else GUARD
        _, ended, _ = select.select([], waiting, [], wait)
        for raw in ended:
            waiting.remove(raw)
            attempts.end(raw)
        if not ended:
            assert seconds < math.inf, "no attempt ends"
            now += seconds
    attempts.close()
    return begun


def test_the_first_that_answers_is_taken():
    with listening() as one, listening() as other:
        attempts = Attempts([one, other])
        assert driven(attempts) == [0.0]
        with attempts.winner as winner:
            assert winner.getpeername() == one[3]


def test_the_next_one_begins_when_the_one_before_is_silent_for_a_while():
    with silent() as first, silent() as second, listening() as third:
        attempts = Attempts([first, second, third])
        assert driven(attempts) == [0.0, DELAY_SECONDS, 2 * DELAY_SECONDS]
        with attempts.winner as winner:
            assert winner.getpeername() == third[3]


def test_the_next_one_begins_at_once_when_one_has_failed():
    with refusing() as first, listening() as second:
        attempts = Attempts([first, second])
        assert driven(attempts) == [0.0, 0.0]
        with attempts.winner as winner:
            assert winner.getpeername() == second[3]
        assert attempts.failure.errno == errno.ECONNREFUSED


def test_one_that_was_begun_earlier_may_still_win():
    with silent() as first, listening() as second:
        attempts = Attempts([second, first])
        raw = attempts.begin(0.0)
        assert attempts.begin(DELAY_SECONDS) is not None
        select.select([], [raw], [], GUARD)
        attempts.end(raw)
        assert attempts.winner is raw
        attempts.close()
        with raw:
            assert raw.getpeername() == second[3]


def test_of_two_that_answer_one_is_taken_and_the_other_closed():
    with listening() as one, listening() as other:
        attempts = Attempts([one, other])
        first, second = attempts.begin(0.0), attempts.begin(DELAY_SECONDS)
        for raw in (second, first):
            select.select([], [raw], [], GUARD)
            attempts.end(raw)
        assert attempts.winner is second
        assert first.fileno() == -1
        second.close()


@pytest.mark.parametrize("count", [1, 3])
def test_when_all_have_failed_the_last_failure_says_why(count):
    with refusing() as nobody:
        attempts = Attempts([nobody] * count)
        driven(attempts)
        assert (attempts.winner, attempts.failure.errno) == (None, errno.ECONNREFUSED)


def test_a_family_that_the_system_lacks_is_passed_over():
    with listening() as there:
        attempts = Attempts([address(("127.0.0.1", 1), family=9999), there])
        assert driven(attempts) == [0.0, 0.0]
        attempts.winner.close()


def test_no_address_is_the_end():
    attempts = Attempts([])
    assert attempts.is_over
    assert (attempts.winner, attempts.failure) == (None, None)
