"""What tests of the log are made of: topics, records, logs on a disk, and what a start finds of
them.
"""

from collections.abc import Callable, Sequence
from random import Random

from sim_disk import SimDisk

from zaichik.storage.record import RecordKind, StoredRecord
from zaichik.storage.recovery import Recovered, new_state, recover
from zaichik.storage.segment import TopicHeader
from zaichik.storage.state import LogState
from zaichik.storage.walk import walk
from zaichik.storage.writer import Writer
from zaichik_protocol import FOREVER, Batch

KIB, MIB = 1024, 1024 * 1024
FOLDER = "topics/orders.d5acebe867b47f4d.7"
SETTINGS = {
    "retention_ttl_ms": FOREVER, "compaction_window_ms": 0, "max_keys": 1000, "log_bytes": 64 * MIB,
    "segment_bytes": 64 * KIB, "durable": 1,
}  # fmt: skip


def topic(name: str = "orders", epoch: int = 7, **settings: int) -> TopicHeader:
    """Returns a topic with these settings."""
    return TopicHeader(name, epoch, {**SETTINGS, **settings})


def message(
    base: int, size: int = 20, count: int = 1, at_us: int | None = None, **more: int
) -> StoredRecord:
    """Returns a record of messages that nobody takes for another: by default accepted as many µs
    late as its offset.
    """
    batch = Batch.of([(b"", f"{base + i}".encode().ljust(size, b".")) for i in range(count)])
    return StoredRecord(base, base if at_us is None else at_us, count, batch.data, **more)


def positions(base: int, at_us: int = 0, body: bytes = b'{"reader": 1}') -> StoredRecord:
    """Returns a record of named positions."""
    return StoredRecord(base, at_us, 0, body, RecordKind.POSITIONS)


def groups(count: int, seed: int = 0, sizes: Sequence[int] = (20, 200)) -> list[list[StoredRecord]]:
    """Returns so many records of one message each, in groups of 1 to 6."""
    random, made, base = Random(seed), list[list[StoredRecord]](), 0
    while base < count:
        size = min(random.randint(1, 6), count - base)
        made.append([message(base + i, random.randint(*sizes)) for i in range(size)])
        base += size
    return made


def writer(disk: SimDisk, of: TopicHeader | None = None, found: Recovered | None = None) -> Writer:
    """Returns the writer of a log: a new one, unless a start has found one."""
    of = of or topic()
    return Writer(disk, FOLDER, of, found or Recovered(of, new_state(of)))


def written(
    parts: Sequence[Sequence[StoredRecord]], of: TopicHeader | None = None
) -> tuple[SimDisk, Writer]:
    """Returns a disk with these groups."""
    disk = SimDisk()
    log = writer(disk, of)
    for group in parts:
        log.write(group)
    return disk, log


def found_records(disk: SimDisk, found: Recovered) -> list[StoredRecord]:
    """Returns all records that a start finds whole."""
    return [
        step.record for it in found.segments for step in walk(disk, it) if step.record is not None
    ]


def start(disk: SimDisk) -> tuple[Recovered, list[StoredRecord]]:
    """Returns what a start finds on a disk: the log, and its records."""
    found = recover(disk, FOLDER)
    return found, found_records(disk, found)


def as_told(state: LogState) -> tuple[object, ...]:
    """Returns everything that a start takes from a state."""
    window = (
        None
        if state.window is None
        else (list(state.window.opening_times()), state.window.key_bytes)
    )
    producers = [
        (key, it.next, it.used_us, list(it.answers)) for key, it in state.producers.items()
    ]
    return (
        state.end,
        state.accepted_us,
        state.published,
        state.compacted,
        window,
        producers,
        [*state.positions.items()],
        state.ticket,
        state.names,
    )


def path_of(base: int, suffix: str = "log") -> str:
    """Returns the path of a file of the log."""
    return f"{FOLDER}/{base:020}.{suffix}"


def changed(data: bytes, at: int, change: Callable[[int], int] = lambda byte: byte ^ 0x10) -> bytes:
    """Returns data with one byte changed."""
    return data[:at] + bytes([change(data[at])]) + data[at + 1 :]
