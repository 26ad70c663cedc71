"""Streams of a pattern: topics that come are read from their beginning, and none goes unseen."""

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from zaichik.apps.spark import following
from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.options import Options
from zaichik.apps.spark.reading import CannotRead
from zaichik.apps.spark.source import ZaichikSource

ALL = ReadAllAvailable()


@pytest.fixture
def stream(broker):
    """Makes streams of `orders.*`, and stops them."""
    made = []

    def stream(**options):
        words = {"broker": broker.address, "subscribePattern": "orders.*"} | options
        made.append(ZaichikSource(words).streamReader(MESSAGES))
        return made[-1]

    yield stream
    for one in made:
        one.stop()


def create(broker, topic, *payloads):
    epoch = broker.create(topic)
    publish(broker, topic, *payloads)
    return epoch


def publish(broker, topic, *payloads):
    for payload in payloads:
        broker.publish(topic, [(None, payload)])


def rows(a_stream, start, end):
    """The topic and the payload of each row; read by a worker."""
    parts = pickle.loads(pickle.dumps(a_stream.partitions(start, end)))
    worker = pickle.loads(pickle.dumps(a_stream))
    found = [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]
    return sorted((row["topic"], row["payload"]) for row in found)


def test_topics_that_come_later_are_read_from_their_beginning(broker, stream):
    create(broker, "orders.de", b"1")
    create(broker, "other", b"no")
    create(broker, "orders.de.old", b"no")
    a_stream = stream(start="latest")
    start = a_stream.initialOffset()
    publish(broker, "orders.de", b"2")
    create(broker, "orders.fr", b"3")
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.de", b"2"), ("orders.fr", b"3")]
    publish(broker, "orders.fr", b"4")
    later = a_stream.latestOffset(end, ALL)
    assert rows(a_stream, end, later) == [("orders.fr", b"4")]
    assert a_stream.latestOffset(later, ALL) == later == a_stream.reportLatestOffset()


def test_a_topic_that_keeps_nothing_is_held_until_it_is_read(broker, stream):
    """PAT-3: published right after it was made, by somebody who names no settings."""
    a_stream = stream()
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    broker.create("orders.de", retention_ttl=0)
    publish(broker, "orders.de", b"1")
    broker.sweep()
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.de", b"1")]


def test_a_stream_may_begin_before_there_is_any_topic(broker, stream):
    a_stream = stream()
    start = a_stream.initialOffset()
    assert start == {} == a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, start) == []
    create(broker, "orders.de", b"1")
    end = a_stream.latestOffset(start, ReadMaxRows(5))
    assert rows(a_stream, start, end) == [("orders.de", b"1")]


def test_a_topic_that_goes_ends_the_stream(broker, stream):
    create(broker, "orders.de", b"1")
    a_stream = stream()
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    broker.delete("orders.de")
    for one in (a_stream, stream()):
        with pytest.raises(CannotRead, match=r"orders\.de is gone; it was read up to offset 1"):
            one.latestOffset(start, ALL)


def test_a_topic_that_goes_is_left_out_and_said_if_it_is_to_be_skipped(broker, stream, caplog):
    create(broker, "orders.de", b"1")
    create(broker, "orders.fr", b"2")
    a_stream = stream(onLag="skip")
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    broker.delete("orders.de")
    publish(broker, "orders.fr", b"3")
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.fr", b"3")]
    assert end.keys() == {"orders.fr"}
    assert "orders.de is gone; it was read up to offset 1, and is left out" in caplog.text


def test_a_topic_that_is_made_again_is_another_one(broker, stream, caplog):
    """TOP-5: its first messages have offsets that were read before."""
    create(broker, "orders.de", b"1", b"2")
    failing, skipping = stream(), stream(onLag="skip")
    start = skipping.latestOffset(skipping.initialOffset(), ALL)
    assert failing.latestOffset(failing.initialOffset(), ALL) == start
    broker.delete("orders.de")
    epoch = create(broker, "orders.de", b"3")
    with pytest.raises(CannotRead, match=r"orders\.de was deleted and created again"):
        failing.latestOffset(start, ALL)
    end = skipping.latestOffset(start, ALL)
    assert end == {"orders.de": {"epoch": epoch, "next": 1}}
    assert rows(skipping, start, end) == [("orders.de", b"3")]
    assert "orders.de was deleted and created again" in caplog.text


def test_a_checkpoint_of_a_topic_that_does_not_match_is_refused(broker, stream):
    create(broker, "orders.de", b"1")
    a_stream = stream()
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    other = stream(subscribePattern="orders.f*", onLag="skip")
    with pytest.raises(CannotRead, match=r"which does not match 'orders\.f\*'"):
        other.latestOffset(start, ALL)


def test_topics_that_came_and_went_between_two_looks_are_missed(broker, stream, caplog):
    """PAT-1: they were never read, and the broker says that they were there."""
    failing, skipping = stream(), stream(onLag="skip")
    for one in (failing, skipping):
        assert one.latestOffset(one.initialOffset(), ALL) == {}
    create(broker, "orders.de", b"1")
    broker.delete("orders.de")
    with pytest.raises(CannotRead, match=r"came and went unread \(orders.de\)"):
        failing.latestOffset({}, ALL)
    assert skipping.latestOffset({}, ALL) == {}
    assert "came and went unread (orders.de)" in caplog.text


