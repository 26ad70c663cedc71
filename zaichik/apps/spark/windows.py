"""What would another compaction window keep, save and lose?

`zaichik.apps.statistics.chain`, on many machines.

Spark's part is to bring the messages of a key together: by a shuffle, or not at all if each
partition of the input has all messages of its keys already, as a topic read with one partition has.
A partition must fit into a worker's memory: about 150 bytes a message. Each sends back a line for
each topic and window, so the rest is quick.

Most of the time goes into moving rows. So a key does not travel: a message takes along a hash of
its topic, epoch and key, 64 bits, which says who belongs together. That two of n keys have the same
one has a probability of n² / 2⁶⁵: for ten million keys one in 400,000, and then these two are
counted as one.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from zaichik.apps.statistics.chain import (
    SUMS,
    WINNERS,
    Chain,
    Policy,
    Window,
    Winner,
    length_us,
    policies,
)

WINDOWS = StructType(
    [
        StructField("topic", StringType()),
        StructField("window_us", LongType()),
        StructField("winner", StringType()),
        *(StructField(name, LongType()) for name in SUMS),
        StructField("max_delay_us", LongType()),
    ]
)
"""What a window would do to a topic: see `zaichik.apps.statistics.chain.NUMBERS`."""


def what_if(
    events: DataFrame,
    windows: Iterable[Window],
    winners: Collection[Winner] = WINNERS,
    *,
    partitioned: bool = False,
    partitions: int | None = None,
) -> DataFrame:
    """Returns, for each topic, window and winner, a row of `WINDOWS`, with the `ratio` kept.

    Args:
        events: as `EVENTS`; status, offset, winner and superseded are not used.
        windows: lengths.
        winners: which message of a window stays: "first", which the broker does, or "last"; and
            "newest", for what a table would do, a row for each topic.
        partitioned: each partition of the input has all messages of its keys, so that nothing need
            be shuffled.
        partitions: how many to shuffle into; None: as many as the session is set to.
    """
    # A message without a key is compared with no other: it is its own group.
    alone = fn.when(fn.col("key").isNull(), fn.col("position"))
    group = fn.xxhash64("topic", "epoch", "key", alone).alias("group")
    tombstone = fn.col("key").isNotNull() & (fn.col("size") == 0)
    columns = events.select(
        "topic",
        group,
        "position",
        "accepted_us",
        "hash",
        fn.col("size").cast("int"),
        tombstone.alias("tombstone"),
    )
    if not partitioned:
        columns = (
            columns.repartition(partitions, "group") if partitions else columns.repartition("group")
        )
    kernel = partial(_kernel, policies=policies(map(length_us, windows), winners))
    return summed(columns.mapInArrow(kernel, WINDOWS)).withColumn(
        "ratio", fn.col("kept") / fn.col("messages")
    )


def summed(parts: DataFrame) -> DataFrame:
    """Rows of `WINDOWS`, those of a topic, window and winner added up."""
    totals: list[Column] = [fn.sum(name).alias(name) for name in SUMS]
    totals.append(fn.max("max_delay_us").alias("max_delay_us"))
    return parts.groupBy("topic", "window_us", "winner").agg(*totals)


def by_key(events: DataFrame) -> DataFrame:
    """The same rows, those of a key together in one partition."""
    # A message without a key is compared with no other. They are spread, or else all would be in
    # one partition.
    return events.repartition(
        fn.col("topic"), fn.coalesce("key", fn.col("position").cast("string").cast("binary"))
    )


def _kernel(
    batches: Iterator[pa.RecordBatch], policies: Sequence[Policy]
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition's messages."""
    present = [batch for batch in batches if batch.num_rows]
    if not present:
        return
    chain = Chain(pa.Table.from_batches(present))
    rows: list[dict[str, object]] = []
    for (length, winner), sums in chain.tried(policies):
        rows += [
            {"topic": topic, "window_us": length, "winner": winner}
            | {name: sums[name][n] for name in sums}
            for n, topic in enumerate(chain.topics)
        ]
    yield pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(WINDOWS))
