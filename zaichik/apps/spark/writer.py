"""`df.write.format("zaichik")`: `key` and `payload` (or `value`) of a table become messages.

Tables go over the wire as they come from Spark, column by column: an Arrow array of binary strings
is a buffer of offsets and a buffer of bytes, and so is half of a batch. Only the pieces are cut to
what the broker accepts.

What is published cannot be taken back. A task that fails and is tried again publishes again what it
had published before: messages arrive *at least* once. With `exactlyOnce=true` its batches are
numbered, under a producer's id that follows from the write, the partition and the topic, and the
broker stores none of them twice (PUB-4). Of a stream, the write is the query and the micro-batch,
so that a repeated micro-batch is stored once, too; of a table, it is this one call of `save`, and
only tasks that Spark retries by itself are the same. That holds under conditions that Spark does
not know:

* the task makes the very same rows again, in the same order: no random numbers, no time of day, no
  `repartition` without a key, no source that answers differently the second time;
* it is tried again within ten minutes: then the broker forgets a producer, and would store its
  messages again;
* it publishes at most 64 batches, of which the broker remembers the answers: beyond that, a repeat
  fails. A batch has at most `max_batch` messages, or `max_message` bytes, of one of Spark's Arrow
  batches (`arrow.maxRecordsPerBatch`);
* there are at most `max_producers` tasks in ten minutes, one for each partition, topic and
  micro-batch: sixteen a second with the broker's defaults. Beyond that, writing fails.

With `table=changes`, rows may delete keys of a table: those without a payload (null, or empty as in
a recording), and those whose column `deleted` is true. Without it, a null is refused here, and an
empty payload by the broker: nobody deletes by accident (TAB-6).
"""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, BooleanType, StringType, StructType

from zaichik import BatchResult, BatchTooLarge, ZaichikError, blocking
from zaichik.apps.spark.broker import AnyClient
from zaichik.apps.spark.errors import BadOption, without_traceback
from zaichik.apps.spark.options import Options
from zaichik_protocol import Batch, Welcome

# What Spark tells a task about its stream.
QUERY = "sql.streaming.queryId"
MICRO_BATCH = "streaming.sql.batchId"


class CannotWrite(ZaichikError):
    """The table has other columns than messages have, or a value that no message can have."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The outcome of a task's messages."""

    stored: int
    compacted: int


class TopicWriter(DataSourceArrowWriter):
    """Publishes tables."""

    def __init__(self, options: Options, schema: StructType) -> None:
        has_deletions = options.table == "changes"
        check(schema, has_deletions=has_deletions)
        if options.table and not has_deletions:
            raise BadOption("a table is written as changes: give table=changes, or leave it out")
        if len(options.topics) > 1:
            raise BadOption(f"one topic is written at a time, not {', '.join(options.topics)}")
        if "topic" in schema.fieldNames() and options.topics:
            raise BadOption(
                f"the topic is named twice: {options.topics[0]!r}, and in the column topic"
            )
        if "topic" not in schema.fieldNames() and not options.topics:
            raise BadOption(
                'which topic? Name it with .option("topic", "orders"), or in a column topic'
            )
        self.options = options
        self._run = uuid.uuid4().hex  # the same for every attempt of every task

    @without_traceback()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish one task's rows, in their order."""
        stored = compacted = 0
        with self.options.connect() as client:
            has_deletions = self.options.table == "changes"
            task = ""
            if self.options.exactly_once:
                task = self._task()
            publisher = _Publisher(client, task, tombstones=has_deletions)
            for topic, tables in _by_topic(iterator, self.options.topics):
                if has_deletions:
                    tables = [with_deletions(table) for table in tables]
                limits = _limits(client, topic)
                for batch in batches(tables, limits.max_batch, limits.max_message):
                    for result in publisher.publish(topic, batch):
                        stored += result.stored
                        compacted += result.compacted
        return Written(stored, compacted)

    def _task(self) -> str:
        """Returns what all attempts of this task have in common, and no other task has."""
        # Also within a micro-batch (foreachBatch), there may be several writes: each has an id of
        # its own.
        return f"{self._run}/{_partition()}"


