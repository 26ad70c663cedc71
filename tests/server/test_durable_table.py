"""Durable tables over real sockets, files and threads (DUR-10)."""

import random

import anyio
import pytest

import zaichik
from zaichik.server.running import running_broker
from zaichik.storage import writer
from zaichik.storage.cleaning import table_log

pytestmark = pytest.mark.anyio

KIB = 1024
MIB = 1024 * KIB
KEYS = [b"key %d" % number for number in range(40)]


async def table_of(client):
    """What a reader that comes late gets."""
    (state,) = await client.topics("t")
    found = {}
    async with client.subscribe("t", until=state["next_offset"]) as subscription:
        async for message in subscription:
            if message.is_tombstone:
                found.pop(message.key, None)
            else:
                found[message.key] = message.payload
    return found


async def create(client):
    await client.create_topic(
        "t", table=True, durable=True, max_bytes=128 * KIB, log_bytes=MIB, segment_bytes=64 * KIB
    )


async def update(client, known, numbers, *, seed):
    """Publish random changes, and note each when it is acknowledged."""
    chance = random.Random(seed)
    for number in numbers:
        batch = [(key, b"%d " % number + bytes(400)) for key in chance.sample(KEYS, 5)]
        gone = chance.choice(KEYS)
        await client.publish_batch("t", batch)
        known |= dict(batch)
        await client.publish("t", None, key=gone)
        known.pop(gone, None)


@pytest.fixture(autouse=True)
def _often(monkeypatch, patchable):
    """Look at what is worth it, and write checkpoints, for a file that is small."""
    monkeypatch.setattr(table_log, "LOOK_EVERY", 16 * KIB)
    monkeypatch.setattr(writer, "SOONEST_CHECKPOINT", 16 * KIB)


async def test_a_table_is_rewritten_while_it_is_published_to_and_comes_back(tmp_path):
    known = {}
    async with running_broker(data=tmp_path) as broker, zaichik.connect(port=broker.port) as client:
        await create(client)
        await update(client, known, range(200), seed=1)
        assert await table_of(client) == known
        (state,) = await client.topics("t")
        assert state["superseded"] > 800
        assert state["log_bytes"] < 200 * 5 * 400
        assert set(state["left_over"].values()) == {0}
    async with running_broker(data=tmp_path) as broker, zaichik.connect(port=broker.port) as client:
        assert await table_of(client) == known
        await update(client, known, range(2000, 2010), seed=2)
        assert await table_of(client) == known


async def test_publishing_waits_where_the_log_is_full_and_goes_on(tmp_path, monkeypatch):
    """TOPIC_FULL is retried by the client: rewriting makes room."""
    known = {}
    below = writer.Writer.rewritable_below
    async with running_broker(data=tmp_path) as broker, zaichik.connect(port=broker.port) as client:
        await create(client)
        topic = broker.broker.registry.durable("t")

        def rewritable_below(log, *, is_full):
            """Nothing is rewritten until a batch was refused."""
            return below(log, is_full=is_full) if topic.refused else -1

        monkeypatch.setattr(writer.Writer, "rewritable_below", rewritable_below)
        with anyio.fail_after(60):
            for number in range(40):
                batch = [(key, b"%d " % number + bytes(2000)) for key in KEYS[:30]]
                await client.publish_batch("t", batch)
                known |= dict(batch)
        assert topic.refused > 0
        assert await table_of(client) == known
