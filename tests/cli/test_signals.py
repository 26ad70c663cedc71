"""Signals that end a command in steps."""

import os
import signal

import anyio
import pytest

from zaichik.cli import interrupts, signals

pytestmark = pytest.mark.anyio

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def _handlers():
    """What a test installs, and what came in it, is not for other tests."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    with interrupts.like_ctrl_c():
        pass


class Steps:
    """Steps that note that they were taken."""

    def __init__(self):
        self.taken = []
        self._more = anyio.Event()

    def step(self, number):
        def take():
            self.taken.append(number)
            self._more.set()
            self._more = anyio.Event()

        return take

    async def after(self, number):
        """Send this process a signal, and wait for what comes of it."""
        more = self._more
        os.kill(os.getpid(), number)
        with anyio.fail_after(60):
            await more.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_each_signal_takes_the_next_step(number):
    steps = Steps()
    async with signals.in_steps(*map(steps.step, (1, 2, 3))) as came:
        assert not came()
        for _ in range(3):
            await steps.after(number)
        assert came()
        os.kill(os.getpid(), number)
        await anyio.wait_all_tasks_blocked()
    assert steps.taken == [1, 2, 3]
    assert interrupts.came()


async def test_a_terminal_that_is_closed_takes_only_the_first():
    """It sends SIGHUP twice: by its shell, and by the kernel."""
    steps = Steps()
    async with signals.in_steps(*map(steps.step, (1, 2, 3))):
        await steps.after(signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        await anyio.wait_all_tasks_blocked()
        await steps.after(signal.SIGTERM)
    assert steps.taken == [1, 2]


async def test_a_signal_that_was_ignored_stays_ignored():
    """That of a script's `&`, and of nohup."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    steps = Steps()
    async with signals.in_steps(steps.step(1), steps.step(2)) as came:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.wait_all_tasks_blocked()
        assert not came()
        await steps.after(signal.SIGTERM)
    assert steps.taken == [1]


async def test_without_a_signal_nothing_happens():
    steps = Steps()
    async with signals.in_steps(steps.step(1)) as came:
        pass
    assert (steps.taken, came()) == ([], False)


def test_a_start_has_no_handler_for_the_hangup_that_it_ignores():
    """While one is due, the kernel may give SIGTERM to a thread that wakes no event loop."""
    before = signal.getsignal(signal.SIGHUP)
    with signals.ending_at_once():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is before