class TopicStreamWriter(TopicWriter, DataSourceStreamArrowWriter):
    """Publishes micro-batches."""

    def _task(self) -> str:
        task = TaskContext.get()
        query, number = (
            task.getLocalProperty(name) if task else None for name in (QUERY, MICRO_BATCH)
        )
        return f"{query}/{number}/{_partition()}"

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 (Spark's)
        """All tasks have published; there is nothing more to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 (Spark's)
        """A task has failed. What the others have published stays."""


def _limits(client: AnyClient, topic: str) -> Welcome:
    """Returns the limits of the broker that has a topic."""
    if isinstance(client, blocking.Cluster):
        return client.client(topic).welcome
    return client.welcome


def _partition() -> int:
    task = TaskContext.get()
    return task.partitionId() if task else 0


class _Publisher:
    """Publishes a task's batches, numbered if the task has a name.

    Args:
        client: connected to the broker.
        task: which task it is; "" if its batches have no numbers.
        tombstones: whether empty payloads are meant to delete their keys.
    """

    def __init__(self, client: AnyClient, task: str, *, tombstones: bool) -> None:
        self._client = client
        self._task = task
        self._tombstones = tombstones
        self._numbers: Counter[str] = Counter()  # of the next batch, by topic

    def publish(self, topic: str, batch: Batch) -> Iterator[BatchResult]:
        """Publish a batch, in halves if the topic's ring is too small for it."""
        try:
            yield self._publish(topic, batch)
        except BatchTooLarge:
            if batch.count == 1:
                raise
            half = batch.count // 2
            yield from self.publish(topic, batch.cut(0, half))
            yield from self.publish(topic, batch.cut(half, batch.count))

    def _publish(self, topic: str, batch: Batch) -> BatchResult:
        if not self._task:
            return self._client.publish_batch(topic, batch, tombstones=self._tombstones)
        number = self._numbers[topic]
        self._numbers[topic] += 1  # also if it is too large: a final refusal uses up the number
        producer = (
            int.from_bytes(blake2b(f"{self._task}/{topic}".encode(), digest_size=8).digest()) or 1
        )
        return self._client.publish_batch(
            topic, batch, producer=producer, number=number, tombstones=self._tombstones
        )


def check(schema: StructType, *, has_deletions: bool = False) -> None:
    """Refuse a table that cannot be published.

    Args:
        schema: the columns.
        has_deletions: whether rows may delete keys, so that there may be a column `deleted`.

    Raises:
        CannotWrite: it has no payload, or other columns than messages have.
    """
    names = schema.fieldNames()
    for item in schema:
        if item.name == "deleted" and has_deletions and isinstance(item.dataType, BooleanType):
            continue
        if item.name not in {"key", "payload", "value", "topic"}:
            raise CannotWrite(
                f'messages have no column {item.name}; .select("key", "payload") leaves the others '
                "out"
            )
        kinds = StringType if item.name == "topic" else BinaryType | StringType
        if not isinstance(item.dataType, kinds):
            kind = item.dataType.simpleString()
            wanted = "string" if item.name == "topic" else "binary or string"
            raise CannotWrite(
                f"{item.name} must be {wanted}, not {kind}; .cast says how to write it"
            )
    if "payload" in names and "value" in names:
        raise CannotWrite(
            "payload and value are two names for one thing; the table must have one of them"
        )
    if "payload" not in names and "value" not in names:
        raise CannotWrite("messages need a column payload (or value), and this table has none")


def _by_topic(
    tables: Iterable[pa.RecordBatch], topics: tuple[str, ...]
) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """The tables with the topics of their rows; rows of one topic stay in their order."""
    for table in tables:
        if topics:
            yield topics[0], [table]
            continue
        column = table.column("topic")
        if column.null_count:
            raise CannotWrite("a topic is null; each row must say where it goes")
        for topic in column.unique().to_pylist():
            yield topic, [table.filter(pc.equal(column, topic))]


def with_deletions(table: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows with an empty payload where they delete their keys.

    Raises:
        CannotWrite: such a row has no key.
    """
    name = "payload" if "payload" in table.schema.names else "value"
    payloads = table.column(name).cast(pa.binary())
    deleted = payloads.is_null()
    if "deleted" in table.schema.names:
        deleted = pc.or_(deleted, table.column("deleted").fill_null(False))
    without_key = pa.repeat(True, len(table))
    if "key" in table.schema.names:
        without_key = table.column("key").is_null()
    if pc.any(pc.and_(deleted, without_key)).as_py():
        raise CannotWrite("a row deletes a key, and has none: name it in the column key")
    emptied = pc.if_else(deleted, pa.scalar(b"", pa.binary()), payloads)
    return table.set_column(table.schema.names.index(name), name, emptied)


def batches(tables: Iterable[pa.RecordBatch], most: int, most_bytes: int) -> Iterator[Batch]:
    """The rows of tables as batches of at most this many messages and bytes.

    Raises:
        CannotWrite: a payload is null, or a key is empty, which the wire cannot tell from none.
    """
    for table in tables:
        name = "payload" if "payload" in table.schema.names else "value"
        payloads = table.column(name).cast(pa.binary())
        if payloads.null_count:
            raise CannotWrite(
                f"a {name} is null; a message has one always, though it may be empty. If it is to "
                "delete its key in a table: table=changes"
            )
        keys = table.column("key").cast(pa.binary()) if "key" in table.schema.names else None
        if keys is None:
            keys = pa.nulls(len(payloads), pa.binary())
        elif pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
            raise CannotWrite(
                "a key is empty, which on the wire means that there is none; make it null"
            )
        columns = _Column(keys.fill_null(b"")), _Column(payloads)
        sizes = np.cumsum(sum(np.diff(column.offsets).astype(np.int64) for column in columns))
        start = 0
        while start < len(table):
            before = sizes[start - 1] if start else 0
            fits = int(np.searchsorted(sizes, before + most_bytes, side="right"))
            # One that is too large is the broker's to refuse.
            stop = min(max(fits, start + 1), start + most, len(table))
            yield _cut(columns, start, stop)
            start = stop


class _Column:
    """An Arrow array of binary strings, as its two buffers."""

    def __init__(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        if offsets:
            self.offsets = np.frombuffer(offsets, "<i4", len(array) + 1, 4 * array.offset)
        else:
            self.offsets = np.zeros(1, "<i4")
        self.data = memoryview(data or b"")


def _cut(columns: tuple[_Column, _Column], start: int, stop: int) -> Batch:
    offsets = [column.offsets[start : stop + 1] for column in columns]
    pieces = [np.array([stop - start], "<u4").tobytes()]
    pieces += [(column - column[0]).tobytes() for column in offsets]
    pieces += [
        bytes(column.data[of[0] : of[-1]]) for column, of in zip(columns, offsets, strict=True)
    ]
    return Batch(b"".join(pieces), stop - start)
