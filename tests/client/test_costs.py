"""What the client's hot paths cost, in what can be counted exactly: calls, system calls, objects,
copies.

Times differ from run to run; these numbers do not. A bound is what was counted when it was set, so
a test that fails says that a layer was added. If that is worth it, raise the bound, with the reason
in the commit. If a count has fallen, lower the bound.

The broker is a function that the socket calls when something was sent: its reply is there before
the client's event loop looks for it, and nothing depends on when a thread or another process comes
to run.
"""

import gc
import tracemalloc
from contextlib import asynccontextmanager, contextmanager

import anyio
import pytest
from brokers import GUARD, messages
from meter import Meter, MeteredSocket, assert_at_most

import zaichik
from zaichik.base.build import is_compiled
from zaichik.client import client as client_module
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import (
    Batch,
    Publish,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    """Only asyncio: trio's tasks run the same functions, but are woken otherwise."""
    return "asyncio"


@asynccontextmanager
async def metered(monkeypatch):
    """A meter, the socket, and a client over it that does nothing unless told to."""
    meter = Meter()
    raw = MeteredSocket(meter)

    async def connect(_host, _port):
        return SocketStream(raw)

    monkeypatch.setattr(SocketStream, "connect", connect)
    monkeypatch.setattr(client_module, "WAITING_SECONDS", 3600)
    with anyio.fail_after(GUARD):
        async with zaichik.connect(reconnect=0) as client:
            yield meter, raw, client


@contextmanager
def objects():
    """A function that counts the objects the garbage collector has to look at.

    It looks at none meanwhile.

    A collection forgets empty dicts, which would count when they are replaced; and a task that
    waits for the event loop holds on to something else than one that waits for a reply. So counts
    are compared only if the client has done the same thing just before each; and not to the last
    object, since threads that Spark's tests have left in this process make some now and then.
    """
    gc.collect()
    gc.disable()
    try:
        yield lambda: len(gc.get_objects())
    finally:
        gc.enable()


@contextmanager
def peak():
    """A list that gets the most bytes that were allocated meanwhile, at one time."""
    tracemalloc.start()
    try:
        bytes_at_most = []
        yield bytes_at_most
        bytes_at_most.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


# -- publishing ----------------------------------------------------------------------------------


async def test_an_awaited_publish_takes_46_calls_and_a_system_call_each_way(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        await client.publish("t", b"x")
        with meter.running():
            for _ in range(10):
                await client.publish("t", b"x")
    assert_at_most(meter, 10 * 46, sendmsg=10, recv=10)


async def test_an_awaited_batch_takes_44_calls_whatever_its_size(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        batch = Batch.of([(b"", b"x")] * 1000)
        await client.publish_batch("t", batch)
        with meter.running():
            for _ in range(10):
                await client.publish_batch("t", batch)
    assert_at_most(meter, 10 * 44, sendmsg=10, recv=10)


async def test_calls_of_many_tasks_take_12_calls_each_and_share_the_rest(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        await client.publish("t", b"x")
        with meter.running():
            async with anyio.create_task_group() as tasks:
                for _ in range(101):
                    tasks.start_soon(client.publish, "t", b"x")
    assert_at_most(meter, 101 * 12 + 90, sendmsg=2, recv=1)


async def test_a_stream_takes_one_call_for_a_message_and_48_for_a_batch(monkeypatch):
    async with (
        metered(monkeypatch) as (meter, raw, client),
        client.producer("t", max_batch=100) as producer,
    ):
        for _ in range(200):
            await producer.send(b"x")
        await producer.flush()
        raw.requests.clear()
        with meter.running():
            for _ in range(1000):
                await producer.send(b"x")
            await producer.flush()
        batches = raw.requests[Publish.TYPE]
    assert 10 <= batches <= 12
    assert meter.calls["Producer.send"] <= 1000 + batches
    assert meter.calls.total() <= 1000 + 48 * batches
    assert meter.sockets.total() <= 2 * batches


async def test_publishing_leaves_nothing_for_the_garbage_collector(monkeypatch):
    async with metered(monkeypatch) as (_, _, client):
        with objects() as count:
            await client.publish("t", b"x")
            before = count()
            for _ in range(1000):
                await client.publish("t", b"x")
            after = count()
    assert after - before < 10


async def test_a_batch_is_sent_without_a_copy_of_it(monkeypatch):
    """Although the socket takes it in several parts."""
    async with metered(monkeypatch) as (meter, _, client):
        batch = Batch.of([(b"", bytes(2**20))])
        await client.publish_batch("t", batch)
        with peak() as most, meter.running():
            await client.publish_batch("t", batch)
    assert meter.sockets["sendmsg"] > 1
    assert most[0] < 2**19  # most of it is what is allocated to receive the reply


async def test_a_message_of_a_stream_is_copied_once(monkeypatch):
    """Into its batch."""
    async with metered(monkeypatch) as (_, _, client), client.producer("t") as producer:
        payload = bytes(2**20)
        await producer.send(payload)
        await producer.flush()
        with peak() as most:
            await producer.send(payload)
            await producer.flush()
    assert 2**20 < most[0] < 2**20 + 2**19


# -- receiving -----------------------------------------------------------------------------------


def ten_frames():
    return [messages(base, *[b"x"] * 500) for base in range(0, 5000, 500)]


async def test_a_message_takes_two_calls_and_a_frame_32(monkeypatch):
    async with (
        metered(monkeypatch) as (meter, raw, client),
        client.subscribe("t", credit=20_000) as subscription,
    ):
        raw.deliver(*ten_frames())
        with meter.running():
            async for message in subscription:
                if message.offset == 4999:
                    break
    assert_at_most(meter, 5000 * 2 + 10 * 32, recv=1)


async def test_in_pieces_a_message_takes_one_call_and_a_frame_35(monkeypatch):
    async with (
        metered(monkeypatch) as (meter, raw, client),
        client.subscribe("t", credit=20_000) as subscription,
    ):
        raw.deliver(*ten_frames())
        with meter.running():
            async for piece in subscription.pieces():
                if piece[-1].offset == 4999:
                    break
    assert_at_most(meter, 5000 + 10 * 35, recv=1)


async def test_a_conversation_takes_42_calls_and_one_system_call_for_a_message(monkeypatch):
    """The commits of readers that wait are put off, so that most messages cost none."""
    async with metered(monkeypatch) as (meter, raw, client), client.subscribe("t") as subscription:
        with meter.running():
            for base in range(100):
                with meter.paused():
                    raw.deliver(messages(base, b"x"))
                await anext(subscription)
    assert_at_most(meter, 100 * 42, recv=100)


async def test_a_commit_without_waiting_takes_seven_calls(monkeypatch):
    async with (
        metered(monkeypatch) as (meter, raw, client),
        client.subscribe("t", credit=1000, commit="explicit") as subscription,
    ):
        raw.deliver(messages(0, *[b"x"] * 1000))
        await anext(subscription)
        subscription.commit_nowait(0)
        for _ in range(999):
            await anext(subscription)
        with meter.running():
            for offset in range(1, 1000):
                subscription.commit_nowait(offset)
    # Twice it is half of the credit.
    assert_at_most(meter, 999 * 7 + 30, sendmsg=2)


async def test_a_frame_that_waits_is_few_objects_and_a_message_is_one(monkeypatch):
    async with (
        metered(monkeypatch) as (_, raw, client),
        client.subscribe("t", credit=20_000) as subscription,
    ):
        raw.deliver(messages(0, b"x"))
        await anext(subscription)
        pieces = subscription.pieces()
        with objects() as count:
            await client.publish("t", b"x")
            before = count()
            raw.deliver(*(messages(base, *[b"x"] * 500) for base in range(1, 5001, 500)))
            await client.publish("t", b"x")  # the reply comes after them
            waiting = count()
            kept = [await anext(pieces) for _ in range(10)]
            await client.publish("t", b"x")
            taken = count()
        assert waiting - before <= 10 * 2 + 5
        assert sum(map(len, kept)) == 5000
        assert taken - before <= 5000 + 3 * 10


async def test_a_large_message_is_there_twice_at_most(monkeypatch):
    """As what was received, and as the batch cut out of that; the payload is cut out of the batch
    when that is gone.

    Compiled code keeps some temporary values until a function ends: there it is three times.
    """
    size, times = 180_000, 3 if is_compiled() else 2
    async with metered(monkeypatch) as (_, raw, client), client.subscribe("t") as subscription:
        raw.deliver(messages(0, bytes(size)))
        await anext(subscription)
        frame = messages(1, bytes(size))
        with peak() as most:
            raw.deliver(frame)
            message = await anext(subscription)
    assert len(message.payload) == size
    assert most[0] < (times + 0.5) * size
