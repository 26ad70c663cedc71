"""`option("cluster", ...)`: topics of all shards as tables and streams, and rows that go there."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, StringType, StructField, StructType
from shards import embedded_shards

from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.errors import BadOption
from zaichik.apps.spark.source import ZaichikSource
from zaichik.client import blocking

ALL = ReadAllAvailable()
WITH_TOPIC = StructType([StructField("topic", StringType()), StructField("payload", BinaryType())])


@pytest.fixture
def cluster(tmp_path):
    with embedded_shards(2, tmp_path) as embedded:
        yield embedded


@pytest.fixture
def client(cluster):
    with blocking.cluster(cluster.address) as client:
        yield client


@pytest.fixture
def topics(cluster, client):
    """One of each shard, with one message."""
    topics = [cluster.cluster.topic_of(number) for number in range(2)]
    for topic in topics:
        client.create_topic(topic, durable=True)
        client.publish(topic, topic.encode())
    return topics


def source(cluster, **options):
    return ZaichikSource({"cluster": cluster.address} | options)


def sent(value):
    """What a worker is sent."""
    return pickle.loads(pickle.dumps(value))


def read(reader, ranges):
    """The topic and the payload of each row, read by a worker."""
    found = [row for part in sent(ranges) for b in sent(reader).read(part) for row in b.to_pylist()]
    return [(row["topic"], row["payload"]) for row in found]


def whole(topics):
    return [(topic, topic.encode()) for topic in topics]


def test_topics_of_several_shards_are_one_table(cluster, topics):
    reader = source(cluster, topic=",".join(topics)).reader(MESSAGES)
    assert read(reader, reader.partitions()) == whole(topics)


@pytest.mark.parametrize("option", ["topicPattern", "subscribePattern"])
def test_a_pattern_is_of_the_topics_of_all_shards(cluster, topics, option):
    pattern = {"topicPattern": "t.*|cluster", "subscribePattern": "*"}[option]
    reader = source(cluster, **{option: pattern}).reader(MESSAGES)
    assert sorted(read(reader, reader.partitions())) == sorted(whole(topics))


def test_the_state_of_tables_is_read(cluster, client):
    names = [cluster.cluster.topic_of(number, "rates") for number in range(2)]
    for name in names:
        client.create_topic(name, table=True)
        client.publish(name, b"old", key="EUR")
        client.publish(name, b"new", key="EUR")
    reader = source(cluster, topic=",".join(names), table="latest").reader(MESSAGES)
    assert read(reader, reader.partitions()) == [(name, b"new") for name in names]


@pytest.mark.parametrize("named", ["topic", "subscribePattern"])
def test_a_stream_goes_on_while_a_shard_moves(cluster, client, topics, named):
    words = {named: {"topic": ",".join(topics), "subscribePattern": "t*"}[named]}
    stream = source(cluster, **words).streamReader(MESSAGES)
    try:
        start = stream.initialOffset()
        end = stream.latestOffset(start, ALL)
        assert sorted(read(stream, stream.partitions(start, end))) == sorted(whole(topics))
        cluster.move(1)
        for topic in topics:
            client.publish(topic, b"later")
        after = stream.latestOffset(end, ALL)
        found = sorted(read(stream, stream.partitions(end, after)))
        assert found == sorted((topic, b"later") for topic in topics)
    finally:
        stream.stop()


def test_a_stream_of_a_pattern_reads_topics_that_come_later_at_any_shard(cluster, client, topics):
    stream = source(cluster, subscribePattern="**").streamReader(MESSAGES)
    try:
        start = stream.initialOffset()
        assert sorted(start) == sorted(topics)
        later = [cluster.cluster.topic_of(number, "later") for number in range(2)]
        for topic in later:
            client.create_topic(topic, durable=True)
            client.publish(topic, topic.encode())
        end = stream.latestOffset(start, ALL)
        found = sorted(read(stream, stream.partitions(start, end)))
        assert found == sorted(whole([*topics, *later]))
    finally:
        stream.stop()


def test_a_stream_with_a_name_keeps_its_positions_at_the_shards(cluster, client, topics):
    stream = source(cluster, topic=",".join(topics), name="query").streamReader(MESSAGES)
    try:
        end = stream.latestOffset(stream.initialOffset(), ALL)
        stream.commit(end)
        for topic in topics:
            (state,) = client.client(topic).subscriptions(topic)
            assert (state["session"], state["committed"]) == ("query", 1)
    finally:
        stream.stop()


@pytest.mark.parametrize("exactly_once", ["true", "false"])
def test_rows_are_published_wherever_their_topics_are(cluster, client, exactly_once):
    names = [cluster.cluster.topic_of(number, "new") for number in range(2)]
    for name in names:
        client.create_topic(name, durable=True)
    table = pa.record_batch({"topic": names * 2, "payload": [b"1", b"1", b"2", b"2"]})
    writer = source(cluster, exactlyOnce=exactly_once).writer(WITH_TOPIC, overwrite=False)
    for _ in range(2):  # a task that fails and is tried again
        writer.write(iter([table]))
    again = [b"1", b"2"] * (1 if exactly_once == "true" else 2)
    for name in names:
        end = client.topic(name)["next_offset"]
        with client.subscribe(name, start=0, until=end) as messages:
            assert [message.payload for message in messages] == again


def test_either_a_broker_or_a_cluster_is_named(cluster):
    with pytest.raises(BadOption, match="broker and cluster are given"):
        source(cluster, broker="127.0.0.1:1", topic="t").reader(MESSAGES)
    with pytest.raises(BadOption, match="cluster is not HOST:PORT"):
        ZaichikSource({"cluster": "nonsense", "topic": "t"}).reader(MESSAGES)
    with pytest.raises(BadOption, match="cluster has a login before the @"):
        ZaichikSource({"cluster": "zaichik://anna@h:1", "topic": "t"}).reader(MESSAGES)


def test_spark_reads_writes_and_streams(spark, cluster, client, topics, tmp_path):
    there = spark.read.format("zaichik").option("cluster", cluster.address)
    table = there.load(",".join(topics))
    assert sorted(row.topic for row in table.collect()) == sorted(topics)
    target = cluster.cluster.topic_of(1, "copy")
    client.create_topic(target, durable=True)
    stream = spark.readStream.format("zaichik").option("cluster", cluster.address)
    query = (
        stream.load(",".join(topics))
        .select("payload")
        .writeStream.format("zaichik")
        .options(cluster=cluster.address, topic=target, checkpointLocation=str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    assert query.exception() is None
    with client.subscribe(target, until=2) as messages:
        assert sorted(message.payload for message in messages) == sorted(
            topic.encode() for topic in topics
        )
