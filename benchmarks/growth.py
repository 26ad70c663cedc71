"""How the cost of publishing grows with what the broker holds: it should not.

For each axis there is a broker at every point, all running at once, and short slices of publishing
alternate between them, in changing order: whatever slows the machine down slows down every point. A
figure is the median of its slices, and what counts is its ratio to the figure of the first point in
the same run.

There are three figures: the time of an awaited publish of one message, as its program sees it; the
broker's processor time for it, in which the client's own cost cannot hide growth; and the broker's
processor time for a batch of a hundred. The latter two come from Linux's /proc and are left out
elsewhere.
"""

import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import zaichik
from benchmarks.idle import (
    BATCH,
    PER_CONNECTION,
    IdleConnection,
    connections,
    create,
    messages,
    subscriptions,
    topics,
)
from benchmarks.peers.peer import Job
from zaichik_protocol import Batch

AXES: dict[str, tuple[int, ...]] = {
    "messages retained": (1_000, 10_000, 100_000, 1_000_000),
    "topics": (1, 100, 10_000),
    "idle subscriptions, caught up on another topic": (0, 100, 10_000),
    "idle subscriptions to this topic, out of credit": (0, 100, 10_000),
    "connections": (1, 10, 100, 1_000),
}
TOPIC, OTHER = "measured", "other"
# messages retained where something else grows: the ring is full at every point, so each publish
# evicts
SMALL = 1_000


def retain(first: IdleConnection, port: int, point: int) -> list[IdleConnection]:
    """The ring is as large as the point says, and full."""
    del port
    first.ask([create(TOPIC, point)])
    first.ask(messages(TOPIC, point, 100))
    return []


def more_topics(first: IdleConnection, port: int, point: int) -> list[IdleConnection]:
    """As many topics, that which is measured being one of them."""
    first.ask(topics(point - 1))
    return retain(first, port, SMALL)


def caught_up(first: IdleConnection, port: int, point: int) -> list[IdleConnection]:
    """Subscriptions that wait for a message that does not come."""
    retain(first, port, SMALL)
    return subscriptions(port, OTHER, point, credit=1000)


def out_of_credit(first: IdleConnection, port: int, point: int) -> list[IdleConnection]:
    """Subscriptions that have one message, commit nothing, and fall behind."""
    retain(first, port, SMALL)
    held = subscriptions(port, TOPIC, point, credit=1)
    for index, connection in enumerate(held):
        connection.receive(min(PER_CONNECTION, point - index * PER_CONNECTION))
    return held


def more_connections(first: IdleConnection, port: int, point: int) -> list[IdleConnection]:
    """As many connections, that which publishes being one of them."""
    retain(first, port, SMALL)
    return connections(port, point - 1)


BUILD: dict[str, Callable[[IdleConnection, int, int], list[IdleConnection]]] = dict(
    zip(AXES, (retain, more_topics, caught_up, out_of_credit, more_connections), strict=True)
)


class Point:
    """A broker with its state, and the figures of its slices.

    Attributes:
        figures: of all slices, by name, in microseconds a publish.
        published: messages, by the measured publishes.
    """

    def __init__(self, client: zaichik.Client, pid: int, publishes: int) -> None:
        self.figures: dict[str, list[float]] = {}
        self.published = 0
        self._client = client
        self._pid = pid
        self._publishes = publishes

    async def slice(self) -> None:
        """A number of publishes of one message, and a quarter as many of a hundred."""
        wall, broker = await self._publish(1, self._publishes)
        _, batch = await self._publish(BATCH, max(1, self._publishes // 4))
        for name, figure in (("publish", wall), ("broker", broker), ("batch", batch)):
            if figure is not None:
                self.figures.setdefault(name, []).append(figure)

    async def _publish(self, count: int, publishes: int) -> tuple[float, float | None]:
        """Microseconds each took, and microseconds of the broker's processor."""
        batch, publish = (
            Batch.of_columns([b""] * count, [b"x" * 100] * count),
            self._client.publish_batch,
        )
        before, begin = processor_us(self._pid), time.monotonic()
        for _ in range(publishes):
            await publish(TOPIC, batch)
        took = (time.monotonic() - begin) * 1e6
        after = processor_us(self._pid)
        self.published += count * publishes
        return took / publishes, None if before is None or after is None else (
            after - before
        ) / publishes

    async def check(self, before: int) -> None:
        """Compare the broker's count with ours.

        Raises:
            RuntimeError: they differ.
        """
        (state,) = await self._client.topics(TOPIC)
        if state["published"] != before + self.published:
            raise RuntimeError(
                f"{state['published']:,} messages were published, not {before + self.published:,}"
            )


def processor_us(pid: int) -> float | None:
    """Microseconds that the main thread of a process has run; None if the kernel keeps no count."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1000
    except FileNotFoundError:
        return None


def keep_apart(pids: Sequence[int]) -> None:
    """Keeps this process on one processor and the brokers on another, where the system has two and
    can be told.

    The system decides anew for each broker whether it shares a processor with its client, and a
    publish that is awaited takes half as long again if not. That would look like growth.
    """
    if hasattr(os, "sched_setaffinity") and len(processors := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(0, processors[:1])
        for pid in pids:
            os.sched_setaffinity(pid, processors[1:2])


async def play(job: Job) -> dict[str, float]:
    """Each figure at each point."""
    keep_apart([pid for _, pid in job.servers])
    held: list[IdleConnection] = []
    points: list[Point] = []
    async with AsyncExitStack() as stack:
        for (port, pid), point in zip(job.servers, job.points, strict=True):
            first = IdleConnection(port)
            held += BUILD[job.axis](first, port, point)
            first.close()
            client = await stack.enter_async_context(zaichik.connect(port=port))
            points.append(Point(client, pid, job.messages))
            await points[-1].slice()  # warm
            points[-1].figures.clear()
        order = random.Random(0)  # noqa: S311 - no secret; the order of brokers must not matter
        for _ in range(job.rounds):
            for point_now in order.sample(points, len(points)):
                await point_now.slice()
        for point, point_now in zip(job.points, points, strict=True):
            await point_now.check(point if job.axis == "messages retained" else SMALL)
    return {
        f"{point:,} {name}": statistics.median(figures)
        for point, point_now in zip(job.points, points, strict=True)
        for name, figures in point_now.figures.items()
    }
