"""The operator's way into a broker that is full (CLO-5)."""

import anyio
import pytest

import zaichik
from zaichik import BrokerSettings, running_broker
from zaichik.client.errors import TooManyConnections

pytestmark = pytest.mark.anyio
GUARD = 60


@pytest.fixture
async def full():
    """A broker with all the connections it may have: one."""
    settings = BrokerSettings(max_connections=1)
    async with (
        running_broker(settings=settings) as server,
        zaichik.connect(port=server.port, name="hog") as hog,
    ):
        yield server, hog


async def test_an_operator_gets_in_and_makes_room(full):
    server, hog = full
    await hog.create_topic("t")
    with anyio.fail_after(GUARD):
        async with zaichik.connect(port=server.port, reconnect=0) as operator:
            (taken, _) = await operator.connections()
            assert taken["client"] == "hog"
            assert [topic["name"] for topic in await operator.topics()] == ["t"]
            await operator.delete_topic("t")
            await operator.disconnect(taken["connection"])


async def test_an_operators_connection_accepts_nothing_else(full):
    server, _ = full
    with anyio.fail_after(GUARD):
        async with zaichik.connect(port=server.port, reconnect=0) as client:
            with pytest.raises(
                TooManyConnections, match="Describe, Disconnect, Delete and Close only"
            ):
                await client.create_topic("t")


async def test_there_is_one_operators_connection_at_a_time(full):
    server, _ = full
    with anyio.fail_after(GUARD):
        async with zaichik.connect(port=server.port, reconnect=0) as first:
            await first.describe()
            with pytest.raises(TooManyConnections):
                async with zaichik.connect(port=server.port, reconnect=0):
                    pass
        while True:  # until the broker has heard that the first one has gone
            try:
                async with zaichik.connect(port=server.port, reconnect=0) as second:
                    await second.describe()
                break
            except TooManyConnections:
                pass
