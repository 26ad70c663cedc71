"""What a broker has freed goes back to the system (P4)."""

import ctypes
import os

import pytest
from served import MIB, eventually, served

import zaichik

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this C library cannot return memory"
    ),
]

PUBLISHED = 100 * MIB
TTL_SECONDS = 3600
TOPIC = "much"


@pytest.mark.parametrize("size", [20_000, 900 * 1024])
async def test_memory_of_expired_messages_is_returned(size):
    """A quarter of the growth may stay."""
    with served("--clock", "manual") as broker:
        before = broker.resident
        async with zaichik.connect(port=broker.port) as client:
            await client.create_topic(
                TOPIC, retention_ttl=TTL_SECONDS, max_bytes=2 * PUBLISHED, capacity=1_000_000
            )
            async with client.producer(TOPIC) as producer:
                for _ in range(PUBLISHED // size):
                    await producer.send(os.urandom(16) * (size // 16))
            assert broker.peak - before > PUBLISHED / 2
            await client.advance_clock(TTL_SECONDS)
            assert (await client.topics(TOPIC))[0]["bytes"] == 0
            await eventually(lambda: broker.resident - before < (broker.peak - before) / 4)
