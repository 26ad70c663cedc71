"""The slowest answers of a broker whose ring is full of small batches: does keeping much make it pause?

A ring of a million batches of one message each is full, so every publish evicts one. Single messages are published at
a fixed rate, and the time of each runs from when it was due until its reply is there. Beside that broker stands one
with a ring of a thousand: what both have in common is the machine's doing. Slices at both brokers and at both rates
alternate, in changing order.

The publisher writes encoded frames and reads replies, and nothing else, so that its own pauses are few.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
import random
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise, repeat
from typing import Any

import zaichik
from benchmarks.idle import IdleConnection, create
from benchmarks.peers.peer import Job, Link, Receipt
from benchmarks.roles import Stopwatch, open_loop
from zaichik_protocol import NEED_DATA, Batch, Error, Frame, FrameDecoder, Hello, Publish, Published, encode

TOPIC = "measured"
RATES = (1_000, 10_000)  # messages a second
BOUNDS_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200)  # of the histogram's bars; the last one has no end
FIGURES = ("p50", "p99", "p99.9", "max")


def bars() -> list[str]:
    """The names of the histogram's bars."""
    return [f"< {high} ms" for _, high in pairwise(BOUNDS_MS)] + [f"≥ {BOUNDS_MS[-1]} ms"]


def singles(number: int, size: int) -> Iterator[Frame]:
    """Requests that publish as many messages, each in a batch of its own."""
    return repeat(Publish(1, TOPIC, Batch.of_columns([b""], [b"x" * size])), number)


class TimedPublishes(Link, asyncio.Protocol):
    """A connection that publishes single messages and notes how long after it was due each is answered."""

    def __init__(self) -> None:
        self.watch = Stopwatch(0)
        self._decoder = FrameDecoder.for_client()
        self._unanswered: deque[bytes] = deque()
        self._transport: Any = None
        self._greeted = False
        self.failure = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(encode(Hello(1, client="tail")))

    def data_received(self, data: bytes) -> None:
        self._decoder.receive_data(data)
        while (frame := self._decoder.next_frame()) is not NEED_DATA:
            if isinstance(frame, Published):
                self.watch.take(self._unanswered.popleft())
            elif isinstance(frame, Error):
                self.failure = frame.message
                self.watch.done.set()

    async def subscribe(self, receipt: Receipt) -> None:
        raise NotImplementedError

    async def stream(self, payload: bytes, messages: int) -> None:
        raise NotImplementedError

    async def send(self, payloads: Sequence[bytes]) -> None:
        self._unanswered.extend(payloads)
        frames = (encode(Publish(1, TOPIC, Batch.of_columns([b""], [payload]))) for payload in payloads)
        self._transport.write(b"".join(frames))

    async def slice(self, job: Job) -> list[float]:
        """Seconds until each message of an open loop was answered.

        Raises:
            RuntimeError: the broker has refused one.
        """
        self.watch = Stopwatch(job.messages)
        await open_loop(self, job)
        await self.watch.done.wait()
        if self.failure:
            raise RuntimeError(f"the broker has refused: {self.failure}")
        return self.watch.seconds


@asynccontextmanager
async def filled(port: int, point: int, size: int) -> Any:
    """A connection to a broker whose ring holds as many messages as the point says, and is full."""
    first = IdleConnection(port)
    first.ask([create(TOPIC, point)])
    first.ask(singles(point, size))
    first.close()
    transport, publishes = await asyncio.get_running_loop().create_connection(TimedPublishes, "127.0.0.1", port)
    try:
        yield publishes
    finally:
        transport.close()


async def play(job: Job) -> dict[str, float]:
    """Quantiles in milliseconds and the bars of a histogram, for each ring at each rate.

    Raises:
        RuntimeError: a broker has refused a message, or does not hold what it should.
    """
    found: dict[tuple[int, int], list[float]] = {(point, rate): [] for point in job.points for rate in RATES}
    async with AsyncExitStack() as stack, asyncio.timeout(job.deadline):
        links = {
            point: await stack.enter_async_context(filled(port, point, job.size))
            for (port, _), point in zip(job.servers, job.points, strict=True)
        }
        order = random.Random(0)  # noqa: S311 - no secret; who goes first, or after whom, must not matter
        for _ in range(job.rounds):
            for point, rate in order.sample(list(found), len(found)):
                slice_now = replace(job, rate=rate, messages=int(rate * job.seconds))
                found[point, rate] += await links[point].slice(slice_now)
        for (port, _), point in zip(job.servers, job.points, strict=True):
            await check(port, point)
    return {
        f"{point:,} {rate:,}/s {name}": figure
        for (point, rate), seconds in found.items()
        for name, figure in (*quantiles(seconds).items(), *histogram(seconds).items())
    }


async def check(port: int, point: int) -> None:
    """Compare what the ring holds with what it should.

    Raises:
        RuntimeError: they differ.
    """
    async with zaichik.connect(port=port) as client:
        (state,) = await client.topics(TOPIC)
    if state["resident"] != point:
        raise RuntimeError(f"the ring holds {state['resident']:,} messages, not {point:,}")


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Milliseconds."""
    cuts = statistics.quantiles(seconds, n=1000)
    return {
        name: value * 1000 for name, value in zip(FIGURES, (cuts[499], cuts[989], cuts[998], max(seconds)), strict=True)
    }


def histogram(seconds: list[float]) -> dict[str, int]:
    """How many messages took how long."""
    lows = (*BOUNDS_MS, float("inf"))
    return {
        name: sum(low <= value * 1000 < high for value in seconds)
        for name, (low, high) in zip(bars(), pairwise(lows), strict=True)
    }
