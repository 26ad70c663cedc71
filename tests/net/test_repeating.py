"""Work in pieces: sockets are seen to between any two of them."""

import socket

import anyio
import pytest

from zaichik.net.background import BackgroundTasks
from zaichik.net.repeating import Repeating
from zaichik.net.socket_stream import SocketStream

pytestmark = pytest.mark.anyio

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass


class Work:
    """Some pieces of work.

    Attributes:
        left: how many.
        log: what happened: "piece", "rest", and what a test notes.
    """

    def __init__(self):
        self.left = 0
        self.log = []
        self.repeating = Repeating(self._do, lambda: self.left > 0, self._rest)
        self._rests = anyio.Event()

    def _do(self):
        self.log.append("piece")
        self.left -= 1
        return self.left > 0

    def _rest(self):
        self.log.append("rest")
        self._rests.set()
        self._rests = anyio.Event()

    def begin(self, pieces):
        self.left += pieces
        self.repeating.wake()

    async def done(self):
        with anyio.fail_after(GUARD):
            await self._rests.wait()


async def test_it_is_called_until_it_returns_false():
    work = Work()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await anyio.wait_all_tasks_blocked()
        for _ in range(3):
            work.log.clear()
            work.begin(4)
            assert work.log == [], "nothing happens at once"
            await work.done()
            assert work.log == ["piece"] * 4 + ["rest"]


async def test_a_function_no_longer_needed_is_not_called():
    """But the event loop has looked at all sockets since."""
    work = Work()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await anyio.wait_all_tasks_blocked()
        work.begin(4)
        work.left = 0
        await work.done()
        assert work.log == ["rest"]


async def test_waking_twice_is_waking_once():
    work = Work()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await anyio.wait_all_tasks_blocked()
        work.begin(2)
        work.begin(2)
        await work.done()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert work.log == ["piece"] * 4 + ["rest"]


async def test_being_woken_by_its_own_function_starts_no_second_run():
    work = Work()
    real = work._do

    def do_and_wake():
        work.repeating.wake()
        return real()

    work.repeating._function = do_and_wake
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        work.begin(3)
        await work.done()
        assert work.log == ["piece"] * 3 + ["rest"]


async def test_a_wake_before_it_ran_is_not_forgotten():
    work = Work()
    work.begin(2)
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await work.done()
    assert work.log == ["piece", "piece", "rest"]


async def test_nothing_is_called_after_it_was_cancelled():
    work = Work()
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await anyio.wait_all_tasks_blocked()
        work.begin(1000)
        await anyio.lowlevel.checkpoint()
    log = list(work.log)
    work.repeating.wake()
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    assert work.log == log


async def test_after_a_cancellation_it_continues_when_run_again():
    work = Work()
    work.begin(100)
    for sign in ("piece", "rest"):
        with anyio.fail_after(GUARD):
            async with BackgroundTasks() as tasks:
                tasks.group.start_soon(work.repeating.run)
                while sign not in work.log:
                    await anyio.lowlevel.checkpoint()
    assert work.log == ["piece"] * 100 + ["rest"]


async def test_sockets_are_polled_between_pieces():
    """A callback for what has come is called after one more piece at the most, however many there
    are.
    """
    work = Work()
    ours, theirs = socket.socketpair()
    with theirs, anyio.fail_after(GUARD):
        async with SocketStream(ours) as stream, BackgroundTasks() as tasks:

            def readable():
                stream.receive_nowait()
                work.log.append("readable")
                return work.log.count("readable") < 10

            real = work._do

            def do_and_send():
                if work.log[-1:] != ["sent"]:
                    theirs.send(b"x")
                    work.log.append("sent")
                return real()

            work.repeating._function = do_and_send
            tasks.group.start_soon(work.repeating.run)
            await anyio.wait_all_tasks_blocked()
            work.begin(10_000)
            await stream.each_readable(readable)
            work.left = 0
    sent = [at for at, what in enumerate(work.log) if what == "sent"]
    heard = [at for at, what in enumerate(work.log) if what == "readable"]
    between = [work.log[begin:end].count("piece") for begin, end in zip(sent, heard, strict=False)]
    assert max(between) == 1, "that which had begun already"


async def test_other_tasks_run_between_pieces():
    work, counted = Work(), 0
    async with BackgroundTasks() as tasks:
        tasks.group.start_soon(work.repeating.run)
        await anyio.wait_all_tasks_blocked()
        work.begin(1000)
        while work.left:
            await anyio.lowlevel.checkpoint()
            counted += 1
    assert counted >= 1000
