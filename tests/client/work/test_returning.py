"""A worker that comes back after a lost connection: SHR-3, SHR-4a."""

import anyio
import pytest
from brokers import GUARD
from workers import Clock, answered, fake_worker, settled, take

import zaichik
from zaichik.client import transport as transport_module
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    EndCode,
    Error,
    ErrorCode,
    Hello,
    Settle,
    Settled,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


def at(frame):
    """A subscription of a topic that keeps its epoch."""
    return Subscribed(frame.id, 77, 0, 100, 0, named=True)


def returning(answers=None, **options):
    return fake_worker({Subscribe: at, **(answers or {})}, reconnect=GUARD, **options)


async def again(broker):
    """Have the client come back; the Subscribe it comes with."""
    count = len(broker.of(Hello))
    await broker.hang_up()
    await broker.has_received(Hello, count + 1)
    return await broker.has_received(Subscribe, len(broker.of(Subscribe)) + 1)


async def test_it_names_what_its_program_has_and_drops_what_waited():
    async with returning(by_key=True, timeout=30, max_deliveries=3) as (broker, client, work):
        await broker.hand_out(70, b"a", b"b", b"c", b"d")
        first, second, _ = await take(work, 3)
        await second.done()
        request = await again(broker)
        assert request.tickets == (70, 72)
        before = broker.of(Subscribe)[0]
        assert (request.owner, request.attempt) == (before.owner, before.attempt + 1)
        assert (request.id, request.topic, request.name) == (before.id, "images", "thumbs")
        assert (request.shared, request.by_key) == (True, True)
        assert (request.timeout_ms, request.max_deliveries, request.credit) == (30_000, 3, 10)
        assert (before.epoch, request.epoch) == (0, 77)
        await broker.hand_out(5, b"d", base=3, again=True)
        assert [message.ticket for message in await take(work, 1)] == [5], "73 was released"
        assert await first.done()
        await answered(client)
        assert settled(broker)[1:] == [(0, (70,))]


async def test_what_waits_is_not_handed_out_without_a_connection():
    """By then it may be with another worker."""
    async with returning() as (broker, _, work), BackgroundTasks() as tasks:
        await broker.hand_out(70, b"a", b"b")
        await take(work, 1)
        broker.answers[Hello] = lambda _: None
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        taken = []

        async def loop():
            taken.extend(await take(work, 1))

        tasks.group.start_soon(loop)
        await anyio.wait_all_tasks_blocked()
        assert taken == []


async def test_what_it_keeps_has_all_of_its_time():
    async with returning(timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        clock.now = 20
        await again(broker)
        await client.ping()
        assert message.due == 50


async def test_what_was_not_answered_is_named_and_settled_again_and_late_is_no_error():
    """The first attempt was carried out, perhaps."""
    async with (
        returning({Settle: lambda _: None}) as (broker, _, work),
        BackgroundTasks() as tasks,
    ):
        await broker.hand_out(70, b"a", b"b")
        answers = []

        async def settle(message):
            answers.append(await message.done())

        for message in await take(work, 2):
            tasks.group.start_soon(settle, message)
        await broker.has_received(Settle)
        broker.answers[Settle] = lambda frame: Settled(frame.id, frame.tickets)
        request = await again(broker)
        assert request.tickets == (70, 71)
        first, second = [await broker.has_received(Settle, count) for count in (1, 2)]
        assert second == first
        with anyio.fail_after(GUARD):
            while len(answers) < 2:
                await anyio.lowlevel.checkpoint()
        assert answers == [True, True]
        assert (await again(broker)).tickets == ()


async def test_what_is_settled_meanwhile_is_sent_once_and_may_be_late():
    """It was not sent before, so late means what it says."""
    async with returning() as (broker, client, work), BackgroundTasks() as tasks:
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        greet = broker.answers[Hello]
        broker.answers[Hello] = lambda _: None
        broker.answers[Settle] = lambda frame: Settled(frame.id, frame.tickets)
        await broker.hang_up()
        hello = await broker.has_received(Hello, 2)
        answers = []

        async def settle():
            answers.append(await message.done())

        tasks.group.start_soon(settle)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        await broker.send(greet(hello))
        request = await broker.has_received(Subscribe, 2)
        assert request.tickets == (70,), "the broker does not know yet"
        await answered(client)
        assert answers == [False]
        assert settled(broker) == [(0, (70,))]


async def test_a_refusal_ends_it_also_for_what_its_program_has():
    async with returning() as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        broker.answers[Subscribe] = lambda frame: Error(
            frame.id, ErrorCode.EPOCH_CHANGED, Subscribe.TYPE, "epoch", 0, "it is another one"
        )
        broker.answers[Settle] = lambda frame: Error(
            frame.id, ErrorCode.NO_SUCH_SUBSCRIPTION, Settle.TYPE, "subscription", 0, "it has not"
        )
        await again(broker)
        with pytest.raises(zaichik.EpochChanged, match="another one"):
            await anext(work)
        assert not await message.done()


async def test_leaving_while_it_comes_back_settles_after_it_was_made_again():
    async with returning() as (broker, client, work):
        await broker.hand_out(70, b"a")
        await take(work, 1)
        broker.answers[Subscribe] = lambda _: None
        request = await again(broker)
        assert request.tickets == (70,)
        await work.leave(None, ())
        await broker.send(at(request))
        await answered(client)
        kinds = [type(frame) for frame in broker.received]
        assert kinds.index(Settle) < kinds.index(Unsubscribe)
        assert settled(broker) == [(4, (70,))]
        await work.leave(None, ())
        await answered(client)
        assert len(broker.of(Unsubscribe)) == 1, "the second time, it has left"


async def test_an_ended_worker_is_not_made_again():
    async with returning() as (broker, client, work):
        await broker.send(SubscriptionEnded(1, EndCode.DELETED, 0, "gone"))
        with pytest.raises(zaichik.SubscriptionLost):
            await anext(work)
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        await client.ping()
        assert len(broker.of(Subscribe)) == 1


async def test_another_epoch_than_asked_for_breaks_the_protocol():
    async with returning() as (broker, _, work):
        broker.answers[Subscribe] = lambda frame: Subscribed(frame.id, 78, 0, 0, 0)
        await broker.hang_up()
        with pytest.raises(zaichik.ConnectionLost, match="epoch 77"):
            await anext(work)
