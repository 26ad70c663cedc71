"""Connections that are cut in the middle of anything: what was acknowledged is there, once and in order."""

from contextlib import suppress

import anyio
import pytest
from cutting_proxy import cutting_proxy
from ledger import Ledger, numbered

import zaichik

pytestmark = pytest.mark.anyio

TOPIC, WRITERS, BATCH = "cut", 3, 20
PATIENCE = 600.0  # seconds for the long run


async def write(port, ledger, writer, messages):
    """Publish each number once: what was not acknowledged when the connection was cut is not sent again."""
    batches = iter(range(first, first + BATCH) for first in range(0, messages, BATCH))
    numbers = next(batches, None)
    while numbers is not None:
        with suppress(zaichik.ConnectFailed, zaichik.ConnectionLost):
            async with zaichik.connect(port=port) as client:
                while numbers is not None:
                    mine, numbers = numbers, next(batches, None)
                    await client.publish_batch(TOPIC, [(None, numbered(writer, number)) for number in mine])
                    ledger.acknowledge(writer, mine)


async def read(port, ledger, epoch):
    """Read all there is, going on each time where the last connection ended."""
    while True:
        with suppress(zaichik.ConnectFailed, zaichik.ConnectionLost):
            async with (
                zaichik.connect(port=port) as client,
                client.subscribe(TOPIC, start=ledger.next, epoch=epoch, events=True) as subscription,
            ):
                async for item in subscription:
                    ledger.take(item)


@pytest.mark.parametrize("messages", [1_000, pytest.param(100_000, marks=pytest.mark.soak)])
async def test_what_was_acknowledged_before_a_cut_is_there_once(broker, messages):
    """PUB-1, CLO-1: a client that never tries again knows what it has, and the broker has that."""
    ledger = Ledger()
    async with (
        zaichik.connect(port=broker.port) as client,
        cutting_proxy(broker.port, seed=1, at_most=20_000) as proxy,
    ):
        topic = await client.create_topic(TOPIC, retention_ttl="forever", capacity=WRITERS * messages)
        async with anyio.create_task_group() as reading:
            reading.start_soon(read, proxy.port, ledger, topic.epoch)
            with anyio.fail_after(PATIENCE):
                async with anyio.create_task_group() as writing:
                    for writer in range(WRITERS):
                        writing.start_soon(write, proxy.port, ledger, f"writer-{writer}", messages)
                stored = -1
                while ledger.came != stored:  # what was sent last may be carried out after the writers have gone
                    (state,) = await client.topics(TOPIC)
                    stored = state["stored"]
            reading.cancel_scope.cancel()
        assert proxy.cuts > messages // 100
    ledger.check()
    assert ledger.lagged == 0
