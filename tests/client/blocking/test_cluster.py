"""A cluster without an event loop."""

import threading

import pytest
from shards import embedded_shards

from zaichik import blocking
from zaichik.client.errors import ConnectFailed


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
    """One of each shard."""
    topics = [cluster.cluster.topic_of(number) for number in range(2)]
    for topic in topics:
        client.create_topic(topic, durable=True)
    return topics


def test_each_topic_is_used_where_it_is(client, topics):
    assert client.map.shard_of(topics[1]) == 1
    for topic in topics:
        assert client.publish(topic, b"one", key="k").offset == 0
        assert client.publish_batch(topic, iter([(None, b"two")])).first_offset == 1
        with client.producer(topic) as producer:
            producer.send(b"three")
        with client.subscribe(topic, until=3) as messages:
            assert [message.payload for message in messages] == [b"one", b"two", b"three"]
        assert client.topic(topic)["next_offset"] == 3
        assert client.explain(topic, offset=2)["offset"] == 2
    assert [topic["name"] for topic in client.topics()] == sorted(topics)
    assert [state["shard"] for state in client.describe()] == [0, 1]
    client.delete_topic(topics[0])
    assert [topic["name"] for topic in client.topics()] == topics[1:]


def test_a_topic_is_created_when_it_is_used_first(client):
    client.publish("orders", b"")
    assert client.topic("orders") is not None


def test_the_client_of_a_shard_has_all_methods(client, topics):
    shard = client.client(topics[1])
    assert shard.publish(topics[1], b"").offset == 0
    assert client.shard_client(1).topic(topics[1])["next_offset"] == 1
    shard.ping()


def test_workers_share_a_topic_where_it_is(client, topics):
    client.publish(topics[1], b"job")
    with client.subscribe(topics[1], name="jobs", shared=True) as work:
        message = next(iter(work))
        assert message.payload == b"job"
        message.done()


def test_a_pattern_reads_all_shards(client, topics):
    for topic in topics:
        client.publish(topic, topic.encode())
    with client.subscribe_pattern("t*") as messages:
        loop = iter(messages)
        assert {next(loop).payload for _ in topics} == {topic.encode() for topic in topics}


def test_threads_share_it_while_a_shard_moves(cluster, client, topics):
    results = {topic: [] for topic in topics}

    def publish(topic):
        for _ in range(20):
            results[topic].append(client.publish(topic, b"").offset)

    threads = [threading.Thread(target=publish, args=(topic,)) for topic in topics]
    for thread in threads:
        thread.start()
    cluster.move(1)
    for thread in threads:
        thread.join()
    assert list(results.values()) == [list(range(20))] * 2


def test_a_cluster_that_is_not_there_is_a_sentence():
    with (
        pytest.raises(ConnectFailed, match="no broker answers"),
        blocking.cluster("127.0.0.1:1", reconnect=0),
    ):
        pass
