"""Statistics that go on while messages come: the numbers of `windows`, from a stream of events.

    journal = spark.readStream.format("zaichik").option("topic", "$journal/orders").load()
    query = live.writer(from_journal(journal), Path("orders-live"), [timedelta(minutes=15)]).start()
    ...
    live.sums(spark, Path("orders-live")).show()

`carry` describes what is counted and what is carried from one micro-batch to the next. This file
keeps the two consistent with the stream's own position, whenever the program is killed. Spark
repeats a micro-batch that it does not know to be finished, with the same messages and under the
same number. So what micro-batch 7 leaves behind is a version of its own, `state/7`, made from the
one before it and nothing else: made twice, it is the same.

A stream needs a watermark: a time before which nothing more comes, so that what waited for it can
go. Here it is exact and costs nothing. The broker's times never decrease within a topic, so the
latest of them is the watermark.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.readwriter import DataStreamWriter

from zaichik import ZaichikError
from zaichik.apps.spark import carry
from zaichik.apps.spark.carry import CARRIED, CHANGES, COUNTED, NEW, RAN_US, never_closes
from zaichik.apps.spark.forgetting import Turns
from zaichik.apps.spark.storage import AS_WRITTEN, Storage
from zaichik.apps.spark.windows import WINDOWS, by_key
from zaichik.apps.statistics.chain import (
    FOREVER_US,
    NUMBERS,
    SUMS,
    TABLE,
    Policy,
    Window,
    Winner,
    length_us,
    policies,
)

LAYOUT = (
    3  # of a folder; 1 had its sums in a table, 2 remembered all keys for windows that never close
)
MAX_KEYS = 100_000  # of a topic, unless it is told otherwise when it is created


class OtherWindows(ZaichikError):
    """A folder has sums of other windows, which those asked for cannot go on from."""


def writer(
    events: DataFrame,
    folder: Path | str,
    windows: Iterable[Window],
    winners: Collection[Winner] = ("first", "last"),
    remember: timedelta = timedelta(days=7),
    max_keys: int = MAX_KEYS,
) -> DataStreamWriter:
    """Returns a writer that counts a stream of events; set its trigger, if any, and start it.

    Args:
        events: a stream of `EVENTS`, such as `from_journal` makes.
        folder: for the sums, what is carried and the checkpoint; all workers must see it. Made if
            it is not there. A path without a scheme is one of Spark's default file system.
        windows: lengths, the same ones as long as it is the same folder.
        winners: which message of a window stays: "first" or "last"; with "newest", what a table
            would do is counted, too, and a row carried for each key that it would have.
        remember: how long after its window an update that nobody has seen may still be seen late,
            and, for the policy that ran, how long after its window began a message's payload is
            known.
        max_keys: windows of a topic that are remembered at most if they never close: the setting of
            a topic (COM-6).

    Raises:
        OtherWindows: the folder has been used with others. Their sums began with the stream, so new
            ones would not.
    """
    counted: list[Policy] = [(RAN_US, "first"), *policies(map(length_us, windows), winners)]
    storage = Storage(events.sparkSession, folder)
    _claim(storage, counted, max_keys)
    step = partial(_count, storage, counted, remember // timedelta(microseconds=1), max_keys)
    return events.writeStream.foreachBatch(step).option(
        "checkpointLocation", storage.path("checkpoint")
    )


def sums(spark: SparkSession, folder: Path | str) -> DataFrame:
    """The numbers so far, as `windows.what_if` gives them.

    Beside them, as length `RAN_US`, the policy that ran.
    """
    storage = Storage(spark, folder)
    known = _known(storage, max(_versions(storage), default=-1))
    rows = [
        (*policy, *(numbers[name] for name in NUMBERS))
        for policy, numbers in sorted(known.sums.items())
    ]
    return spark.createDataFrame(rows, WINDOWS).withColumn(
        "ratio", fn.col("kept") / fn.col("messages")
    )


def _claim(storage: Storage, policies: list[Policy], max_keys: int) -> None:
    """Write down what is counted in a folder, or check that it is the same as before."""
    claim = {"layout": LAYOUT, "policies": sorted(policies), "max_keys": max_keys}
    mark, text = "policies.json", json.dumps(claim)
    if not storage.exists(mark):
        storage.write(text, mark)
    elif storage.read(mark) != text:
        raise OtherWindows(
            f"{storage.name} counts other windows since its stream began; for these, take another "
            "folder"
        )


@dataclass(slots=True)
class _Known:
    """What is known after a micro-batch, beside what is carried.

    Attributes:
        sums: `NUMBERS`, by topic, length and winner.
        now: by topic, the latest of its times.
        turns: by topic, how far windows that never close have come.
    """

    sums: dict[tuple[str, int, str], dict[str, int]]
    now: dict[str, int]
    turns: dict[str, Turns]

    def add(self, change: Mapping[str, Any]) -> None:
        """Add a row of changes."""
        names = (change["topic"], change["window_us"], change["winner"])
        mine = self.sums.setdefault(names, dict.fromkeys(NUMBERS, 0))
        mine |= {name: mine[name] + change[name] for name in SUMS}
        mine["max_delay_us"] = max(mine["max_delay_us"], change["max_delay_us"])
        self.now[names[0]] = max(self.now.get(names[0], 0), change["now_us"])
        if change["turns"] is not None:
            self.turns[names[0]] = Turns(change["turns"], change["floor"], change["now_us"])

    def text(self) -> str:
        """As JSON."""
        sums = [[*names, mine] for names, mine in self.sums.items()]
        turns = {topic: astuple(come) for topic, come in self.turns.items()}
        return json.dumps({"now": self.now, "turns": turns, "sums": sums})


def _count(
    storage: Storage,
    policies: list[Policy],
    remember_us: int,
    max_keys: int,
    events: DataFrame,
    batch: int,
) -> None:
    """Make this micro-batch's version, from the one before."""
    spark = events.sparkSession
    before = max((version for version in _versions(storage) if version < batch), default=-1)
    known = _known(storage, before)
    storage.remove("state", f"{batch}")  # of a run that was killed
    new = events.select(NEW.fieldNames()).withColumns(
        {"count": fn.lit(1).cast("long"), "behind_us": fn.lit(0).cast("long")}
    )
    kernel = partial(
        carry.count, latest=known.now, turns=known.turns, remember_us=remember_us, max_keys=max_keys
    )
    forever = [policy for policy in policies if never_closes(policy)]
    others = [policy for policy in policies if not never_closes(policy)]
    if forever:
        new = new.persist()  # or else it would be read twice
    rows = _carried(spark, storage, before).unionByName(new, allowMissingColumns=True)
    is_new = fn.col("window_us").isNull()
    is_forever = (fn.col("window_us") == FOREVER_US) & (fn.col("winner") != TABLE[1])
    counted = by_key(rows.where(is_new | ~is_forever)).mapInArrow(
        partial(kernel, policies=others), COUNTED
    )
    if forever:  # all keys of a topic decide which of these windows are forgotten
        of_topics = rows.where(is_new | is_forever).repartition("topic")
        counted = counted.unionByName(
            of_topics.mapInArrow(partial(kernel, policies=forever), COUNTED)
        )
    counted = counted.persist()  # or else it would be counted for each of these:
    kept = counted.where("messages IS NULL").select(CARRIED.fieldNames())
    kept.write.parquet(storage.path("state", f"{batch}", "carried"))
    for change in counted.where("messages IS NOT NULL").select(*CHANGES).toLocalIterator():
        known.add(change.asDict())
    counted.unpersist()
    new.unpersist()
    storage.write(known.text(), "state", f"{batch}", "sums.json")
    for other in _versions(storage):  # the one before stays, for `sums` may be reading it
        if other not in (before, batch):
            storage.remove("state", f"{other}")


def _versions(storage: Storage) -> list[int]:
    """Those that are complete: the sums are written last."""
    names = storage.names("state")
    return [int(name) for name in names if storage.exists("state", name, "sums.json")]


def _known(storage: Storage, version: int) -> _Known:
    """The sums of a version; none of version -1, before the first micro-batch."""
    if version < 0:
        return _Known({}, {}, {})
    read = json.loads(storage.read("state", f"{version}", "sums.json"))
    turns = {topic: Turns(*come) for topic, come in read["turns"].items()}
    return _Known({tuple(names): mine for *names, mine in read["sums"]}, read["now"], turns)


def _carried(spark: SparkSession, storage: Storage, version: int) -> DataFrame:
    """What a version carries; nothing, before the first micro-batch."""
    if version < 0:
        return spark.createDataFrame([], CARRIED)
    reader = spark.read.schema(CARRIED).options(**AS_WRITTEN)
    return reader.parquet(storage.path("state", f"{version}", "carried"))
