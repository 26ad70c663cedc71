"""The machine that the broker runs on, as far as it can fail: a disk, threads that use it, and
power.

The broker's own threads are replaced: whatever it wants done by a thread is done by a `Worker`.
Nothing else of its store is changed.

A machine may be in trouble: its disk is full, or slow. What is promised for "within a second or
two" counts from when it is out of trouble again.
"""

import math
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch
from zlib import crc32

import trio
from anyio import to_thread
from sim_disk import Crash, SimDisk, full

from zaichik.server import disk_threads
from zaichik.storage.store import Store

from .worker import Worker, under_way

DISKS = [  # seconds that a call takes
    (0,),
    (0, 0.001),
    (0.001, 0.004, 0.03),
]
WRITTEN_WITHIN = 2  # simulated seconds, after which a position must be on the disk (DUR-5)
# Between two of them, and when something was done and its thread has not said so yet, the power may
# be cut.
CHANGES = {"write", "replace", "remove", "rename", "done"}


class Machine:
    """See above.

    Args:
        world: where it stands.

    Attributes:
        disk: what is on it.
        slow: seconds that each change of the disk takes on top.
        is_full: whether there is no room on the disk.
    """

    def __init__(self, world):
        self._world = world
        self._random = world.random("machine")
        self._seconds = self._random.choice(DISKS)
        self._workers = []
        self.slow, self.is_full = 0, False
        self._trouble_from = self._trouble_until = -math.inf  # the last one
        self._calls = math.inf  # of the disk, until something happens in the middle of one
        self._counted = CHANGES
        self._is_time = trio.Event()
        self._is_to_fail = False
        self._insert(SimDisk())

    def _insert(self, disk):
        self.disk = disk
        disk.under_way = under_way
        disk.random = self._random

    # -- threads ---------------------------------------------------------------------------------

    @contextmanager
    def has_all_threads(self):
        """As long as the block lasts, what is to be done in a thread is done by a worker of this
        machine.
        """
        salts = self._world.random("salts")
        with (
            patch.object(to_thread, "run_sync", self._run),
            patch.object(disk_threads, "DiskThread", partial(SimulatedThread, self._run)),
            patch("secrets.randbits", salts.getrandbits),
        ):
            yield

    async def _run(self, work, *args, **_):
        worker = Worker(partial(work, *args), self._world.time)
        self._workers.append(worker)
        try:
            await trio.lowlevel.checkpoint()
            await self._go_on(worker)
            while worker.call:
                await self._go_on(worker, await self._take_time(*worker.call))
            await self._take_time("done", "")
            return worker.result()
        finally:
            worker.kill()
            self._workers.remove(worker)

    async def _go_on(self, worker, fault=None):
        # It was due to go on when the power was cut. Whoever waits for it ends with the broker.
        if worker.is_killed:
            await trio.sleep_forever()
        worker.go_on(fault)
        if worker.found:
            self._world.fail(worker.found)

    async def _take_time(self, method, path):
        """What happens while the disk is called. Returns the error that the call ends with."""
        random, world = self._random, self._world
        seconds = random.choice(self._seconds)
        if method in CHANGES:
            seconds += random.random() * self.slow if path else 0
            self._calls -= method in self._counted
            if not self._calls:
                self._is_time.set()
                if self._is_to_fail:
                    await trio.sleep_forever()
        await trio.sleep(seconds)
        error = full() if self.is_full and method in {"write", "replace"} else None
        if path and method != "read":
            world.trace.add(world.time(), "the disk", method, path, error or "")
        return error

    # -- trouble ---------------------------------------------------------------------------------

    @contextmanager
    def in_trouble(self, *, slow=0, is_full=False):
        """As long as the block lasts, the disk is like that."""
        now = self._world.time()
        if (
            now - self._trouble_until > WRITTEN_WITHIN
        ):  # else it goes on: what was to be written may not be yet
            self._trouble_from = now
        self._trouble_until = math.inf
        self.slow, self.is_full = slow, is_full
        try:
            yield
        finally:
            self.slow, self.is_full = 0, False
            self._trouble_until = self._world.time()

    def written(self):
        """When a position had to be committed to be on the disk for certain by now; simulated
        seconds.
        """
        now = self._world.time()
        is_well = now - self._trouble_until > WRITTEN_WITHIN
        return (now if is_well else min(now, self._trouble_from)) - WRITTEN_WITHIN

    async def at_work(self, seconds, *, is_to_fail=False):
        """Wait for the middle of a change of the disk, or for so long; if it is to fail, that
        change has no end.
        """
        random = self._random
        self._calls, self._counted = random.randint(1, 5), random.choice([CHANGES, {"write"}])
        self._is_time, self._is_to_fail = trio.Event(), is_to_fail
        with trio.move_on_after(seconds):
            await self._is_time.wait()
        self._calls = math.inf

    def cut(self):
        """Cut the power, now. What was synced stays, and a random part of what was under way."""
        for worker in list(self._workers):
            worker.kill()

    async def start(self):
        """Returns the store that a broker finds; the power may be cut meanwhile, repeatedly."""
        while True:
            self._insert(self.disk.copy())
            if self._random.random() < 0.3:
                self.disk.fault = partial(_crash_at, self._random.randint(0, 12))
            self._tell()
            try:
                return await to_thread.run_sync(partial(Store, self.disk, clock=self._world.time))
            except Crash:
                self._world.trace.add(
                    self._world.time(), "the machine", "loses power while the broker starts"
                )
            finally:
                self.disk.fault = lambda _: None

    def _tell(self):
        """Write into the trace what is on the disk."""
        files, content = self.disk.content, 0
        for path in sorted(files):
            content = crc32(files[path], crc32(path.encode(), content))
        self._world.trace.add(
            self._world.time(), "the disk", "has", len(files), f"files, crc {content:08x}"
        )


class SimulatedThread:
    """Stands for a `DiskThread`: it has its jobs done by workers, and ends at once.

    Args:
        run: calls a function in a worker.
        name: the thread's.
        has_done: called with each job that is done.
    """

    def __init__(self, run, name, has_done):
        self._run, self._has_done = run, has_done
        self._scope = trio.CancelScope()

    def start(self):
        pass  # each job has a worker of its own

    def begin(self, job):
        self._scope = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._do, job, self._scope)

    def end(self):
        self._scope.cancel()

    async def _do(self, job, scope):
        with scope:
            try:
                job.then = await self._run(job.work)
            except trio.Cancelled:
                raise  # its end
            except BaseException as error:
                job.error = error
            self._has_done(job)


def _crash_at(wanted, number):
    return Crash() if number == wanted else None
