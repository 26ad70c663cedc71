"""`spark.read`: a topic as a table. What the broker still holds of it, from start to end.

This file decides what is read, and into how many tasks it is cut; `reading` has what a task does.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zaichik.apps.spark.archived import position_in, ranges, read, recorded_of
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.columns import check
from zaichik.apps.spark.errors import BadOption, without_traceback
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import (
    CannotRead,
    Range,
    check_table,
    state_of,
    tasks,
)
from zaichik.client.messages import StartAt

AHEAD = timedelta(days=1)  # by which a broker's clock may be
RECONNECT = 0  # seconds: a table is what the broker has now; a task that fails is Spark's to retry


class TopicReader(DataSourceReader):
    """Reads topics once, from start to end."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(schema, has_deletions=options.table == "changes")
        if options.name:
            raise BadOption(
                "a table has no position that the broker could keep under a name; leave the option "
                "out"
            )
        self.options = options
        self.schema = schema

    @without_traceback()
    def partitions(self) -> list[Range]:
        """One range for each task."""
        options = self.options
        with options.connect(RECONNECT) as client:
            return tasks(self.wholes(client), options.partitions)

    def wholes(self, client: AnyClient) -> list[Range]:
        """All that is to be read of each topic."""
        return [
            part for topic in self.options.topics for part in _wholes(client, topic, self.options)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        return read(partition, self.options, self.schema, reconnect=RECONNECT)


def _wholes(client: AnyClient, topic: str, options: Options) -> list[Range]:
    """All that is to be read of a topic."""
    state = state_of(client, topic, options.epochs[topic])
    _check_time(topic, options.starts[topic])
    recorded = recorded_of(client, options, state)
    start = position_in(client, state, options.starts[topic], options, recorded)
    end = position_in(client, state, options.ends[topic], options, recorded)
    if options.table:
        check_table(state)
    if start > end:
        raise CannotRead(
            f"of {topic}, start ({start}) is after end ({end}): there is nothing between them"
        )
    # Whoever reads a table from its beginning holds no keys that could have been deleted. (Its
    # recording may have some.)
    known_below = 0
    if options.starts[topic] in ("earliest", 0) and not recorded:
        known_below = int(state.get("deleted_below", 0))
    return ranges(options, recorded, state, start, end, known_below)


def _check_time(topic: str, start: StartAt) -> None:
    """Refuses a time in the future: a table has nothing from then on, so it is a mistake."""
    if isinstance(start, datetime) and start.astimezone(UTC) > datetime.now(UTC) + AHEAD:
        raise CannotRead(f"of {topic}, nothing can be read from {start} on: that is in the future")
