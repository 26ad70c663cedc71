"""Subscriptions that are given nothing above the watermark: AK-2."""

from contextlib import asynccontextmanager

import anyio
import pytest
from brokers import messages, real_broker
from proxy import cutting_proxy
from replicating import Waiting, bridged, copying

import zaichik
from zaichik.client import transport as transport_module
from zaichik.client.replication import follower as follower_module
from zaichik.client.replication.held_inbox import HeldInbox
from zaichik.client.replication.watermark import Watermark
from zaichik_protocol import Lagged, Start, Subscribe, Subscribed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(follower_module, "RETRY_SECONDS", 0.0)


@asynccontextmanager
async def replicated(count=6, **settings):
    """A client, a topic with so many messages in batches of three, and its bridge."""
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port) as client,
        zaichik.connect(port=broker.port) as other,
        bridged(other, **settings) as bridge,
        anyio.create_task_group() as tasks,
    ):
        for first in range(0, count, 3):
            await other.publish_batch("t", [(None, b"%d" % (first + n)) for n in range(3)])
        client.proxy = proxy
        yield client, bridge, tasks
        tasks.cancel_scope.cancel()


def next_of(tasks, iterator):
    """The next of an iterator, in the background."""
    waiting = Waiting()
    tasks.start_soon(waiting.run, iterator.__anext__)
    return waiting


async def settled(client):
    """Wait until what the client was sent so far has arrived."""
    await client.ping()
    await client.ping()


async def taken(subscription, count):
    return [(await anext(subscription)).offset for _ in range(count)]


async def test_what_lies_above_the_watermark_is_held_back():
    async with (
        replicated() as (client, bridge, tasks),
        client.subscribe("t", acked_by="kafka") as subscription,
    ):
        waiting = next_of(tasks, subscription)
        await settled(client)
        assert not waiting.done.is_set()
        await bridge.has(4)
        assert (await waiting.outcome()).payload == b"0"
        assert await taken(subscription, 3) == [1, 2, 3]
        waiting = next_of(tasks, subscription)
        await settled(client)
        assert not waiting.done.is_set()
        await bridge.has(6)
        assert (await waiting.outcome()).payload == b"4"
        assert await taken(subscription, 1) == [5]


async def test_what_was_replicated_before_comes_at_once():
    async with replicated() as (client, bridge, _):
        await bridge.has(6)
        async with client.subscribe("t", acked_by="kafka", until=6) as subscription:
            assert [message.offset async for message in subscription] == list(range(6))


async def test_a_reader_meets_what_a_publisher_waits_for():
    async with (
        replicated(0) as (client, bridge, _),
        copying(bridge),
        client.subscribe("t", acked_by="kafka") as subscription,
    ):
        for number in range(20):
            await client.publish("t", b"%d" % number, acked_by="kafka")
            assert (await anext(subscription)).offset == number


async def test_pieces_and_fetches_end_at_the_watermark():
    async with replicated() as (client, bridge, _):
        await bridge.has(2)
        async with client.subscribe("t", acked_by="kafka") as subscription:
            piece = await anext(subscription.pieces())
            assert [message.offset for message in piece] == [0, 1]
        async with client.subscribe("t", acked_by="kafka") as subscription:
            (frame,) = await subscription.fetch()
            assert (frame.base, frame.batch.payloads()) == (0, [b"0", b"1"])
            await bridge.has(5)
            frames = await subscription.fetch()
            offsets = [(frame.base, frame.batch.count) for frame in frames]
            assert offsets == [(2, 1), (3, 2)]


async def test_the_watermark_of_another_epoch_lets_nothing_through():
    async with replicated() as (client, bridge, tasks):
        await bridge.has(6, epoch=bridge.epoch - 1)
        async with client.subscribe("t", acked_by="kafka") as subscription:
            waiting = next_of(tasks, subscription)
            await settled(client)
            assert not waiting.done.is_set()
            await bridge.has(6)
            await waiting.outcome()


async def test_until_is_reached_only_when_all_before_it_is_replicated():
    async with replicated() as (client, bridge, tasks):
        await bridge.has(5)
        async with client.subscribe("t", acked_by="kafka", until=6) as subscription:
            assert await taken(subscription, 5) == list(range(5))
            waiting = next_of(tasks, subscription)
            await settled(client)
            assert not waiting.done.is_set()
            await bridge.has(6)
            assert (await waiting.outcome()).offset == 5
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)


async def test_a_topic_that_is_deleted_ends_what_is_held_back():
    async with replicated() as (client, bridge, tasks):
        await bridge.has(1)
        async with client.subscribe("t", acked_by="kafka") as subscription:
            assert await taken(subscription, 1) == [0]
            waiting = next_of(tasks, subscription)
            await settled(client)
            await bridge._client.delete_topic("t")
            with pytest.raises(zaichik.SubscriptionLost):
                await waiting.outcome()


