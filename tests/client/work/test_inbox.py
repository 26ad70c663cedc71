"""What a right broker hands out is taken; all else breaks the protocol: SHR-3, SHR-7."""

import anyio
import pytest
from brokers import handed_out, messages
from workers import fake_worker, take

import zaichik
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    DeletionsMissed,
    EndCode,
    Lagged,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

pytestmark = pytest.mark.anyio


async def test_messages_come_in_any_order_of_offsets():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a", base=8)
        await broker.hand_out(71, b"b", b"c", base=3, number=2, again=True)
        assert [message.offset for message in await take(work, 3)] == [8, 3, 4]


async def test_what_was_gone_is_counted_and_logged(caplog):
    """SHR-7."""
    async with fake_worker() as (broker, _, work):
        await broker.send(Lagged(1, 5, 8), handed_out(70, b"a", base=2))
        assert [message.offset for message in await take(work, 1)] == [2]
        assert work.lagged == 3
        assert "3 of the messages of 'thumbs' were gone" in caplog.text
        assert "(offsets 5 to 7)" in caplog.text


async def test_deletions_of_a_table_say_nothing_of_jobs():
    async with fake_worker() as (broker, _, work):
        await broker.send(DeletionsMissed(1, 5), handed_out(70, b"a"))
        assert [message.offset for message in await take(work, 1)] == [0]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([messages(0, b"a")], "without tickets"),
        ([handed_out(70, b"a", b"b"), handed_out(71, b"b")], "sent ticket 71 after 71"),
        ([Lagged(1, 5, 5)], "nothing is missing"),
        ([SubscriptionEnded(1, EndCode.DELETED, 0, ""), handed_out(70, b"a")], "its end"),
    ],
)
async def test_a_broker_that_breaks_the_protocol_is_left(frames, words):
    async with fake_worker() as (broker, client, work):
        await broker.send(*frames)
        with pytest.raises(zaichik.ConnectionLost, match=words):
            await client.ping()
        with pytest.raises(zaichik.ZaichikError):
            await anext(work)


async def test_nothing_comes_before_the_subscription_was_made():
    def early(frame):
        return [handed_out(70, b"a"), Subscribed(frame.id, 1, 0, 0, 0)]

    with pytest.raises(zaichik.ConnectionLost, match="before it was made"):
        async with fake_worker({Subscribe: early}):
            pass


async def test_what_waits_when_the_broker_ends_it_is_with_others():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        await take(work, 1)
        await broker.send(SubscriptionEnded(1, EndCode.DELETED, 2, "it was deleted"))
        await client.ping()
        with pytest.raises(zaichik.SubscriptionLost, match="it was deleted"):
            await anext(work)
        assert work.failure.name == "DELETED"


async def test_a_loop_that_waits_is_told_of_the_end():
    async with fake_worker() as (broker, _, work), BackgroundTasks() as tasks:
        assert work.failure is None
        raised = anyio.Event()

        async def wait():
            with pytest.raises(zaichik.TakenOver, match="'thumbs' in images"):
                await anext(work)
            raised.set()

        tasks.group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await broker.send(SubscriptionEnded(1, EndCode.TAKEN_OVER, 0, "by its owner"))
        await raised.wait()


async def test_what_waits_when_the_connection_is_lost_for_good_cannot_be_settled():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        await take(work, 1)
        await broker.hang_up()
        with pytest.raises(zaichik.ConnectionLost):
            await client.ping()
        with pytest.raises(zaichik.ConnectionLost):
            await anext(work)
