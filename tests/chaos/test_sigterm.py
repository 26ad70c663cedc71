"""SIGTERM, whatever the peers do: the broker ends in order and in time (CLO-2)."""

import signal
import time
from contextlib import AsyncExitStack

import anyio
import pytest
from rude import HELLO, greeted, send_for_ever
from served import eventually

import zaichik
from zaichik.socket_stream import SocketStream
from zaichik_protocol import Batch, Ping, Publish, Subscribe, encode

pytestmark = pytest.mark.anyio

DRAIN_SECONDS = 10
TOPIC = "stuck"


async def stuck_peers(broker, stack):
    """Readers that never read, publishers that never read their replies, one in the middle of a frame, one silent."""
    tasks = await stack.enter_async_context(anyio.create_task_group())
    stack.callback(tasks.cancel_scope.cancel)
    flood = encode(Publish(9, TOPIC, Batch.of_columns([b""], [bytes(100_000)])))
    for _ in range(3):
        reader = await stack.enter_async_context(greeted(broker.port))
        await reader.send(encode(Subscribe(2, TOPIC, credit=100_000, credit_bytes=2**30)))
    async with zaichik.connect(port=broker.port) as client:
        while (await client.describe())["subscriptions"] < 3:
            pass
        for _ in range(200):  # more than sockets hold
            await client.publish(TOPIC, bytes(100_000))
    for data in (flood, encode(Ping(8, 8)) * 1000):
        stream = await stack.enter_async_context(greeted(broker.port))
        tasks.start_soon(send_for_ever, stream, data)
    half = await stack.enter_async_context(greeted(broker.port))
    await half.send(flood[:5000])
    silent = await stack.enter_async_context(await SocketStream.connect("127.0.0.1", broker.port))
    await silent.send(HELLO[:5])


@pytest.mark.soak
async def test_it_ends_within_the_drain_limit_with_exit_code_0(broker):
    async with AsyncExitStack() as stack:
        await stuck_peers(broker, stack)
        begin = time.monotonic()
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0
        assert time.monotonic() - begin < DRAIN_SECONDS + 2


async def test_the_second_one_ends_it_at_once(broker):
    async with AsyncExitStack() as stack:
        await stuck_peers(broker, stack)
        broker.signal(signal.SIGTERM)
        await eventually(lambda: "SIGTERM" in broker.log)
        assert broker.process.poll() is None
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 128 + signal.SIGTERM


async def test_without_stuck_peers_it_ends_and_everybody_is_told(broker):
    """What was sent before is answered; the client knows why it lost the connection."""
    async with zaichik.connect(port=broker.port) as client:
        async with client.producer(TOPIC) as producer:
            for _ in range(1000):
                await producer.send(b"x")
        assert producer.stored == 1000
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0
        with pytest.raises(zaichik.ConnectionLost, match="stop"):
            await client.ping()
    assert "STOPPED" in broker.log
