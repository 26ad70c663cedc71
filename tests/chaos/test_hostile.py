"""Clients that do what no client should, all at once: their neighbours go on, and memory stays
bounded.
"""

from contextlib import suppress

import anyio
import pytest
from pair import TOPIC as HEALTHY
from pair import healthy_pair
from rude import greeted, send_for_ever
from served import GUARD, MIB

import zaichik
from zaichik_protocol import Batch, Commit, Describe, Kind, Ping, Publish, Subscribe, encode

pytestmark = pytest.mark.anyio

TOPIC = "hostile"
PER_CONNECTION = 16 * MIB  # that a broker's memory may grow by for the sake of one client
SMALL = encode(Publish(9, TOPIC, Batch.of_columns([b""], [bytes(10_000)])))
LARGE = encode(Publish(9, TOPIC, Batch.of_columns([b""], [bytes(MIB)])))


async def never_read(port):
    """Subscribe to everything there is, with all the credit there is, and read nothing."""
    async with greeted(port) as stream:
        for number, topic in enumerate((HEALTHY, TOPIC), 2):
            await stream.send(
                encode(Subscribe(number, topic, credit=1_000_000, credit_bytes=2**32 - 1))
            )
        await anyio.sleep_forever()


async def never_commit(port):
    """Read everything, and settle nothing."""
    async with greeted(port) as stream:
        await stream.send(encode(Subscribe(2, HEALTHY, credit=1)))
        while True:
            await stream.receive()


async def never_read_replies(port):
    """Ask for the longest answer there is, again and again."""
    async with greeted(port) as stream:
        await send_for_ever(stream, encode(Describe(3, Kind.TOPICS, "", "", 500)) * 100)
    await anyio.sleep_forever()


async def flood_with_large_frames(port):
    async with greeted(port) as stream:
        await send_for_ever(stream, LARGE)


async def flood_with_tiny_frames(port):
    """Frames without an answer, as many as go into the socket."""
    async with greeted(port) as stream:
        await send_for_ever(stream, encode(Ping(0, 0)) * 10_000)


async def flood_with_errors(port):
    """Each of these costs an error's text."""
    async with greeted(port) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(send_for_ever, stream, encode(Commit(3, 77, 1)) * 1000)
        while True:
            await stream.receive()


async def send_byte_by_byte(port):
    """A frame whose end never comes."""
    async with greeted(port) as stream:
        for byte in SMALL:
            await stream.send(bytes([byte]))
            await anyio.sleep(0.01)


HOSTILE = [
    never_read,
    never_commit,
    never_read_replies,
    flood_with_large_frames,
    flood_with_tiny_frames,
    flood_with_errors,
    send_byte_by_byte,
]


async def again_and_again(behave, port):
    """Do it, and come back when the broker has had enough."""
    while True:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await behave(port)


@pytest.mark.parametrize("seconds", [1, pytest.param(60, marks=pytest.mark.soak)])
async def test_a_healthy_pair_goes_on_beside_all_of_them(broker, seconds):
    """LAG-2, LAG-3, TIM-2: whoever is too slow is cut off, and nobody else is."""
    async with zaichik.connect(port=broker.port) as client, healthy_pair(broker.port) as pair:
        await client.create_topic(TOPIC, max_bytes=8 * MIB)
        for number in range(100):
            await client.create_topic(f"one-of-many-{number}")
        before = broker.resident
        async with anyio.create_task_group() as tasks:
            for behave in HOSTILE:
                tasks.start_soon(again_and_again, behave, broker.port)
            until = anyio.current_time() + seconds
            while anyio.current_time() < until:
                await pair.goes_on(20)
            grown = broker.peak - before
            ends = (await client.describe())["disconnects"]
            tasks.cancel_scope.cancel()
        assert grown < 8 * MIB + PER_CONNECTION * len(HOSTILE)
        assert ends.keys() <= {"SLOW_CONSUMER", "FRAME_TIMEOUT"}
        if seconds > 30:  # everybody's time was up at least once
            assert ends["SLOW_CONSUMER"] >= 2
            assert ends["FRAME_TIMEOUT"] >= 1


async def test_300_mib_before_the_first_read_cost_little_memory(broker):
    """The same client reads nothing of what it subscribed to, nor of its replies."""
    async with zaichik.connect(port=broker.port) as client, greeted(broker.port) as stream:
        await client.create_topic(TOPIC, max_bytes=8 * MIB)
        before = broker.resident
        await stream.send(encode(Subscribe(2, TOPIC, credit=1_000_000, credit_bytes=2**32 - 1)))
        with anyio.fail_after(GUARD):
            for _ in range(300):
                await stream.send(LARGE)
            while (await client.topics(TOPIC))[0]["stored"] < 300:
                pass
        assert broker.peak - before < 8 * MIB + PER_CONNECTION
