"""A query that copies a topic into a table: made to be killed in the middle of a micro-batch, as a
program of its own.

    python doomed_query.py BROKER FOLDER OFFSET PORT

When the message at that offset is about to be written, it calls at that port, and goes no further.
"""

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from small import SMALL

from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.session import session

EACH = 8  # messages in a micro-batch, in two parts


def copy(
    spark: SparkSession, broker: str, folder: Path, stall_at: int = -1, port: int = 0
) -> StreamingQuery:
    """The query, which ends when it has copied what is there now."""

    def stall(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if stall_at in batch.column("offset").to_pylist():
                with socket.create_connection(("127.0.0.1", port)) as bell:
                    bell.recv(1)
            yield batch

    options = {
        "broker": broker,
        "topic": "t",
        "maxMessagesPerTrigger": str(EACH),
        "partitions": "2",
    }
    table = spark.readStream.format("zaichik").options(**options).load().mapInArrow(stall, MESSAGES)
    writer = table.writeStream.format("parquet").trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start(
        str(folder / "table")
    )


if __name__ == "__main__":
    broker, folder, stall_at, port = sys.argv[1:]
    copy(
        session("local[2]", config=SMALL), broker, Path(folder), int(stall_at), int(port)
    ).awaitTermination()
