"""The gap of a topic that was restored, 2^40 offsets: no task or micro-batch is made of it."""

import pytest
from copied import message, restored
from embedded import START_US, embedded_broker
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from zaichik.apps.replication.restoring import SKIP
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.reading import CannotRead
from zaichik.apps.spark.source import ZaichikSource

BEFORE, AFTER = 20, 5


@pytest.fixture
def broker(tmp_path):
    """Twenty messages, a gap, and five messages."""
    restored(
        tmp_path, [message(number, START_US + number, epoch=START_US) for number in range(BEFORE)]
    )
    with embedded_broker(START_US + 1000, tmp_path) as running:
        running.publish("orders", [(None, b"after")] * AFTER)
        yield running


def source(broker, **options):
    return ZaichikSource({"broker": broker.address, "topic": "orders", "onLag": "skip"} | options)


def offsets(reader, parts):
    return [
        row["offset"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()
    ]


ALL = [*range(BEFORE), *range(BEFORE + SKIP, BEFORE + SKIP + AFTER)]


def test_a_table_is_read_by_as_many_tasks_as_its_messages_need(broker):
    table = source(broker).reader(MESSAGES)
    parts = table.partitions()
    assert len(parts) == 1
    assert offsets(table, parts) == ALL


def test_a_stream_with_a_limit_passes_the_gap_in_one_micro_batch(broker):
    stream = source(broker).streamReader(MESSAGES)
    start = stream.initialOffset()
    found, sizes = [], []
    while True:
        end = stream.latestOffset(start, ReadMaxRows(8))
        if end == start:
            break
        found.append(offsets(stream, stream.partitions(start, end)))
        sizes.append(end["orders"]["next"] - start["orders"]["next"])
        start = end
    stream.stop()
    assert [row for rows in found for row in rows] == ALL
    assert [len(rows) for rows in found] == [8, 8, 4, 5]
    assert sizes == [8, 8, 4 + SKIP, 5]


def test_a_gap_is_lag_like_any_other(broker):
    stream = source(broker, onLag="fail").streamReader(MESSAGES)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    with pytest.raises(CannotRead, match=rf"{SKIP:,} messages of orders are gone"):
        offsets(stream, stream.partitions(start, end))
    stream.stop()
