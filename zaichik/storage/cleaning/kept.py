"""A record of kind KEPT: what was left of many records when a file was rewritten.

    header | how far each message is from the first offset, u32 | when each was accepted, i64 |
    the messages, as a batch

It covers every offset from its first one on, holes included, so that a start can still tell that
no record is missing. Of holes alone, it has no body. The two columns are where the other records
have their bitmap, and are as long as the header says that is.
"""

from array import array
from struct import Struct, pack, unpack

from zaichik.core.tables.keep_last import Rows
from zaichik.storage.record import RecordKind, StoredRecord
from zaichik_protocol import Batch

COLUMNS = Struct("<Iq").size  # bytes for each message, besides those in the batch
MOST_COVERED = 2**32 - 1  # offsets that one record can cover


def kept_record(base: int, end: int, rows: Rows) -> StoredRecord:
    """Returns a record of these messages that covers the offsets from `base` up to `end`."""
    count = rows.batch.count
    deltas = [offset - base for offset in rows.offsets]
    columns = pack(f"<{count}I{count}q", *deltas, *rows.times)
    latest_us = rows.times[-1]
    data = rows.batch.data
    return StoredRecord(base, latest_us, end - base, data, RecordKind.KEPT, dropped=columns)


def holes(base: int, end: int, accepted_us: int) -> StoredRecord:
    """Returns a record that covers offsets of which no message is left."""
    return StoredRecord(base, accepted_us, end - base, b"", RecordKind.KEPT)


def rows_of(record: StoredRecord) -> Rows | None:
    """Returns the messages of a whole record; None if it has none."""
    if record.kind == RecordKind.MESSAGES and record.count:
        offsets = array("q", range(record.base, record.base + record.count))
        times = array("q", [record.accepted_us]) * record.count
        return Rows(offsets, times, Batch(record.body, record.count))
    if record.kind == RecordKind.KEPT and record.body:
        count = len(record.dropped) // COLUMNS
        columns = unpack(f"<{count}I{count}q", record.dropped)
        base = record.base
        offsets = array("q", [base + delta for delta in columns[:count]])
        return Rows(offsets, array("q", columns[count:]), Batch(record.body, count))
    return None


def holes_of(record: StoredRecord) -> int:
    """Returns how many offsets a whole record of this kind covers that have no message."""
    return record.count - len(record.dropped) // COLUMNS


def is_kept(record: StoredRecord) -> bool:
    """Returns whether the body of a record of this kind says what it may."""
    if not record.body:
        return not record.dropped
    try:
        count = Batch.parse(record.body).count
    except ValueError:
        return False
    if len(record.dropped) != COLUMNS * count:
        return False
    deltas = unpack(f"<{count}I", record.dropped[: 4 * count])
    # As `Batch.parse` does: one pass in C.
    is_rising = sorted(set(deltas)) == list(deltas)
    return is_rising and deltas[-1] < record.count
