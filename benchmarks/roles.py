"""The processes of a measurement: programs that get their job as JSON.

    python -m benchmarks.roles '{"role": "publisher", "peer": "zaichik", "port": 8889, ...}'

A process prints "ready", waits for a line on standard input, works, and prints its result as one
line of JSON. Times are those of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from benchmarks.peers.peer import Job, Link, Peer, Receipt

SPIN_SECONDS = (
    0.002  # an event loop sleeps in whole milliseconds; the rest of the wait is spent polling
)
Result = dict[str, Any]


def peer_of(name: str) -> Peer:
    """The peer of that file."""
    peer: Peer = importlib.import_module(f"benchmarks.peers.{name}").PEER
    return peer


async def go() -> None:
    """Say that all is prepared, and wait for the word."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def publisher(job: Job) -> Result:
    """Publish this process's share of the messages, as one stream for each of its publishers."""
    publishers, share = job.publishers // job.processes, job.messages // job.publishers
    ready, begun = asyncio.Barrier(publishers + 1), asyncio.Event()
    ends: list[float] = []

    async def one() -> None:
        async with peer_of(job.peer).link(job) as link:
            await ready.wait()
            await begun.wait()
            await link.stream(b"x" * job.size, share)
            ends.append(time.monotonic())

    async with asyncio.TaskGroup() as group:
        for _ in range(publishers):
            group.create_task(one())
        await ready.wait()
        await go()
        begun.set()
    return {"count": share * publishers, "end": max(ends)}


async def subscriber(job: Job) -> Result:
    """Count messages, in as many subscribers as the job says, each with a connection of its own."""
    receipts = [Receipt(job.expected or job.messages) for _ in range(job.subscribers)]
    ready = asyncio.Barrier(job.subscribers + 1)
    ends: list[float] = []

    async def one(receipt: Receipt) -> None:
        async with peer_of(job.peer).link(job) as link:
            await link.subscribe(receipt)
            await ready.wait()
            await link.receive(receipt)
            ends.append(time.monotonic())

    try:
        async with asyncio.timeout(job.deadline), asyncio.TaskGroup() as group:
            for receipt in receipts:
                group.create_task(one(receipt))
            await ready.wait()
            print("ready", flush=True)  # and no word to wait for: what comes is counted
    except TimeoutError:
        ends.append(time.monotonic())
    return {"count": sum(receipt.count for receipt in receipts), "end": max(ends)}


async def replay(job: Job) -> Result:
    """Publish everything first; then time one late reader."""
    peer = peer_of(job.peer)
    async with peer.link(job) as link:
        await link.stream(b"x" * job.size, job.messages)
    await go()
    begin = time.monotonic()
    return {"begin": begin, **await subscriber(job)}


async def acknowledged(job: Job) -> Result:
    """Publish one message at a time in each of the tasks, for a while; count those acknowledged."""
    payload, count = b"x" * job.size, 0
    async with peer_of(job.peer).link(job) as link:

        async def task(end: float) -> None:
            nonlocal count
            while time.monotonic() < end:
                await link.publish(payload)
                count += 1

        await asyncio.gather(*(task(time.monotonic() + job.seconds / 10) for _ in range(job.tasks)))
        await go()
        count, begin = 0, time.monotonic()
        await asyncio.gather(*(task(begin + job.seconds) for _ in range(job.tasks)))
        return {"count": count, "begin": begin, "end": time.monotonic()}


class Stopwatch(Receipt):
    """A receipt that also notes how long after it was due each message came."""

    def __init__(self, expected: int) -> None:
        super().__init__(expected)
        self.seconds: list[float] = []

    def take(self, payload: bytes) -> None:
        """Count a message; note its first eight bytes, the nanosecond at which it was due."""
        self.seconds.append((time.monotonic_ns() - int.from_bytes(payload[:8])) / 1e9)
        super().take(payload)


async def roundtrip(job: Job) -> Result:
    """Publish at fixed times, late or not, and read the messages back in the same process (no clock
    to compare).

    Whatever waits because something before it was slow is counted as slow: latency runs from the
    time a message was due, not from when it was sent.
    """
    watch = Stopwatch(job.messages)
    async with peer_of(job.peer).link(job) as link:
        await link.subscribe(watch)
        receiving = asyncio.create_task(link.receive(watch))
        await go()
        try:
            async with asyncio.timeout(job.deadline):
                await open_loop(link, job)
                await watch.done.wait()
        except TimeoutError:
            receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=watch.count < watch.expected)
    if watch.count < watch.expected:
        return {"count": watch.count}
    cuts = statistics.quantiles(watch.seconds, n=1000)
    return {"count": watch.count, "p50": cuts[499], "p99": cuts[989], "p99.9": cuts[998]}


async def open_loop(link: Link, job: Job) -> None:
    """Send each message when it is due; those that have become due meanwhile go together."""
    step = 1_000_000_000 // job.rate
    rest = b"x" * (job.size - 8)
    due = time.monotonic_ns() + 10 * step
    last = due + step * job.messages
    while due < last:
        now = time.monotonic_ns()
        if due <= now:
            payloads = [
                moment.to_bytes(8) + rest for moment in range(due, min(now + 1, last), step)
            ]
            due += step * len(payloads)
            await link.send(payloads)
        else:
            await asyncio.sleep(max(0.0, (due - now) / 1e9 - SPIN_SECONDS))


ROLES: dict[str, Callable[[Job], Awaitable[Result]]] = {
    "publisher": publisher,
    "subscriber": subscriber,
    "replay": replay,
    "acknowledged": acknowledged,
    "roundtrip": roundtrip,
}
# Roles that are imported only by the processes that need them.
FILES = ("burst", "codec", "growth", "memory", "nats_bench", "restart", "startup", "tail", "work")
WITHOUT_EVENT_LOOP = ("calls", "script")


async def play(job: Job) -> None:
    """Do the job and print its result."""
    role = (
        importlib.import_module(f"benchmarks.{job.role}").play
        if job.role in FILES
        else ROLES[job.role]
    )
    print(json.dumps(await role(job)), flush=True)


def main() -> None:
    """Play the one role, on the loop that all clients share: uvloop's, or asyncio's own if it is
    not installed; or on none.
    """
    job = Job(**json.loads(sys.argv[1]))
    if job.role in WITHOUT_EVENT_LOOP:
        role = importlib.import_module(f"benchmarks.{job.role}").play
        print(json.dumps(role(peer_of(job.peer), job)), flush=True)
        return
    anyio.run(
        play, job, backend_options={"use_uvloop": importlib.util.find_spec("uvloop") is not None}
    )


if __name__ == "__main__":
    main()
