"""Events as data frames: out of a topic, a journal or a recording.

What an event is: `zaichik.apps.statistics.events`.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, ByteType, LongType, StringType, StructField, StructType

from zaichik.apps.recording.folders import JOURNAL_PREFIX
from zaichik.apps.statistics.events import STORED, of_journal

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
        StructField("superseded", LongType()),
    ]
)
"""A message published, whatever became of it.

The columns are those of `zaichik.apps.statistics.events.SCHEMA`, and its topic.
"""


def from_journal(journal: DataFrame) -> DataFrame:
    """Events out of a journal that was read like any topic, or recorded.

    Of the name only the topic's stays.
    """
    return journal.select("topic", _epoch(journal), "offset", "key", "payload").mapInArrow(
        _decoded, EVENTS
    )


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(EVENTS)
    for batch in batches:
        topics = pc.replace_substring(batch.column("topic"), JOURNAL_PREFIX, "", max_replacements=1)
        columns = {"topic": topics, "epoch": batch.column("epoch"), **of_journal(batch)}
        yield pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def from_messages(messages: DataFrame) -> DataFrame:
    """Events out of a topic or a recording, all of them stored."""
    # Not the journal's, but equal payloads have equal ones here, too.
    hash_ = fn.xxhash64("payload")
    size = fn.length("payload").cast("long")
    status = fn.lit(STORED).cast("byte")
    nothing = fn.lit(None).cast("long")
    return messages.select(
        "topic",
        _epoch(messages),
        fn.col("offset").alias("position"),
        fn.unix_micros("timestamp").alias("accepted_us"),
        "key",
        hash_.alias("hash"),
        size.alias("size"),
        status.alias("status"),
        "offset",
        nothing.alias("winner"),
        nothing.alias("superseded"),
    )


def _epoch(messages: DataFrame) -> Column:
    """What a recording says; a topic that is read from its broker is one."""
    return fn.col("epoch") if "epoch" in messages.columns else fn.lit(0).cast("long").alias("epoch")
