"""Handshakes: how many there are, and who has the next one. Time passes when a test says so."""

import anyio
import pytest

from zaichik.base.clock import ManualClock
from zaichik.server.access.handshakes import Handshakes

pytestmark = pytest.mark.anyio

A_SECOND = 10
INTERVAL = 1 / A_SECOND


class Line:
    """Connections that ask for a handshake, by a name."""

    def __init__(self, tasks):
        self.clock = ManualClock(1_000_000_000)
        self.handshakes = Handshakes(A_SECOND, self.clock, self.sleep)
        self.begun = []
        self.scopes = {}
        self.looks = 0  # how often any of them has slept
        self._tasks = tasks
        self._alarms = []

    async def sleep(self, seconds):
        self.looks += 1
        alarm = anyio.Event()
        self._alarms.append((self.clock.now_us() + round(seconds * 1_000_000), alarm))
        await alarm.wait()

    async def pass_by(self, seconds):
        self.clock.advance(seconds)
        for due_us, alarm in self._alarms:
            if due_us <= self.clock.now_us():
                alarm.set()
        await anyio.wait_all_tasks_blocked()

    async def ask(self, *names):
        for name in names:
            self._tasks.start_soon(self._one, name)
            await anyio.wait_all_tasks_blocked()

    async def leave(self, name):
        self.scopes[name].cancel()
        await anyio.wait_all_tasks_blocked()

    async def _one(self, name):
        with anyio.CancelScope() as self.scopes[name]:
            await self.handshakes.take()
            self.begun.append(name)


@pytest.fixture
async def line():
    async with anyio.create_task_group() as tasks:
        line = Line(tasks)
        # There are none left.
        await line.ask(*range(A_SECOND))
        assert line.begun == list(range(A_SECOND))
        line.begun.clear()
        yield line
        tasks.cancel_scope.cancel()


async def test_the_newest_has_the_next_one(line):
    await line.ask("a", "b", "c")
    assert line.begun == []
    await line.pass_by(INTERVAL)
    assert line.begun == ["c"]
    await line.pass_by(INTERVAL / 2)
    await line.ask("d")
    await line.pass_by(INTERVAL / 2)
    assert line.begun == ["c", "d"]
    for _ in range(2):
        await line.pass_by(INTERVAL)
    assert line.begun == ["c", "d", "b", "a"]


async def test_one_that_comes_when_there_is_one_has_it_though_others_wait(line):
    await line.ask("a", "b")
    line.clock.advance(INTERVAL)
    await line.ask("c")
    assert line.begun == ["c"]
    for _ in range(2):
        await line.pass_by(INTERVAL)
    assert line.begun == ["c", "b", "a"]


@pytest.mark.parametrize("gone", ["a", "b", "c"])
async def test_one_that_leaves_while_it_waits_uses_up_none(line, gone):
    await line.ask("a", "b", "c")
    await line.leave(gone)
    left = [name for name in ("c", "b", "a") if name != gone]
    await line.pass_by(INTERVAL)
    assert line.begun == left[:1]
    await line.pass_by(INTERVAL)
    assert line.begun == left


async def test_a_handshake_wakes_two_at_most_however_many_wait(line):
    """The one that has it, and the next."""
    await line.ask(*range(100))
    asked = line.looks
    for _ in range(50):
        await line.pass_by(INTERVAL)
    assert len(line.begun) == 50
    assert line.looks - asked <= 50


async def test_if_nobody_waits_they_are_saved_up_for_a_second(line):
    await line.pass_by(60)
    await line.ask(*range(2 * A_SECOND))
    assert len(line.begun) == A_SECOND
