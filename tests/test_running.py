"""A broker inside a program."""

import anyio
import pytest

import zaichik
from zaichik.access.files import Unusable
from zaichik.learn.server import free_port

TOKEN = "zk_" + "a" * 43

pytestmark = pytest.mark.anyio


async def test_a_broker_with_users_asks_who_somebody_is():
    async with zaichik.running_broker(users={"ana": TOKEN}, rules="user ana\nallow all orders\n") as broker:
        with pytest.raises(zaichik.AuthFailed):
            async with zaichik.connect(port=broker.port):
                pass
        async with zaichik.connect(f"zaichik://{TOKEN}@127.0.0.1:{broker.port}") as client:
            await client.publish("orders", b"x")
            with pytest.raises(zaichik.Forbidden):
                await client.publish("secret", b"x")


@pytest.mark.parametrize(
    ("users", "rules", "problem"),
    [({"ana": TOKEN}, "nonsense", r"1:9.*newline"), ({"Ana": TOKEN}, "user *\nallow all *\n", "name must match")],
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
