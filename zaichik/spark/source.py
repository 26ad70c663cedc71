"""`spark.read.format("zaichik")`: a topic as a table. What the broker still holds of it, from start to end.

The class that Spark is given makes readers and writers; `reading` has what readers do.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from zaichik import blocking
from zaichik.client.messages import StartAt
from zaichik.spark.columns import MESSAGES, check
from zaichik.spark.options import Options
from zaichik.spark.reading import CLIENT, CannotRead, Range, position, read_range, state_of, whole
from zaichik.spark.stream import TopicStreamReader
from zaichik.spark.writer import CannotWrite, TopicStreamWriter, TopicWriter

AHEAD = timedelta(days=1)  # by which a broker's clock may be


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
        options = Options.of(self.options)
        if options.push_down:
            from zaichik.spark.narrowing import NarrowedReader  # which needs this module

            return NarrowedReader(options, schema)
        return TopicReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        """For `spark.readStream`."""
        return TopicStreamReader(Options.of(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 (Spark's)
        """For `df.write`."""
        if overwrite:
            raise CannotWrite('what a topic has cannot be overwritten; .mode("append") adds to it')
        return TopicWriter(Options.of(self.options, needs_topic=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 (Spark's)
        """For `df.writeStream`."""
        if overwrite:
            raise CannotWrite('what a topic has cannot be overwritten; .outputMode("append") adds to it')
        return TopicStreamWriter(Options.of(self.options, needs_topic=False), schema)


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
            wholes = self.wholes(client)
        # Of an empty list Spark makes one task that is told nothing.
        return [part for whole in wholes for part in whole.split(options.partitions)] or [wholes[0]]

    def wholes(self, client: blocking.Client) -> list[Range]:
        """All that is to be read of each topic."""
        return [_whole(client, topic, self.options) for topic in self.options.topics]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        return read_range(partition, self.options, self.schema)


def _whole(client: blocking.Client, topic: str, options: Options) -> Range:
    """All that is to be read of a topic."""
    state = state_of(client, topic, options.epochs[topic])
    _check_time(topic, options.starts[topic])
    start, end = position(client, state, options.starts[topic]), position(client, state, options.ends[topic])
    if start > end:
        raise CannotRead(f"of {topic}, start ({start}) is after end ({end}): there is nothing between them")
    return whole(state, start, end, options.on_lag)


def _check_time(topic: str, start: StartAt) -> None:
    """Refuses a time that has not come: what a table has from then on is nothing, and a mistake."""
    if isinstance(start, datetime) and start.astimezone(UTC) > datetime.now(UTC) + AHEAD:
        raise CannotRead(f"of {topic}, nothing can be read from {start} on: that is in the future")
