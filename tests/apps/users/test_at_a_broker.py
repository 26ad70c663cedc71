"""Users of a gateway at a real broker."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from brokers import GUARD, START_US

import zaichik
from zaichik.apps.users.connections import TooManyFailures, UserConnections
from zaichik.apps.users.failures import OF_ONE
from zaichik.net.background import BackgroundTasks
from zaichik.server.access.access_gate import in_memory

pytestmark = pytest.mark.anyio

USERS = {"ana": f"zk_{'a' * 43}", "bob": f"zk_{'b' * 43}"}
RULES = "user *\nallow all *\nallow describe $broker\n"
ANA, BOB = (zaichik.Credentials(secret=token) for token in USERS.values())
HERE = "10.0.0.1:1"


@asynccontextmanager
async def at_a_broker():
    """A broker, and the connections of a gateway's users."""
    clock = zaichik.ManualClock(START_US)
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker(users=USERS, rules=RULES, clock=clock) as broker,
            BackgroundTasks() as tasks,
        ):
            endpoint = zaichik.Endpoint("127.0.0.1", broker.port)
            yield broker, UserConnections(endpoint, "gateway", tasks.group, clock.now_us)


async def test_each_user_is_who_the_broker_says():
    async with at_a_broker() as (_, users):
        async with users.using(ANA, HERE) as ana, users.using(BOB, HERE) as bob:
            assert (ana.name, bob.name) == ("ana", "bob")
            await ana.client.publish("t", b"1")
            connections = await bob.client.connections()
        assert sorted(it["user"] for it in connections) == ["ana", "bob"]
        assert {it["client"] for it in connections} == {"gateway"}


async def test_failures_never_make_the_broker_delay_the_gateway():
    async with at_a_broker() as (broker, users):
        for number in range(50):
            guess = zaichik.Credentials("ana", f"guess {number}")
            error = zaichik.AuthFailed
            if number >= OF_ONE:
                error = TooManyFailures
            with pytest.raises(error):
                await users.acquire(guess, HERE)
        assert broker.gate.counters["login_failed"] == OF_ONE
        assert broker.gate.counters["throttled"] == 0
        async with users.using(ANA, "10.0.0.2:1") as ana:
            assert ana.name == "ana"


async def test_a_login_that_ends_is_lost_for_good_at_once():
    """ACC-4. Its client tries it once more, which the broker counts, and so does the gateway."""
    async with at_a_broker() as (broker, users), users.using(ANA, HERE) as ana:
        async with users.using(BOB, HERE) as bob:
            rest = {"ana": USERS["ana"]}
            broker.gate.access = in_memory(rest, RULES, broker.clock).access
            broker.sweep()
            await bob.lost.wait()
        with pytest.raises(zaichik.AuthFailed):
            await users.acquire(BOB, HERE)
        assert broker.gate.counters["login_failed"] == 2
        assert not ana.lost.is_set()
        async with users.using(ANA, HERE) as again:
            assert again is ana
