"""A producer whose messages are acknowledged after replication: AK-1."""

from contextlib import asynccontextmanager

import anyio
import pytest
from brokers import real_broker
from replicating import Waiting, bridged, copying

import zaichik
from zaichik.client.replication import follower as follower_module
from zaichik.client.replication.watermark import topic_of
from zaichik.net.background import BackgroundTasks

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def producing(**options):
    """A client, a producer of its, a bridge, and tasks."""
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        bridged(other) as bridge,
        BackgroundTasks() as tasks,
        client.producer("t", acked_by="kafka", **options) as producer,
    ):
        yield client, producer, bridge, tasks.group


async def has_stored(producer, count):
    while producer.stored < count:
        await anyio.lowlevel.checkpoint()


async def test_a_flush_waits_for_the_watermark_and_sending_does_not():
    async with producing(max_batch=2) as (client, producer, bridge, tasks):
        for number in range(7):
            await producer.send(b"%d" % number)
        flush = Waiting()
        tasks.start_soon(flush.run, producer.flush)
        await has_stored(producer, 7)
        await bridge.has(6)
        while not producer.settled:
            await client.ping()
        assert not flush.done.is_set()
        await bridge.has(7)
        await flush.outcome()
        assert (producer.stored, producer.settled) == (7, 7)


async def test_the_end_of_the_block_waits_for_the_watermark():
    async with producing() as (_, producer, bridge, tasks):
        tasks.start_soon(bridge.copy)
        for number in range(100):
            await producer.send(b"%d" % number)
    assert (producer.stored, producer.settled) == (100, 100)


async def test_a_stream_needs_no_flush_to_learn_that_something_is_lost():
    with pytest.raises(zaichik.ReplicationLost) as lost:
        await stream_with_a_gap()
    assert lost.value.offset == 1


async def stream_with_a_gap():
    async with producing(max_batch=1) as (client, producer, bridge, _):
        for number in range(3):
            await producer.send(b"%d" % number)
        await has_stored(producer, 3)
        await bridge.has(3, (1, 2))
        while True:
            await producer.send(b"more")
            await client.ping()


async def test_an_idle_producer_keeps_its_subscription(monkeypatch):
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(follower_module, "IDLE_SECONDS", 0.0)
    async with producing() as (client, producer, bridge, _):
        for _ in range(20):
            await client.ping()
            assert len(await client.subscriptions(topic_of("t"))) == 1
        async with copying(bridge):
            await producer.send(b"x")
            await producer.flush()


async def test_a_batch_that_is_too_large_is_acknowledged_in_its_pieces():
    async with producing(max_batch=8) as (_, producer, bridge, tasks):
        tasks.start_soon(bridge.copy)
        for number in range(8):
            await producer.send(bytes(200_000) + b"%d" % number)
        await producer.flush()
        assert producer.settled == 8


async def test_without_acked_by_what_is_stored_is_settled():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        async with client.producer("t") as producer:
            await producer.send(b"x")
        assert producer.settled == 1
