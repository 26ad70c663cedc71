"""Publishing to a durable table while its log is rewritten, and how long a table takes to start.

    python -m benchmarks.cleaning            # about three minutes
    python -m benchmarks.cleaning --quick    # does it work? The figures of this say nothing

Two brokers, each a process of its own, take turns: one rewrites its files as always, the other
never does. Both get the same kind of updates of random keys, by tasks that each await a batch, and
by one that publishes at a fixed rate. The figures are the medians of the turns. At the end, the
first broker starts again with all keys.
"""

import argparse
import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen

import anyio

from zaichik.client.client import Client, connect
from zaichik.client.errors import ConnectFailed
from zaichik.server.running import serve
from zaichik.storage.cleaning import table_log

TOPIC = "t"
PAYLOAD = b"x" * 100
BATCH = 100  # messages
TASKS = 8
SEGMENT_BYTES = 8 * 1024 * 1024
REWRITTEN = "rewritten"
NEVER = "never"


@dataclass(frozen=True)
class Size:
    """How much of everything is done.

    Attributes:
        keys: in the table.
        turns: of each broker.
        seconds: of one turn.
        rate: batches a second, where it is fixed.
    """

    keys: int = 100_000
    turns: int = 10
    seconds: float = 4.0
    rate: int = 100


QUICK = Size(2000, 2, 0.2)


@dataclass
class Figures:
    """What was measured of one broker, turn by turn."""

    rates: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


# -- brokers -------------------------------------------------------------------------------------


def broker(port: str, folder: str, how: str) -> None:
    """Serve until the process is ended; whose files are never rewritten, if so."""
    if how == NEVER:
        table_log.worth_rewriting = lambda *_, **__: []  # type: ignore[attr-defined]
    anyio.run(partial(serve, port=int(port), data=Path(folder)))


@contextmanager
def running(port: int, folder: str, how: str = REWRITTEN) -> Iterator[None]:
    """A broker that runs as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.cleaning", "--broker", str(port), folder, how]
    process = Popen(command, stdout=PIPE)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Returns a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# -- publishers ----------------------------------------------------------------------------------


def updates(keys: int, chance: random.Random) -> list[tuple[bytes, bytes]]:
    """Returns a batch of new values of random keys."""
    return [(b"key-%07d" % chance.randrange(keys), PAYLOAD) for _ in range(BATCH)]


async def fill(client: Client, keys: int) -> None:
    """Create the table, and publish each key once."""
    await client.create_topic(
        TOPIC,
        table=True,
        durable=True,
        capacity=max(2 * keys, 10_000),
        max_bytes=256 * keys + 2**20,
        segment_bytes=SEGMENT_BYTES,
    )
    for first in range(0, keys, 1000):
        messages = [(b"key-%07d" % key, PAYLOAD) for key in range(first, first + 1000)]
        await client.publish_batch(TOPIC, messages)


async def stream(client: Client, size: Size, chance: random.Random) -> float:
    """Publish as fast as some tasks can that each await a batch. Returns messages a second."""
    batches = [updates(size.keys, chance) for _ in range(64)]
    published = 0
    end = time.perf_counter() + size.seconds

    async def publish(task: int) -> None:
        nonlocal published
        number = task
        while time.perf_counter() < end:
            await client.publish_batch(TOPIC, batches[number % len(batches)])
            published += BATCH
            number += TASKS

    began = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for task in range(TASKS):
            tasks.start_soon(publish, task)
    return published / (time.perf_counter() - began)


async def paced(client: Client, size: Size, chance: random.Random) -> float:
    """Publish at a fixed rate. Returns the 99th percentile of when a batch is answered, in ms.

    It counts from when the batch was due, so that a late one does not excuse those after it.
    """
    took: list[float] = []
    batches = [updates(size.keys, chance) for _ in range(64)]
    began = time.perf_counter()
    for number in range(max(round(size.rate * size.seconds), 10)):
        due = began + number / size.rate
        await anyio.sleep(max(due - time.perf_counter(), 0))
        await client.publish_batch(TOPIC, batches[number % len(batches)])
        took.append(time.perf_counter() - due)
    return statistics.quantiles(took, n=100)[98] * 1000


async def take_turns(ports: dict[str, int], size: Size) -> dict[str, Figures]:
    """Measure both brokers in turns."""
    figures = {how: Figures() for how in ports}
    chance = random.Random(1)  # noqa: S311 (updates are to be the same in each run)
    for port in ports.values():
        async with connect(port=port) as client:
            await fill(client, size.keys)
            await stream(client, size, chance)
    for turn in range(size.turns):
        order = list(ports.items())
        if turn % 2:
            order.reverse()
        for how, port in order:
            async with connect(port=port) as client:
                figures[how].rates.append(await stream(client, size, chance))
                figures[how].p99_ms.append(await paced(client, size, chance))
    return figures


async def sizes_of(port: int) -> tuple[int, int, int]:
    """Returns the bytes of the log, of what is live in it, and the bound."""
    async with connect(port=port) as client:
        told = (await client.topics(TOPIC))[0]
    return told["log_bytes"], told["log_live_bytes"], told["log_bound_bytes"]


async def until_served(port: int) -> float:
    """Returns how many seconds it takes until the broker answers."""
    began = time.perf_counter()
    while True:
        try:
            async with connect(port=port) as client:
                await client.ping()
        except ConnectFailed:
            await anyio.sleep(0.01)
        else:
            return time.perf_counter() - began


# -- what is printed -----------------------------------------------------------------------------


def compare(name: str, often: list[float], never: list[float], unit: str) -> None:
    """Print the medians, and their ratio."""
    one = statistics.median(often)
    other = statistics.median(never)
    print(f"{name:28}{one:12,.1f}{other:12,.1f} {unit:10}{one / other:8.2f}")


def main(size: Size) -> None:
    """Measure, and print."""
    ports = {"rewritten": 18_941, NEVER: 18_942}
    with tempfile.TemporaryDirectory() as folder:
        with (
            running(ports[REWRITTEN], f"{folder}/{REWRITTEN}"),
            running(ports[NEVER], f"{folder}/b", NEVER),
        ):
            for port in ports.values():
                anyio.run(until_served, port)
            figures = anyio.run(take_turns, ports, size)
            log, live, bound = anyio.run(sizes_of, ports[REWRITTEN])
            unbounded, _, _ = anyio.run(sizes_of, ports[NEVER])
        print(f"{'':28}{'rewritten':>12}{'never':>12} {'':10}{'ratio':>8}")
        rewritten = figures[REWRITTEN]
        never = figures[NEVER]
        compare(f"{TASKS} tasks, {BATCH} a batch", rewritten.rates, never.rates, "messages/s")
        compare(f"p99 at {size.rate} batches/s", rewritten.p99_ms, never.p99_ms, "ms")
        print(f"the log: {log:,} bytes of {bound:,}, {live:,} live; never rewritten {unbounded:,}")
        with running(ports[REWRITTEN], f"{folder}/{REWRITTEN}"):
            seconds = anyio.run(until_served, ports[REWRITTEN])
        print(f"a start with {size.keys:,} keys: {seconds:.2f} s until it answers")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--broker"]:
        broker(*sys.argv[2:5])
    else:
        parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
        parser.add_argument("--quick", action="store_true", help="everything, small")
        parser.add_argument("--keys", type=int, help="in the table (default 100000)")
        options = parser.parse_args()
        wanted = Size()
        if options.quick:
            wanted = QUICK
        if options.keys:
            wanted = Size(options.keys)
        main(wanted)
