"""Fetching: a subscription in the wire's own batches."""

import anyio
import pytest
from brokers import GUARD, START_US, fake_client, messages, real_client

import zaichik
from zaichik.client import subscription as subscription_module
from zaichik.client.messages import rest_of
from zaichik_protocol import Batch, EndCode, Messages, Subscribe, Subscribed, SubscriptionEnded

pytestmark = pytest.mark.anyio


def pairs(count):
    return [(None, b"%d" % number) for number in range(count)]


async def test_history_comes_in_rounds_of_half_the_credit_and_ends(monkeypatch):
    monkeypatch.setattr(subscription_module, "GATHER_SECONDS", GUARD)
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        for _ in range(10):
            await client.publish_batch("t", pairs(10))
        async with client.subscribe("t", until=100, credit=40) as subscription:
            counts = []
            while not subscription.ended:
                items = await subscription.fetch()
                counts.append(sum(item.batch.count for item in items))
        assert sum(counts) == 100
        assert 20 <= counts[0] <= 40
        assert await subscription.fetch() == []


async def test_a_round_is_settled_by_the_next_call():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish_batch("t", pairs(10))
        async with client.subscribe("t", name="n") as subscription:
            assert len(await subscription.fetch()) == 1
        async with client.subscribe("t", name="n") as subscription:
            (again,) = await subscription.fetch()
            assert (again.base, again.redelivered) == (0, True)
            assert await subscription.fetch(timeout=0) == []
        async with client.subscribe("t", name="n") as subscription:
            assert subscription.start == 10


async def test_a_fetch_that_is_cancelled_loses_nothing():
    async with (
        fake_client({Subscribe: lambda frame: Subscribed(frame.id, 1, 0, 100, 0)}) as (
            broker,
            client,
        ),
        client.subscribe("t") as subscription,
    ):
        await broker.messages(0, b"0", b"1")
        with anyio.CancelScope() as scope:
            inbox = subscription._inbox
            await inbox.wait()
            scope.cancel()
            await subscription.fetch()
        await broker.messages(2, b"2")
        payloads = []
        while len(payloads) < 3:
            for frame in await subscription.fetch():
                payloads += frame.batch.each_payload()
        assert payloads == [b"0", b"1", b"2"]


async def test_what_has_come_is_returned_before_the_error():
    end = SubscriptionEnded(1, EndCode.FORBIDDEN, 2, "not yours any more")
    async with (
        fake_client({Subscribe: lambda frame: Subscribed(frame.id, 1, 0, 100, 0)}) as (
            broker,
            client,
        ),
        client.subscribe("t") as subscription,
    ):
        await broker.send(messages(0, b"0", b"1"), end)
        assert [frame.base for frame in await subscription.fetch()] == [0]
        with pytest.raises(zaichik.SubscriptionLost, match="not yours any more"):
            await subscription.fetch()


async def test_one_topic_is_described():
    async with real_client() as client:
        await client.create_topic("orders.eu")
        assert await client.topic("orders") is None
        assert (await client.topic("orders.eu"))["name"] == "orders.eu"


async def test_a_batch_that_the_program_numbers_is_stored_once():
    """PUB-4."""
    async with real_client() as client:
        first = await client.publish_batch("t", pairs(3), producer=7)
        assert await client.publish_batch("t", pairs(3), producer=7) == first
        assert (await client.publish_batch("t", pairs(3), producer=7, number=1)).first_offset == 3
        with pytest.raises(zaichik.SequenceGap):
            await client.publish_batch("t", pairs(3), producer=7, number=5)


async def test_a_batch_that_the_program_numbers_waits_for_a_full_topic():
    """RET-9."""
    async with real_client() as client:
        await client.create_topic("t", overflow="reject", capacity=3, retention_ttl="forever")
        async with (
            client.subscribe("t", name="n", until=6) as subscription,
            anyio.create_task_group() as tasks,
        ):
            await client.publish_batch("t", pairs(3), producer=7)
            tasks.start_soon(lambda: client.publish_batch("t", pairs(3), producer=7, number=1))
            with anyio.fail_after(GUARD):
                assert [message.offset async for message in subscription] == [*range(6)]


def frame(deltas=(), base=10):
    return Messages(
        1,
        base,
        START_US,
        Batch.of((b"", b"%d" % number) for number in range(4)),
        deltas=deltas,
        holes=bool(deltas),
    )


@pytest.mark.parametrize(
    ("whole", "offset", "rest"),
    [
        (frame(), 9, [(10, b"0"), (11, b"1"), (12, b"2"), (13, b"3")]),
        (frame(), 12, [(12, b"2"), (13, b"3")]),
        (frame((0, 2, 5, 6)), 12, [(12, b"1"), (15, b"2"), (16, b"3")]),
        (frame((0, 2, 5, 6)), 13, [(15, b"2"), (16, b"3")]),
    ],
)
async def test_the_rest_of_a_frame_has_its_offsets(whole, offset, rest):
    cut = rest_of(whole, offset)
    deltas = cut.deltas if cut.holes else range(cut.batch.count)
    assert [
        (cut.base + delta, payload)
        for delta, payload in zip(deltas, cut.batch.each_payload(), strict=True)
    ] == rest


@pytest.mark.parametrize(("whole", "offset"), [(frame(), 14), (frame((0, 2, 5, 6)), 17)])
async def test_nothing_may_be_left_of_a_frame(whole, offset):
    assert rest_of(whole, offset) is None


async def test_what_has_come_is_fetched_without_waiting():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        async with client.subscribe("t", name="n") as subscription:
            assert subscription.fetch_nowait() == []
            await client.publish_batch("t", pairs(3))
            (frame,) = await subscription.fetch()
            assert subscription.fetch_nowait() == []
            await client.ping()
            assert (frame.batch.count, subscription.committed) == (3, 3)
            await client.delete_topic("t")
            with pytest.raises(zaichik.SubscriptionLost):
                subscription.fetch_nowait()


async def test_of_what_was_fetched_that_which_was_stepped_past_is_settled():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish_batch("t", pairs(3))
        async with client.subscribe("t", name="n") as subscription:
            await subscription.fetch()
            subscription.step_past(2)
            subscription.commit_settled()
            assert subscription.committed == 2
            subscription.settle_fetched()
            assert subscription.committed == 3


async def test_nothing_comes_without_waiting_once_the_connection_is_lost():
    async with (
        fake_client(reconnect=0) as (broker, client),
        client.subscribe("t") as subscription,
    ):
        await broker.messages(0, b"0")
        await client.ping()
        await broker.hang_up()
        while subscription.failure is None:
            await anyio.lowlevel.checkpoint()
        assert len(subscription.fetch_nowait()) == 1
        with pytest.raises(zaichik.ConnectionLost):
            subscription.fetch_nowait()
