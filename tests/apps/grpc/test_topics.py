"""CreateTopic, DeleteTopic and Describe."""

import grpc
import pytest
from callers import gateway, refused

from zaichik.apps.grpc import broker_pb2 as pb
from zaichik_protocol import FOREVER

pytestmark = pytest.mark.anyio


async def test_a_topic_is_created_once_and_has_the_settings_that_were_named():
    named = pb.Settings(
        retention_ttl_ms=FOREVER,
        compaction_window_ms=1500,
        capacity=500,
        max_bytes=200_000,
        max_keys=70,
        journal_bytes=65536,
        overflow=pb.OVERFLOW_REJECT,
    )
    request = pb.CreateTopicRequest(topic="a", settings=named)
    async with gateway() as running:
        first = await running.stub.CreateTopic(request)
        second = await running.stub.CreateTopic(request)
        state = await running.stub.Describe(pb.DescribeRequest(topic="a"))
    assert (first.created, second.created) == (True, False)
    assert first.epoch == second.epoch == state.epoch != 0
    assert first.settings == state.settings == named


async def test_a_table_is_created_with_its_tombstones():
    request = pb.CreateTopicRequest(topic="t", settings=pb.Settings(table=True, tombstones_ms=2500))
    async with gateway() as running:
        settings = (await running.stub.CreateTopic(request)).settings
    assert (settings.table, settings.tombstones_ms) == (True, 2500)


async def test_a_topic_with_other_settings_exists_already():
    async with gateway() as running:
        for capacity, status in ((10, None), (11, grpc.StatusCode.ALREADY_EXISTS)):
            request = pb.CreateTopicRequest(topic="a", settings=pb.Settings(capacity=capacity))
            call = running.stub.CreateTopic(request)
            if status is None:
                await call
            else:
                await refused(call, status, "TOPIC_EXISTS")


async def test_describe_tells_what_is_held_and_who_reads():
    async with gateway() as running:
        await running.stub.CreateTopic(
            pb.CreateTopicRequest(topic="a", settings=pb.Settings(capacity=2))
        )
        await running.publish("a", b"0", b"1")
        await running.publish("a", b"2")
        async with running.reading("a"):
            state = await running.stub.Describe(pb.DescribeRequest(topic="a"))
    assert (state.head, state.next_offset, state.subscriptions) == (1, 3, 1)


async def test_a_topic_that_is_not_there_is_not_found():
    async with gateway() as running:
        await running.publish("a long name", b"")
        for call in (running.stub.Describe, running.stub.DeleteTopic):
            request = pb.DescribeRequest(topic="a")
            await refused(call(request), grpc.StatusCode.NOT_FOUND, "NO_SUCH_TOPIC")


async def test_only_the_topic_that_is_meant_is_deleted():
    async with gateway() as running:
        created = await running.stub.CreateTopic(pb.CreateTopicRequest(topic="a"))
        await running.publish("a", b"0")
        other = pb.DeleteTopicRequest(topic="a", epoch=created.epoch + 1)
        full = pb.DeleteTopicRequest(topic="a", if_empty=True)
        failed = grpc.StatusCode.FAILED_PRECONDITION
        await refused(running.stub.DeleteTopic(other), failed, "EPOCH_CHANGED")
        async with running.reading("a"):
            await refused(running.stub.DeleteTopic(full), failed, "NOT_EMPTY")
        await running.stub.DeleteTopic(pb.DeleteTopicRequest(topic="a", epoch=created.epoch))
        assert await running.client.topic("a") is None


@pytest.mark.parametrize(
    "request_",
    [
        pb.CreateTopicRequest(topic=""),
        pb.CreateTopicRequest(topic="$mine"),
        pb.CreateTopicRequest(topic="x" * 70_000),
        pb.CreateTopicRequest(topic="a", settings=pb.Settings(overflow=7)),
        pb.CreateTopicRequest(topic="a", settings=pb.Settings(capacity=0)),
        pb.CreateTopicRequest(topic="a", settings=pb.Settings(retention_ttl_ms=FOREVER - 1)),
    ],
)
async def test_what_cannot_be_is_an_invalid_argument(request_):
    async with gateway() as running:
        call = running.stub.CreateTopic(request_)
        await refused(call, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
