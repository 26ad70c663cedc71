"""`option("table", "latest")`: a table as it is now, one row for each key.

A table changes while it is read. A key that was at offset 900 is at 5000 a moment later, and what
was planned to end at 1000 would have it nowhere. So a table is read by one task, which goes on
until it has caught up: at that moment it has been sent everything, and the newest message of each
key is the state of the table. Tombstones delete their keys here, and are no rows.

If tombstones have gone that were still to be read, a key that was read may be deleted by now. Then
all is dropped, and read again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from zaichik import DeletionsMissed
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.columns import record_batch
from zaichik.apps.spark.errors import BadOption, without_traceback
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import CannotRead, Range, check_table, connected, state_of
from zaichik.apps.spark.table import RECONNECT, TopicReader
from zaichik_protocol import Messages

# A table that is published to faster than it is read, so that its end is never reached, is an error
# after that time.
CATCH_UP_SECONDS = 60


class CurrentReader(TopicReader):
    """Reads the newest message of each key."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        is_part = {*options.starts.values(), *options.ends.values()} != {"earliest", "latest"}
        if is_part or options.partitions or options.push_down:
            raise BadOption(
                "table=latest reads a table as it is now, in one task: leave out start, end, "
                "partitions and pushDown"
            )

    def wholes(self, client: AnyClient) -> list[Range]:
        """A range for each table; its end is where the table ended when this was planned."""
        wholes = []
        for topic in self.options.topics:
            state = state_of(client, topic, self.options.epochs[topic])
            check_table(state)
            wholes.append(Range(topic, int(state["epoch"]), 0, int(state["next_offset"])))
        return wholes

    @without_traceback()
    def partitions(self) -> list[Range]:
        """One range for each table: only who has read all of it knows what is the newest."""
        with self.options.connect(RECONNECT) as client:
            return self.wholes(client)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The newest message of each key, and all messages without a key."""
        assert isinstance(partition, Range)  # noqa: S101 (it is one of those above)
        if partition.end == 0:
            return
        with without_traceback():
            with connected(partition, self.options, RECONNECT) as client:
                rounds = _read_to_the_end(client, partition)
            newest = _newest(rounds)
            for frames in rounds:
                batch = record_batch(partition.topic, frames, self.schema)
                stays = [is_row for frame in frames for is_row in _rows(frame, newest)]
                yield batch.filter(pa.array(stays))


def _read_to_the_end(client: AnyClient, wanted: Range) -> list[list[Messages]]:
    """Returns all that can be read of a table, in the order of offsets.

    Raises:
        CannotRead: its end is not reached in time.
    """
    rounds: list[list[Messages]] = []
    # When the end must have been reached, counted from where it was first thought to be.
    until = 0.0
    with client.subscribe(wanted.topic, start="earliest", epoch=wanted.epoch) as subscription:
        end = subscription.live
        while subscription.next < end:
            items = subscription.fetch()
            if any(isinstance(item, DeletionsMissed) for item in items):
                rounds.clear()
                subscription.start_over()
                end = subscription.live
                continue
            frames = [item for item in items if isinstance(item, Messages)]
            if frames:
                rounds.append(frames)
            if subscription.next < end:
                continue
            end = int(state_of(client, wanted.topic, wanted.epoch)["next_offset"])
            now = time.monotonic()
            until = until or now + CATCH_UP_SECONDS
            if subscription.next < end and now > until:
                raise CannotRead(
                    f"{wanted.topic} is published to faster than it can be read: its end was not "
                    f"reached in {CATCH_UP_SECONDS} seconds, so there is no moment of which all "
                    "is known. Read it as a stream, with table=changes"
                )
    return rounds


def _newest(rounds: list[list[Messages]]) -> dict[bytes, int]:
    """Returns the offset of the newest message of each key."""
    newest: dict[bytes, int] = {}
    for frames in rounds:
        for frame in frames:
            newest.update(zip(frame.batch.keys(), _offsets(frame), strict=True))
    return newest


def _rows(frame: Messages, newest: Mapping[bytes, int]) -> Iterator[bool]:
    """Yields of each message of a frame whether it is a row."""
    ends = frame.batch.payload_offsets
    for index, (key, offset) in enumerate(zip(frame.batch.keys(), _offsets(frame), strict=True)):
        is_tombstone = bool(key) and ends[index] == ends[index + 1]
        is_newest = not key or newest[key] == offset
        yield is_newest and not is_tombstone


def _offsets(frame: Messages) -> Sequence[int]:
    """Returns the offset of each message of a frame."""
    if frame.holes:
        return [frame.base + delta for delta in frame.deltas]
    return range(frame.base, frame.base + frame.batch.count)
