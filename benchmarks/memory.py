"""The growth of the broker's memory for one connection, one stored message, one topic, and one byte
that is kept.

Memory means what belongs to the process alone (Linux's `Private_Clean` + `Private_Dirty`). It is
read at two sizes, and the difference is divided by the number of things between them, so that fixed
costs drop out. What the kernel holds for a socket does not belong to the process and is not
counted.
"""

import os
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path

from benchmarks.idle import IdleConnection, connections, create, messages, topics
from benchmarks.peers.peer import Job
from zaichik_protocol import Batch, Publish

Add = Callable[[IdleConnection, int, int, int], list[IdleConnection]]
SIZES: dict[str, tuple[int, int]] = {
    "idle connection": (200, 1_000),
    "stored message": (100_000, 500_000),
    "stored message of 1 KiB": (20_000, 100_000),
    "stored message published alone": (50_000, 250_000),
    "topic": (1_000, 5_000),
}
PAYLOADS = {  # bytes of a message
    "stored message": 100,
    "stored message of 1 KiB": 1024,
    "stored message published alone": 100,
}


def add_connections(first: IdleConnection, port: int, begin: int, end: int) -> list[IdleConnection]:
    """Returns new connections that have sent their Hello."""
    del first
    return connections(port, end - begin)


def add_messages(
    size: int, first: IdleConnection, port: int, begin: int, end: int, *, alone: bool = False
) -> list[IdleConnection]:
    """Stores messages, in batches of a hundred or each in a batch of its own; none of them is
    dropped.
    """
    del port
    topic = f"messages-{begin}"
    first.ask([create(topic, end)])
    single = Publish(1, topic, Batch.of_columns([b""], [b"x" * size]))
    first.ask(repeat(single, end - begin) if alone else messages(topic, end - begin, size))
    if first.stored != end:
        raise RuntimeError(f"{first.stored:,} messages are stored, not {end:,}")
    return []


def add_topics(first: IdleConnection, port: int, begin: int, end: int) -> list[IdleConnection]:
    """Creates topics that no client uses."""
    del port
    first.ask(list(topics(end))[begin:])
    return []


ADD: dict[str, Add] = {
    "idle connection": add_connections,
    "stored message": partial(add_messages, PAYLOADS["stored message"]),
    "stored message of 1 KiB": partial(add_messages, PAYLOADS["stored message of 1 KiB"]),
    "stored message published alone": partial(
        add_messages, PAYLOADS["stored message published alone"], alone=True
    ),
    "topic": add_topics,
}


def readable() -> bool:
    """Returns whether this system reports private memory."""
    return Path("/proc/self/smaps_rollup").exists()


def private_bytes(pid: int) -> int:
    """Returns the bytes that the process would release if it ended."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    lines = [line.split() for line in rollup.splitlines() if line.startswith("Private_")]
    return sum(int(line[1]) for line in lines) * 1024


def resident_bytes(pid: int) -> int:
    """Returns the bytes of memory that the process occupies now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf(
        "SC_PAGE_SIZE"
    )


def peak_bytes(pid: int) -> int:
    """Returns the most bytes that the process has occupied so far."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        if "VmHWM" in line
    )
    return int(line.split()[1]) * 1024


async def play(job: Job) -> dict[str, float]:
    """Bytes for one of them; of a message, bytes over its payload, and bytes for each byte of the
    payload.
    """
    (port, pid), add = job.servers[0], ADD[job.axis]
    small, large = job.points
    first = IdleConnection(port)
    held = add(first, port, 0, small)
    before = private_bytes(pid)
    held += add(first, port, small, large)
    each = (private_bytes(pid) - before) / (large - small)
    if size := PAYLOADS.get(job.axis):
        return {"each": each - size, "per byte": each / size}
    return {"each": each}
