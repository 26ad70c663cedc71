"""`--acked-by kafka` of `zaichik publish` and `zaichik subscribe` (AK-1, AK-2)."""

import signal

import pytest
from replicating import LOSSLESS

from zaichik.client import blocking
from zaichik.client.replication.watermark import Watermark, topic_of

pytestmark = pytest.mark.usefixtures("connected")

ENOUGH = 1_000_000


@pytest.fixture
def bridge(broker, topic):
    """Say how far the test's topic is replicated."""
    host, _, port = broker.rpartition(":")
    with blocking.connect(host, int(port)) as client:
        epoch = client.create_topic(topic, **LOSSLESS).epoch
        client.create_topic(topic_of(topic), capacity=1, retention_ttl="forever")

        def has(end, *gaps):
            client.publish(topic_of(topic), Watermark(epoch, end, gaps).encoded())

        yield has
        # Its memory is reserved, and others are tested as well.
        client.delete_topic(topic)


def test_a_publish_ends_when_kafka_has_everything(zaichik, topic, bridge):
    bridge(ENOUGH)
    result = zaichik("publish", topic, "one", "two", "--acked-by", "kafka")
    assert result.code == 0
    assert "published 2 = stored 2 + compacted 0" in result.err
    assert result.err.rstrip().endswith("; 2 acknowledged by kafka")
    assert zaichik("publish", topic, "x", "--acked-by", "kafka", "--json").json["acknowledged"] == 1
    assert "acknowledged" not in zaichik("publish", topic, "x", "--json").json


def test_a_message_that_is_lost_on_the_way_is_an_error(zaichik, topic, bridge):
    bridge(ENOUGH, (0, 1))
    result = zaichik("publish", topic, "one", "--acked-by", "kafka")
    assert result.code == 1
    assert "stored 1 + compacted 0" in result.err
    assert "; 0 acknowledged by kafka" in result.err
    assert "(zaichik explain REPLICATION_LOST)" in result.err


@pytest.mark.usefixtures("bridge")
def test_without_a_bridge_it_says_what_it_waits_for(start, topic):
    process = start("publish", topic, "one", "--acked-by", "kafka")
    assert "Is its bridge running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130
    assert "stored 1 + compacted 0" in told
    assert "; 0 acknowledged by kafka" in told


def test_a_topic_that_may_lose_messages_is_refused(zaichik, topic):
    zaichik("create", topic, "--retention", "forever")
    result = zaichik("publish", topic, "one", "--acked-by", "kafka")
    assert result.code == 1
    assert "zaichik create TOPIC --overflow reject" in result.err


def test_only_kafka_acknowledges(zaichik, topic):
    for command in ("publish", "subscribe"):
        result = zaichik(command, topic, "--acked-by", "pulsar")
        assert result.code == 2
        assert "'pulsar' acknowledges nothing; write kafka" in result.err


def test_a_reader_gets_what_kafka_has(zaichik, topic, bridge):
    zaichik("publish", topic, "one", "two", "three")
    bridge(2)
    result = zaichik("subscribe", topic, "--acked-by", "kafka", "--count", "2")
    assert (result.code, result.out) == (0, "one\ntwo\n")


def test_a_pattern_is_not_held_back(zaichik):
    result = zaichik("subscribe", "orders.*", "--acked-by", "kafka")
    assert result.code == 2
    assert "--acked-by is for one at a time" in result.err
