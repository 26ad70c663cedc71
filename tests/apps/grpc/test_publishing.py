"""Publish."""

import anyio
import grpc
import pytest
from callers import gateway, refused
from grpc import aio

import zaichik
from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc import service

pytestmark = pytest.mark.anyio


def batch(*messages, topic="a", **numbered):
    rows = [pb.NewMessage(key=key, payload=payload) for key, payload in messages]
    return pb.PublishRequest(topic=topic, messages=rows, **numbered)


async def test_each_batch_is_answered_in_order_with_its_offsets():
    async with gateway() as running:
        call = running.stub.Publish()
        for count in (1, 3, 2):
            await call.write(batch(*[(None, b"x")] * count))
        await call.done_writing()
        answers = [response async for response in call]
    assert [(it.first_offset, it.stored, it.durable) for it in answers] == [
        (0, 1, False),
        (1, 3, False),
        (4, 2, False),
    ]


async def test_a_batch_is_answered_before_the_next_one_is_sent():
    async with gateway() as running:
        call = running.stub.Publish()
        for offset in range(3):
            await call.write(batch((None, b"x")))
            assert (await call.read()).first_offset == offset
        call.cancel()


async def test_keys_and_payloads_arrive_as_they_were():
    messages = [(b"\xff\x00", b"\x00"), (None, b""), (b"k", b""), ("é".encode(), b"x" * 3000)]
    async with gateway() as running, running.client.subscribe("a") as subscription:
        await anext(aiter(running.stub.Publish(iter([batch(*messages)]))))
        got = [await anext(subscription) for _ in messages]
    assert [(message.key, message.payload) for message in got] == messages


async def test_what_compaction_drops_is_named():
    async with gateway() as running:
        settings = pb.Settings(compaction_window_ms=1000)
        await running.stub.CreateTopic(pb.CreateTopicRequest(topic="a", settings=settings))
        messages = [(b"k", b"0"), (b"l", b"1"), (b"k", b"2"), (None, b"3"), (b"l", b"4")]
        response = await anext(aiter(running.stub.Publish(iter([batch(*messages)]))))
    assert (response.stored, list(response.dropped)) == (3, [2, 4])


async def test_a_numbered_batch_that_is_sent_again_is_stored_once():
    request = batch((None, b"x"), producer=2**64 - 1, number=0)
    async with gateway() as running:
        answers = [response async for response in running.stub.Publish(iter([request, request]))]
        state = await running.client.topic("a")
    assert [response.first_offset for response in answers] == [0, 0]
    assert state["next_offset"] == 1


async def test_a_missing_number_ends_the_call():
    async with gateway() as running:
        call = running.stub.Publish(
            iter([batch((None, b"x"), producer=7, number=number) for number in (0, 2)])
        )
        assert (await call.read()).stored == 1
        await refused(call.read(), grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP")


async def test_a_refused_batch_ends_the_call_after_the_answers_before_it(monkeypatch):
    """And nothing after it is stored, although it was sent before."""
    all_sent = anyio.Event()
    publish_batch = zaichik.Client.publish_batch

    async def publish_when_all_is_sent(*arguments, **named):
        await all_sent.wait()
        return await publish_batch(*arguments, **named)

    monkeypatch.setattr(zaichik.Client, "publish_batch", publish_when_all_is_sent)
    async with gateway() as running:
        call = running.stub.Publish()
        for request in (batch((None, b"0")), batch((b"", b"1")), batch((None, b"2"))):
            await call.write(request)
        all_sent.set()
        assert (await call.read()).first_offset == 0
        await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert (await running.client.topic("a"))["next_offset"] == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (batch(*[(None, b"")] * 9), "BATCH_TOO_LARGE"),
        (batch((None, b"x" * 4097)), "MESSAGE_TOO_LARGE"),
        (batch((b"k" * 2000, b"x")), "INVALID_FIELD"),
        (pb.PublishRequest(topic="a"), "INVALID_FIELD"),
        (batch((None, b"x"), topic=""), "INVALID_FIELD"),
        (
            pb.PublishRequest(
                topic="a", messages=[pb.NewMessage(key=b"k", payload=b"x", tombstone=True)]
            ),
            "INVALID_FIELD",
        ),
        (
            pb.PublishRequest(topic="a", messages=[pb.NewMessage(tombstone=True)]),
            "INVALID_FIELD",
        ),
    ],
)
async def test_what_the_broker_does_not_take_is_an_invalid_argument(request_, code):
    async with gateway(max_message=4096, max_batch=8) as running:
        call = running.stub.Publish(iter([request_]))
        await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT, code)


async def test_messages_of_a_batch_that_has_too_many_are_not_looked_at(monkeypatch):
    """A request has room for very many empty ones."""
    looked_at = []
    monkeypatch.setattr(service, "_to_publish", looked_at.append)
    async with gateway(max_message=4096, max_batch=8) as running:
        call = running.stub.Publish(iter([batch(*[(None, b"")] * 1000)]))
        error = await refused(call.read(), grpc.StatusCode.INVALID_ARGUMENT, "BATCH_TOO_LARGE")
    assert "1,000 messages" in error.details()
    assert looked_at == []


async def test_the_largest_batch_is_taken():
    """With all that its fields add, whatever the broker's limits are."""
    async with gateway(max_message=20_000, max_batch=2000) as running:
        rows = [pb.NewMessage(key=b"kkkkk", payload=b"xxxxx", tombstone=False)] * 2000
        request = pb.PublishRequest(topic="t" * 200, messages=rows, producer=2**64 - 1, number=0)
        (response,) = [it async for it in running.stub.Publish(iter([request]))]
        assert response.stored == 2000


async def test_no_larger_request_is_read():
    async with gateway(max_message=4096, max_batch=8) as running:
        call = running.stub.Publish(iter([batch((None, b"x" * 10_000))]))
        with pytest.raises(aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_tombstone_deletes_its_key_from_a_table():
    async with gateway() as running:
        settings = pb.Settings(table=True)
        await running.stub.CreateTopic(pb.CreateTopicRequest(topic="a", settings=settings))
        deletes = pb.PublishRequest(topic="a", messages=[pb.NewMessage(key=b"k", tombstone=True)])
        for request in (batch((b"k", b"x")), deletes):
            await anext(aiter(running.stub.Publish(iter([request]))))
        assert (await running.client.topic("a"))["keys"] == 0
        meant_otherwise = running.stub.Publish(iter([batch((b"k", b""))]))
        await refused(meant_otherwise.read(), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")


async def test_a_full_topic_makes_the_call_wait_for_its_reader():
    """RET-9."""
    async with gateway() as running:
        settings = pb.Settings(capacity=2, overflow=pb.OVERFLOW_REJECT, retention_ttl_ms=2**64 - 1)
        await running.stub.CreateTopic(pb.CreateTopicRequest(topic="a", settings=settings))
        async with running.reading("a", name="slow", credit=1) as reading:
            await running.publish("a", b"0", b"1")
            call = running.stub.Publish(iter([batch((None, b"2"))]))
            while not (await running.client.topic("a"))["refused"]:
                await anyio.lowlevel.checkpoint()
            await reading.read()
            await reading.commit(0)
            assert (await call.read()).first_offset == 2
