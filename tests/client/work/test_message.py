"""What a program says of a message, by a call or by leaving its block: SHR-2 to SHR-4b, SHR-11."""

from datetime import timedelta

import anyio
import pytest
from brokers import HANG_UP, START_US, handed_out
from workers import Clock, answer, answered, fake_worker, settled, take

import zaichik
from zaichik_protocol import Batch, Error, ErrorCode, Outcome, Settle, Settled

pytestmark = pytest.mark.anyio


class Own(Exception):
    pass


def answering_late(frame):
    """The answer to a Settle that comes too late for every ticket."""
    return Settled(frame.id, frame.tickets)


async def test_it_knows_what_was_handed_out():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a", b"b", base=5, number=2, again=True)
        first, second = await take(work, 2)
        assert (first.topic, first.offset, first.key, first.payload) == ("images", 5, None, b"a")
        assert first.timestamp == START_US / 1e6
        assert (first.ticket, first.delivery, first.redelivered) == (70, 2, True)
        assert (second.offset, second.ticket, second.delivery) == (6, 71, 2)
        assert not first.is_settled
        assert not first.is_tombstone
        assert repr(second) == "<WorkMessage images:6, delivery 2>"


async def test_a_tombstone_is_one():
    async with fake_worker() as (broker, _, work):
        frame = handed_out(70, b"")
        frame.batch = Batch.of([(b"k", b"")])
        await broker.send(frame)
        (message,) = await take(work, 1)
        assert (message.key, message.is_tombstone) == (b"k", True)


SAID = [
    (lambda m: m.done(), (Outcome.DONE, False, 0, "")),
    (lambda m: m.retry(), (Outcome.RETRY, False, 0, "")),
    (lambda m: m.retry(after=0), (Outcome.RETRY, True, 0, "")),
    (lambda m: m.retry(30, "busy"), (Outcome.RETRY, True, 30_000, "busy")),
    (lambda m: m.retry(reason="x" * 9999), (Outcome.RETRY, False, 0, "x" * 1024)),
    (lambda m: m.reject(), (Outcome.REJECT, False, 0, "")),
    (lambda m: m.reject("no image"), (Outcome.REJECT, False, 0, "no image")),
    (lambda m: m.give_back(), (Outcome.GIVE_BACK, False, 0, "")),
    (lambda m: m.extend(timedelta(minutes=2)), (Outcome.EXTEND, True, 120_000, "")),
]


@pytest.mark.parametrize(("say", "expected"), SAID)
async def test_each_call_says_one_thing(say, expected):
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        assert await say(message)
        request = broker.of(Settle)[-1]
        said = (request.outcome, request.delayed, request.delay_ms, request.reason)
        assert said == expected
        assert (request.subscription, request.tickets) == (1, (70,))
        assert message.is_settled == (request.outcome != Outcome.EXTEND)


