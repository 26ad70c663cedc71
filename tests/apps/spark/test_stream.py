"""Topics as tables that grow: where a query stands, and that it goes on there."""

import os
import pickle
import signal
import socket
import subprocess
import sys

import doomed_query
import pytest
from doomed_query import EACH, copy
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from small import python

import zaichik
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import CannotRead
from zaichik.apps.spark.source import ZaichikSource

GUARD = 300  # seconds after which what hangs has failed


def stream(broker, **options):
    return ZaichikSource({"broker": broker.address} | options).streamReader(MESSAGES)


@pytest.fixture
def reader(broker):
    """A stream of the topic t, which has ten messages."""
    broker.create("t")
    broker.publish("t", numbered(10))
    a_stream = stream(broker, topic="t")
    yield a_stream
    a_stream.stop()


def numbered(count):
    return [(None, b"%d" % number) for number in range(count)]


def offsets(a_stream, start, end):
    parts = a_stream.partitions(start, end)
    worker = pickle.loads(pickle.dumps(a_stream))
    return [
        row["offset"] for part in parts for batch in worker.read(part) for row in batch.to_pylist()
    ]


def nexts(offset):
    return {topic: place["next"] for topic, place in offset.items()}


def test_a_query_reads_from_where_the_last_micro_batch_ended(broker, reader):
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert offsets(reader, start, end) == list(range(10))
    broker.publish("t", numbered(5))
    later = reader.latestOffset(end, ReadAllAvailable())
    assert offsets(reader, end, later) == [10, 11, 12, 13, 14]
    assert reader.latestOffset(later, ReadAllAvailable()) == later == reader.reportLatestOffset()
    assert offsets(reader, later, later) == []


def test_a_query_that_begins_at_the_end_begins_there_once(broker):
    """Spark asks twice, and messages may come in between."""
    broker.create("t")
    a_stream = stream(broker, topic="t", start="latest")
    first = a_stream.initialOffset()
    broker.publish("t", numbered(1))
    assert a_stream.initialOffset() == first
    a_stream.stop()


def test_a_limit_is_shared_fairly_among_topics(broker):
    for topic, count in (("a", 2), ("b", 20), ("c", 20)):
        broker.create(topic)
        broker.publish(topic, numbered(count))
    a_stream = stream(broker, topic="a,b,c", maxMessagesPerTrigger="12")
    limit = a_stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(12)
    start = a_stream.initialOffset()
    first = a_stream.latestOffset(start, limit)
    assert nexts(first) == {"a": 2, "b": 5, "c": 5}
    assert nexts(a_stream.latestOffset(first, limit)) == {"a": 2, "b": 11, "c": 11}
    a_stream.stop()


def test_a_limit_of_one_message_is_no_standstill(broker):
    for topic in ("a", "b"):
        broker.create(topic)
        broker.publish(topic, numbered(1))
    a_stream = stream(broker, topic="a,b", maxMessagesPerTrigger="1")
    start = a_stream.initialOffset()
    first = a_stream.latestOffset(start, ReadMaxRows(1))
    assert sum(nexts(first).values()) == 1
    assert sum(nexts(a_stream.latestOffset(first, ReadMaxRows(1))).values()) == 2
    a_stream.stop()


def test_a_micro_batch_waits_for_enough_messages_but_not_for_ever(broker, monkeypatch):
    broker.create("t")
    a_stream = stream(broker, topic="t", minMessagesPerTrigger="5", maxTriggerDelay="60")
    now = 1000.0
    monkeypatch.setattr("zaichik.apps.spark.stream.time.monotonic", lambda: now)
    start = a_stream.initialOffset()
    assert a_stream.latestOffset(start, ReadAllAvailable()) == start
    broker.publish("t", numbered(3))
    assert a_stream.latestOffset(start, ReadAllAvailable()) == start
    now += 59
    assert a_stream.latestOffset(start, ReadAllAvailable()) == start
    now += 1
    some = a_stream.latestOffset(start, ReadAllAvailable())
    assert nexts(some) == {"t": 3}
    broker.publish("t", numbered(5))
    assert nexts(a_stream.latestOffset(some, ReadAllAvailable())) == {"t": 8}
    broker.publish("t", numbered(1))
    a_stream.prepareForTriggerAvailableNow()  # what is there now is all there will be
    assert nexts(a_stream.latestOffset(some, ReadAllAvailable())) == {"t": 9}
    a_stream.stop()


def test_topics_by_a_pattern(broker):
    for topic in ("orders-eu", "orders-us", "other"):
        broker.create(topic, journal=1000)
    assert Options.of({"broker": broker.address, "topicPattern": "orders-.*"}).topics == (
        "orders-eu",
        "orders-us",
    )
    for pattern, words in (
        ("nothing", "no topic matches 'nothing'"),
        ("(", "not a regular expression"),
    ):
        with pytest.raises(BadOption, match=words):
            Options.of({"broker": broker.address, "topicPattern": pattern})
    with pytest.raises(BadOption, match="one of them is enough"):
        Options.of({"broker": broker.address, "topicPattern": ".*", "topic": "other"})


