"""Workers of one queue, each with a connection of its own; what they do for a message is nothing.

Nobody tells a worker that the queue is empty. So they all work until none of this process was given
anything for a while. The time of the last message is the end.
"""

import asyncio
import time

from benchmarks.peers.peer import Job, Receipt
from benchmarks.roles import go, peer_of

QUIET_SECONDS = 2.0
LOOK_SECONDS = 0.01


class Jobs(Receipt):
    """What all workers of this process were given.

    Attributes:
        last: when the last message came.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.last = time.monotonic()

    def take(self, payload: bytes) -> None:
        """Do the job, which is nothing."""
        del payload
        self.count += 1
        self.last = time.monotonic()


async def play(job: Job) -> dict[str, float]:
    """Returns how many messages were settled here, and when the last one came."""
    jobs = Jobs()
    ready, begun = asyncio.Barrier(job.subscribers + 1), asyncio.Event()

    async def one() -> None:
        async with peer_of(job.peer).link(job) as link:
            await ready.wait()
            await begun.wait()
            await link.work(jobs)

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(one()) for _ in range(job.subscribers)]
        await ready.wait()
        await go()
        begun.set()
        jobs.last = time.monotonic()
        while time.monotonic() < jobs.last + QUIET_SECONDS:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOK_SECONDS)
        for worker in workers:
            worker.cancel()
    return {"count": jobs.count, "end": jobs.last}
