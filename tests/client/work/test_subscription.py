"""What a worker is given, what is extended for it, and what becomes of what it leaves: SHR-4."""

from contextlib import suppress

import anyio
import pytest
from brokers import SHARED_GRANTED, fake_client
from trio.testing import MockClock
from workers import Clock, answer, answered, fake_worker, settled, take

import zaichik
from zaichik.client.forking import ADVICE
from zaichik.client.work import subscription as subscription_module
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Close, Error, ErrorCode, Outcome, Settle, Settled, Unsubscribe

pytestmark = pytest.mark.anyio


class Own(Exception):
    pass


# -- iterating -----------------------------------------------------------------------------------


async def test_a_loop_settles_nothing_by_itself():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b", b"c")
        taken = []
        async for message in work:
            taken.append(message)
            if len(taken) == 3:
                break
        await answered(client)
        assert settled(broker) == []
        await taken[1].done()
        assert [message.is_settled for message in taken] == [False, True, False]


async def test_loops_share_its_messages():
    async with fake_worker() as (broker, _, work), BackgroundTasks() as tasks:
        taken = []

        async def loop():
            async for message in work:
                taken.append(message.offset)  # noqa: PERF401

        for _ in range(3):
            tasks.group.start_soon(loop)
        await anyio.wait_all_tasks_blocked()
        await broker.hand_out(70, b"a")
        await broker.hand_out(71, b"b", b"c", base=1)
        with anyio.fail_after(60):
            while len(taken) < 3:
                await anyio.lowlevel.checkpoint()
        assert sorted(taken) == [0, 1, 2]


# -- time ----------------------------------------------------------------------------------------


async def extended(client, broker):
    """What was extended, and by how much."""
    await answered(client)
    return [(frame.delay_ms, frame.tickets) for frame in broker.of(Settle)]


