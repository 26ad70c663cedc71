"""What `acked_by="kafka"` costs by itself: publishes beside a bridge that copies nothing.

    python benchmarks/acked.py [--messages 300] [--tasks 100] [--each 50] [--runs 3]

The bridge says at once of all that it reads that Kafka has it. So what is measured is what our own
part adds: the watermark's way to the client, and the question for the topic's epoch. Kafka's
commit, which takes most of the time, comes on top. Broker and bridge are processes of their own.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.serving import port_in, serving
from zaichik.client.client import Client, connect
from zaichik.client.messages import AckedBy
from zaichik.client.replication.watermark import (
    CAPACITY,
    RETENTION,
    Watermark,
    topic_of,
)

TOPIC = "orders"
NAME = "replica/kafka"
PAYLOAD = bytes(100)
BY: tuple[AckedBy | None, ...] = (None, "kafka")


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="what acked_by costs by itself")
    parser.add_argument("--messages", type=int, default=300, help="of one publisher (%(default)s)")
    parser.add_argument("--tasks", type=int, default=100, help="at a time (%(default)s)")
    parser.add_argument("--each", type=int, default=50, help="messages of a task (%(default)s)")
    parser.add_argument("--runs", type=int, default=3, help="(default: %(default)s)")
    parser.add_argument("--bridge", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bridge:
        anyio.run(bridge, arguments.bridge)
        return
    print("run acked_by  one: median ms  many: messages/s")
    for run in range(arguments.runs):
        with started(serving()) as line:
            anyio.run(measure, run, port_in(line), arguments)


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    """Returns the first line that a program prints, which runs as long as the block lasts."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


async def bridge(port: int) -> None:
    """Acknowledge everything at once, until this process is ended."""
    async with connect(port=port) as client:
        made = await client.create_topic(
            TOPIC, overflow="reject", retention_ttl="forever", capacity=100_000
        )
        source = topic_of(TOPIC)
        await client.create_topic(source, capacity=CAPACITY, retention_ttl=RETENTION)
        async with client.subscribe(TOPIC, name=NAME) as subscription:
            print("begun", flush=True)
            async for piece in subscription.pieces():
                mark = Watermark(made.epoch, piece[-1].offset + 1)
                await client.publish(source, mark.encoded())


async def measure(run: int, port: int, arguments: argparse.Namespace) -> None:
    """Print a line for each way to publish; they take turns."""
    with started([sys.executable, __file__, "--bridge", str(port)]):
        for by in BY:
            async with ready(port, by) as client:
                lone = await one(client, by, arguments.messages)
                rate = await many(client, by, arguments.tasks, arguments.each)
            print(f"{run:3} {by or '-':8} {lone:15.2f} {rate:17,.0f}", flush=True)


@asynccontextmanager
async def ready(port: int, by: AckedBy | None) -> AsyncIterator[Client]:
    """Returns a client that has published already."""
    async with connect(port=port) as client:
        await client.publish(TOPIC, PAYLOAD, acked_by=by)
        yield client


async def one(client: Client, by: AckedBy | None, count: int) -> float:
    """Returns the median milliseconds of publishes, one after the other."""
    seconds: list[float] = []
    for _ in range(count):
        begin = time.perf_counter()
        await client.publish(TOPIC, PAYLOAD, acked_by=by)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds) * 1000


async def many(client: Client, by: AckedBy | None, tasks: int, each: int) -> float:
    """Returns messages a second of tasks that each publish one after the other."""

    async def task() -> None:
        for _ in range(each):
            await client.publish(TOPIC, PAYLOAD, acked_by=by)

    begin = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(tasks):
            group.start_soon(task)
    return tasks * each / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
