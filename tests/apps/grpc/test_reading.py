"""Subscribe: what is delivered, what commits do, and how it ends."""

from contextlib import suppress

import anyio
import grpc
import pytest
from callers import Reading, gateway, refused
from grpc import aio

from zaichik.apps.grpc import broker_pb2 as pb
from zaichik.apps.grpc import service

pytestmark = pytest.mark.anyio

KEPT = 2**64 - 1


async def kept(running, topic="a", **settings):
    """A topic that keeps its messages."""
    request = pb.CreateTopicRequest(
        topic=topic, settings=pb.Settings(retention_ttl_ms=KEPT, **settings)
    )
    return await running.stub.CreateTopic(request)


async def reader(running, topic="a"):
    """What the broker says about the only reader of a topic; None if it has none."""
    found = await running.client.subscriptions(topic)
    assert len(found) <= 1
    return found[0] if found else None


async def until(condition):
    """Wait until this is so."""
    while not await condition():
        await anyio.lowlevel.checkpoint()


# -- where it starts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        ({}, [0, 1, 2, 3]),
        ({"latest": False}, [0, 1, 2, 3]),
        ({"latest": True}, [3]),
        ({"offset": 1}, [1, 2, 3]),
        ({"offset": 0}, [0, 1, 2, 3]),
        ({"time_us": 1_000_000_002}, [2, 3]),
        ({"time_us": 0}, [0, 1, 2, 3]),
    ],
)
async def test_it_starts_where_it_is_told_to(start, offsets):
    async with gateway() as running:
        await kept(running)
        for number in range(3):
            await running.publish("a", b"%d" % number)
            running.broker.clock.advance(0.000_001)
        async with running.reading("a", **start) as reading:
            assert (reading.started.start, reading.started.live) == (offsets[0], 3)
            await running.publish("a", b"3")
            assert await reading.payloads(len(offsets)) == [b"%d" % offset for offset in offsets]


async def test_messages_have_all_that_they_were_published_with():
    async with gateway() as running:
        created = await kept(running)
        async with running.reading("a") as reading:
            assert reading.started == pb.Started(epoch=created.epoch, start=0, live=0)
            await running.publish("a", b"x", key=b"\xff")
            running.broker.clock.advance(1)
            await running.publish("a", b"")
            first = (await reading.read()).messages
            second = (await reading.read()).messages
    assert [*first, *second] == [
        pb.Message(offset=0, accepted_us=1_000_000_000, key=b"\xff", payload=b"x"),
        pb.Message(offset=1, accepted_us=1_001_000_000, payload=b""),
    ]
    assert not second[0].HasField("key")


async def test_a_table_says_so_and_delivers_its_tombstones():
    async with gateway() as running:
        await kept(running, table=True)
        await running.publish("a", b"x", key=b"k")
        deletes = pb.PublishRequest(topic="a", messages=[pb.NewMessage(key=b"k", tombstone=True)])
        await anext(aiter(running.stub.Publish(iter([deletes]))))
        async with running.reading("a") as reading:
            assert reading.started.table
            (message,) = (await reading.read()).messages
    assert (message.offset, message.key, message.payload) == (1, b"k", b"")


# -- commits ---------------------------------------------------------------------------------------


async def test_no_more_is_delivered_than_there_is_credit_for():
    async with gateway() as running:
        await kept(running)
        await running.publish("a", *[b"x"] * 10)
        async with running.reading("a", credit=4) as reading:
            assert len(await reading.payloads(4)) == 4
            assert (await reader(running))["in_flight"] == 4
            await reading.commit(1)
            assert len(await reading.payloads(2)) == 2
            await until(lambda: in_flight(running, 4))
            assert (await reader(running))["delivered"] == 6


async def in_flight(running, count):
    return (await reader(running))["in_flight"] == count


