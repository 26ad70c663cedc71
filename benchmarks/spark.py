"""Spark reading topics and counting compaction, compared with the alternatives.

    python benchmarks/spark.py                     # some minutes
    python benchmarks/spark.py --quick             # does it run?
    python benchmarks/spark.py --only growth       # from 1 M to 30 M events, and with the skew
    python benchmarks/spark.py --only growth --largest 3000000

reading   a topic with format("zaichik"), beside spark.read.parquet on the very same rows: ratio of
          rates.
windows   events x 6 windows x 2 winners: the walk (shuffled, and with the input's own
          partitioning), the fold in SQL (first winners only: see its text), the same walk in one
          process fed by pyarrow, DuckDB and Polars. Times are given as multiples of a bare scan of
          the same Parquet file by Spark.
growth    the walk from 1 M to 30 M events, and at different skews.

All variants take turns (A B A B ...), so that a machine that slows down slows down all of them.
Compare within one run.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from zaichik.apps.spark import fold, session, windows
from zaichik.apps.statistics.chain import Chain, Window, Winner, length_us
from zaichik.client import blocking
from zaichik_protocol import Batch

WINNERS: tuple[Winner, ...] = ("first", "last")
LENGTHS: list[Window] = [*(timedelta(minutes=m) for m in (1, 5, 15, 60, 360)), "forever"]
SPAN_US = 86_400_000_000  # a day of events
KEYS = 433_000
FILES = 4
GROWTH = (1_000_000, 3_000_000, 10_000_000, 30_000_000)
Variants = dict[str, Callable[[], object]]


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def take_turns(variants: Variants, runs: int) -> dict[str, float]:
    """The median time of each, in seconds.

    A first round, in which Spark and Java warm up, does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(runs + 1):
        for name, run in variants.items():
            began = time.perf_counter()
            run()
            took = time.perf_counter() - began
            say(f"  run {number} {name}: {took:.2f} s")
            if number:
                seconds[name].append(took)
    return {name: statistics.median(times) for name, times in seconds.items()}


def consume(frame: DataFrame) -> None:
    """Read every column of every row, and do nothing with it."""
    frame.write.format("noop").mode("overwrite").save()


# -- events --------------------------------------------------------------------------------------


def write_events(folder: Path, count: int, skew: float, hottest: float = 0.0) -> Path:
    """A folder of Parquet files with a topic's events in a day, keys spread over the files by their
    hash.

    Args:
        folder: where to.
        count: how many.
        skew: exponent of the keys' Zipf distribution; 0: all keys are equally frequent.
        hottest: part of all events that one more key has.
    """
    dice = np.random.default_rng(7)
    keys = dice.integers(0, KEYS, count) if skew == 0 else dice.zipf(skew, count) % KEYS
    keys[dice.random(count) < hottest] = 0
    table = pa.table(
        {
            "topic": pa.repeat("events", count),
            "epoch": pa.repeat(1, count),
            "position": np.arange(count),
            "accepted_us": np.sort(dice.integers(0, SPAN_US, count)),
            "key": pa.array(np.char.add("key-", keys.astype("U")).tolist()).cast(pa.binary()),
            "hash": dice.integers(0, 20, count),
            "size": dice.integers(20, 400, count),
        }
    )
    folder.mkdir()
    for file in range(FILES):
        pq.write_table(table.filter(pa.array(keys % FILES == file)), folder / f"{file}.parquet")
    return folder


def in_one_process(load: Callable[[], pa.Table]) -> None:
    """What the kernel does in each of Spark's workers, for all data at once."""
    chain = Chain(load())
    for opens in chain.opens([length_us(length) for length in LENGTHS]):
        for winner in WINNERS:
            chain.sums(opens, winner)


def by_duckdb(folder: Path) -> pa.Table:
    """Read and sorted by DuckDB."""
    import duckdb

    query = f"SELECT * FROM '{folder}/*.parquet' ORDER BY key, position"  # noqa: S608 (our own folder)
    with duckdb.connect() as connection:
        table: pa.Table = connection.sql(query).to_arrow_table()
        return table


def by_polars(folder: Path) -> pa.Table:
    """Read and sorted by Polars."""
    import polars as pl

    table = pl.scan_parquet(folder / "*.parquet").sort("key", "position").collect().to_arrow()
    return table.set_column(
        table.schema.get_field_index("key"), "key", table.column("key").cast(pa.binary())
    )


def what_if_variants(spark: SparkSession, folder: Path) -> Variants:
    """Everything that counts windows."""
    events = spark.read.parquet(str(folder))
    return {
        "scan": lambda: consume(events),
        "walk, shuffled": lambda: windows.what_if(events, LENGTHS, WINNERS).collect(),
        "walk, as it lies": lambda: windows.what_if(
            _whole_files(events), LENGTHS, WINNERS, partitioned=True
        ).collect(),
        "fold in SQL": lambda: fold.what_if(events, LENGTHS, ["first"]).collect(),
        "one process, pyarrow": partial(in_one_process, lambda: pq.read_table(folder)),
        "one process, DuckDB": partial(in_one_process, lambda: by_duckdb(folder)),
        "one process, Polars": partial(in_one_process, lambda: by_polars(folder)),
    }


