"""A broker inside a program."""

import asyncio

import anyio
import pytest

import zaichik
from zaichik.base.private_files import Unusable
from zaichik.learn.server import free_port

TOKEN = "zk_" + "a" * 43

pytestmark = pytest.mark.anyio


async def test_a_broker_with_users_asks_who_somebody_is():
    async with zaichik.running_broker(
        users={"ana": TOKEN}, rules="user ana\nallow all orders\n"
    ) as broker:
        with pytest.raises(zaichik.AuthFailed):
            async with zaichik.connect(port=broker.port):
                pass
        async with zaichik.connect(f"zaichik://{TOKEN}@127.0.0.1:{broker.port}") as client:
            await client.publish("orders", b"x")
            with pytest.raises(zaichik.Forbidden):
                await client.publish("secret", b"x")


@pytest.mark.parametrize(
    ("users", "rules", "problem"),
    [
        ({"ana": TOKEN}, "nonsense", r"1:9.*newline"),
        ({"Ana": TOKEN}, "user *\nallow all *\n", "name must match"),
    ],
)
async def test_a_broker_that_cannot_know_its_users_leaves_the_port_free(users, rules, problem):
    port = free_port()
    with pytest.raises((Unusable, ValueError), match=problem):
        async with zaichik.running_broker(port=port, users=users, rules=rules):
            pass
    with pytest.raises(OSError, match=r"refused|failed"):
        await anyio.connect_tcp("127.0.0.1", port)
    async with zaichik.running_broker(port=port):
        pass


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_another_task_may_stop_a_broker_than_has_started_it():
    """As the set-up and the tear-down of a fixture. On trio: see `DetachedTasks`."""
    running = zaichik.running_broker()

    async def use(port):
        async with zaichik.connect(port=port) as client:
            await client.publish("t", b"a")

    broker = await asyncio.create_task(running.__aenter__())
    await use(broker.port)
    await asyncio.create_task(running.__aexit__(None, None, None))
    with pytest.raises(zaichik.ConnectFailed):
        await use(broker.port)


async def test_brokers_may_be_stopped_in_the_order_in_which_they_were_started():
    running = [zaichik.running_broker() for _ in range(2)]
    with anyio.CancelScope():
        brokers = [await one.__aenter__() for one in running]
        for broker, one in zip(brokers, running, strict=True):
            await one.__aexit__(None, None, None)
            with pytest.raises(zaichik.ConnectFailed):
                async with zaichik.connect(port=broker.port):
                    pass


async def test_a_broker_that_fails_ends_its_block(monkeypatch):
    """As it does when the disk has failed."""

    async def fail(server):
        await server.aclose()
        raise zaichik.StorageFailed("the disk is gone")

    monkeypatch.setattr(zaichik.Server, "run", fail)
    with pytest.raises(ExceptionGroup) as caught:
        async with zaichik.running_broker():
            await anyio.sleep_forever()
    assert isinstance(caught.value.exceptions[0], zaichik.StorageFailed)
