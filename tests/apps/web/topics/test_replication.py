"""POST that is answered when messages are replicated: AK-1."""

from contextlib import asynccontextmanager

import anyio
import pytest
from programs import LINES, broker_and_program
from replicating import LOSSLESS, FakeBridge, Waiting

from zaichik.apps.web.topics import publishing

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def replicated():
    """A client of a broker, a program, and a bridge of the topic `lossless`."""
    async with broker_and_program(acked_by="kafka") as (client, program, _):
        await client.create_topic("lossless", **LOSSLESS)
        bridge = FakeBridge(client, "lossless")
        await bridge.begin()
        yield client, program, bridge


async def has_stored(client, count):
    while (await client.topic("lossless"))["next_offset"] < count:
        await anyio.lowlevel.checkpoint()
    await client.ping()


async def test_a_message_is_answered_when_the_watermark_has_passed_it():
    async with replicated() as (client, program, bridge), anyio.create_task_group() as tasks:
        waiting = Waiting()
        body = b'{"payload":"1"}\n{"payload":"2"}\n'
        tasks.start_soon(
            waiting.run, lambda: program.post("/topics/lossless", body, content_type=LINES)
        )
        await has_stored(client, 2)
        await bridge.has(1)
        await client.ping()
        assert not waiting.done.is_set()
        await bridge.has(2)
        assert (await waiting.outcome()).json["stored"] == 2


async def test_a_message_that_is_not_replicated_in_time_may_be_sent_again(monkeypatch):
    monkeypatch.setattr(publishing, "REPLICATED_S", 0.0)
    async with replicated() as (client, program, bridge):
        for _ in range(2):
            answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
            assert (answer.status, answer.json["error"]) == (503, "NOT_REPLICATED")
        monkeypatch.setattr(publishing, "REPLICATED_S", 60.0)
        await bridge.has(1)
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert (answer.status, answer.json["offset"]) == (200, 0)
        assert (await client.topic("lossless"))["next_offset"] == 1


async def test_a_message_in_a_gap_is_stored_anew_when_it_is_sent_again():
    async with replicated() as (_, program, bridge):
        await bridge.has(9, (0, 1))
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert (answer.status, answer.json["error"]) == (500, "REPLICATION_LOST")
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert (answer.status, answer.json["offset"]) == (200, 1)


async def test_a_repeat_is_not_acknowledged_for_another_topic_of_that_name(monkeypatch):
    """The broker answers it with its old offset, which another message has by now (TOP-6)."""
    monkeypatch.setattr(publishing, "REPLICATED_S", 0.0)
    async with replicated() as (client, program, bridge):
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert answer.json["error"] == "NOT_REPLICATED"
        monkeypatch.setattr(publishing, "REPLICATED_S", 60.0)
        await client.delete_topic("lossless")
        await client.create_topic("lossless", **LOSSLESS)
        await client.publish("lossless", b"another")
        await bridge.begin()
        await bridge.has(2)
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert (answer.status, answer.json["error"]) == (500, "REPLICATION_LOST")
        # It is stored with the next one.
        answer = await program.post("/topics/lossless", b"x", idempotency_key="1")
        assert (answer.status, answer.json["offset"]) == (200, 1)


async def test_a_topic_that_may_lose_messages_is_refused():
    async with replicated() as (client, program, _):
        answer = await program.post("/topics/orders", b"x")
        assert (answer.status, answer.json["error"]) == (409, "NOT_LOSSLESS")
        answer = await program.post("/topics/new", b"x")
        assert (answer.status, answer.json["error"]) == (404, "NO_SUCH_TOPIC")
        assert (await client.topic("orders"))["next_offset"] == 0
        assert await client.topic("new") is None