def test_a_topic_that_goes_after_planning_is_no_end_if_it_is_to_be_skipped(broker, stream, caplog):
    create(broker, "orders.de", b"1")
    failing, skipping = stream(), stream(onLag="skip")
    start = {}
    skipping.initialOffset()
    end = skipping.latestOffset(start, ALL)
    parts = skipping.partitions(start, end)
    broker.delete("orders.de")
    assert [*skipping.read(parts[0])] == []
    assert rows(skipping, start, end) == []
    assert "orders.de is gone" in caplog.text
    with pytest.raises(CannotRead, match=r"orders\.de is gone"):
        [*failing.read(parts[0])]
    with pytest.raises(CannotRead, match=r"there is no topic 'orders\.de'"):
        failing.partitions(start, end)


def test_a_topic_that_goes_after_the_look_is_found_by_the_next_one(broker, stream, monkeypatch):
    create(broker, "orders.de", b"1")
    create(broker, "orders.fr", b"2")
    a_stream = stream(onLag="skip")
    start = a_stream.initialOffset()
    going = ["orders.de"]
    ends = following.FollowingStreamReader._ends

    def ends_later(self, known):
        while going:
            broker.delete(going.pop())
        return ends(self, known)

    monkeypatch.setattr(following.FollowingStreamReader, "_ends", ends_later)
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.fr", b"2")]


def test_what_is_available_now_is_what_was_there(broker, stream):
    create(broker, "orders.de", b"1")
    a_stream = stream()
    start = a_stream.initialOffset()
    a_stream.prepareForTriggerAvailableNow()
    publish(broker, "orders.de", b"2")
    create(broker, "orders.fr", b"3")
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.de", b"1")]


def test_a_connection_that_was_lost_for_good_loses_no_topic(broker, stream):
    create(broker, "orders.de", b"1")
    a_stream = stream()
    start = a_stream.initialOffset()
    lost = a_stream._client
    lost._inner._connection.lost("not replaced in time")
    create(broker, "orders.fr", b"2")
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.de", b"1"), ("orders.fr", b"2")]
    assert a_stream._client is not lost


def test_after_a_restart_of_the_broker_its_topics_are_gone(broker, stream, caplog):
    create(broker, "orders.de", b"1")
    a_stream = stream(onLag="skip")
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    broker.stop()
    broker.clock.advance(1)
    broker.start()
    create(broker, "orders.fr", b"2")
    end = a_stream.latestOffset(start, ALL)
    assert rows(a_stream, start, end) == [("orders.fr", b"2")]
    assert "orders.de is gone" in caplog.text


def test_with_a_name_each_topic_has_a_position(broker, stream):
    """CMT-3: also one that came later; that of a topic that has gone is nobody's."""
    create(broker, "orders.de", b"1")
    a_stream = stream(name="query", onLag="skip")
    start = a_stream.latestOffset(a_stream.initialOffset(), ALL)
    create(broker, "orders.fr", b"2")
    end = a_stream.latestOffset(start, ALL)
    a_stream.commit(end)

    def positions():
        states = broker.subscriptions()
        return {one["topic"]: one["committed"] for one in states if one["session"] == "query"}

    assert positions() == {"orders.de": 1, "orders.fr": 1}
    broker.delete("orders.de")
    publish(broker, "orders.fr", b"3")
    a_stream.commit(a_stream.latestOffset(end, ALL))
    assert positions() == {"orders.fr": 2}


def test_a_table_of_a_pattern_has_the_topics_that_are_there(broker):
    for topic in ("orders.de", "orders.fr", "orders.de.old", "other"):
        broker.create(topic, journal=1000)
    words = {"broker": broker.address, "subscribePattern": "orders.*"}
    assert Options.of(words).topics == ("orders.de", "orders.fr")
    with pytest.raises(BadOption, match=r"no topic matches 'none\.\*\*'"):
        Options.of(words | {"subscribePattern": "none.**"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": "t"}, "subscribePattern is given, too"),
        ({"topicPattern": ".*"}, "one of them is enough"),
        ({"subscribePattern": "$topics"}, "match nothing"),
        ({"subscribePattern": ""}, "at least one character"),
        ({"end": "5"}, "a stream has no end"),
        ({"start": '{"orders.de": 1}'}, "not among the topics"),
    ],
)
def test_options_that_do_not_go_with_a_pattern_are_refused(stream, options, words):
    with pytest.raises(BadOption, match=words):
        stream(**options)


def test_spark_follows_a_pattern(broker, spark, tmp_path):
    """From no topic at all, over two runs of a query."""
    options = {"broker": broker.address, "subscribePattern": "orders.*"}

    def follow():
        orders = spark.readStream.format("zaichik").options(**options).load()
        writing = orders.writeStream.format("parquet").trigger(availableNow=True)
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writing.start(str(tmp_path / "table")).awaitTermination()
        if not list((tmp_path / "table").glob("*.parquet")):
            return []
        rows = spark.read.schema(MESSAGES).parquet(str(tmp_path / "table")).collect()
        return sorted((row["topic"], bytes(row["payload"])) for row in rows)

    assert follow() == []
    create(broker, "orders.de", b"1")
    assert follow() == [("orders.de", b"1")]
    create(broker, "orders.fr", b"2")
    publish(broker, "orders.de", b"3")
    assert follow() == [("orders.de", b"1"), ("orders.de", b"3"), ("orders.fr", b"2")]
