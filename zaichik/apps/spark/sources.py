"""The sources of `zaichik stats` as data frames of events."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from zaichik import ZaichikError
from zaichik.apps.recording.folders import JOURNAL_PREFIX, shown_name
from zaichik.apps.spark.events import from_journal, from_messages
from zaichik.apps.spark.options import topics_in
from zaichik.apps.spark.storage import AS_WRITTEN
from zaichik.apps.statistics.sources import HeldTopic, RecordedTopic, Topic

_RECORDED = "topic string, day date, offset bigint, timestamp timestamp, key binary, payload binary"
_FILE_NAME = r"/(\d+)-\d+-\d+\.parquet$"
_NULL = (
    "__HIVE_DEFAULT_PARTITION__"  # what Spark takes for no name; but here it can only be a topic's
)


class CannotName(ZaichikError):
    """Spark's option cannot name a topic."""


def check(topics: Sequence[Topic]) -> None:
    """Check that Spark's option can name these topics.

    Raises:
        CannotName: one of them at a broker has a comma or spaces at its ends.
    """
    for topic in topics:
        if isinstance(topic, HeldTopic) and topics_in(topic.name) != (topic.name,):
            raise CannotName(
                f"{topic.name!r} has a comma or spaces at its ends, which Spark's option cannot "
                "name: count it without "
                "--master, or record it first"
            )


def events(spark: SparkSession, topics: Sequence[Topic]) -> DataFrame:
    """The events of all topics."""
    parts = []
    for (is_journaled, _), together in groupby(sorted(topics, key=_kind), _kind):
        of_place = list(together)
        table = (
            _recording(spark, of_place)
            if isinstance(of_place[0], RecordedTopic)
            else _held(spark, of_place)
        )
        parts.append((from_journal if is_journaled else from_messages)(table))
    return reduce(DataFrame.unionByName, parts)


def _kind(topic: Topic) -> tuple[bool, str]:
    return topic.is_journaled, str(topic.place)


def _read_name(topic: Topic) -> str:
    return JOURNAL_PREFIX + topic.name if topic.is_journaled else topic.name


def _held(spark: SparkSession, topics: Sequence[Topic]) -> DataFrame:
    # A busy topic loses its oldest messages while Spark starts: it is counted from where it begins
    # by then. What goes while it is read is missing, and that is counted.
    names = ",".join(map(_read_name, topics))
    read = {_read_name(topic): topic.read for topic in topics if isinstance(topic, HeldTopic)}
    ends, epochs = (
        json.dumps({name: state[key] for name, state in read.items()})
        for key in ("next_offset", "epoch")
    )
    options = {"topic": names, "end": ends, "epoch": epochs, "onLag": "skip"} | _broker(topics)
    return spark.read.format("zaichik").options(**options).load()


def _broker(topics: Sequence[Topic]) -> dict[str, str]:
    """Returns the options for the topics' broker, without a secret: each worker finds its own."""
    broker = next(topic.broker for topic in topics if isinstance(topic, HeldTopic))
    return {"broker": replace(broker, credentials=None).line} | (
        {"user": broker.user} if broker.user else {}
    )


def _recording(spark: SparkSession, topics: Sequence[Topic]) -> DataFrame:
    """Topics of a recording as a table: the columns of a topic, and day and epoch.

    No other files are read.
    """
    files = [
        _local(file) for topic in topics if isinstance(topic, RecordedTopic) for file in topic.files
    ]
    # With a schema, a topic called 2013 stays a text.
    reader = spark.read.schema(_RECORDED).options(**AS_WRITTEN)
    table = reader.option("basePath", _local(topics[0].place)).parquet(*files)
    # In a folder's name, Spark takes each of a letter's bytes (%C3%BC) for a letter of its own.
    topic = fn.coalesce(fn.decode(fn.encode("topic", "ISO-8859-1"), "UTF-8"), fn.lit(_NULL))
    epoch = fn.regexp_extract(fn.input_file_name(), _FILE_NAME, 1).cast("long")
    for name in map(_read_name, topics):
        if name != shown_name(name):
            topic = fn.when(topic == shown_name(name), name).otherwise(topic)
    return table.withColumns({"topic": topic, "epoch": epoch})


def _local(path: Path | str) -> str:
    """Returns this machine's file for Spark, whichever file system is its default.

    `as_uri` would escape the name.
    """
    return f"file://{Path(path).absolute()}"
