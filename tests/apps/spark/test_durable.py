"""Durable topics in Spark: what is on the disk below the ring, and a broker that is restarted
meanwhile.
"""

import pickle
import shutil
import threading
from datetime import UTC, datetime, timedelta

import pytest
from embedded import START_US, embedded_broker
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from zaichik import blocking
from zaichik.apps.spark import reading
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.reading import CannotRead, Range
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client.errors import ConnectFailed

CAPACITY = 100  # messages in memory
MANY = 30_000
EACH = 100  # messages in a batch
OFFSETS = StructType([StructField("offset", LongType())])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with the durable topic t, which has many messages, a second between two batches; and
    its epoch.
    """
    folder = tmp_path_factory.mktemp("filled")
    with embedded_broker(data=folder) as broker:
        epoch = broker.create("t", durable=True, capacity=CAPACITY)
        publish(broker, MANY)
    return folder, epoch


@pytest.fixture
def broker(filled, tmp_path):
    folder, _ = filled
    shutil.copytree(folder, tmp_path / "data")
    with embedded_broker(START_US + 1_000_000 * MANY // EACH, tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def epoch(filled):
    _, epoch = filled
    return epoch


def publish(broker, count, start=0, topic="t"):
    for first in range(start, start + count, EACH):
        broker.clock.advance(1)
        broker.publish(
            topic,
            [(None, b"%d" % number) for number in range(first, min(first + EACH, start + count))],
        )


def source(broker, **options):
    return ZaichikSource({"broker": broker.address, "topic": "t"} | options)


def read(a_reader, ranges):
    """The offsets of all rows. Everything is pickled on the way, as Spark does."""
    a_reader, ranges = pickle.loads(pickle.dumps((a_reader, ranges)))
    return [
        offset
        for part in ranges
        for batch in a_reader.read(part)
        for offset in batch["offset"].to_pylist()
    ]


def restart(broker):
    broker.stop()
    broker.start()


# -- tables --------------------------------------------------------------------------------------


def test_a_table_has_all_that_is_on_the_disk(broker, epoch):
    table = source(broker, partitions="3").reader(MESSAGES)
    ranges = table.partitions()
    assert ranges == [
        Range("t", epoch, start, start + 10_000, is_durable=True) for start in (0, 10_000, 20_000)
    ]
    rows = [row for part in ranges for batch in table.read(part) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(MANY))
    assert all(row["payload"] == b"%d" % row["offset"] for row in rows)


@pytest.mark.parametrize("shift_us", [-1, 0, 1])
def test_a_start_by_time_is_exact_on_the_disk(broker, epoch, shift_us):
    """RET-4: batch 20 was accepted 20 seconds after the first one was about to be."""
    when = datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(
        seconds=20, microseconds=shift_us
    )
    first = 19 * EACH + (EACH if shift_us > 0 else 0)
    table = source(broker, start=when.isoformat(), end=str(first + 5)).reader(OFFSETS)
    assert table.partitions() == [Range("t", epoch, first, first + 5, is_durable=True)]
    assert read(table, table.partitions()) == list(range(first, first + 5))


def test_a_restart_between_two_tasks_is_not_noticed(broker, epoch):
    table = source(broker, partitions="2").reader(OFFSETS)
    first, second = table.partitions()
    found = read(table, [first])
    restart(broker)
    assert found + read(table, [second]) == list(range(MANY))


def test_a_restart_in_the_middle_of_a_task_is_not_noticed(broker, epoch):
    table = source(broker).reader(OFFSETS)
    batches = table.read(table.partitions()[0])
    found = next(batches)["offset"].to_pylist()
    restart(broker)
    found += [offset for batch in batches for offset in batch["offset"].to_pylist()]
    assert found == list(range(MANY))


def test_a_task_waits_for_a_broker_that_is_restarted(broker, epoch, monkeypatch):
    table = source(broker).reader(OFFSETS)
    ranges = table.partitions()
    broker.stop()
    failed = threading.Event()
    true_connect = blocking.connect

    def connect(*arguments, **options):
        if failed.is_set():
            broker.start()
        failed.set()
        return true_connect(*arguments, **options)

    monkeypatch.setattr(blocking, "connect", connect)
    assert read(table, ranges) == list(range(MANY))
    assert failed.is_set()


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_task_does_not_wait_for_ever(broker, epoch, monkeypatch, is_durable):
    table = source(broker).reader(OFFSETS)
    broker.stop()
    monkeypatch.setattr(reading, "RECONNECT_SECONDS", 0.2)
    with pytest.raises(ConnectFailed):
        read(table, [Range("t", epoch, 0, MANY, is_durable)])
    broker.start()


def test_earliest_is_the_first_message_that_has_not_expired(broker):
    """The disk drops whole files, but readers get nothing that has expired."""
    broker.create("u", durable=True, capacity=CAPACITY, retention_ttl=10)
    publish(broker, 3000, topic="u")
    table = source(broker, topic="u").reader(OFFSETS)
    assert read(table, table.partitions()) == list(range(2000, 3000))
    stream = source(broker, topic="u").streamReader(OFFSETS)
    assert stream.initialOffset()["u"]["next"] == 2000
    stream.stop()


# -- streams -------------------------------------------------------------------------------------


@pytest.fixture
def stream(broker):
    """A stream of the topic t."""
    a_stream = source(broker).streamReader(OFFSETS)
    yield a_stream
    a_stream.stop()


def test_a_restart_between_two_micro_batches_is_a_pause(broker, epoch, stream):
    """DUR-8: same epoch, same offsets."""
    found, start = [], stream.initialOffset()
    for _ in range(3):
        end = stream.latestOffset(start, ReadMaxRows(MANY // 2))
        found += read(stream, stream.partitions(start, end))
        start = end
        restart(broker)
        publish(broker, 1000, start=MANY)
    end = stream.latestOffset(start, ReadAllAvailable())
    found += read(stream, stream.partitions(start, end))
    assert found == list(range(MANY + 3000))
    assert end == {"t": {"epoch": epoch, "next": MANY + 3000}}


def test_a_micro_batch_is_read_again_the_same_after_a_restart(broker, epoch, stream):
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    first = read(stream, stream.partitions(start, end))
    restart(broker)
    publish(broker, 10, start=MANY)
    assert read(stream, stream.partitions(start, end)) == first == list(range(MANY))


def test_an_older_copy_of_a_topic_ends_the_stream(broker, epoch, stream):
    """A topic that was restored has its epoch, and will give offsets that were read already to
    other messages.
    """
    known, ahead = ({"t": {"epoch": epoch, "next": offset}} for offset in (MANY, MANY + 1))
    with pytest.raises(
        CannotRead, match=f"t ends before offset {MANY}, and was read up to {MANY + 1} before"
    ):
        stream.latestOffset(ahead, ReadAllAvailable())
    with pytest.raises(CannotRead, match="Begin with a new checkpoint"):
        stream.partitions(known, ahead)


def test_a_topic_that_was_made_anew_ends_the_stream(broker, epoch, stream):
    with pytest.raises(CannotRead, match="The topic was deleted and created again since"):
        stream.latestOffset({"t": {"epoch": epoch - 1, "next": 3}}, ReadAllAvailable())
