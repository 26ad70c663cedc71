"""Publish that answers when messages are replicated: AK-1."""

import anyio
import pytest
from callers import gateway, refused
from grpc import StatusCode
from replicating import LOSSLESS, FakeBridge, Waiting

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def has_stored(running, count):
    while (await running.client.topic("a"))["next_offset"] < count:
        await anyio.lowlevel.checkpoint()
    await running.client.ping()


async def test_a_batch_is_answered_when_the_watermark_has_passed_it():
    async with (
        gateway(options={"acked_by": "kafka"}) as running,
        anyio.create_task_group() as tasks,
    ):
        await running.client.create_topic("a", **LOSSLESS)
        bridge = FakeBridge(running.client, "a")
        await bridge.begin()
        waiting = Waiting()
        tasks.start_soon(waiting.run, lambda: running.publish("a", b"1", b"2"))
        await has_stored(running, 2)
        await bridge.has(1)
        await running.client.ping()
        assert not waiting.done.is_set()
        await bridge.has(2)
        assert (await waiting.outcome()).stored == 2
        await bridge.has(9, (2, 3))
        await refused(running.publish("a", b"3"), StatusCode.DATA_LOSS, "REPLICATION_LOST")


async def test_a_topic_that_may_lose_messages_is_refused():
    async with gateway(options={"acked_by": "kafka"}) as running:
        await running.client.create_topic("a", retention_ttl="forever")
        await refused(running.publish("a", b"1"), StatusCode.FAILED_PRECONDITION, "NOT_LOSSLESS")
        await refused(running.publish("b", b"1"), StatusCode.NOT_FOUND, "NO_SUCH_TOPIC")
