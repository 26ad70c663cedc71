"""What happened to every message that was published: the table that all statistics are made of.

A topic alone cannot show what compaction has dropped: that is the point of dropping it. The
broker's *journal* of a topic can. It is a topic itself, with one message for each message
published, dropped or not: the same key, and as payload a record of 40 bytes, little-endian:

    accepted_us i64 | offset i64 | other i64 | hash u64 | size u32 | status u8 | zero u8[3]

`offset` is where the message was stored, -1 if it was dropped; `other` the offset of the message
that kept it out, or, in a table, of the one that it superseded, -1 if there is none; `hash` the
first eight bytes of the payload's BLAKE2b; `size` the payload's bytes.

Where there is no journal, what was stored can still be asked what a *longer* or other window would
make of it: `of_messages` makes events of an ordinary topic's messages.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zaichik import ZaichikError

STORED, COMPACTED = 0, 1

SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("position", pa.int64()),
        ("accepted_us", pa.int64()),
        ("key", pa.binary()),
        ("hash", pa.int64()),
        ("size", pa.int64()),
        ("status", pa.int8()),
        ("offset", pa.int64()),
        ("winner", pa.int64()),
        ("superseded", pa.int64()),
    ]
)
"""A message published to a topic, whatever became of it.

`epoch` says which topic of that name it is, if there is more than one: windows do not outlive the
broker. `position` is its place among all that were published to the topic, so the order to read
them in; `accepted_us` the broker's clock, which never decreases along it. Two payloads are equal if
their `hash` is (with a probability of error of about n² / 2⁶⁵ for n different payloads). `status`
is `STORED` or `COMPACTED`; `offset` is null for what was dropped, `winner` for
what was not. `superseded` is the offset of the message that this one has superseded, null if there
was none, as in all topics that are no tables.
"""

RECORD = np.dtype(
    [
        ("accepted_us", "<i8"),
        ("offset", "<i8"),
        ("other", "<i8"),
        ("hash", "<u8"),
        ("size", "<u4"),
        ("status", "u1"),
        ("zero", "V3"),
    ]
)
"""A journal's payload."""


class NoJournal(ZaichikError):
    """A payload is not a journal's record."""


def decode(payloads: pa.Array) -> np.ndarray:
    """Returns a journal's payloads as an array of `RECORD`, without a loop over individual ones.

    Raises:
        NoJournal: one of them is not as long as a record.
    """
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[
        payloads.offset : payloads.offset + len(payloads) + 1
    ]
    if payloads.null_count or (np.diff(offsets) != RECORD.itemsize).any():
        raise NoJournal(
            f"a journal's payloads are {RECORD.itemsize} bytes each, and these are not: is it a "
            "journal?"
        )
    data = payloads.buffers()[2] if len(payloads) else b""
    return np.frombuffer(data, RECORD, len(payloads), int(offsets[0]) if len(payloads) else 0)


def of_journal(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of `SCHEMA` but the epoch, out of a journal's columns offset, key and payload.

    Raises:
        NoJournal: as `decode`.
    """
    records = decode(batch.column("payload"))
    offset, other = records["offset"], records["other"]
    is_stored = records["status"] == STORED
    return {
        "position": batch.column("offset"),
        "accepted_us": pa.array(records["accepted_us"]),
        "key": batch.column("key"),
        # The same bits: Spark has no unsigned integers.
        "hash": pa.array(records["hash"].view(np.int64)),
        "size": pa.array(records["size"].astype(np.int64)),
        "status": pa.array(records["status"].view(np.int8)),
        "offset": pa.array(offset, mask=offset < 0),
        "winner": pa.array(other, mask=is_stored | (other < 0)),
        "superseded": pa.array(other, mask=~is_stored | (other < 0)),
    }


def of_messages(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The same, out of a topic's columns offset, timestamp, key and payload: all of them stored."""
    payloads, rows = batch.column("payload"), len(batch)
    # Python's own hash: another one in each process, but equal for equal payloads in this one.
    hashes = np.fromiter(map(hash, payloads.to_pylist()), np.int64, rows)
    return {
        "position": batch.column("offset"),
        "accepted_us": batch.column("timestamp").cast(pa.int64()),
        "key": batch.column("key"),
        "hash": pa.array(hashes),
        "size": pc.binary_length(payloads).cast(pa.int64()),
        "status": pa.array(np.full(rows, STORED, np.int8)),
        "offset": batch.column("offset"),
        "winner": pa.nulls(rows, pa.int64()),
        "superseded": pa.nulls(rows, pa.int64()),
    }


def events(columns: Mapping[str, pa.Array], epoch: int) -> pa.RecordBatch:
    """A batch of `SCHEMA`, out of one of the two above."""
    whole = {**columns, "epoch": pa.repeat(pa.scalar(epoch, pa.int64()), len(columns["position"]))}
    return pa.RecordBatch.from_arrays([whole[name] for name in SCHEMA.names], schema=SCHEMA)