async def test_a_message_that_the_bridge_was_too_late_for_is_an_error():
    async with (
        replicated() as (client, bridge, _),
        client.subscribe("t", acked_by="kafka") as subscription,
    ):
        await settled(client)
        await bridge.has(3)
        await bridge.has(6, (4, 5))
        with pytest.raises(zaichik.ReplicationLost, match="offset 4 of t"):
            await taken(subscription, 6)


@pytest.mark.parametrize("name", ["", "n"])
async def test_after_a_lost_connection_it_goes_on_with_what_was_held_back(name):
    async with replicated() as (client, bridge, tasks):
        await bridge.has(2)
        async with client.subscribe("t", acked_by="kafka", name=name) as subscription:
            assert await taken(subscription, 2) == [0, 1]
            waiting = next_of(tasks, subscription)
            await settled(client)
            client.proxy.cut()
            await settled(client)
            assert not waiting.done.is_set()
            await bridge.has(6)
            assert (await waiting.outcome()).offset == 2
            assert await taken(subscription, 3) == [3, 4, 5]


async def test_a_name_settles_what_was_given_out_and_not_what_was_held_back():
    async with replicated() as (client, bridge, _):
        await bridge.has(4)
        async with client.subscribe("t", acked_by="kafka", name="n") as subscription:
            assert await taken(subscription, 4) == [0, 1, 2, 3]
            await subscription.commit(3)
            with pytest.raises(zaichik.NotInFlight):
                await subscription.commit(4)
        async with client.subscribe("t", name="n", until=6) as subscription:
            assert await taken(subscription, 2) == [4, 5]


async def test_a_forgotten_name_ends_the_loop():
    async with replicated() as (client, bridge, _):
        await bridge.has(1)
        async with client.subscribe("t", acked_by="kafka", name="n") as subscription:
            assert await taken(subscription, 1) == [0]
            await subscription.forget()
            with pytest.raises(StopAsyncIteration):
                await anext(subscription)


async def test_a_gap_at_the_beginning_is_reported_and_not_held_back():
    async with replicated(capacity=4) as (client, bridge, _):
        await bridge.has(6, (0, 2))
        options = {"acked_by": "kafka", "start": 0, "events": True}
        async with client.subscribe("t", **options) as subscription:
            lagged = await anext(subscription)
            assert isinstance(lagged, zaichik.Lagged)
            assert await taken(subscription, 6 - lagged.end) == list(range(lagged.end, 6))


async def test_credit_bounds_what_is_held_back():
    async with (
        replicated() as (client, bridge, _),
        client.subscribe("t", acked_by="kafka", credit=2) as subscription,
    ):
        await settled(client)
        (state,) = [state for state in await client.subscriptions("t") if state["topic"] == "t"]
        assert state["in_flight"] == 2
        await bridge.has(6)
        assert await taken(subscription, 6) == list(range(6))


def test_what_was_held_back_over_a_lost_socket_is_not_judged_by_a_watermark_from_the_next():
    """A topic that was restored has a gap there (RS-3), which its reader is told of as such."""
    asked = Subscribe(3, "t", start=Start.OFFSET, value=0)
    inbox = HeldInbox(asked, lambda: None)
    inbox.answer(Subscribed(3, 77, 0, 3, 0))
    inbox.put(messages(0, b"0", b"1", b"2", subscription=3))
    inbox.release(Watermark(77, 1))
    assert inbox.events.popleft().batch.payloads() == [b"0"]
    inbox.taken = 1
    inbox.interrupted()
    inbox.release(Watermark(77, 100, gaps=((1, 100),)))
    assert inbox.lost is None
    assert inbox.again().value == 1
    inbox.answer(Subscribed(3, 77, 1, 101, 0))
    lagged = Lagged(3, 1, 100)
    inbox.put(lagged)
    assert inbox.events.popleft() is lagged


def test_a_watermark_of_before_lets_nothing_through_that_came_after():
    """Of a topic that has gone back, other messages have these offsets by now."""
    inbox = HeldInbox(Subscribe(3, "t"), lambda: None)
    inbox.answer(Subscribed(3, 77, 0, 3, 0))
    inbox.release(Watermark(77, 3))
    inbox.interrupted()
    inbox.answer(Subscribed(3, 77, 0, 3, 0))
    inbox.put(messages(0, b"another", subscription=3))
    assert not inbox.events
    inbox.release(Watermark(77, 3))
    assert inbox.events