async def test_reading_alone_commits_nothing():
    """Neither does the end of the call; a commit moves the position exactly where it says."""
    async with gateway() as running:
        await kept(running)
        await running.publish("a", b"0", b"1", b"2")
        async with running.reading("a", name="it") as reading:
            assert await reading.payloads(3) == [b"0", b"1", b"2"]
        await until(lambda: is_away(running))
        assert (await reader(running))["committed"] == 0
        async with running.reading("a", name="it") as reading:
            again = await reading.read()
            assert reading.started.resumed
            assert (again.redelivered, len(again.messages)) == (True, 3)
            await reading.commit(1)
            await until(lambda: is_committed(running, 2))
        await until(lambda: is_away(running))
        async with running.reading("a", name="it") as reading:
            assert reading.started.start == 2
            assert await reading.payloads(1) == [b"2"]


async def is_away(running):
    found = await reader(running)
    return found is None or not found["connection"]


async def is_committed(running, offset):
    return (await reader(running))["committed"] == offset


async def test_an_offset_that_was_not_delivered_cannot_be_committed():
    async with gateway() as running:
        await kept(running)
        await running.publish("a", b"0", b"1")
        async with running.reading("a", name="it", credit=1) as reading:
            await reading.read()
            await reading.commit(1)
            await refused(reading.read(), grpc.StatusCode.OUT_OF_RANGE, "NOT_IN_FLIGHT")
        await until(lambda: is_away(running))
        assert await is_committed(running, 0)


async def test_a_caller_that_commits_no_more_still_gets_what_it_has_credit_for():
    async with gateway() as running:
        await kept(running)
        async with running.reading("a", credit=2) as reading:
            await reading.call.done_writing()
            await running.publish("a", b"0", b"1", b"2")
            assert await reading.payloads(2) == [b"0", b"1"]
            assert (await reader(running))["in_flight"] == 2


async def test_a_reader_that_stops_makes_the_gateway_hold_no_more_than_its_credit(monkeypatch):
    """In bytes, too, however many messages its credit would allow."""
    monkeypatch.setattr(service, "CREDIT_BYTES", 100_000)
    async with gateway() as running:
        await kept(running)
        async with running.reading("a", credit=10_000) as reading:
            for _ in range(20):
                await running.publish("a", *[bytes(10_000)] * 10)
            found = await reader(running)
            assert found["in_flight_bytes"] <= 100_000
            assert found["delivered"] + found["ahead"] == 200
            # What it has not read is all there.
            offset = -1
            while offset < 199:
                for message in (await reading.read()).messages:
                    assert message.offset == offset + 1
                    offset = message.offset
                await reading.commit(offset)


async def test_a_message_larger_than_all_bytes_of_credit_comes_alone(monkeypatch):
    monkeypatch.setattr(service, "CREDIT_BYTES", 1000)
    async with gateway() as running:
        await kept(running)
        await running.publish("a", bytes(5000))
        await running.publish("a", b"next")
        async with running.reading("a") as reading:
            assert await reading.payloads(1) == [bytes(5000)]
            await reading.commit(0)
            assert await reading.payloads(1) == [b"next"]


# -- what is missed --------------------------------------------------------------------------------


async def test_what_was_gone_is_reported_as_lag():
    async with gateway() as running:
        await kept(running, capacity=2)
        await running.publish("a", b"0", b"1")
        await running.publish("a", b"2", b"3")
        async with running.reading("a", offset=0) as reading:
            assert await reading.read() == pb.Lagged(start=0, end=2)
            assert await reading.payloads(2) == [b"2", b"3"]


async def test_deletions_that_were_missed_are_reported():
    async with gateway() as running:
        await kept(running, table=True, tombstones_ms=1000)
        await running.publish("a", b"x", key=b"k")
        async with running.reading("a", name="it") as reading:
            await reading.payloads(1)
            await reading.commit(0)
            await until(lambda: is_committed(running, 1))
        deletes = pb.PublishRequest(topic="a", messages=[pb.NewMessage(key=b"k", tombstone=True)])
        await anext(aiter(running.stub.Publish(iter([deletes]))))
        await running.publish("a", b"y", key=b"l")
        running.broker.clock.advance(2)
        running.broker.broker.sweep()
        async with running.reading("a", name="it") as reading:
            assert await reading.read() == pb.DeletionsMissed(below=2)
            assert await reading.payloads(1) == [b"y"]


# -- how it ends -----------------------------------------------------------------------------------


async def test_a_call_that_is_cancelled_ends_the_subscription():
    async with gateway() as running, running.reading("a") as reading:
        assert await is_reading(running)
        reading.call.cancel()
        await until(lambda: is_away(running))


