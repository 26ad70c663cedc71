"""What is said of messages in one turn of the event loop goes in one request: SHR-3."""

from dataclasses import replace

import anyio
import pytest
from workers import answer, answered, fake_worker, settled, take

import zaichik
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Error, ErrorCode, Outcome, Settle, Settled

pytestmark = pytest.mark.anyio


async def test_what_many_tasks_settle_at_once_is_one_request_in_the_order_of_tickets():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a", b"b", b"c", b"d")
        first, second, third, fourth = await take(work, 4)
        async with anyio.create_task_group() as tasks:
            for message in (third, first, fourth, second):
                tasks.start_soon(message.done)
        assert settled(broker) == [(Outcome.DONE, (70, 71, 72, 73))]


async def test_different_verdicts_are_different_requests():
    async with fake_worker() as (broker, _, work):
        await broker.hand_out(70, b"a", b"b", b"c", b"d", b"e")
        messages = await take(work, 5)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(messages[0].done)
            tasks.start_soon(messages[1].retry, 5, "busy")
            tasks.start_soon(messages[2].retry, 6, "busy")
            tasks.start_soon(messages[3].done)
            tasks.start_soon(messages[4].retry, 5, "busy")
        assert sorted(settled(broker)) == [
            (Outcome.DONE, (70, 73)),
            (Outcome.RETRY, (71, 74)),
            (Outcome.RETRY, (72,)),
        ]


async def test_each_caller_gets_its_own_answer():
    async with fake_worker({Settle: lambda frame: Settled(frame.id, (71,))}) as (broker, _, work):
        await broker.hand_out(70, b"a", b"b")
        answers = {}

        async def settle(message):
            answers[message.ticket] = await message.done()

        async with anyio.create_task_group() as tasks:
            for message in await take(work, 2):
                tasks.start_soon(settle, message)
        assert answers == {70: True, 71: False}


async def test_each_caller_gets_its_own_error():
    def refuse(frame):
        return Error(frame.id, ErrorCode.INTERNAL, Settle.TYPE, "", 0, "a bug")

    async with fake_worker({Settle: refuse}) as (broker, _, work):
        await broker.hand_out(70, b"a", b"b")
        errors = []

        async def settle(message):
            with pytest.raises(zaichik.Internal) as raised:
                await message.done()
            errors.append(raised.value)

        async with anyio.create_task_group() as tasks:
            for message in await take(work, 2):
                tasks.start_soon(settle, message)
        assert len(set(map(id, errors))) == 2


async def test_a_request_has_no_more_messages_than_the_broker_takes(monkeypatch):
    async with fake_worker() as (broker, client, work):
        monkeypatch.setattr(client.connection, "welcome", replace(client.welcome, max_batch=2))
        await broker.hand_out(70, b"a", b"b", b"c", b"d", b"e")
        async with anyio.create_task_group() as tasks:
            for message in await take(work, 5):
                tasks.start_soon(message.done)
        requests = [tickets for _, tickets in settled(broker)]
        assert [len(tickets) for tickets in requests] == [2, 2, 1]
        assert sorted(sum(requests, ())) == [70, 71, 72, 73, 74]


async def test_a_refusal_that_nobody_waits_for_is_logged(caplog):
    def refuse(frame):
        return Error(frame.id, ErrorCode.INTERNAL, Settle.TYPE, "", 0, "a bug")

    async with fake_worker({Settle: refuse}) as (broker, client, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        async with message:
            pass
        await answered(client)
        broker.answers[Settle] = lambda frame: Settled(frame.id)
    assert "the broker has refused to settle 1 message: a bug" in caplog.text


async def test_requests_need_not_wait_for_each_other():
    async with (
        fake_worker({Settle: lambda _: None}) as (broker, _, work),
        BackgroundTasks() as tasks,
    ):
        await broker.hand_out(70, b"a", b"b")
        for count, message in enumerate(await take(work, 2), 1):
            tasks.group.start_soon(message.done)
            await broker.has_received(Settle, count)
        assert settled(broker) == [(Outcome.DONE, (70,)), (Outcome.DONE, (71,))]
        await answer(broker)


async def test_a_ticket_that_was_not_settled_cannot_be_late():
    async with fake_worker({Settle: lambda frame: Settled(frame.id, (99,))}) as (broker, _, work):
        await broker.hand_out(70, b"a")
        (message,) = await take(work, 1)
        with pytest.raises(zaichik.ConnectionLost, match="late that were not settled"):
            await message.done()


async def test_a_client_that_closes_fails_those_that_wait():
    async with fake_worker({Settle: lambda _: None}) as (broker, client, work):
        await broker.hand_out(70, b"a", b"b")
        first, second = await take(work, 2)

        async def settle():
            with pytest.raises(zaichik.ConnectionLost, match="this client has closed it"):
                await first.done()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settle)
            await broker.has_received(Settle)
            client.connection.end()
        with pytest.raises(zaichik.ConnectionLost):
            await second.done()