async def test_what_waits_is_extended_while_the_program_is_in_time():
    """SHR-4."""
    async with fake_worker(timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a", b"b", b"c")
        (message,) = await take(work, 1)
        clock.now = 9.9
        work.look()
        assert await extended(client, broker) == []
        clock.now = 10.1
        work.look()
        assert await extended(client, broker) == [(30_000, (71, 72))]
        work.look()
        assert len(await extended(client, broker)) == 1, "that time has only begun"
        await message.extend(60)
        clock.now = 40
        work.look()
        assert (await extended(client, broker))[2:] == [(30_000, (71, 72))]


async def test_nothing_is_extended_behind_a_program_that_hangs():
    """What waits goes to other workers."""
    async with fake_worker(timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a", b"b", b"c")
        first, second = await take(work, 2)
        clock.now = 20
        await second.done()
        await broker.hand_out(80, b"d")
        await answered(client)
        clock.now = 31
        work.look()
        assert len(await extended(client, broker)) == 1, "only what was done"
        await first.done()
        work.look()
        assert (await extended(client, broker))[2:] == [(30_000, (80,))]


@pytest.mark.parametrize("how", ["late", "refused"])
async def test_an_extension_that_does_not_count_is_not_believed(how):
    """SHR-3: another worker may have begun with the message."""

    def settle(frame):
        if frame.outcome != Outcome.EXTEND:
            return Settled(frame.id)
        if how == "late":
            return Settled(frame.id, frame.tickets)
        return Error(frame.id, ErrorCode.INTERNAL, Settle.TYPE, "", 0, "a bug")

    async with fake_worker({Settle: settle}, timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a", b"b")
        (first,) = await take(work, 1)
        clock.now = 29
        work.look()
        assert await extended(client, broker) == [(30_000, (71,))]
        clock.now = 31
        await broker.hand_out(80, b"c")
        await first.done()
        (message,) = await take(work, 1)
        assert message.ticket == 80
        await answered(client)
        assert settled(broker)[-1] == (Outcome.RELEASE, (71,))


async def test_an_extension_counts_from_when_it_was_sent():
    """Not from when the answer is read: a program may be busy for long."""
    async with fake_worker({Settle: lambda _: None}, timeout=30) as (broker, _, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(message.extend, 60)
            await broker.has_received(Settle)
            clock.now = 20
            await answer(broker)
        assert message.due == 60
        broker.answers[Settle] = lambda frame: Settled(frame.id)


async def test_nothing_is_extended_for_a_program_that_takes_nothing_more():
    async with fake_worker(timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a")
        await answered(client)
        clock.now = 29
        work.look()
        assert await extended(client, broker) == [(30_000, (70,))]
        clock.now = 58
        work.look()
        assert len(await extended(client, broker)) == 1


async def test_a_program_has_all_of_its_time_for_what_had_to_wait():
    async with fake_worker(timeout=30) as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a", b"b")
        await client.ping()
        clock.now = 2
        await take(work, 1)
        clock.now = 4
        (message,) = await take(work, 1)
        assert await extended(client, broker) == [(30_000, (71,))]
        assert message.due == 34


async def test_without_a_timeout_nothing_is_extended():
    async with fake_worker(timeout="forever") as (broker, client, work):
        clock = Clock(work)
        await broker.hand_out(70, b"a", b"b")
        clock.now = 1e9
        await take(work, 1)
        work.look()
        assert await extended(client, broker) == []


@pytest.mark.parametrize(
    ("timeout", "seconds"), [("forever", 1), (60, 1), (3, 0.5), (0.6, 0.1), (0.001, 0.05)]
)
async def test_it_looks_often_enough_and_not_all_the_time(timeout, seconds):
    async with fake_worker(timeout=timeout) as (_, _, work):
        assert work.look_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})])
async def test_it_looks_by_itself(monkeypatch):
    looks = []
    monkeypatch.setattr(
        subscription_module.WorkSubscription, "look", lambda work: looks.append(work.name)
    )
    async with fake_client(SHARED_GRANTED) as (_, client):
        async with client.subscribe("t", name="n", shared=True, timeout=60):
            await anyio.sleep(3.5)
        # The clock may jump while a socket is waited for, too.
        assert len(looks) >= 3
        looks.clear()
        await anyio.sleep(5)
        assert looks == []


# -- draining ------------------------------------------------------------------------------------


async def test_draining_ends_loops_and_releases_what_waits():
    async with fake_worker() as (broker, client, work), BackgroundTasks() as tasks:
        await broker.hand_out(70, b"a", b"b", b"c")
        (message,) = await take(work, 1)
        ended = anyio.Event()

        async def loop():
            async for _ in work:
                pass
            ended.set()

        work.drain()
        tasks.group.start_soon(loop)
        await ended.wait()
        await answered(client)
        assert settled(broker) == [(Outcome.RELEASE, (71, 72))]
        assert await message.done(), "what is open can still be settled"


async def test_draining_wakes_a_loop_that_waits():
    async with fake_worker() as (_, _, work), BackgroundTasks() as tasks:
        ended = anyio.Event()

        async def loop():
            async for _ in work:
                pass
            ended.set()

        tasks.group.start_soon(loop)
        await anyio.wait_all_tasks_blocked()
        work.drain()
        await ended.wait()
        assert work.is_draining


async def test_what_comes_while_draining_is_released_at_the_next_look():
    """Not at once: without another worker, it comes back each time."""
    async with fake_worker() as (broker, client, work):
        work.drain()
        await broker.hand_out(70, b"a")
        await answered(client)
        assert settled(broker) == []
        work.look()
        await answered(client)
        assert settled(broker) == [(Outcome.RELEASE, (70,))]


# -- leaving -------------------------------------------------------------------------------------


async def left_by(error, count):
    """What is settled when a program with so many open messages leaves by that exception."""
    async with fake_client(SHARED_GRANTED) as (broker, client):
        subscribing = client.subscribe("t", name="n", shared=True, credit=10)
        work = await subscribing.__aenter__()
        await broker.hand_out(70, b"a", b"b", b"c", b"d")
        await take(work, count)
        kind = None if error is None else type(error)
        assert not await subscribing.__aexit__(kind, error, None)
        await answered(client)
        requests = [frame for frame in broker.received if isinstance(frame, Settle | Unsubscribe)]
        assert isinstance(requests.pop(), Unsubscribe), "what was not opened is released by that"
        return [(frame.outcome, frame.tickets, frame.reason) for frame in requests]


@pytest.mark.parametrize("error", [None, SystemExit(), KeyboardInterrupt()], ids=repr)
async def test_leaving_gives_back_what_is_open(error):
    """SHR-4a."""
    assert await left_by(error, 2) == [(Outcome.GIVE_BACK, (70, 71), "")]


@pytest.mark.parametrize("error", [Own("x"), SystemExit(3)], ids=repr)
async def test_leaving_by_an_exception_with_one_open_message_is_its_failure(error):
    reason = f"{type(error).__name__}: {error}"
    assert await left_by(error, 1) == [(Outcome.RETRY, (70,), reason)]


async def test_leaving_by_an_exception_with_several_open_is_a_loss_in_company():
    """SHR-6: nobody knows which of them it was."""
    assert await left_by(Own("x"), 3) == [(Outcome.LOSE, (70, 71, 72), "")]


@pytest.mark.parametrize("error", [None, Own("x")], ids=repr)
async def test_leaving_with_nothing_open_settles_nothing(error):
    assert await left_by(error, 0) == []


async def test_leaving_by_cancellation_gives_back():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        with anyio.CancelScope() as scope:
            async with client.subscribe("t", name="n", shared=True) as work:
                await broker.hand_out(70, b"a")
                await take(work, 1)
                scope.cancel()
                await anyio.sleep_forever()
        await answered(client)
        assert settled(broker) == [(Outcome.GIVE_BACK, (70,))]


async def test_what_blocks_have_settled_is_not_settled_by_leaving():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        with pytest.raises(Own):  # noqa: PT012
            async with client.subscribe("t", name="n", shared=True, credit=9) as work:
                await broker.hand_out(70, b"a", b"b")
                async with await anext(work):
                    pass
                async with await anext(work):
                    raise Own("x")
        await answered(client)
        assert settled(broker) == [(Outcome.DONE, (70,)), (Outcome.RETRY, (71,))]


async def test_when_a_task_fails_the_messages_of_others_are_given_back():
    """Also those that have not begun. The exception is the failure of one message, and known."""
    async with fake_client(SHARED_GRANTED) as (broker, client):
        with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012
            async with (
                client.subscribe("t", name="n", shared=True, credit=9) as work,
                anyio.create_task_group() as tasks,
            ):
                await broker.hand_out(70, b"a", b"b", b"c", b"d")
                others = anyio.Event()

                async def handle(message):
                    async with message:
                        if message.ticket == 71:
                            await others.wait()
                            raise Own("x")
                        if message.ticket == 72:
                            others.set()
                        await anyio.sleep_forever()

                for message in await take(work, 4):
                    if message.ticket != 73:
                        tasks.start_soon(handle, message)
        assert raised.group_contains(Own)
        await answered(client)
        said = {ticket: outcome for outcome, tickets in settled(broker) for ticket in tickets}
        assert said.pop(71) == Outcome.RETRY
        assert said == dict.fromkeys((70, 72, 73), Outcome.GIVE_BACK)


async def test_an_exception_that_was_handled_does_not_excuse_a_later_one():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        error = Own("x")
        with pytest.raises(Own):  # noqa: PT012
            async with client.subscribe("t", name="n", shared=True, credit=9) as work:
                await broker.hand_out(70, b"a", b"b")
                with suppress(Own):
                    async with await anext(work):
                        raise error
                await anext(work)
                raise error
        await answered(client)
        assert settled(broker) == [(Outcome.RETRY, (70, 71))]


async def test_a_client_that_is_left_first_settles_before_it_says_goodbye():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        subscribing = client.subscribe("t", name="n", shared=True)
        work = await subscribing.__aenter__()
        await broker.hand_out(70, b"a")
        message = await anext(work)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await message.done()
    kinds = [type(frame) for frame in broker.received]
    assert kinds.index(Settle) < kinds.index(Close)
    await subscribing.__aexit__(None, None, None)
    with pytest.raises((zaichik.ConnectionLost, RuntimeError)):
        await anext(work)


async def test_leaving_without_a_connection_is_no_error():
    async with fake_client(SHARED_GRANTED, reconnect=0) as (broker, client):
        async with client.subscribe("t", name="n", shared=True) as work:
            await broker.hand_out(70, b"a")
            await take(work, 1)
            await broker.hang_up()
            with pytest.raises(zaichik.ConnectionLost):
                await answered(client)
        assert settled(broker) == []


async def test_after_its_block_nothing_can_be_taken():
    async with fake_client(SHARED_GRANTED) as (broker, client):
        async with client.subscribe("t", name="n", shared=True) as work:
            await broker.hand_out(70, b"a")
            await answered(client)
        with pytest.raises(RuntimeError, match="has ended, with its `async with` block"):
            await anext(work)


async def test_in_a_forked_process_it_gives_nothing_and_may_be_left():
    async with fake_worker() as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        (message,) = await take(work, 1)
        client.connection.inherited()
        for call in (work.__anext__, message.done):
            with pytest.raises(RuntimeError, match=ADVICE):
                await call()
    assert settled(broker) == []
