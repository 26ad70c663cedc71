"""Streams with a name: the broker keeps messages for them, and nothing else."""

import shutil
import threading

import pyarrow.dataset as ds
import pytest
from embedded import embedded_broker
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.holding import NameTaken
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client import blocking
from zaichik.client.errors import ZaichikError

OFFSETS = StructType([StructField("offset", LongType())])
NAME = "copy"


@pytest.fixture
def broker(tmp_path):
    with embedded_broker(data=tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def streams(broker):
    """Makes streams of that name, and stops them in the end."""
    made = []

    def stream(topic="t", name=NAME, **options):
        source = ZaichikSource({"broker": broker.address, "topic": topic, "name": name} | options)
        made.append(source.streamReader(OFFSETS))
        return made[-1]

    yield stream
    for each in made:
        each.stop()


@pytest.fixture
def epoch(broker):
    """Of the topic t with ten messages.

    It keeps them, or a sweep could come before the first position.
    """
    epoch = broker.create("t")
    publish(broker, 10)
    return epoch


def publish(broker, count, topic="t"):
    broker.publish(topic, [(None, b"x")] * count)


def positions(broker, topic="t", name=NAME):
    """Where all positions of that name are."""
    return [
        state["committed"]
        for state in broker.subscriptions()
        if (state["topic"], state["session"]) == (topic, name)
    ]


def at(epoch, offset):
    return {"t": {"epoch": epoch, "next": offset}}


def test_the_position_follows_what_spark_has_finished(broker, epoch, streams):
    stream = streams()
    start = stream.initialOffset()
    assert positions(broker) == [0]
    end = stream.latestOffset(start, ReadAllAvailable())
    assert positions(broker) == [0]
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    assert positions(broker) == [10]
    stream._connection().ping()  # once it is answered, what was sent before it has come as well
    assert [state["session"] for state in broker.subscriptions()] == [NAME], "nothing else is left"


def test_a_commit_moves_it_too_and_one_that_is_repeated_does_not(broker, epoch, streams):
    stream = streams()
    stream.initialOffset()
    for offset, expected in ((4, 4), (7, 7), (4, 7), (7, 7), (10, 10)):
        stream.commit(at(epoch, offset))
        assert positions(broker) == [expected]


@pytest.mark.parametrize("before", [2, 5, 8])
def test_a_stream_that_is_restarted_has_it_where_its_checkpoint_says(
    broker, epoch, streams, before
):
    """Whether or not the last commit came to the broker, or the checkpoint is an older one."""
    first = streams()
    first.latestOffset(at(epoch, before), ReadAllAvailable())
    first.stop()
    assert positions(broker) == [before]
    again = streams()
    again.partitions(at(epoch, 5), at(epoch, 10))
    assert positions(broker) == [5]


def test_a_lossless_topic_waits_for_its_stream(broker, streams):
    """RET-9: what is not finished keeps its place.

    That of the last micro-batch is free before there is another one.
    """
    epoch = broker.create("full", capacity=10, overflow="reject")
    stream = streams("full")
    start = stream.initialOffset()
    publish(broker, 10, "full")
    end = stream.latestOffset(start, ReadAllAvailable())
    stream.partitions(start, end)
    publisher = threading.Thread(target=publish, args=(broker, 10, "full"))
    publisher.start()
    with blocking.connect(port=broker.port, name="looks") as client:
        while requests_of_publishers(client) < 6:  # it is refused, and tries again
            assert publisher.is_alive()
    assert stream.reportLatestOffset() == end
    stream.latestOffset(end, ReadAllAvailable())
    publisher.join()
    assert stream.latestOffset(end, ReadAllAvailable()) == {"full": {"epoch": epoch, "next": 20}}


def requests_of_publishers(client):
    names = ("looks", "zaichik-spark")
    return max(
        (state["requests"] for state in client.connections() if state["client"] not in names),
        default=0,
    )


def test_nothing_is_dropped_while_the_position_moves(broker, streams):
    """A publisher fills the room as fast as it is given.

    Without a guard, the ring would drop what nobody needs.
    """
    epoch = broker.create("t", capacity=100, overflow="reject")
    stream = streams()
    place = stream.initialOffset()
    stopping = threading.Event()

    def publish():
        with blocking.connect(port=broker.port) as client:
            while not stopping.is_set():
                client.publish_batch("t", [(None, b"x")] * 10)

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    for _ in range(100):
        place = stream.latestOffset(place, ReadAllAvailable())
        (state,) = broker.topics("t")
        assert state["head"] <= place["t"]["next"]
        assert positions(broker) <= [place["t"]["next"]]
    stopping.set()
    while publisher.is_alive():
        place = stream.latestOffset(place, ReadAllAvailable())
    publisher.join()
    assert place["t"]["epoch"] == epoch


def test_several_topics_have_a_position_each(broker, streams):
    for topic, count in (("a", 3), ("b", 5)):
        broker.create(topic)
        publish(broker, count, topic)
    stream = streams("a,b")
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    stream.latestOffset(end, ReadAllAvailable())
    assert (positions(broker, "a"), positions(broker, "b")) == ([3], [5])


def test_the_later_of_two_streams_has_the_name(broker, epoch, streams):
    """CMT-3: the first one ends, at the latest when it wants to move the position, and does not
    take it back.
    """
    first, second = streams(), streams()
    first.latestOffset(at(epoch, 3), ReadAllAvailable())
    second.latestOffset(at(epoch, 5), ReadAllAvailable())
    for _ in range(2):
        with pytest.raises(NameTaken, match="another query has taken over the name 'copy' in t"):
            until_taken(first, epoch)
    assert positions(broker) == [5]
    second.commit(at(epoch, 7))
    assert positions(broker) == [7]


def until_taken(stream, epoch):
    while True:  # it is told by a frame of its own
        stream.latestOffset(at(epoch, 3), ReadAllAvailable())


def test_a_position_outlives_a_restart_and_the_connection(broker, streams):
    """DUR-5: that of a durable topic."""
    epoch = broker.create("t", durable=True, capacity=100)
    publish(broker, 10)
    stream = streams()
    stream.latestOffset(at(epoch, 3), ReadAllAvailable())
    broker.stop()
    broker.start()
    stream.latestOffset(at(epoch, 3), ReadAllAvailable())
    assert positions(broker) == [3]
    stream._client._inner._connection.lost("not replaced in time")
    stream.latestOffset(at(epoch, 6), ReadAllAvailable())
    assert positions(broker) == [6]


def test_a_position_that_a_crash_has_put_back_is_put_forward_again(broker, streams, tmp_path):
    """DUR-5: the last second of commits may be lost.

    A full topic would wait for ever if nobody noticed.
    """
    epoch = broker.create("t", durable=True)
    publish(broker, 10)
    stream = streams()
    stream.latestOffset(at(epoch, 3), ReadAllAvailable())
    broker.stop()
    shutil.copytree(tmp_path / "data", tmp_path / "a second ago")
    broker.start()
    stream.latestOffset(at(epoch, 6), ReadAllAvailable())
    assert positions(broker) == [6]
    broker.stop()
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "a second ago", tmp_path / "data")
    broker.start()
    stream.latestOffset(at(epoch, 6), ReadAllAvailable())
    assert positions(broker) == [6]


