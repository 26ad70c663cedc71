"""The slowest answers of a broker whose ring is full of small batches: does keeping much make it
pause?

A ring of a million batches, each of one message, is full, so every publish evicts one. Single
messages are published at a fixed rate, and their latency is measured from the time due to the
reply. A second broker with a ring of a thousand is the control: pauses that both brokers show come
from the machine. Slices at both brokers and both rates alternate, in random order.

The publisher only writes encoded frames and reads replies, so that it adds few pauses of its own.
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
from zaichik_protocol import (
    NEED_DATA,
    Batch,
    Error,
    Frame,
    FrameDecoder,
    Hello,
    Publish,
    Published,
    encode,
)

TOPIC = "measured"
RATES = (1_000, 10_000)  # messages a second
BOUNDS_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200)  # of the histogram's bars; the last one has no end
FIGURES = ("p50", "p99", "p99.9", "max")


def bars() -> list[str]:
    """Returns the names of the histogram's bars."""
    return [f"< {high} ms" for _, high in pairwise(BOUNDS_MS)] + [f"≥ {BOUNDS_MS[-1]} ms"]


def singles(number: int, size: int) -> Iterator[Frame]:
    """Returns requests that publish this many messages, each in a batch of its own."""
    return repeat(Publish(1, TOPIC, Batch.of_columns([b""], [b"x" * size])), number)


class TimedPublishes(Link, asyncio.Protocol):
    """A connection that publishes single messages and records the latency of each, from the time
    due to the reply.
    """

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
        frames = (
            encode(Publish(1, TOPIC, Batch.of_columns([b""], [payload]))) for payload in payloads
        )
        self._transport.write(b"".join(frames))

    async def slice(self, job: Job) -> list[float]:
        """Returns the latency of each message of an open loop, in seconds.

        Raises:
            RuntimeError: the broker refused one.
        """
        self.watch = Stopwatch(job.messages)
        await open_loop(self, job)
        await self.watch.done.wait()
        if self.failure:
            raise RuntimeError(f"the broker refused a message: {self.failure}")
        return self.watch.seconds


@asynccontextmanager
async def filled(port: int, point: int, size: int) -> Any:
    """Fills a ring of `point` messages; yields a connection to its broker."""
    first = IdleConnection(port)
    first.ask([create(TOPIC, point)])
    first.ask(singles(point, size))
    first.close()
    transport, publishes = await asyncio.get_running_loop().create_connection(
        TimedPublishes, "127.0.0.1", port
    )
    try:
        yield publishes
    finally:
        transport.close()


async def play(job: Job) -> dict[str, float]:
    """Returns quantiles in milliseconds and the bars of a histogram, for each ring at each rate.

    Raises:
        RuntimeError: a broker refused a message, or its ring is not full at the end.
    """
    found: dict[tuple[int, int], list[float]] = {
        (point, rate): [] for point in job.points for rate in RATES
    }
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
    """Checks that the ring is still full.

    Raises:
        RuntimeError: it is not.
    """
    async with zaichik.connect(port=port) as client:
        (state,) = await client.topics(TOPIC)
    if state["resident"] != point:
        raise RuntimeError(f"the ring holds {state['resident']:,} messages, not {point:,}")


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Returns quantiles in milliseconds."""
    cuts = statistics.quantiles(seconds, n=1000, method="inclusive")
    return {
        name: value * 1000
        for name, value in zip(
            FIGURES, (cuts[499], cuts[989], cuts[998], max(seconds)), strict=True
        )
    }


def histogram(seconds: list[float]) -> dict[str, int]:
    """Returns the number of messages in each bar."""
    lows = (*BOUNDS_MS, float("inf"))
    return {
        name: sum(low <= value * 1000 < high for value in seconds)
        for name, (low, high) in zip(bars(), pairwise(lows), strict=True)
    }
