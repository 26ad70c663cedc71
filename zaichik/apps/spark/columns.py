"""A topic as a Spark table: its columns."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zaichik import ZaichikError
from zaichik.apps.recording.columns import COLUMNS, count
from zaichik_protocol import Messages

MESSAGES = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("timestamp", TimestampType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("payload", BinaryType(), nullable=False),
    ]
)
"""A topic as a table.

`timestamp` is when the broker accepted the message; a message without a key has null.
"""
CHANGES = StructType([*MESSAGES, StructField("deleted", BooleanType(), nullable=False)])
"""The changes of a table.

`deleted` is whether the message is a tombstone, which deletes its key.
"""
_TYPES = {item.name: item.dataType for item in CHANGES} | {
    "size": LongType(),
    "accepted_us": LongType(),
}


class UnknownColumn(ZaichikError):
    """A column was asked for that a topic does not have."""


def record_batch(topic: str, frames: Sequence[Messages], schema: StructType) -> pa.RecordBatch:
    """Returns the messages of some frames, at least one, as the columns that the schema names.

    Beside those of `MESSAGES` there are `size`, the payload's bytes as a bigint, to find out how
    large messages are without moving them, and `accepted_us`, the timestamp as a bigint. See
    `check`.
    """
    columns = [
        pa.repeat(topic, count(frames)) if name == "topic" else COLUMNS[name](frames)
        for name in schema.fieldNames()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(schema, timezone="UTC"))


def check(schema: StructType, *, has_deletions: bool = False) -> None:
    """Refuse a schema that `record_batch` cannot fill.

    Args:
        schema: the columns.
        has_deletions: whether the changes of tables are read, so that there is a column `deleted`.

    Raises:
        UnknownColumn: it names a column that is not there, or gives one another type.
    """
    names = schema.fieldNames()
    for item in schema:
        if item.name == "deleted" and not has_deletions:
            raise UnknownColumn(
                "only the changes of a table have a column deleted: give the option table=changes"
            )
        if item.name not in _TYPES:
            small = ""
            if item.name.lower() in _TYPES:
                small = f"; write {item.name.lower()}, in small letters"
            raise UnknownColumn(
                f"a topic has no column {item.name}{small}; there are {', '.join(_TYPES)}"
            )
        if names.count(item.name) > 1:
            raise UnknownColumn(f"the schema has the column {item.name} more than once")
        if item.dataType != _TYPES[item.name]:
            wanted, given = _TYPES[item.name].simpleString(), item.dataType.simpleString()
            raise UnknownColumn(f"the column {item.name} is {wanted}, not {given}")
