"""A topic that may lose nothing, between a fast producer and a slow reader."""

import anyio
import pytest
from ledger import Ledger, numbered
from served import MIB

import zaichik

pytestmark = pytest.mark.anyio

TOPIC, CAPACITY = "lossless", 1_000
SOME, PAUSE_SECONDS = (
    20,
    0.001,
)  # 50 µs a message: a producer that need not wait takes less than 5 µs


async def read_slowly(subscription, ledger):
    async for item in subscription:
        ledger.take(item)
        if ledger.came % SOME == 0:
            await anyio.sleep(PAUSE_SECONDS)


@pytest.mark.parametrize("messages", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", ["", "slow"], ids=["anonymous", "named"])
async def test_a_producer_waits_for_a_reader_ten_times_slower(broker, messages, name):
    """RET-9: nothing is lost, and the broker holds no more than the topic may have."""
    ledger = Ledger()
    async with (
        zaichik.connect(port=broker.port) as reader,
        zaichik.connect(port=broker.port) as writer,
    ):
        await writer.create_topic(
            TOPIC, retention_ttl="forever", capacity=CAPACITY, max_bytes=4 * MIB, overflow="reject"
        )
        async with reader.subscribe(TOPIC, until=messages, name=name, events=True) as subscription:
            before = broker.resident
            async with anyio.create_task_group() as reading:
                reading.start_soon(read_slowly, subscription, ledger)
                async with writer.producer(TOPIC) as producer:
                    for number in range(messages):
                        await producer.send(numbered("all", number, size=100))
                ledger.acknowledge("all", range(messages))
            grown = broker.peak - before
    ledger.check()
    assert ledger.lagged == 0
    assert ledger.came == messages
    assert grown < 4 * MIB + 2 * 16 * MIB
