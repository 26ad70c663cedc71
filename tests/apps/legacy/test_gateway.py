"""Many connections of original clients, and the one connection to the broker behind them."""

from contextlib import AsyncExitStack

import anyio
import pytest
from brokers import GUARD, HANG_UP, START_US, fake_broker
from original import Running, gateway

import zaichik
from zaichik.apps.legacy import gateway as gateway_module
from zaichik.apps.legacy import session as session_module
from zaichik.apps.legacy.frames import Publish, Subscribe
from zaichik.apps.legacy.gateway import Gateway
from zaichik.apps.legacy.session import Session
from zaichik.learn.server import free_port
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Ping

pytestmark = pytest.mark.anyio


async def test_clients_of_both_kinds_read_what_the_others_publish():
    async with gateway() as running, running.connected() as old, running.connected() as second:
        await old.send(Subscribe("a"))
        await running.settle()
        async with running.client.subscribe("a") as subscription:
            await second.send(Publish("a", "k", b"1"))
            assert await old.read() == Publish("a", "k", b"1")
            message = await anext(subscription)
            assert (message.key, message.payload) == (b"k", b"1")


async def test_one_connection_too_many_is_turned_away_and_others_stay(monkeypatch, caplog):
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 3)
    async with gateway() as running, AsyncExitStack() as stack:
        first, *_ = [await stack.enter_async_context(running.connected()) for _ in range(3)]
        await first.send(Subscribe("a"), Publish("a", None, b"1"))
        assert (await first.read()).payload == b"1"
        async with running.connected() as late:
            assert await late.ended()
        assert "turned away: there are 3 connections, which is the limit" in caplog.text


async def test_a_client_that_leaves_makes_room(monkeypatch):
    monkeypatch.setattr(gateway_module, "MAX_CONNECTIONS", 2)
    async with gateway() as running:
        for _ in range(5):
            async with running.connected() as client:
                await client.send(Subscribe("a"), Publish("a", None, b"1"))
                assert (await client.read()).payload == b"1"
                await client.send_eof()
                assert await client.ended()


async def test_only_this_machine_reaches_it():
    async with gateway() as running:
        found = await Gateway.listening(running.client, 0)
        assert found.host == "127.0.0.1"
        await found._listener.aclose()


async def test_its_clients_may_do_what_its_user_may(monkeypatch, caplog):
    monkeypatch.setattr(session_module, "PAUSE_SECONDS", 0)
    async with gateway(rules="allow all mine/*") as running, running.connected() as client:
        await client.send(Subscribe("secret"), Publish("secret", None, b"1"))
        await client.send(Subscribe("mine/a"), Publish("mine/a", None, b"2"))
        assert (await client.read()).payload == b"2"
    dropped = [
        record.getMessage() for record in caplog.records if record.name == "zaichik.legacy.session"
    ]
    assert ["was dropped" in line and "secret" in line for line in dropped] == [True, True]


async def test_without_its_last_client_the_broker_knows_no_reader():
    async with gateway() as running:
        async with running.connected() as client:
            await client.send(Subscribe("a"), Publish("a", None, b"1"))
            await client.read()
        while await running.client.subscriptions("a"):
            await anyio.lowlevel.checkpoint()


async def test_a_bug_ends_its_connection_only(monkeypatch, caplog):
    carry_out = Session._carry_out

    async def buggy(self, command):
        if command == Subscribe("bug"):
            raise LookupError
        await carry_out(self, command)

    monkeypatch.setattr(Session, "_carry_out", buggy)
    async with gateway() as running, running.connected() as client, running.connected() as other:
        await client.send(Subscribe("bug"))
        assert await client.ended()
        await other.send(Subscribe("a"), Publish("a", None, b"1"))
        assert (await other.read()).payload == b"1"
    assert "a bug ended this connection" in caplog.text


async def test_a_restarted_broker_ends_the_readers_of_lost_topics_and_takes_what_is_published():
    clock, port = zaichik.ManualClock(START_US), free_port()

    async def broker(stopping, stopped, *, task_status):
        async with zaichik.running_broker(port=port, clock=clock):
            task_status.started()
            await stopping.wait()
        stopped.set()

    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            stopping, stopped = anyio.Event(), anyio.Event()
            await tasks.group.start(broker, stopping, stopped)
            async with zaichik.connect(port=port) as client, BackgroundTasks() as serving:
                found = await Gateway.listening(client, 0)
                serving.group.start_soon(found.run)
                running = Running(None, client, found.port)
                async with running.connected() as reader, running.connected() as publisher:
                    await reader.send(Subscribe("a"), Publish("a", None, b"1"))
                    await reader.read()
                    await publisher.send(Publish("b", None, b"1"))
                    await running.settle()
                    stopping.set()
                    await stopped.wait()
                    clock.advance(1)
                    await tasks.group.start(broker, anyio.Event(), anyio.Event())
                    assert await reader.ended()
                    await publisher.send(Subscribe("b"), Publish("b", None, b"2"))
                    assert (await publisher.read()).payload == b"2"


async def test_a_broker_that_is_gone_ends_it_even_while_no_one_is_connected():
    async with (
        fake_broker({Ping: lambda _: HANG_UP}) as broker,
        zaichik.connect(port=broker.port, reconnect=0) as client,
    ):
        found = await Gateway.listening(client, 0)
        with pytest.raises(ExceptionGroup) as caught:
            await found.run()
    assert caught.group_contains(zaichik.ConnectionLost)
