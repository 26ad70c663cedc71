"""A walk over a segment: record by record, and over the damage in between.

    head │ record │ record │ ▒▒▒ damage ▒▒▒ │ record │
         └─ step ─┴─ step ─┴───── step ─────┴─ step ─┘

Recovery, readers and `zaichik check` all look at a segment in this way, and each decides what damage means to it. Where
the header of a record is good and its body is not, the next record begins where the header says. Where the header is
bad as well, the next one is searched for.
"""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Header, Record, header, next_header, skip
from zaichik.log.segment import HEAD_SIZE, Segment

READ_SIZE = 256 * 1024  # bytes


class Step(NamedTuple):
    """A record, or a stretch of damage.

    Attributes:
        position, end: where it begins, and where the next one does.
        header: None if that is damaged.
        record: None if it is damaged.
    """

    position: int
    end: int
    header: Header | None
    record: Record | None


def walk(disk: Disk, segment: Segment, position: int = HEAD_SIZE, wanted: int = 0) -> Iterator[Step]:
    """Returns the steps from a position on, at which a record begins.

    Records that end below the wanted offset are skipped by their headers: one step covers many, and has no record.
    """
    data, start = b"", position
    while position < segment.size:
        at = position - start
        if len(data) - at < HEADER.size:
            data, start, at = _read(disk, segment, position, READ_SIZE), position, 0
        head, record = header(data, at, segment.salt), None
        if head is None:
            end = _next_record(disk, segment, position + HEADER.size)  # no record is shorter
        elif head.end < wanted:
            end = start + skip(data, at, segment.salt, wanted)
        else:
            end = position + head.size
            if end > start + len(data):
                data, start, at = _read(disk, segment, position, max(READ_SIZE, head.size)), position, 0
            record = head.record(data, at, segment.salt)
        end = min(end, segment.size)
        yield Step(position, end, head, record)
        position = end


def _read(disk: Disk, segment: Segment, position: int, size: int) -> bytes:
    """Read up to the segment's known size: what the writer is adding after that may be incomplete."""
    return disk.read(segment.path, position, max(min(size, segment.size - position), 0))


def _next_record(disk: Disk, segment: Segment, position: int) -> int:
    """Returns where the first good header from a position on begins; the segment's size if there is none."""
    while len(data := _read(disk, segment, position, READ_SIZE)) >= HEADER.size:
        at = next_header(data, 0, segment.salt)
        if at is not None:
            return position + at
        position += len(data) - HEADER.size + 1
    return segment.size
