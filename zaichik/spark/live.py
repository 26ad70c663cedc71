"""Statistics that go on while messages come: the numbers of `windows`, from a stream of events.

    journal = spark.readStream.format("zaichik").option("topic", "$journal/orders").load()
    query = live.writer(from_journal(journal), Path("orders-live"), [timedelta(minutes=15)]).start()
    ...
    live.sums(spark, Path("orders-live")).show()

What is counted and what is carried from one micro-batch to the next is told in `carry`. Here is how the two stay
together with the stream's own place, whenever the program is killed. Spark repeats a micro-batch that it does not
know to be finished, with the same messages and under the same number. So what micro-batch 7 leaves behind is a
version of its own, `state/7`, made from the one before it and nothing else: made twice, it is the same.

A stream needs a watermark: a time before which nothing more comes, so that what waited for it can go. Here it is
exact and costs nothing. The broker's times never decrease within a topic, so the latest of them is the watermark.
"""

import json
from collections.abc import Collection, Iterable
from datetime import timedelta
from functools import partial
from itertools import product
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from zaichik.client.errors import ZaichikError
from zaichik.spark import carry
from zaichik.spark.carry import CARRIED, COUNTED, NEW, RAN_US, Policy
from zaichik.spark.storage import Storage
from zaichik.spark.windows import WINDOWS, by_key, summed
from zaichik.statistics.chain import Window, Winner, length_us


class OtherWindows(ZaichikError):
    """A folder has sums of other windows, which those asked for cannot go on from."""


def writer(
    events: DataFrame,
    folder: Path | str,
    windows: Iterable[Window],
    winners: Collection[Winner] = ("first", "last"),
    remember: timedelta = timedelta(days=7),
) -> DataStreamWriter:
    """What counts a stream of events; it still has to be told its trigger, if any, and started.

    Args:
        events: a stream of `EVENTS`, such as `from_journal` makes.
        folder: for the sums, what is carried and the checkpoint; all workers must see it. Made if it is not there. A
            path without a scheme is one of Spark's default file system.
        windows: lengths, the same ones as long as it is the same folder.
        winners: which message of a window stays.
        remember: how long after its window an update that nobody has seen may still be seen late, and, for the policy
            that ran, how long after its window began a message's payload is known.

    Raises:
        OtherWindows: the folder has been used with others. Their sums began with the stream, so new ones would not.
    """
    policies: list[Policy] = [(RAN_US, "first"), *product([length_us(window) for window in windows], winners)]
    storage = Storage(events.sparkSession, folder)
    _claim(storage, policies)
    step = partial(_count, storage, policies, remember // timedelta(microseconds=1))
    return events.writeStream.foreachBatch(step).option("checkpointLocation", storage.path("checkpoint"))


def sums(spark: SparkSession, folder: Path | str) -> DataFrame:
    """The numbers so far, as `windows.what_if` gives them; beside them, as length `RAN_US`, the policy that ran."""
    storage = Storage(spark, folder)
    version = max(_versions(storage), default=-1)
    return _read(spark, storage, version, "sums", WINDOWS).withColumn("ratio", fn.col("kept") / fn.col("messages"))


def _claim(storage: Storage, policies: list[Policy]) -> None:
    """Write down what is counted in a folder; or see that it is the same as before."""
    mark, text = "policies.json", json.dumps(sorted(policies))
    if not storage.exists(mark):
        storage.write(text, mark)
    elif storage.read(mark) != text:
        raise OtherWindows(
            f"{storage.name} counts other windows since its stream began; for these, take another folder"
        )


def _count(storage: Storage, policies: list[Policy], remember_us: int, events: DataFrame, batch: int) -> None:
    """Make this micro-batch's version, from the one before."""
    spark = events.sparkSession
    before = max((version for version in _versions(storage) if version < batch), default=-1)
    events = events.select(NEW.fieldNames()).persist()  # else each of the two steps below would ask the broker
    times = events.groupBy("topic").agg(fn.max("accepted_us").alias("now")).collect()
    new = events.withColumns({"count": fn.lit(1).cast("long"), "behind_us": fn.lit(0).cast("long")})
    rows = _read(spark, storage, before, "carried", CARRIED).unionByName(new, allowMissingColumns=True)
    latest = {row["topic"]: row["now"] for row in times}
    kernel = partial(carry.count, policies=policies, latest=latest, remember_us=remember_us)
    counted = by_key(rows).mapInArrow(kernel, COUNTED).persist()
    carried, changes = counted.where("messages IS NULL"), counted.where("messages IS NOT NULL")
    carried.select(CARRIED.fieldNames()).write.mode("overwrite").parquet(storage.path(*_parts(batch, "carried")))
    parts = _read(spark, storage, before, "sums", WINDOWS).unionByName(changes.select(WINDOWS.fieldNames()))
    summed(parts).write.mode("overwrite").parquet(storage.path(*_parts(batch, "sums")))
    counted.unpersist()
    events.unpersist()
    for other in _versions(storage):  # the one before stays, for `sums` may be reading it
        if other not in (before, batch):
            storage.remove("state", f"{other}")


def _parts(version: int, table: str) -> tuple[str, str, str]:
    return "state", f"{version}", table


def _versions(storage: Storage) -> list[int]:
    """Those that are complete: the sums are written last, and of them the mark of success."""
    return [int(version) for _, version, *_ in storage.find("state", "*", "sums", "_SUCCESS")]


def _read(spark: SparkSession, storage: Storage, version: int, table: str, schema: StructType) -> DataFrame:
    """A table; an empty one if it is not there, as before the first micro-batch."""
    parts = _parts(version, table)
    if not storage.exists(*parts):
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(storage.path(*parts))
