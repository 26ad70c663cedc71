"""How long a broker takes to start: with an empty folder, after `kill -9`, and after an orderly
stop.

The topics are filled side by side, and the kill follows the last answer at once, before the
checkpoints that quiet topics get. So as much is left to read as a crash can leave.
"""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

import zaichik
from benchmarks.peers.peer import Job
from benchmarks.serving import port_in, serving
from zaichik_protocol import Batch

BATCH = 64 * 1024  # bytes
CLIENTS = 4  # a connection has a bounded number of unanswered requests


@contextmanager
def started(data: Path) -> Iterator[tuple["subprocess.Popen[str]", int, float]]:
    """Returns a broker with its port and the milliseconds it took to start; it is killed at the end
    of the block.
    """
    begin = time.monotonic()
    command = serving("--data", str(data), log_level="error")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            port = port_in(child.stdout.readline())
            yield child, port, (time.monotonic() - begin) * 1000
        finally:
            child.kill()


async def fill(port: int, job: Job) -> None:
    """Publish the job's messages, an equal share to each topic."""
    (topics,) = job.points
    each = max(1, BATCH // job.size)
    batch = Batch.of([(b"", b"x" * job.size)] * each)

    async def one(client: zaichik.Client, name: str) -> None:
        await client.create_topic(name, durable=True, capacity=each, log_bytes=2**40)
        for _ in range(batches_of(job)):
            await client.publish_batch(name, batch)

    async def some(first: int) -> None:
        async with zaichik.connect(port=port) as client, anyio.create_task_group() as tasks:
            for number in range(first, topics, CLIENTS):
                tasks.start_soon(one, client, f"topic{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(CLIENTS):
            tasks.start_soon(some, number)


def batches_of(job: Job) -> int:
    """Returns how many batches each topic is given."""
    return max(1, job.messages // job.points[0] // max(1, BATCH // job.size))


async def check(port: int, job: Job) -> None:
    """Raises `RuntimeError` if a message is missing."""
    expected = batches_of(job) * max(1, BATCH // job.size)
    async with zaichik.connect(port=port) as client:
        topics: list[dict[str, Any]] = await client.topics()
    found = [topic["next_offset"] for topic in topics]
    if found != [expected] * job.points[0]:
        raise RuntimeError(
            f"of {expected:,} messages in each of {job.points[0]} topics there are {found}"
        )


async def play(job: Job) -> dict[str, float]:
    """Returns the three times in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        data = Path(name) / "topics"
        with started(data) as (_, port, empty):
            await fill(port, job)
        with started(data) as (child, port, killed):
            await check(port, job)
            child.terminate()
            child.wait()
        with started(data) as (_, port, stopped):
            await check(port, job)
    return {
        "with an empty folder": empty,
        "after kill -9": killed,
        "after an orderly stop": stopped,
    }