@pytest.mark.parametrize(("say", "expected"), SAID)
async def test_what_comes_too_late_does_not_count(say, expected):
    """SHR-3."""
    async with fake_worker({Settle: answering_late}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        assert not await say(message)


async def test_one_message_is_settled_once():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        assert await message.done()
        assert not await message.retry()
        assert not await message.extend(60)
        assert settled(broker) == [(Outcome.DONE, (70,))]


async def test_a_call_out_of_range_says_nothing():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        with pytest.raises(ValueError, match="30 days"):
            await message.retry(after=timedelta(days=31))
        with pytest.raises(ValueError, match="24 hours"):
            await message.extend(0)
        assert not message.is_settled
        await answered(client)
        assert settled(broker) == []


async def test_what_was_refused_was_not_said():
    def refuse(frame):
        return Error(frame.id, ErrorCode.INVALID_FIELD, Settle.TYPE, "delay_ms", 0, "too long")

    async with fake_worker({Settle: refuse}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        with pytest.raises(zaichik.InvalidField, match="too long"):
            await message.retry(after=5)
        assert not message.is_settled
        del broker.answers[Settle]
        broker.answers[Settle] = lambda frame: Settled(frame.id)
        assert await message.done()


async def test_a_call_that_is_cancelled_has_said_it_all_the_same():
    async with fake_worker({Settle: lambda _: None}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await message.done()
        assert scope.cancelled_caught
        await broker.has_received(Settle)
        assert settled(broker) == [(Outcome.DONE, (70,))]
        assert not await message.retry()
        await answer(broker)


# -- as a block ----------------------------------------------------------------------------------


async def test_a_block_that_ends_is_done():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a")
        async with await anext(work) as message:
            assert settled(broker) == []
        assert message.is_settled
        await answered(client)
        assert settled(broker) == [(Outcome.DONE, (70,))]


async def test_a_block_that_raises_is_a_retry_with_the_reason_and_raises():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a")
        with pytest.raises(Own, match="no such image"):
            async with await anext(work):
                raise Own("no such image")
        await answered(client)
        (request,) = broker.of(Settle)
        assert (request.outcome, request.delayed) == (Outcome.RETRY, False)
        assert request.reason == "Own: no such image"


async def test_a_broker_that_hangs_does_not_delay_the_exception():
    async with fake_worker({Settle: lambda _: None}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        with pytest.raises(Own):
            async with await anext(work):
                raise Own
        await broker.has_received(Settle)
        await answer(broker)


async def test_a_block_that_is_cancelled_gives_back():
    """SHR-4b."""
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a")
        with anyio.CancelScope() as scope:
            async with await anext(work):
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await answered(client)
        assert settled(broker) == [(Outcome.GIVE_BACK, (70,))]


async def test_a_time_limit_around_the_block_gives_back_and_one_inside_is_a_failure():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        first, second = await take(work, 2)
        with pytest.raises(TimeoutError), anyio.fail_after(-1):
            async with first:
                await anyio.sleep_forever()
        with pytest.raises(TimeoutError):  # noqa: PT012
            async with second:
                with anyio.fail_after(-1):
                    await anyio.sleep_forever()
        await answered(client)
        assert settled(broker) == [(Outcome.GIVE_BACK, (70,)), (Outcome.RETRY, (71,))]


async def test_what_was_settled_in_its_block_is_not_settled_again():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        async with await anext(work) as message:
            await message.reject("no image")
        with pytest.raises(Own):  # noqa: PT012
            async with await anext(work) as message:
                await message.done()
                raise Own
        await answered(client)
        assert settled(broker) == [(Outcome.REJECT, (70,)), (Outcome.DONE, (71,))]


async def test_a_block_that_takes_too_long_is_told_in_the_log(caplog):
    async with fake_worker({Settle: answering_late}) as (broker, client, work):
        await broker.hand_out(70, b"a", base=5)
        async with await anext(work):
            pass
        await answered(client)
        assert "the message at offset 5 was done too late" in caplog.text


async def test_blocks_do_not_wait_and_are_settled_together():
    async with fake_worker({Settle: lambda _: None}) as (broker, _, work):
        await broker.hand_out(70, b"a", b"b", b"c")
        for message in await take(work, 3):
            async with message:
                pass
        request = await broker.has_received(Settle)
        assert request.tickets == (70, 71, 72)
        await answer(broker)


def gathering(work):
    """How many messages were settled and not sent yet."""
    return sum(len(said.messages) for said in work._settling._gathering.values())


async def test_blocks_that_take_long_without_waiting_let_the_event_loop_send():
    async with fake_worker() as (broker, _, work):
        clock = Clock(work)
        await broker.hand_out(70, *[b"a"] * 10)
        for message in await take(work, 5):
            async with message:
                clock.now += 0.0002
        assert gathering(work) == 5, "it is all one turn of the event loop"
        # With trio, the writer may have its turn only after this task has had another one.
        for message in await take(work, 5):
            async with message:
                clock.now += 0.0011
        assert gathering(work) < 10


async def test_leaving_the_subscription_waits_until_all_is_answered():
    async with fake_worker({Settle: lambda _: None}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        async with await anext(work):
            pass
        left = anyio.Event()

        async def leave():
            await work.answered()
            left.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await broker.has_received(Settle)
            await anyio.wait_all_tasks_blocked()
            assert not left.is_set()
            await answer(broker)


async def test_leaving_the_subscription_raises_that_nothing_is_known():
    with pytest.raises(zaichik.ConnectionLost):  # noqa: PT012
        async with fake_worker({Settle: lambda _: HANG_UP}) as (broker, _, work):
            await broker.hand_out(70, b"a")
            async with await anext(work):
                pass


async def test_a_block_that_ends_without_a_connection_is_not_known_to_be_done():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a")
        with pytest.raises(zaichik.ConnectionLost):  # noqa: PT012
            async with await anext(work):
                await broker.hang_up()
                with pytest.raises(zaichik.ConnectionLost):
                    await anext(work)
        assert settled(broker) == []


async def test_an_exception_of_the_block_counts_more_than_a_lost_connection():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a")
        with pytest.raises(Own):  # noqa: PT012
            async with await anext(work):
                await broker.hang_up()
                with pytest.raises(zaichik.ConnectionLost):
                    await anext(work)
                raise Own
