"""A walk over a segment: record by record, and over the damage in between.

    head │ record │ record │ ▒▒▒ damage ▒▒▒ │ record │
         └─ step ─┴─ step ─┴───── step ─────┴─ step ─┘

Recovery, readers and `zaichik check` all look at a segment in this way, and each decides what
damage means to it. Where the header of a record is good and its body is not, the next record begins
where the header says, if there is one. Otherwise the next one is searched for.

A disk may write a sector in the wrong place. The records in it are whole, and of this file; they
are damage all the same, because they tell where they belong (`RecordHeader.may_be_at`). Their
lengths tell nothing about what comes next.
"""

from collections.abc import Iterator
from typing import NamedTuple

from zaichik.storage.disk import Disk
from zaichik.storage.record import (
    HEADER,
    RecordHeader,
    RecordKind,
    StoredRecord,
    header,
    next_header,
    skip,
)
from zaichik.storage.segment import HEAD_SIZE, Segment
from zaichik.storage.shapes import is_names_body, is_positions_body, is_refusal_body

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
    header: RecordHeader | None
    record: StoredRecord | None


def walk(
    disk: Disk, segment: Segment, position: int = HEAD_SIZE, wanted: int = 0
) -> Iterator[Step]:
    """Returns the steps from a position on, at which a record begins.

    Records that end below the wanted offset are skipped by their headers: one step covers many, and
    has no record.
    """
    data = b""
    start = position
    # The offset after the last record, as far as it is known.
    least = 0
    if position == HEAD_SIZE:
        least = segment.base
    while position < segment.size:
        at = position - start
        if len(data) - at < HEADER.size:
            data = _read(disk, segment, position, READ_SIZE)
            start = position
            at = 0
        head = header(data, at, segment.salt)
        if head is not None and not head.may_be_at(position, least):
            head = None
        record = None
        if head is None:
            # No record is shorter than a header.
            end = _next_record(disk, segment, position + HEADER.size, least)
        elif head.end < wanted:
            after, least = skip(data, at, segment.salt, wanted)
            end = start + after
        else:
            end = position + head.size
            if end > start + len(data):
                data = _read(disk, segment, position, max(READ_SIZE, head.size))
                start = position
                at = 0
            record = _whole(head.record(data, at, segment.salt))
            if record is not None:
                least = head.end
            elif not _is_record(disk, segment, end, least):
                end = _next_record(disk, segment, position + HEADER.size, least)
        end = min(end, segment.size)
        yield Step(position, end, head, record)
        position = end


def _whole(record: StoredRecord | None) -> StoredRecord | None:
    """Returns a record that says what its kind says; None if it does not."""
    if record is None or record.kind in (RecordKind.MESSAGES, RecordKind.LOST):
        return record
    fits = True
    match record.kind:
        case RecordKind.POSITIONS:
            fits = is_positions_body(record.body)
        case RecordKind.REFUSED:
            fits = is_refusal_body(record.body)
        case RecordKind.NAMES:
            fits = is_names_body(record.body)
    if fits:
        return record
    return None


def _read(disk: Disk, segment: Segment, position: int, size: int) -> bytes:
    """Read, but not beyond the segment's known size.

    What the writer is adding after that may be incomplete.
    """
    return disk.read(segment.path, position, max(min(size, segment.size - position), 0))


def _is_record(disk: Disk, segment: Segment, position: int, least: int) -> bool:
    """Returns whether a good header is at a position, and may be there."""
    data = _read(disk, segment, position, HEADER.size)
    head = header(data, 0, segment.salt)
    return head is not None and head.may_be_at(position, least)


def _next_record(disk: Disk, segment: Segment, position: int, least: int) -> int:
    """Returns where the first good header from a position on begins that may be there.

    The segment's size if there is none.
    """
    while True:
        data = _read(disk, segment, position, READ_SIZE)
        if len(data) < HEADER.size:
            return segment.size
        at = next_header(data, 0, segment.salt)
        while at is not None:
            head = header(data, at, segment.salt)
            if head is not None and head.may_be_at(position + at, least):
                return position + at
            at = next_header(data, at + 1, segment.salt)
        # A header may begin in the last bytes, and end in the next piece.
        position += len(data) - HEADER.size + 1