def test_a_topic_may_be_added_to_a_query(broker):
    """It is read from its beginning; one that is taken away is an error."""
    for topic, count in (("a", 2), ("b", 3)):
        broker.create(topic)
        broker.publish(topic, numbered(count))
    one = stream(broker, topic="a")
    checkpoint = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    one.stop()
    both = stream(broker, topic="a,b", start="latest")
    end = both.latestOffset(checkpoint, ReadAllAvailable())
    assert nexts(end) == {"a": 2, "b": 3}
    assert offsets(both, checkpoint, end) == [0, 1, 2]
    both.stop()
    other = stream(broker, topic="b")
    with pytest.raises(CannotRead, match="the checkpoint is of a, too"):
        other.latestOffset(end, ReadAllAvailable())
    other.stop()


def test_what_is_available_now_is_not_what_comes_later(broker, reader):
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    broker.publish("t", numbered(5))
    assert nexts(reader.latestOffset(start, ReadAllAvailable())) == {"t": 10}
    assert nexts(reader.latestOffset(start, ReadMaxRows(4))) == {"t": 4}


def test_a_connection_that_was_lost_for_good_is_made_anew(reader):
    start = reader.initialOffset()
    lost = reader._client
    lost._inner._connection.lost("not replaced in time")
    assert nexts(reader.latestOffset(start, ReadAllAvailable())) == {"t": 10}
    assert reader._client is not lost


def test_another_epoch_ends_the_stream(reader):
    """TOP-5."""
    other = {"t": {"epoch": 1, "next": 3}}
    with pytest.raises(CannotRead, match="another topic"):
        reader.latestOffset(other, ReadAllAvailable())
    with pytest.raises(CannotRead, match="another topic"):
        reader.partitions(other, {"t": {"epoch": 1, "next": 5}})


@pytest.mark.parametrize("count", [5, 10, 15])
def test_what_is_available_now_of_a_topic_that_was_made_again_is_an_error(broker, reader, count):
    """Else its first messages, which have offsets that were read before, would be passed over."""
    was = reader.initialOffset()["t"]["epoch"]
    broker.delete("t")
    epoch = broker.create("t")
    broker.publish("t", numbered(count))
    known = {"t": {"epoch": was, "next": 10}}
    again = stream(broker, topic="t")
    again.prepareForTriggerAvailableNow()
    for limit in (ReadAllAvailable(), ReadMaxRows(4)):
        with pytest.raises(CannotRead, match=f"its epoch is {epoch}, not {was}.*created again"):
            again.latestOffset(known, limit)
    # A micro-batch that was planned by a program that did not look.
    with pytest.raises(CannotRead, match=f"its epoch is {epoch}, not {was}"):
        again.partitions(known, {"t": {"epoch": epoch, "next": count}})
    again.stop()


def test_messages_that_are_gone_end_the_stream_unless_skipped(broker):
    epoch = broker.create("t", capacity=4)
    broker.publish("t", numbered(4), numbered(4))
    start, end = ({"t": {"epoch": epoch, "next": offset}} for offset in (1, 8))
    failing, skipping = stream(broker, topic="t"), stream(broker, topic="t", onLag="skip")
    with pytest.raises(CannotRead, match="3 messages of t are gone"):
        failing.partitions(start, end)
    assert offsets(skipping, start, end) == [4, 5, 6, 7]
    failing.stop()
    skipping.stop()


def test_a_checkpoint_of_other_topics_is_refused(broker, reader):
    with pytest.raises(CannotRead, match="checkpointLocation of its own"):
        reader.latestOffset({"other": {"epoch": 1, "next": 0}}, ReadAllAvailable())


def test_a_stream_has_no_end(broker):
    with pytest.raises(BadOption, match="no end"):
        stream(broker, topic="t", end="5")


@pytest.fixture
def killed(broker):
    """Let a query begin in a Spark of its own, and kill all of it in the middle of its second
    micro-batch.
    """

    def killed(folder):
        workers = python(folder)
        with socket.create_server(("127.0.0.1", 0)) as bell:
            bell.settimeout(GUARD)
            where = [broker.address, str(folder), str(EACH + EACH // 2), str(bell.getsockname()[1])]
            command = [sys.executable, doomed_query.__file__, *where]
            # Its Java is in the same process group.
            query = subprocess.Popen(
                command, env=os.environ | {"PYSPARK_PYTHON": workers}, start_new_session=True
            )
            try:
                worker, _ = bell.accept()
            finally:
                os.killpg(query.pid, signal.SIGKILL)
                query.wait()
            worker.close()

    return killed


@pytest.mark.cluster
def test_a_query_that_was_killed_goes_on_where_it_was(broker, spark, killed, tmp_path):
    """Killed in the middle of a micro-batch, which had read all its rows and written some: none is
    missing or twice.
    """

    def found():
        return sorted(
            (row["offset"], row["payload"])
            for row in spark.read.parquet(str(tmp_path / "table")).collect()
        )

    broker.create("t")
    broker.publish("t", numbered(20))
    killed(tmp_path)
    assert [offset for offset, _ in found()] == list(range(EACH))
    broker.publish("t", numbered(3))
    copy(spark, broker.address, tmp_path).awaitTermination()
    assert found() == [(number, b"%d" % number) for number in range(20)] + [
        (20 + n, b"%d" % n) for n in range(3)
    ]


def test_a_stream_of_nobody_is_an_error():
    with pytest.raises(zaichik.ConnectFailed):
        ZaichikSource({"broker": "127.0.0.1:1", "topic": "t"}).streamReader(
            MESSAGES
        ).initialOffset()
