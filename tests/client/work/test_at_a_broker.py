"""Workers at a real broker, from the first message to the dead: SHR-1 to SHR-11."""

from contextlib import AsyncExitStack

import anyio
import pytest
from brokers import GUARD, START_US, real_broker, real_client
from proxy import cutting_proxy
from workers import NAME, take

import zaichik
from zaichik.learn.server import free_port

pytestmark = pytest.mark.anyio


def join(client, **options):
    return client.subscribe("images", name=NAME, shared=True, **options)


async def publish(client, count):
    await client.create_topic("images", retention_ttl="forever")
    await client.publish_batch("images", [(None, b"%d" % number) for number in range(count)])


async def test_workers_share_the_messages_of_a_topic():
    async with real_client() as client:
        await publish(client, 60)
        seen = []

        async def loop(work, tasks):
            async for message in work:
                async with message:
                    seen.append(message.offset)
                    await anyio.lowlevel.checkpoint()
                if len(seen) == 60:
                    tasks.cancel_scope.cancel()

        async with (
            join(client, credit=3) as one,
            join(client, credit=7) as other,
            anyio.create_task_group() as tasks,
        ):
            for work in (one, one, one, other):
                tasks.start_soon(loop, work, tasks)
        assert sorted(seen) == list(range(60))
        await client.forget_name("images", NAME)


async def test_a_message_fails_until_it_is_dead_and_is_revived():
    async with real_client() as client:
        await publish(client, 2)
        async with join(client, max_deliveries=2) as work:
            first = await anext(work)
            assert (first.delivery, first.redelivered) == (1, False)
            assert await first.retry(after=0, reason="busy")
            again = await anext(work)
            assert (again.offset, again.delivery, again.redelivered) == (0, 2, True)
            assert again.ticket > first.ticket
            assert not await first.done(), "it was settled"
            with pytest.raises(ZeroDivisionError):
                async with again:
                    1 / 0  # noqa: B018
            assert (await anext(work)).offset == 1
            (dead,) = await client.dead("images", NAME)
            assert (dead.offset, dead.deliveries, dead.is_readable) == (0, 2, True)
            assert dead.reason == "ZeroDivisionError: division by zero"
            assert dead.died == 1000
        assert await client.revive("images", NAME, [0, 7]) == 1
        async with join(client, max_deliveries=2, credit=2) as work:
            (revived,) = await take(work, 1)
            assert (revived.offset, revived.delivery, revived.redelivered) == (0, 1, True)
            assert await revived.reject("x" * 5000)
        (dead,) = await client.dead("images", NAME)
        assert dead.reason == "x" * 1024
        assert await client.forget_dead("images", NAME) == 1
        assert await client.dead("images", NAME) == []


async def test_what_is_given_back_waits_and_does_not_count():
    """SHR-4b."""
    async with real_client() as client:
        await publish(client, 1)
        async with join(client) as work:
            (message,) = await take(work, 1)
        async with join(client) as work:
            await client.advance_clock(1)
            (again,) = await take(work, 1)
            assert (again.delivery, again.redelivered) == (1, True)
            assert not await message.done()
            assert await again.done()


async def test_what_was_not_opened_goes_to_others_at_once():
    async with real_client() as client:
        await publish(client, 3)
        async with join(client) as work:
            (first,) = await take(work, 1)
            async with join(client, credit=10) as other:
                (second,) = await take(other, 1)
                assert (first.offset, second.offset) == (0, 1)
            assert await first.done()
            (third,) = await take(work, 1)
            assert (third.offset, third.delivery, third.redelivered) == (2, 1, True)


async def test_what_takes_too_long_goes_to_another_worker():
    """SHR-4."""
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as idle,
    ):
        await publish(client, 1)
        async with join(client, timeout=30) as work:
            (message,) = await take(work, 1)
            async with join(idle) as other:
                assert await message.extend(90)
                await client.advance_clock(60)
                assert await message.extend(30), "it has more time"
                await client.advance_clock(31)
                (again,) = await take(other, 1)
                assert (again.offset, again.delivery, again.redelivered) == (0, 2, True)
                assert not await message.extend(30)
                assert await again.done()
                assert not await message.done()


async def test_a_blip_takes_no_work_away():
    """SHR-4a."""
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port, reconnect=GUARD) as client,
        zaichik.connect(port=broker.port) as other,
    ):
        await publish(other, 4)
        async with join(client, credit=3) as work:
            first, second = await take(work, 2)
            proxy.cut()
            await client.ping()
            assert await first.done()
            assert await second.done()
            third = await anext(work)
            assert (third.offset, third.delivery, third.redelivered) == (2, 1, True)
            assert await third.done()
            assert await (await anext(work)).done()
        assert await other.dead("images", NAME) == []


async def test_a_name_is_of_one_kind_and_its_workers_agree():
    """SHR-1."""
    async with real_client() as client:
        await publish(client, 1)
        async with join(client, max_deliveries=3):
            with pytest.raises(zaichik.InvalidField, match="max_deliveries"):
                async with join(client):
                    pass
            with pytest.raises(zaichik.InvalidField, match="shared"):
                async with client.subscribe("images", name=NAME):
                    pass
            with pytest.raises(zaichik.NotEmpty):
                await client.forget_name("images", NAME)
        await client.forget_name("images", NAME)
        with pytest.raises(zaichik.NoSuchName):
            await client.dead("images", NAME)
        with pytest.raises(zaichik.NoSuchTopic):
            await client.dead("nothing", NAME)


async def test_messages_of_a_key_come_one_at_a_time():
    """SHR-8."""
    async with real_client() as client:
        await client.create_topic("images", retention_ttl="forever")
        await client.publish_batch("images", [("a", b"0"), ("a", b"1"), ("b", b"2")])
        async with join(client, by_key=True, credit=3) as work:
            first, other = await take(work, 2)
            assert (first.offset, other.offset) == (0, 2)
            assert await first.done()
            assert (await anext(work)).offset == 1


async def test_a_topic_that_is_deleted_ends_its_workers():
    async with real_client() as client:
        await publish(client, 2)
        async with join(client, credit=1) as work:
            (message,) = await take(work, 1)
            await client.delete_topic("images")
            with pytest.raises(zaichik.SubscriptionLost):
                await anext(work)
            assert not await message.done()


async def test_a_restart_of_a_durable_broker_takes_no_work_away(tmp_path):
    """SHR-4a, SHR-9: a deploy of the broker does not do jobs twice."""
    port = free_port()
    clock = zaichik.ManualClock(START_US)

    def running():
        return zaichik.running_broker(port=port, clock=clock, data=tmp_path)

    with anyio.fail_after(GUARD):
        async with AsyncExitStack() as blocks:
            async with running():
                client = await blocks.enter_async_context(
                    zaichik.connect(port=port, reconnect=GUARD)
                )
                await client.create_topic("images", durable=True)
                await client.publish_batch("images", [(None, b"a"), (None, b"b")])
                work = await blocks.enter_async_context(join(client))
                (message,) = await take(work, 1)
            async with running():
                assert await message.done()
                (other,) = await take(work, 1)
                assert (other.offset, other.delivery) == (1, 1)
                assert await other.done()
                await blocks.aclose()
