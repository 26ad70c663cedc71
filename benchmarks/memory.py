"""The growth of the broker's memory for one connection, one stored message, one topic.

Memory means what belongs to the process alone (Linux's `Private_Clean` + `Private_Dirty`). It is read at two sizes, and
the difference is divided by the number of things between them, so that fixed costs drop out. What the kernel holds for
a socket does not belong to the process and is not counted.
"""

from collections.abc import Callable
from pathlib import Path

from benchmarks.idle import IdleConnection, connections, create, messages, topics
from benchmarks.peers.peer import Job

PAYLOAD = 100
SIZES: dict[str, tuple[int, int]] = {
    "idle connection": (200, 1_000),
    "stored message": (100_000, 500_000),
    "topic": (1_000, 5_000),
}


def add_connections(first: IdleConnection, port: int, begin: int, end: int) -> list[IdleConnection]:
    """Returns new connections that have sent their Hello."""
    del first
    return connections(port, end - begin)


def add_messages(first: IdleConnection, port: int, begin: int, end: int) -> list[IdleConnection]:
    """Stores messages of 100 bytes, in batches of a hundred; none of them is dropped."""
    del port
    topic = f"messages-{begin}"
    first.ask([create(topic, end)])
    first.ask(messages(topic, end - begin, PAYLOAD))
    if first.stored != end:
        raise RuntimeError(f"{first.stored:,} messages are stored, not {end:,}")
    return []


def add_topics(first: IdleConnection, port: int, begin: int, end: int) -> list[IdleConnection]:
    """Creates topics that no client uses."""
    del port
    first.ask(list(topics(end))[begin:])
    return []


ADD: dict[str, Callable[[IdleConnection, int, int, int], list[IdleConnection]]] = dict(
    zip(SIZES, (add_connections, add_messages, add_topics), strict=True)
)


def readable() -> bool:
    """Returns whether this system reports private memory."""
    return Path("/proc/self/smaps_rollup").exists()


def private_bytes(pid: int) -> int:
    """Returns the bytes that the process would release if it ended."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    lines = [line.split() for line in rollup.splitlines() if line.startswith("Private_")]
    return sum(int(line[1]) for line in lines) * 1024


async def play(job: Job) -> dict[str, float]:
    """Bytes for one of them; of a message, bytes over its payload."""
    (port, pid), add = job.servers[0], ADD[job.axis]
    small, large = job.points
    first = IdleConnection(port)
    held = add(first, port, 0, small)
    before = private_bytes(pid)
    held += add(first, port, small, large)
    each = (private_bytes(pid) - before) / (large - small)
    return {"each": each - (PAYLOAD if job.axis == "stored message" else 0)}
