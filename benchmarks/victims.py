"""The clients whose share is measured: one process for each role, which does one job after the
other.

    python -m benchmarks.victims awaited

A process reads a line of JSON, `{"port": 8889, "seconds": 1.0}`, connects, prints "ready", waits
for another line, works for that time, and prints its result as JSON. Then it reads the next job.
All are ordinary clients.
"""

import asyncio
import json
import math
import sys
import time
from collections.abc import Awaitable, Callable

import anyio

import zaichik

AWAITED, STREAMED = "awaited", "streamed"  # topics
PAYLOAD = b"x" * 100
ROOM, ROOM_BYTES = (
    10_000_000,
    256 * 1024 * 1024,
)  # of a topic: a reader that is slowed down loses nothing
CREDIT = 10_000
CONNECT_SECONDS = 30.0
LEAVE_SECONDS = 0.5  # to close a connection in order; nothing of it is measured
STALL_FACTOR = 5  # a publish is given up after so many times the seconds to measure


class Stage:
    """One job, between the process that measures and the role that plays.

    Args:
        seconds: to work for.

    Attributes:
        leaving: the scope of the job; once the figures are there, its time is short.
        told: whether the figures are there.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.leaving = anyio.CancelScope()
        self.told = False

    async def go(self) -> None:
        """Say that all is prepared, and wait for the word."""
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

    def tell(self, **figures: float) -> None:
        """Print what was found."""
        print(json.dumps(figures), flush=True)
        self.told = True
        self.leaving.deadline = anyio.current_time() + LEAVE_SECONDS


Role = Callable[[zaichik.Client, Stage], Awaitable[None]]


async def awaited(client: zaichik.Client, stage: Stage) -> None:
    """One publish after the other, each awaited: how many a second, and the milliseconds of the
    slowest.
    """
    await client.publish(AWAITED, PAYLOAD)
    await stage.go()
    took: list[float] = []
    begin = before = time.monotonic()
    with anyio.move_on_after(stage.seconds * STALL_FACTOR) as stall:
        while before < begin + stage.seconds:
            await client.publish(AWAITED, PAYLOAD)
            now = time.monotonic()
            took.append(now - before)
            before = now
    count = len(took)
    if stall.cancelled_caught:
        took.append(time.monotonic() - before)
    rate = count / (time.monotonic() - begin)
    stage.tell(rate=rate, p999_ms=quantile(took, 0.999) * 1000, worst_ms=max(took) * 1000)


async def publisher(client: zaichik.Client, stage: Stage) -> None:
    """A stream of messages, sent as fast as the broker lets it."""
    async with client.producer(STREAMED) as producer:
        await stage.go()
        count = 0
        with anyio.move_on_after(stage.seconds):
            end = time.monotonic() + stage.seconds
            while time.monotonic() < end:
                await producer.send(PAYLOAD)
                count += 1
        stage.tell(rate=count / stage.seconds)


async def subscriber(client: zaichik.Client, stage: Stage) -> None:
    """How many messages of the stream arrive a second."""
    await client.create_topic(STREAMED, capacity=ROOM, max_bytes=ROOM_BYTES)
    async with client.subscribe(STREAMED, credit=CREDIT) as subscription:
        await stage.go()
        count = 0
        with anyio.move_on_after(stage.seconds):
            async for _ in subscription:
                count += 1
        stage.tell(rate=count / stage.seconds)


ROLES: dict[str, Role] = {"awaited": awaited, "publisher": publisher, "subscriber": subscriber}


def quantile(values: list[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


async def play(role: Role, port: int, seconds: float) -> None:
    """Do one job. The broker may be gone at its end, or too busy to say goodbye."""
    stage = Stage(seconds)
    try:
        with stage.leaving:
            async with zaichik.connect(port=port, timeout=CONNECT_SECONDS, reconnect=0) as client:
                await role(client, stage)
    except zaichik.ZaichikError as error:
        if not stage.told:
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"}), flush=True)


def main() -> None:
    """Do jobs until there are no more."""
    role = ROLES[sys.argv[1]]
    for line in sys.stdin:
        asyncio.run(play(role, **json.loads(line)))


if __name__ == "__main__":
    main()
