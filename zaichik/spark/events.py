"""What happened to every message that was published: the table that all statistics are made of.

A topic alone cannot tell what compaction has dropped: that is the point of dropping it. The broker's *journal* of a
topic can. It is a topic itself, with one message for each message published, dropped or not: the same key, and as
payload a record of 40 bytes, little-endian:

    accepted_us i64 | offset i64 | winner i64 | hash u64 | size u32 | status u8 | zero u8[3]

`offset` is where the message was stored, -1 if it was dropped; `winner` the offset of the message that kept it out,
-1 if none did; `hash` the first eight bytes of the payload's BLAKE2b; `size` the payload's bytes.

Where there is no journal, what was stored can still be asked what a *longer* or other window would make of it:
`from_messages` makes events of an ordinary topic or of a recording.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, ByteType, LongType, StringType, StructField, StructType

from zaichik.client.errors import ZaichikError

STORED, COMPACTED = 0, 1
JOURNAL_PREFIX = "$journal/"

EVENTS = StructType(
    [
        StructField("topic", StringType()),
        StructField("epoch", LongType()),
        StructField("position", LongType()),
        StructField("accepted_us", LongType()),
        StructField("key", BinaryType()),
        StructField("hash", LongType()),
        StructField("size", LongType()),
        StructField("status", ByteType()),
        StructField("offset", LongType()),
        StructField("winner", LongType()),
    ]
)
"""A message published, whatever became of it.

`epoch` says which topic of that name it is, if there is more than one: windows do not outlive the broker. `position` is
its place among all that were published to the topic, so the order to look at them in; `accepted_us` the broker's
clock, which never decreases along it. Two payloads are equal if their `hash` is. `status` is `STORED`
or `COMPACTED`; `offset` is null for what was dropped, `winner` for what was not.
"""

RECORD = np.dtype(
    [("accepted_us", "<i8"), ("offset", "<i8"), ("winner", "<i8"), ("hash", "<u8"), ("size", "<u4"), ("status", "u1"),
     ("zero", "V3")]
)  # fmt: skip
"""A journal's payload."""


class NoJournal(ZaichikError):
    """A payload is not a journal's record."""


def decode(payloads: pa.Array) -> np.ndarray:
    """A journal's payloads as an array of `RECORD`, without looking at single ones.

    Raises:
        NoJournal: one of them is not as long as a record.
    """
    offsets = np.frombuffer(payloads.buffers()[1], np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    if payloads.null_count or (np.diff(offsets) != RECORD.itemsize).any():
        raise NoJournal(f"a journal's payloads are {RECORD.itemsize} bytes each, these are not: is it a journal?")
    data = payloads.buffers()[2] if len(payloads) else b""
    return np.frombuffer(data, RECORD, len(payloads), int(offsets[0]) if len(payloads) else 0)


def from_journal(journal: DataFrame) -> DataFrame:
    """Events out of a journal that was read like any topic, or recorded. Of the name only the topic's stays."""
    return journal.select("topic", _epoch(journal), "offset", "key", "payload").mapInArrow(_decoded, EVENTS)


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(EVENTS)
    for batch in batches:
        records = decode(batch.column("payload"))
        offset, winner = records["offset"], records["winner"]
        topics = pc.replace_substring(batch.column("topic"), JOURNAL_PREFIX, "", max_replacements=1)
        columns = [
            topics,
            batch.column("epoch"),
            batch.column("offset"),
            pa.array(records["accepted_us"]),
            batch.column("key"),
            pa.array(records["hash"].view(np.int64)),  # the same bits: Spark has no unsigned integers
            pa.array(records["size"].astype(np.int64)),
            pa.array(records["status"].view(np.int8)),
            pa.array(offset, mask=offset < 0),
            pa.array(winner, mask=winner < 0),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def from_messages(messages: DataFrame) -> DataFrame:
    """Events out of a topic or a recording, all of them stored."""
    return messages.select(
        "topic",
        _epoch(messages),
        fn.col("offset").alias("position"),
        fn.unix_micros("timestamp").alias("accepted_us"),
        "key",
        fn.xxhash64("payload").alias("hash"),  # not the journal's, but equal payloads have equal ones here, too
        fn.length("payload").cast("long").alias("size"),
        fn.lit(STORED).cast("byte").alias("status"),
        "offset",
        fn.lit(None).cast("long").alias("winner"),
    )


def _epoch(messages: DataFrame) -> Column:
    """What a recording says; a topic that is read from its broker is one."""
    return fn.col("epoch") if "epoch" in messages.columns else fn.lit(0).cast("long").alias("epoch")