def _whole_files(frame: DataFrame) -> DataFrame:
    """The same, with each file in one partition: keys are spread over files, so nothing need be
    shuffled.
    """
    spark = frame.sparkSession
    paths = sorted(frame.inputFiles())
    parts = [spark.read.parquet(path).coalesce(1) for path in paths]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole


# -- topics --------------------------------------------------------------------------------------

SERVE = [sys.executable, "-m", "zaichik", "serve", "--port", "0", "--json", "--log-level", "error"]


@contextmanager
def broker_with(topic: str, messages: int, size: int) -> Iterator[str]:
    """The address of a broker, in a process of its own, with a topic of that many messages."""
    import json

    limits = ["--retention", "forever", "--capacity", str(messages), "--max-bytes", str(2**36)]
    process = subprocess.Popen([*SERVE, *limits], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        with blocking.connect(port=port) as client:
            for start in range(0, messages, 1000):
                numbers = range(start, min(start + 1000, messages))
                client.publish_batch(
                    topic, Batch.of((b"key-%d" % (n % KEYS), bytes(size)) for n in numbers)
                )
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def reading(spark: SparkSession, folder: Path, messages: int, runs: int) -> None:
    """The data source beside Parquet."""
    with broker_with("topic", messages, 100) as address:
        topic = (
            spark.read.format("zaichik")
            .options(broker=address, topic="topic", partitions="2")
            .load()
        )
        sizes = spark.read.format("zaichik").options(broker=address, topic="topic", partitions="2")
        copy = str(folder / "copy")
        topic.write.parquet(copy)
        seconds = take_turns(
            {
                "parquet": lambda: consume(spark.read.parquet(copy)),
                "topic": lambda: consume(topic),
                "topic, keys and sizes": lambda: consume(
                    sizes.schema("key binary, size bigint").load()
                ),
            },
            runs,
        )
    print(f"\nreading {messages:,} messages of 100 bytes")
    for name, took in seconds.items():
        print(
            f"  {name:24}{messages / took:14,.0f} rows/s {seconds['parquet'] / took:8.2f} of "
            "parquet's rate"
        )


def counting(spark: SparkSession, folder: Path, events: int, runs: int) -> None:
    """The windows beside other tools."""
    say(f"writing {events:,} events")
    seconds = take_turns(
        what_if_variants(spark, write_events(folder / "events", events, 1.2)), runs
    )
    print(f"\n{events:,} events x {len(LENGTHS)} windows x 2 winners (the fold: 1)")
    for name, took in seconds.items():
        print(f"  {name:24}{took:10.2f} s {took / seconds['scan']:8.1f} scans")


def growing(spark: SparkSession, folder: Path, sizes: list[int], runs: int) -> None:
    """The walk with size and skew."""
    shapes = [(size, 1.2, 0.0) for size in sizes] + [
        (sizes[0], skew, hot) for skew, hot in ((0, 0.0), (1.2, 0.3))
    ]
    folders = {
        shape: write_events(folder / f"g{number}", *shape) for number, shape in enumerate(shapes)
    }
    frames = {shape: spark.read.parquet(str(path)) for shape, path in folders.items()}
    seconds = take_turns(
        {
            str(shape): partial(
                lambda one: windows.what_if(one, LENGTHS, WINNERS).collect(), frames[shape]
            )
            for shape in shapes
        },
        runs,
    )
    print(
        "\nthe walk, shuffled: events, exponent of the keys' Zipf distribution, part of the "
        "hottest key beside it"
    )
    for shape in shapes:
        count, took = shape[0], seconds[str(shape)]
        print(
            f"  {count:12,} {shape[1]:5.1f} {shape[2]:5.0%} {took:10.2f} s {count / took:14,.0f} "
            "events/s"
        )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=("reading", "windows", "growth"), help="measure only this"
    )
    parser.add_argument(
        "--events", type=int, default=10_000_000, help="events for windows (default 10000000)"
    )
    parser.add_argument(
        "--largest", type=int, default=30_000_000, help="most events for growth (default 30000000)"
    )
    parser.add_argument(
        "--messages", type=int, default=2_000_000, help="messages for reading (default 2000000)"
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="runs that count, of each figure (default 3)"
    )
    parser.add_argument("--master", default="local[2]", help="where Spark runs (default local[2])")
    parser.add_argument("--quick", action="store_true", help="everything small, once")
    options = parser.parse_args()
    events, messages = (20_000, 20_000) if options.quick else (options.events, options.messages)
    runs = 1 if options.quick else options.runs
    sizes = (
        [20_000, 60_000] if options.quick else [size for size in GROWTH if size <= options.largest]
    )
    if not sizes:
        parser.error(f"--largest: growth begins with {GROWTH[0]} events")
    with tempfile.TemporaryDirectory(prefix="zaichik-bench-") as name:
        folder = Path(name)
        spark = session(
            options.master, log=folder / "spark.log", config={"spark.driver.memory": "4g"}
        )
        if options.only in (None, "reading"):
            reading(spark, folder, messages, runs)
        if options.only in (None, "windows"):
            counting(spark, folder, events, runs)
        if options.only in (None, "growth"):
            growing(spark, folder, sizes, runs)
        spark.stop()


if __name__ == "__main__":
    main()
