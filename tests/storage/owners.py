"""Owners of logs, which note what becomes of what they publish; and threads that work for them."""

from collections import deque
from contextlib import asynccontextmanager

import anyio
from made import topic

from zaichik.core.log import Write
from zaichik.net.background import BackgroundTasks
from zaichik.server.disk_threads import DiskThreads
from zaichik_protocol import Batch

SETTINGS = topic().settings


class Owner:
    """A topic's durable side: publishes one message at a time, and knows what was stored."""

    needed = 0

    def __init__(self, log):
        self.log, self.next, self.stored, self.refusals = log, log.end, log.end, []
        self.waiting = deque()
        log.owner = self

    def write(self, what, accepted_us=0):
        """Has that wait for the log. Returns the answer to come."""
        self.waiting.append(Write(self.next, accepted_us, what))
        self.log.write()
        return self.waiting[-1].answer

    def publish(self, size=20):
        self.write(Batch.of([(b"", b"%d" % self.next + bytes(size))]), self.next)
        self.next += 1

    def on_synced(self, count):
        for _ in range(count):
            done = self.waiting.popleft()
            self.stored += isinstance(done.what, Batch)
            done.answer.settle(True)

    def on_refused(self, refusal):
        self.refusals.append(refusal.code)
        self.next = self.stored
        while self.waiting:
            self.waiting.pop().answer.settle(refusal)

    def on_head_moved(self, head, own):
        pass


@asynccontextmanager
async def working(store, **more):
    """Runs threads for the store."""
    threads = DiskThreads(store.work, **more)
    with anyio.fail_after(20):
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(threads.run)
            yield threads


async def done(owner):
    """Waits until all that waits so far is on the disk, or refused.

    Returns the refusal, or None.
    """
    came, told = anyio.Event(), []
    owner.write(None).then(lambda answer: (told.append(answer), came.set()))
    await came.wait()
    return None if told[0] is True else told[0]


async def with_topics(store, *names, messages=3):
    """Makes topics with that many messages each. Returns their owners."""
    owners = [Owner(store.create(name, 10 + index, SETTINGS)) for index, name in enumerate(names)]
    async with working(store):
        for owner in owners:
            for _ in range(messages):
                owner.publish()
            assert await done(owner) is None
            assert owner.stored == messages
    return owners
