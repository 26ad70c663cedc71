"""Where statistics get their events from: a recording, or topics at a broker; from a topic's journal if it has one.

Places are looked at before Spark starts, which takes ten seconds: what is not there is told at once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from zaichik import blocking
from zaichik.client.errors import ZaichikError
from zaichik.recording.folders import shown_name, topic_of
from zaichik.spark.events import JOURNAL_PREFIX, from_journal, from_messages
from zaichik.spark.options import topics_in

_RECORDED = "topic string, day date, offset bigint, timestamp timestamp, key binary, payload binary"
_FILE_NAME = r"/(\d+)-\d+-\d+\.parquet$"


class NothingToRead(ZaichikError):
    """There is no recording, or it is damaged; or there is no topic of that name."""


class CountedTwice(ZaichikError):
    """A topic is named twice, so that each of its messages would count twice."""


@dataclass(frozen=True, slots=True)
class Source:
    """Topics at one place; `recorded` and `at_broker` find out that they are there.

    Attributes:
        place: a recording's folder, or a broker's HOST:PORT.
        journals: of these topics, the journal is read.
        others: of these, which have none, the messages themselves.
    """

    place: Path | str
    journals: Sequence[str]
    others: Sequence[str]

    def events(self, spark: SparkSession) -> DataFrame:
        """All events that this place can tell of."""
        parts = []
        if self.journals:
            parts.append(from_journal(self._table(spark, [JOURNAL_PREFIX + topic for topic in self.journals])))
        if self.others:
            parts.append(from_messages(self._table(spark, self.others)))
        return reduce(DataFrame.unionByName, parts)

    def _table(self, spark: SparkSession, names: Sequence[str]) -> DataFrame:
        if isinstance(self.place, Path):
            return _recording(spark, self.place, names)
        # A busy topic loses its oldest messages while Spark starts: it is counted from where it begins by then. What
        # goes while it is read is missing, and `outcomes.missing` tells.
        options = {"broker": self.place, "topic": ",".join(names), "onLag": "skip"}
        return spark.read.format("zaichik").options(**options).load()


def recorded(folder: Path) -> Source:
    """The topics of a recording.

    Raises:
        NothingToRead: the folder has no files, or one that is damaged.
    """
    files = list(_files(folder))
    if not files:
        raise NothingToRead(f"{folder} is no recording: there are no files topic=…/day=…/….parquet in it")
    found = set()
    for file in files:  # their last bytes only: that is quick, and finds most damage
        try:
            pq.read_metadata(file)
            found.add(topic_of(file))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error
    topics = sorted(found)
    journals = [topic.removeprefix(JOURNAL_PREFIX) for topic in topics if topic.startswith(JOURNAL_PREFIX)]
    # A topic that was recorded beside its journal is read from the journal alone.
    others = [topic for topic in topics if topic not in journals and not topic.startswith(JOURNAL_PREFIX)]
    return Source(folder, journals, others)


def at_broker(host: str, port: int, topics: Iterable[str]) -> Source:
    """Topics that a broker has. A topic may also go by the name of its journal.

    Raises:
        ConnectFailed: there is no broker.
        NothingToRead: it has no such topic, or Spark cannot be told its name.
    """
    journals, others = [], []
    with blocking.connect(host, port, name="zaichik-spark") as client:
        for name in topics:
            topic = name.removeprefix(JOURNAL_PREFIX)
            if topics_in(topic) != (topic,):
                raise NothingToRead(
                    f"{topic!r} has a comma or spaces at its ends, which Spark's option cannot name; record it first: "
                    "zaichik record"
                )
            if client.topic(JOURNAL_PREFIX + topic):
                journals.append(topic)
            elif client.topic(name):
                others.append(topic)
            else:
                raise NothingToRead(f"there is no topic {name} at {host}:{port}, and no folder of that name")
    return Source(f"{host}:{port}", journals, others)


def check_distinct(sources: Sequence[Source]) -> None:
    """Refuse to count messages twice.

    Raises:
        CountedTwice: a topic is named twice.
    """
    counts = Counter(topic for source in sources for topic in (*source.journals, *source.others))
    twice = next((topic for topic, count in counts.items() if count > 1), None)
    if twice is not None:
        places = [str(source.place) for source in sources if twice in (*source.journals, *source.others)]
        where = f"in {' and in '.join(places)}" if len(places) > 1 else f"at {places[0]}, and named twice"
        raise CountedTwice(f"{twice} is {where}: its messages would count twice, so name it once")


def _recording(spark: SparkSession, folder: Path, names: Sequence[str]) -> DataFrame:
    """Topics of a recording as a table: the columns of a topic, and day and epoch."""
    # With a schema, a topic called 2013 stays a text. Files that are not finished begin with a dot: Spark skips them.
    table = spark.read.schema(_RECORDED).parquet(str(folder))
    # In a folder's name, Spark takes each of a letter's bytes (%C3%BC) for a letter of its own.
    topic = fn.decode(fn.encode("topic", "ISO-8859-1"), "UTF-8")
    epoch = fn.regexp_extract(fn.input_file_name(), _FILE_NAME, 1).cast("long")
    for name in names:
        if name != shown_name(name):
            topic = fn.when(topic == shown_name(name), name).otherwise(topic)
    return table.withColumns({"topic": topic, "epoch": epoch}).where(fn.col("topic").isin(list(names)))


def check_all(folder: Path) -> None:
    """Read all of a recording, to find out why Spark could not: its own words do not name the file.

    Raises:
        NothingToRead: a file is damaged.
    """
    for file in _files(folder):
        try:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file, error) from error


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("topic=*/day=*/[!.]*.parquet"))


def _damaged(file: Path, error: Exception) -> NothingToRead:
    return NothingToRead(
        f"{file} is damaged ({str(error).rstrip('.')}): take it away. If it is its topic's last, zaichik record writes "
        "it again; if not, its messages will be told as missing"
    )
