"""Who is let in beside junk from its own address, and what the junk may cost.

Time passes when a test says so.
"""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from zaichik.base.clock import ManualClock
from zaichik.server.access.backoff import FAILURES, MOST_WAITING, UNKNOWN_FAILURES
from zaichik.server.access.newcomers import (
    HANDSHAKES,
    MOST_HANDSHAKING,
    MOST_SILENT,
    MOST_SILENT_OF_ONE,
    Newcomers,
)
from zaichik.server.places import Place

ONE, OTHER = "10.0.0.1", "10.0.0.2"
MOST = 700


class Door:
    """Newcomers who arrive, and which of them were closed."""

    def __init__(self):
        self.clock = ManualClock(1_000_000_000)
        self.slept = []
        self.newcomers = Newcomers(self.clock, self.sleep)
        self.closed = []
        self.ports = 0

    async def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.clock.advance(seconds)
        await checkpoint()

    def arrive(self, client=ONE, most=MOST):
        self.ports += 1
        peer = f"{client}:{self.ports}"
        place = Place(peer, lambda: self.closed.append(peer))
        self.newcomers.arrive(place, most)
        return place

    def fail(self, client=ONE):
        """A connection that comes and goes."""
        place = self.arrive(client)
        self.newcomers.failed(place)
        self.newcomers.depart(place)

    def exhaust(self, client=ONE):
        for _ in range(FAILURES):
            self.fail(client)


@pytest.fixture
def door():
    return Door()


# -- the allowance


def test_an_address_has_an_allowance_of_failures(door):
    for _ in range(FAILURES):
        assert not door.arrive().is_beyond
        door.fail()
    assert door.arrive().is_beyond
    assert not door.arrive(OTHER).is_beyond
    door.clock.advance(1)
    assert not door.arrive().is_beyond


def test_junk_beyond_the_allowance_is_not_charged(door):
    """It would only keep passwords of the same address waiting."""
    door.exhaust()
    for _ in range(1000):
        door.fail()
    door.clock.advance(1)
    assert not door.arrive().is_beyond


def test_junk_of_one_address_uses_up_nothing_of_the_others(door):
    for _ in range(10 * UNKNOWN_FAILURES):
        door.fail()
    assert not door.arrive(OTHER).is_beyond


def test_addresses_with_a_recent_login_have_an_allowance_that_others_cannot_use_up(door):
    place = door.arrive()
    door.newcomers.succeeded(place)
    for number in range(UNKNOWN_FAILURES):
        door.fail(f"192.0.2.{number}")
    assert door.arrive(OTHER).is_beyond
    assert not door.arrive().is_beyond


def test_before_any_has_failed_an_address_may_have_so_many(door):
    """Silent ones fail late: until then they would use up all connections of the broker."""
    places = [door.arrive(most=3) for _ in range(3)]
    assert not any(place.is_beyond for place in places)
    assert door.arrive(most=3).is_beyond
    assert not door.arrive(OTHER, most=3).is_beyond
    door.newcomers.depart(places[0])
    door.newcomers.depart(places[0])
    door.newcomers.succeeded(places[1])
    assert [door.arrive(most=3).is_beyond for _ in range(3)] == [False, False, True]


# -- places


def test_beyond_the_allowance_the_newest_of_an_address_have_a_place(door):
    door.exhaust()
    first = door.ports
    places = [door.arrive() for _ in range(MOST_SILENT_OF_ONE + 3)]
    assert door.closed == [f"{ONE}:{first + number}" for number in (1, 2, 3)]
    door.newcomers.succeeded(places[-1])
    door.arrive()
    assert len(door.closed) == 3


def test_all_addresses_without_a_login_share_places_and_a_known_one_has_others(door):
    known = door.arrive()
    door.newcomers.succeeded(known)
    door.exhaust(ONE)
    here = door.arrive(ONE)
    for number in range(MOST_SILENT):
        door.exhaust(f"192.0.2.{number}")
    assert not door.closed
    stranger = door.arrive(OTHER)
    for number in range(MOST_SILENT // MOST_SILENT_OF_ONE):
        for _ in range(MOST_SILENT_OF_ONE):
            door.arrive(f"192.0.2.{number}")
    assert len(door.closed) == 1
    assert not here.is_lost
    assert not stranger.is_lost


# -- handshakes


@pytest.mark.anyio
async def test_handshakes_beyond_the_allowance_have_a_rate(door):
    door.exhaust()
    for _ in range(HANDSHAKES):
        await door.newcomers.handshake(door.arrive())
    assert not door.slept
    for _ in range(3):
        await door.newcomers.handshake(door.arrive())
    assert door.slept == [1 / HANDSHAKES] * 3


@pytest.mark.anyio
async def test_unknown_addresses_use_up_no_handshake_of_a_known_one(door):
    door.newcomers.succeeded(door.arrive())
    door.exhaust(ONE)
    door.exhaust(OTHER)
    for _ in range(HANDSHAKES):
        await door.newcomers.handshake(door.arrive(OTHER))
    await door.newcomers.handshake(door.arrive(ONE))
    assert not door.slept
    await door.newcomers.handshake(door.arrive(OTHER))
    assert door.slept


@pytest.mark.anyio
async def test_a_handshake_that_has_begun_makes_no_room_for_silent_ones(door):
    """It makes room for other handshakes: each has more than a second for its round trips."""
    door.exhaust()
    first = door.arrive()
    await door.newcomers.handshake(first)
    for _ in range(10 * MOST_SILENT_OF_ONE):
        door.arrive()
    assert not first.is_lost
    start = door.clock.now_us()
    for _ in range(MOST_HANDSHAKING + HANDSHAKES):
        await door.newcomers.handshake(door.arrive())
        if not first.is_lost:
            lasted_us = door.clock.now_us() - start
    assert first.is_lost
    assert lasted_us >= (MOST_HANDSHAKING - HANDSHAKES) * 1_000_000 // HANDSHAKES


# -- passwords


@pytest.mark.anyio
async def test_passwords_beyond_the_allowance_have_its_turns_whatever_else_comes(door):
    door.exhaust()
    place = door.arrive()
    assert await door.newcomers.password(place)
    assert door.slept == [1]
    door.newcomers.failed(place)
    for _ in range(1000):
        door.fail()
    place = door.arrive()
    assert await door.newcomers.password(place)
    assert door.slept == [1, 1]


@pytest.mark.anyio
async def test_a_password_within_the_allowance_does_not_wait(door):
    place = door.arrive()
    door.exhaust()
    assert await door.newcomers.password(place)
    assert not door.slept


@pytest.mark.anyio
async def test_a_password_that_waits_makes_no_room_and_too_many_do_not_wait(door):
    door.exhaust()
    door.newcomers._failures._sleep = lambda _: anyio.sleep_forever()
    async with anyio.create_task_group() as tasks:
        waiting = [door.arrive() for _ in range(MOST_WAITING)]
        for place in waiting:
            tasks.start_soon(door.newcomers.password, place)
        await anyio.wait_all_tasks_blocked()
        for _ in range(2 * MOST_SILENT_OF_ONE):
            door.arrive()
        assert not any(place.is_lost for place in waiting)
        place = door.arrive()
        assert not await door.newcomers.password(place)
        door.newcomers.failed(place)
        tasks.cancel_scope.cancel()
    door.clock.advance(1)
    assert not door.arrive().is_beyond, "one that had no turn was charged"
