"""`df.write.format("zaichik")`: the columns `key` and `payload` of a table become messages.

Tables go over the wire as they come from Spark, column by column: an Arrow array of binary strings is a buffer of
offsets and a buffer of bytes, and so is half of a batch. Only the pieces are cut to what the broker accepts.

What is published cannot be taken back. A task that fails and is tried again publishes again what it had published
before: messages arrive *at least* once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from zaichik import blocking
from zaichik.client.errors import BatchTooLarge, ZaichikError
from zaichik.client.messages import BatchResult
from zaichik.spark.options import BadOption, Options
from zaichik.spark.reading import CLIENT
from zaichik_protocol import Batch


class CannotWrite(ZaichikError):
    """The table has other columns than messages have, or a value that no message can have."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What became of a task's messages."""

    stored: int
    compacted: int


class TopicWriter(DataSourceArrowWriter):
    """Publishes tables."""

    def __init__(self, options: Options, schema: StructType) -> None:
        check(schema)
        if len(options.topics) > 1:
            raise BadOption(f"one topic is written at a time, not {', '.join(options.topics)}")
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Publish one task's rows, in their order."""
        stored = compacted = 0
        (topic,) = self.options.topics
        with blocking.connect(self.options.host, self.options.port, name=CLIENT) as client:
            most, most_bytes = client.welcome.max_batch, client.welcome.max_message
            for batch in batches(iterator, most, most_bytes):
                for result in _published(client, topic, batch):
                    stored += result.stored
                    compacted += result.compacted
        return Written(stored, compacted)


class TopicStreamWriter(TopicWriter, DataSourceStreamArrowWriter):
    """Publishes micro-batches."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 (Spark's)
        """All tasks have published; there is nothing more to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:  # noqa: N803 (Spark's)
        """A task has failed. What the others have published stays."""


def check(schema: StructType) -> None:
    """Refuse a table that cannot be published.

    Raises:
        CannotWrite: it has no payload, or other columns than messages have.
    """
    for item in schema:
        if item.name not in {"key", "payload"}:
            raise CannotWrite(f'messages have no column {item.name}; .select("key", "payload") leaves the others out')
        if not isinstance(item.dataType, BinaryType | StringType):
            kind = item.dataType.simpleString()
            raise CannotWrite(f"{item.name} must be binary or string, not {kind}; .cast says how to write it")
    if "payload" not in schema.fieldNames():
        raise CannotWrite("messages need a column payload, and this table has none")


def batches(tables: Iterable[pa.RecordBatch], most: int, most_bytes: int) -> Iterator[Batch]:
    """The rows of tables as batches of at most so many messages and bytes.

    Raises:
        CannotWrite: a payload is null, or a key is empty, which the wire cannot tell from none.
    """
    for table in tables:
        payloads = table.column("payload").cast(pa.binary())
        if payloads.null_count:
            raise CannotWrite("a payload is null; a message has one always, though it may be empty")
        keys = table.column("key").cast(pa.binary()) if "key" in table.schema.names else None
        if keys is None:
            keys = pa.nulls(len(payloads), pa.binary())
        elif pc.any(pc.equal(pc.binary_length(keys), 0)).as_py():
            raise CannotWrite("a key is empty, which on the wire means that there is none; make it null")
        columns = _Column(keys.fill_null(b"")), _Column(payloads)
        sizes = np.cumsum(sum(np.diff(column.offsets).astype(np.int64) for column in columns))
        start = 0
        while start < len(table):
            before = sizes[start - 1] if start else 0
            fits = int(np.searchsorted(sizes, before + most_bytes, side="right"))
            stop = min(
                max(fits, start + 1), start + most, len(table)
            )  # one that is too large is the broker's to refuse
            yield _cut(columns, start, stop)
            start = stop


class _Column:
    """An Arrow array of binary strings, as its two buffers."""

    def __init__(self, array: pa.Array) -> None:
        _, offsets, data = array.buffers()
        self.offsets = (
            np.frombuffer(offsets, "<i4", len(array) + 1, 4 * array.offset) if offsets else np.zeros(1, "<i4")
        )
        self.data = memoryview(data or b"")


def _cut(columns: tuple[_Column, _Column], start: int, stop: int) -> Batch:
    offsets = [column.offsets[start : stop + 1] for column in columns]
    pieces = [np.array([stop - start], "<u4").tobytes()]
    pieces += [(column - column[0]).tobytes() for column in offsets]
    pieces += [bytes(column.data[of[0] : of[-1]]) for column, of in zip(columns, offsets, strict=True)]
    return Batch(b"".join(pieces), stop - start)


def _published(client: blocking.Client, topic: str, batch: Batch) -> Iterator[BatchResult]:
    """Publish a batch, in halves if the topic's ring is too small for it."""
    try:
        yield client.publish_batch(topic, batch)
    except BatchTooLarge:
        if batch.count == 1:
            raise
        half = batch.count // 2
        yield from _published(client, topic, batch.cut(0, half))
        yield from _published(client, topic, batch.cut(half, batch.count))