def test_without_a_name_the_broker_keeps_nothing(broker, epoch, streams):
    stream = streams(name="")
    stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert broker.subscriptions() == []


def test_names_that_cannot_be_are_explained(broker, epoch, streams):
    with pytest.raises(BadOption, match="a table has no position"):
        ZaichikSource({"broker": broker.address, "topic": "t", "name": NAME}).reader(OFFSETS)
    with pytest.raises(ZaichikError, match="name"):
        streams(name="x" * 201).initialOffset()


def test_a_query_keeps_up_with_a_lossless_topic_through_a_restart_of_the_broker(
    broker, spark, tmp_path
):
    """RET-9, DUR-4: more than twice what the log holds.

    The publisher waits for Spark; nothing is lost or doubled.
    """
    count = 600
    broker.create("t", durable=True, capacity=100, overflow="reject", log_bytes=2**20)
    stream = (
        spark.readStream.format("zaichik")
        .options(broker=broker.address, topic="t", name=NAME)
        .load()
    )
    query = stream.writeStream.format("parquet").option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    query = query.start(str(tmp_path / "table"))
    while not positions(broker):
        assert query.isActive
    with (
        blocking.connect(port=broker.port) as client,
        client.producer("t", max_batch=20) as producer,
    ):
        for number in range(count):
            producer.send(b"%d" % number + bytes(4000))
            if number == count // 2:
                broker.stop()
                broker.start()
    query.processAllAvailable()
    query.stop()
    rows = (
        ds.dataset(tmp_path / "table", exclude_invalid_files=True)
        .to_table(["offset", "payload"])
        .to_pylist()
    )
    found = sorted((row["offset"], int(row["payload"].rstrip(b"\0"))) for row in rows)
    assert found == [(number, number) for number in range(count)]
    assert positions(broker) == [count]
    assert broker.topics("t")[0]["head"] > count // 3
