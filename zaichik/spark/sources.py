"""Where statistics get their events from: a recording, or topics at a broker; from a topic's journal if it has one."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from zaichik import blocking
from zaichik.client.errors import ZaichikError
from zaichik.spark.events import JOURNAL_PREFIX, from_journal, from_messages

_RECORDED = "topic string, day date, offset bigint, timestamp timestamp, key binary, payload binary"
_FILE_NAME = r"/(\d+)-\d+-\d+\.parquet$"


class NothingToRead(ZaichikError):
    """There is no recording, and no topic of that name."""


def recording(spark: SparkSession, folder: Path) -> DataFrame:
    """A recording as a table: the columns of a topic, and day and epoch.

    Raises:
        NothingToRead: the folder has no files, or one that is damaged.
    """
    files = sorted(folder.glob("topic=*/day=*/[!.]*.parquet"))
    if not files:
        raise NothingToRead(f"{folder} is no recording: there are no files topic=…/day=…/….parquet in it")
    for file in files:  # their last bytes only: so that one bad file is one sentence, before Spark begins
        try:
            pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error
    # With a schema, a topic called 2013 stays a text. Files that are not finished begin with a dot: Spark skips them.
    table = spark.read.schema(_RECORDED).parquet(str(folder))
    return table.withColumn("epoch", fn.regexp_extract(fn.input_file_name(), _FILE_NAME, 1).cast("long"))


def check(folder: Path) -> None:
    """Read all of a recording, to find out why Spark could not: its own words do not name the file.

    Raises:
        NothingToRead: a file is damaged.
    """
    for file in sorted(folder.glob("topic=*/day=*/[!.]*.parquet")):
        try:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error


def _damaged(file: Path, error: Exception) -> NothingToRead:
    return NothingToRead(f"{file} is damaged ({str(error).rstrip('.')}): take it away, and record again what it had")


def events_of_recording(spark: SparkSession, folder: Path) -> DataFrame:
    """All events that a recording tells of. A topic whose journal was recorded as well is read from its journal."""
    table = recording(spark, folder)
    topics = [unquote(path.name.removeprefix("topic=")) for path in folder.glob("topic=*")]
    journals = [topic for topic in topics if topic.startswith(JOURNAL_PREFIX)]
    told = {topic.removeprefix(JOURNAL_PREFIX) for topic in journals}
    others = [topic for topic in topics if topic not in told and topic not in journals]
    return _events(lambda names: table.where(fn.col("topic").isin(names)), journals, others)


def events_of_topics(spark: SparkSession, host: str, port: int, topics: list[str]) -> DataFrame:
    """All events that a broker can tell of some topics. Of a topic that has a journal, its journal.

    Raises:
        NothingToRead: it has no such topic.
    """
    journals, others = [], []
    with blocking.connect(host, port, name="zaichik-spark") as client:
        for topic in topics:
            if client.topic(JOURNAL_PREFIX + topic):
                journals.append(JOURNAL_PREFIX + topic)
            elif client.topic(topic):
                others.append(topic)
            else:
                raise NothingToRead(f"there is no topic {topic} at {host}:{port}, and no folder of that name")

    def table(names: list[str]) -> DataFrame:
        # A busy topic loses its oldest messages while Spark starts: it is counted from where it begins by then. What
        # goes while it is read is missing, and `outcomes.missing` tells.
        options = {"broker": f"{host}:{port}", "topic": ",".join(names), "onLag": "skip"}
        return spark.read.format("zaichik").options(**options).load()

    return _events(table, journals, others)


def _events(table: Callable[[list[str]], DataFrame], journals: list[str], others: list[str]) -> DataFrame:
    """Those of journals and those of ordinary topics; there is at least one."""
    parts = [from_journal(table(journals))] if journals else []
    parts += [from_messages(table(others))] if others else []
    return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
