"""Publishes and subscriptions of threads that wait until messages are replicated: AK-1, AK-2."""

from contextlib import contextmanager
from queue import SimpleQueue

import pytest
from background import in_the_background
from embedded import embedded_broker
from replicating import LOSSLESS

import zaichik
from zaichik.client import blocking
from zaichik.client.replication.watermark import Watermark, topic_of


@contextmanager
def bridged(**options):
    """A client, and what a bridge does: `has(end)` publishes a watermark."""
    with (
        embedded_broker() as broker,
        blocking.connect(port=broker.port, **options) as client,
        blocking.connect(port=broker.port) as other,
    ):
        epoch = other.create_topic("t", **LOSSLESS).epoch
        other.create_topic(topic_of("t"), capacity=1, retention_ttl="forever")

        def has(end, *gaps):
            other.publish(topic_of("t"), Watermark(epoch, end, gaps).encoded())

        yield client, other, has


def has_stored(client, count):
    while client.topic("t")["next_offset"] < count:
        pass
    client.ping()


def test_a_publish_of_a_thread_waits_for_the_watermark():
    with bridged() as (client, other, has):
        offsets = SimpleQueue()
        finished = in_the_background(
            lambda: offsets.put(client.publish("t", b"x", acked_by="kafka").offset)
        )
        has_stored(other, 1)
        assert offsets.empty()
        has(1)
        finished()
        assert offsets.get() == 0
        has(9)
        assert client.publish_batch("t", [(None, b"y")], acked_by="kafka").first_offset == 1


def test_a_gap_is_an_error():
    with bridged() as (client, _, has):
        has(9, (0, 1))
        with pytest.raises(zaichik.ReplicationLost):
            client.publish("t", b"x", acked_by="kafka")


def test_a_client_may_say_it_once():
    with bridged(acked_by={"t": "kafka"}) as (client, _, has):
        has(9, (0, 2))
        with pytest.raises(zaichik.ReplicationLost):
            client.publish("t", b"x")
        with pytest.raises(zaichik.ReplicationLost):
            client.publish_batch("t", [(None, b"x")])
        client.publish("elsewhere", b"x")


def test_a_producer_is_flushed_when_the_watermark_has_passed_all_of_it():
    with bridged() as (client, other, has), client.producer("t", acked_by="kafka") as producer:
        for number in range(10):
            producer.send(b"%d" % number)
        finished = in_the_background(producer.flush)
        has_stored(other, 10)
        assert producer.settled == 0
        has(10)
        assert finished() is None
        assert (producer.stored, producer.settled) == (10, 10)


def test_a_reader_is_given_what_lies_below_the_watermark():
    with bridged() as (client, other, has):
        other.publish_batch("t", [(None, b"%d" % number) for number in range(4)])
        has(3)
        with client.subscribe("t", acked_by="kafka") as subscription:
            assert [next(iter(subscription)).offset for _ in range(3)] == [0, 1, 2]
            offsets = SimpleQueue()
            finished = in_the_background(lambda: offsets.put(next(iter(subscription)).offset))
            client.ping()
            assert offsets.empty()
            has(4)
            finished()
            assert offsets.get() == 3
