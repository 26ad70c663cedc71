"""SIGTERM, whatever the peers do: the broker ends in order and in time (CLO-2)."""

import signal
import time
from contextlib import AsyncExitStack

import pytest
from served import eventually
from stuck import stuck_peers

import zaichik

pytestmark = pytest.mark.anyio

DRAIN_SECONDS = 10
TOPIC = "stuck"


@pytest.mark.soak
async def test_it_ends_within_the_drain_limit_with_exit_code_0(broker):
    async with AsyncExitStack() as stack:
        await stuck_peers(broker.port, stack)
        begin = time.monotonic()
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0
        assert time.monotonic() - begin < DRAIN_SECONDS + 2


async def test_the_second_one_ends_it_at_once(broker):
    async with AsyncExitStack() as stack:
        await stuck_peers(broker.port, stack)
        broker.signal(signal.SIGTERM)
        await eventually(lambda: "SIGTERM" in broker.log)
        assert broker.process.poll() is None
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 128 + signal.SIGTERM


async def test_without_stuck_peers_it_ends_and_everybody_is_told(broker):
    """What was sent before is answered; the client knows why it lost the connection."""
    async with zaichik.connect(port=broker.port, reconnect=0) as client:
        async with client.producer(TOPIC) as producer:
            for _ in range(1000):
                await producer.send(b"x")
        assert producer.stored == 1000
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0
        with pytest.raises(zaichik.ConnectionLost, match="stop"):
            await client.ping()
    assert "STOPPED" in broker.log
