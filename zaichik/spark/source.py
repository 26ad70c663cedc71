"""`spark.read.format("zaichik")`: a topic as a table.

The driver asks the broker where each topic begins and ends, and cuts that into ranges of offsets. Every range is
a Spark task: a worker connects, reads its range, and hands on what came as Arrow record batches. The broker ends
the subscription at the range's end by itself. Readers and ranges are sent to the workers, so they hold addresses
and numbers, never a connection.

A table is what the broker still holds. If some of a range is gone by the time it is read (evicted, or expired),
the read fails and says how many messages: half an answer that looks like a whole one is worse than none. With
`onLag=skip` they are left out, and a warning is in the log.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zaichik import blocking
from zaichik.client.errors import ZaichikError
from zaichik.client.messages import Lagged, StartAt
from zaichik.spark.columns import MESSAGES, check, record_batch
from zaichik.spark.options import Options
from zaichik_protocol import Messages

CLIENT = "zaichik-spark"  # what the broker's log calls the workers


class CannotRead(ZaichikError):
    """The topic is not there, is another one, or some of it is gone."""


@dataclass(frozen=True)
class Range(InputPartition):
    """What one task reads: the offsets `start` up to, not including, `end` of the topic with that epoch."""

    topic: str
    epoch: int
    start: int
    end: int

    def split(self, parts: int) -> list["Range"]:
        """The same offsets in at most so many ranges of about equal size, none of them empty."""
        count = self.end - self.start
        edges = [self.start + count * part // parts for part in range(parts + 1)]
        return [Range(self.topic, self.epoch, start, end) for start, end in pairwise(edges) if start < end]


class ZaichikSource(DataSource):
    """What Spark makes for `format("zaichik")`; see `zaichik.spark.options` for what it can be told."""

    @classmethod
    def name(cls) -> str:
        """What `format` is told."""
        return "zaichik"

    def schema(self) -> StructType:
        """The columns, unless the user names others."""
        return MESSAGES

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return TopicReader(Options.of(self.options), schema)


class TopicReader(DataSourceReader):
    """Reads topics once, from start to end."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(schema)
        self.options = options
        self.schema = schema

    def partitions(self) -> list[Range]:
        """One range for each task."""
        options = self.options
        with blocking.connect(options.host, options.port, name=CLIENT) as client:
            wholes = [_whole(client, topic, options) for topic in options.topics]
        # Of an empty list Spark makes one task that is told nothing.
        return [part for whole in wholes for part in whole.split(options.partitions)] or [wholes[0]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        return read_range(partition, self.options, self.schema)


def read_range(wanted: Range, options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The messages of a range as record batches, one for each round of credit.

    Raises:
        CannotRead: some are gone, and `onLag` is fail.
    """
    if wanted.start == wanted.end:
        return
    with (
        blocking.connect(options.host, options.port, name=CLIENT) as client,
        client.subscribe(wanted.topic, start=wanted.start, until=wanted.end, epoch=wanted.epoch) as subscription,
    ):
        while not subscription.ended:
            items = subscription.fetch()
            gone = next((item for item in items if isinstance(item, Lagged)), None)
            if gone is not None and options.on_lag == "fail":
                raise lost(gone)
            if frames := [item for item in items if isinstance(item, Messages)]:
                yield record_batch(wanted.topic, frames, schema)


def lost(gone: Lagged) -> CannotRead:
    """The error for messages that are gone."""
    return CannotRead(
        f"{gone.count} messages of {gone.topic} are gone (offsets {gone.start} to {gone.end - 1}): the broker kept "
        "others in their place, or their time was over. To go on without them: onLag=skip"
    )


def state_of(client: blocking.Client, topic: str, epoch: int | None) -> Mapping[str, Any]:
    """What the broker tells of a topic.

    Raises:
        CannotRead: it is not there, or has another epoch.
    """
    state = client.topic(topic)
    if state is None:
        raise CannotRead(f"there is no topic {topic}; see: zaichik topics")
    if epoch not in (None, state["epoch"]):
        raise CannotRead(
            f"{topic} is another topic than the one that was read before: its epoch is {state['epoch']}, not {epoch}. "
            "The broker was restarted since; its offsets begin anew, so start again from the beginning"
        )
    return state


def position(client: blocking.Client, state: Mapping[str, Any], at: StartAt) -> int:
    """The offset that a start or end means in a topic.

    Raises:
        CannotRead: it is beyond the topic's end.
    """
    topic, head, next_offset = state["name"], state["head"], state["next_offset"]
    match at:
        case "earliest":
            return int(head)
        case "latest":
            return int(next_offset)
        case int() if at > next_offset:
            raise CannotRead(f"{topic} ends before offset {next_offset}, so there is no {at} in it yet")
        case int():
            return at
        case _:  # a time; the broker knows which offset that is
            with client.subscribe(topic, start=at, until=0) as subscription:
                return subscription.start


def _whole(client: blocking.Client, topic: str, options: Options) -> Range:
    """All that is to be read of a topic."""
    state = state_of(client, topic, options.epoch)
    start, end = position(client, state, options.start), position(client, state, options.end)
    head = int(state["head"])
    if start < min(head, end):
        if options.on_lag == "fail":
            raise lost(Lagged(topic, start, min(head, end)))
        start = head
    return Range(topic, int(state["epoch"]), start, max(start, end))