async def test_a_deadline_ends_the_subscription():
    """It may pass before there is one, on a machine that is busy with something else."""
    async with gateway() as running:
        call = running.stub.Subscribe(timeout=0.2)
        with suppress(aio.AioRpcError):
            await call.write(pb.SubscribeRequest(start=pb.Start(topic="a")))
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: is_away(running))


async def is_reading(running):
    return await reader(running) is not None


async def test_a_client_that_vanishes_ends_its_subscriptions():
    async with (
        gateway() as running,
        running.connected() as (stub, channel),
        Reading(stub, pb.Start(topic="a")),
    ):
        await channel.close()
        await until(lambda: is_away(running))


async def test_a_deleted_topic_ends_the_call():
    async with gateway() as running, running.reading("a") as reading:
        await running.stub.DeleteTopic(pb.DeleteTopicRequest(topic="a"))
        await refused(reading.read(), grpc.StatusCode.NOT_FOUND, "DELETED")


async def test_a_second_reader_of_a_name_takes_over():
    async with (
        gateway() as running,
        running.reading("a", name="it") as first,
        running.reading("a", name="it"),
    ):
        await refused(first.read(), grpc.StatusCode.ABORTED, "TAKEN_OVER")


@pytest.mark.parametrize(
    ("start", "status", "code"),
    [
        ({"offset": 1}, grpc.StatusCode.OUT_OF_RANGE, "OFFSET_AHEAD"),
        ({"epoch": 1}, grpc.StatusCode.FAILED_PRECONDITION, "EPOCH_CHANGED"),
        ({"credit": 10_001}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"time_us": 2**64 - 1}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ({"name": "x" * 300}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_a_start_that_cannot_be_ends_the_call(start, status, code):
    async with gateway() as running:
        await kept(running)
        call = running.stub.Subscribe(
            iter([pb.SubscribeRequest(start=pb.Start(topic="a", **start))])
        )
        await refused(call.read(), status, code)


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [pb.SubscribeRequest()],
        [pb.SubscribeRequest(commit=pb.Commit(offset=0))],
        [pb.SubscribeRequest(start=pb.Start(topic="a"))] * 2,
        [pb.SubscribeRequest(start=pb.Start(topic="a")), pb.SubscribeRequest()],
    ],
)
async def test_requests_in_another_order_end_the_call(requests):
    async with gateway() as running:
        call = running.stub.Subscribe(iter(requests))
        error = await refused(all_of(call), grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
        assert "request of Subscribe" in error.details()


async def all_of(call):
    """Read to the end."""
    while await call.read() is not aio.EOF:
        pass


# -- when the gateway loses the broker -------------------------------------------------------------


async def lose_the_broker(running):
    """End the gateway's connection of its callers; it makes another one."""
    for connection in await running.client.connections():
        if connection["client"] == "zaichik grpc":
            await running.client.disconnect(connection["connection"])


async def test_a_call_goes_on_over_the_gateways_next_connection():
    """Nothing is delivered twice or left out, and what was not committed still counts."""
    async with gateway() as running:
        await kept(running)
        await running.publish("a", *[b"%d" % number for number in range(6)])
        async with running.reading("a", name="it", credit=4) as reading:
            assert await reading.payloads(4) == [b"0", b"1", b"2", b"3"]
            await reading.commit(1)
            assert await reading.payloads(2) == [b"4", b"5"]
            await lose_the_broker(running)
            await running.publish("a", b"6", b"7")
            await reading.commit(3)
            assert await reading.payloads(2) == [b"6", b"7"]
            await reading.commit(7)
            await until(lambda: is_committed(running, 8))


async def test_a_publish_goes_on_over_it_too_and_stores_nothing_twice():
    async with gateway() as running:
        await kept(running)
        call = running.stub.Publish()
        for offset in range(20):
            await call.write(pb.PublishRequest(topic="a", messages=[pb.NewMessage(payload=b"x")]))
            if offset % 5 == 2:
                await lose_the_broker(running)
            assert (await call.read()).first_offset == offset
        call.cancel()
        assert (await running.client.topic("a"))["next_offset"] == 20
