"""Reads a topic's log behind the ring: in worker threads, a piece at a time."""

from bisect import bisect_right
from collections.abc import Sequence

from zaichik.broker.ring import Entry
from zaichik.log.disk import Disk
from zaichik.log.record import Kind, Record
from zaichik.log.recovery import records
from zaichik.log.segment import Segment
from zaichik_protocol import Batch

CHUNK = 256 * 1024  # bytes of batches that are read at once; one batch at least


class Damaged(Exception):
    """The log cannot be read at an offset. The message says where the damage is."""


def read_chunk(disk: Disk, segments: Sequence[Segment], offset: int) -> list[Entry]:
    """Returns some of the batches from the one with that offset on; nothing if its segment was removed meanwhile.

    Raises:
        Damaged: that batch is not whole.
    """
    segment = _segment(segments, offset)
    if segment is None:
        return []
    entries: list[Entry] = []
    size = 0
    try:
        _index(disk, segment)
        for _, record in records(disk, segment, segment.position(offset)):
            if record.base + record.count <= offset or not record.count:
                continue
            if not entries and record.base > offset:
                break
            if record.kind == Kind.GAP:
                break
            entries.append(_entry(record))
            size += len(record.body)
            if size >= CHUNK:
                return entries
    except FileNotFoundError:
        return []
    if not entries and segment in segments:
        raise Damaged(f"the log is damaged at offset {offset}, in {segment.path}; `zaichik check` tells more")
    return entries


def first_since(disk: Disk, segments: Sequence[Segment], time_us: int) -> int | None:
    """Returns the first offset on the disk accepted at that time or later; None if it is not there."""
    snapshot = list(segments)
    index = max(bisect_right([segment.accepted_us for segment in snapshot], time_us - 1) - 1, 0)
    for segment in snapshot[index : index + 2]:
        try:
            _index(disk, segment)
            position = segment.position_of_time(time_us)
            for _, record in records(disk, segment, position):
                if record.accepted_us >= time_us and record.kind == Kind.MESSAGES:
                    return record.base
        except (FileNotFoundError, Damaged):
            continue
    return None


def _segment(segments: Sequence[Segment], offset: int) -> Segment | None:
    snapshot = list(segments)  # the writer may add or remove one meanwhile
    index = bisect_right([segment.base for segment in snapshot], offset) - 1
    return snapshot[index] if index >= 0 else None


def _index(disk: Disk, segment: Segment) -> None:
    if not segment.positions:
        folder = segment.path.rpartition("/")[0]
        segment.load_index(disk, disk.files(folder))
    if not segment.positions:
        raise Damaged(f"the first record of {segment.path} is damaged")


def _entry(record: Record) -> Entry:
    return Entry(record.base, record.accepted_us, Batch(record.body, record.count))
