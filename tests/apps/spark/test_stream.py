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
from zaichik.apps.spark.columns import CHANGES, MESSAGES, UnknownColumn
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


def changes(a_stream, start, end):
    """The key, the payload and `deleted` of each row."""
    return [
        (row["key"], row["payload"], row["deleted"])
        for part in a_stream.partitions(start, end)
        for batch in a_stream.read(part)
        for row in batch.to_pylist()
    ]


def of_table(broker, **options):
    words = {"broker": broker.address, "topic": "t", "table": "changes"} | options
    return ZaichikSource(words).streamReader(CHANGES)


def a_table(broker):
    """A table whose key a is deleted: offsets 0 and 1, and b is at 2."""
    epoch = broker.create("t", table=True, tombstones=1)
    broker.publish("t", [("a", b"1")], [("a", None)], [("b", b"2")])
    return epoch


def forget_tombstones(broker):
    broker.clock.advance(2)
    broker.sweep()


def test_a_stream_of_a_table_has_its_changes_and_its_deletions(broker):
    """TAB-2, TAB-5."""
    a_table(broker)
    a_stream = of_table(broker)
    start = a_stream.initialOffset()
    end = a_stream.latestOffset(start, ReadAllAvailable())
    assert changes(a_stream, start, end) == [(b"a", b"", True), (b"b", b"2", False)]
    broker.publish("t", [("b", b"3")], [("b", b"4"), (None, b"")])
    later = a_stream.latestOffset(end, ReadAllAvailable())
    assert changes(a_stream, end, later) == [(b"b", b"4", False), (None, b"", False)]
    # It is repeated, and has fewer rows: one was superseded meanwhile.
    broker.publish("t", [("b", b"5")])
    assert changes(a_stream, end, later) == [(None, b"", False)]
    a_stream.stop()


def test_deletions_that_were_missed_end_the_stream_unless_skipped(broker, caplog):
    """TAB-5: its sink may have keys that are deleted."""
    epoch = a_table(broker)
    place, end = ({"t": {"epoch": epoch, "next": offset}} for offset in (1, 3))
    failing, skipping = of_table(broker), of_table(broker, onLag="skip")
    (planned,) = failing.partitions(place, end)
    forget_tombstones(broker)
    with pytest.raises(CannotRead, match=r"keys of t may have been deleted unseen.*offset 2"):
        failing.partitions(place, end)
    with pytest.raises(CannotRead, match="keys of t may have been deleted unseen"):
        [*failing.read(planned)]
    assert changes(skipping, place, end) == [(b"b", b"2", False)]
    assert "t: keys may have been deleted unseen, below offset 2" in caplog.text
    failing.stop()
    skipping.stop()


def test_a_stream_that_begins_with_the_earliest_message_has_missed_no_deletion(broker):
    """TAB-5: also in micro-batches of one offset each, until it is past those that are gone."""
    a_table(broker)
    forget_tombstones(broker)
    a_stream = of_table(broker)
    start = a_stream.initialOffset()
    assert start["t"]["known_below"] == 2
    seen = []
    while (end := a_stream.latestOffset(start, ReadMaxRows(1))) != start:
        seen += changes(a_stream, start, end)
        start = end
    assert (seen, start["t"].keys()) == ([(b"b", b"2", False)], {"epoch", "next"})
    a_stream.stop()


def test_a_table_that_is_added_to_a_query_has_missed_no_deletion(broker):
    broker.create("other", table=True)
    a_table(broker)
    forget_tombstones(broker)
    one = of_table(broker, topic="other")
    checkpoint = one.initialOffset()
    one.stop()
    both = of_table(broker, topic="other,t")
    end = both.latestOffset(checkpoint, ReadAllAvailable())
    assert changes(both, checkpoint, end) == [(b"b", b"2", False)]
    both.stop()


def test_only_a_table_has_changes(broker):
    broker.create("t")
    a_stream = of_table(broker)
    with pytest.raises(CannotRead, match="t is not a table"):
        a_stream.initialOffset()
    a_stream.stop()
    with pytest.raises(UnknownColumn, match="give the option table=changes"):
        ZaichikSource({"broker": broker.address, "topic": "t"}).streamReader(CHANGES)


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
