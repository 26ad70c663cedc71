"""What the client's hot paths cost, in what can be counted exactly: calls, system calls, objects, copies.

Times differ from run to run; these numbers do not. A bound is what was counted when it was set, so a test that fails
says that a layer was added. If that is worth it, raise the bound, with the reason in the commit. If a count has fallen,
lower the bound.

The broker is a function that the socket calls when something was sent: its reply is there before the client's event
loop looks for it, and nothing depends on when a thread or another process comes to run.
"""

import gc
import socket
import sys
import tracemalloc
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from struct import unpack_from

import anyio
import pytest
from brokers import GUARD, messages

import zaichik
import zaichik_protocol
from zaichik.build import is_compiled
from zaichik.client import client as client_module
from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import (
    Batch,
    Close,
    Closed,
    Commit,
    Hello,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    Unsubscribe,
    Welcome,
    encode,
)
from zaichik_protocol.hot import HEADER
from zaichik_protocol.layout import HEADER_SIZE

pytestmark = pytest.mark.anyio

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (zaichik, zaichik_protocol))


@pytest.fixture
def anyio_backend():
    """Only asyncio: trio's tasks run the same functions, but are woken otherwise."""
    return "asyncio"


class Meter:
    """Counts what the client does while it runs.

    Attributes:
        calls: calls of Python functions of the project's, by name. To resume a generator or coroutine is one, too.
        sockets: system calls on the socket, by name.
    """

    def __init__(self):
        self.calls = Counter()
        self.sockets = Counter()
        self._is_running = False

    @contextmanager
    def running(self):
        """Count as long as the block lasts."""
        sys.setprofile(self._profile)
        self._is_running = True
        try:
            yield
        finally:
            self._is_running = False
            sys.setprofile(None)

    @contextmanager
    def paused(self):
        """Count nothing as long as the block lasts."""
        was_running, self._is_running = self._is_running, False
        try:
            yield
        finally:
            self._is_running = was_running

    def _profile(self, frame, event, _argument):
        if event == "call" and self._is_running and frame.f_code.co_filename.startswith(PACKAGES):
            self.calls[frame.f_code.co_qualname] += 1

    def system_call(self, name):
        if self._is_running:
            self.sockets[name] += 1


class MeteredSocket(socket.socket):
    """A client's end of a connection to a broker that answers while the client sends."""

    def __init__(self, meter):
        client, self._broker = socket.socketpair()
        super().__init__(fileno=client.detach())
        self._broker.setblocking(False)
        self._meter = meter
        self._received = bytearray(2**21)  # used again for each request, so that no memory is allocated for any
        self._size = 0
        self.requests = Counter()

    def deliver(self, *frames):
        self._broker.sendall(b"".join(map(encode, frames)))

    def close(self):
        self._broker.close()
        super().close()

    def recv(self, *arguments):
        self._meter.system_call("recv")
        return super().recv(*arguments)

    def send(self, *arguments):
        self._meter.system_call("send")
        return self._after(super().send(*arguments))

    def sendmsg(self, *arguments):
        self._meter.system_call("sendmsg")
        return self._after(super().sendmsg(*arguments))

    def _after(self, taken):
        with self._meter.paused():
            self._size += self._broker.recv_into(memoryview(self._received)[self._size :])
            while self._size >= HEADER_SIZE:
                length, code, _, _, number = HEADER.unpack_from(self._received)
                end = 4 + length
                if self._size < end:
                    break
                self._answer(code, number, end)
                view = memoryview(self._received)
                view[: self._size - end] = view[end : self._size]
                self._size -= end
        return taken

    def _answer(self, code, number, end):
        self.requests[code] += 1
        match code:
            case Hello.TYPE:
                self.deliver(Welcome(number, 1, 0, 7, 2**21, 8192, 2**20, 10**6, 0, "metered"))
            case Publish.TYPE:
                (topic_size,) = unpack_from("<16xH", self._received, HEADER_SIZE)
                (count,) = unpack_from("<I", self._received, HEADER_SIZE + 18 + topic_size)
                self.deliver(Published(number, 0, count, 0, 0))
            case Subscribe.TYPE:
                self.deliver(Subscribed(number, 1, 0, 0, 0))
            case Close.TYPE:
                self.deliver(Closed(number))
            case _:
                assert code in (Commit.TYPE, Unsubscribe.TYPE)


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


def assert_at_most(meter, calls, **system_calls):
    """The counts are printed in full, by name: a new name is the layer that was added."""
    assert dict(meter.sockets) == system_calls
    assert meter.calls.total() <= calls, sorted(meter.calls.items(), key=lambda item: -item[1])


@contextmanager
def objects():
    """A function that counts the objects the garbage collector has to look at. It looks at none meanwhile.

    A collection forgets empty dicts, which would count when they are replaced; and a task that waits for the event loop
    holds on to something else than one that waits for a reply. So counts are compared only if the client has done the
    same thing just before each; and not to the last object, since threads that Spark's tests have left in this process
    make some now and then.
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


# -- publishing ----------------------------------------------------------------------------------------------


async def test_an_awaited_publish_takes_54_calls_and_a_system_call_each_way(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        await client.publish("t", b"x")
        with meter.running():
            for _ in range(10):
                await client.publish("t", b"x")
    assert_at_most(meter, 10 * 54, sendmsg=10, recv=10)


async def test_an_awaited_batch_takes_47_calls_whatever_its_size(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        batch = Batch.of([(b"", b"x")] * 1000)
        await client.publish_batch("t", batch)
        with meter.running():
            for _ in range(10):
                await client.publish_batch("t", batch)
    assert_at_most(meter, 10 * 47, sendmsg=10, recv=10)


async def test_calls_of_many_tasks_take_12_calls_each_and_share_the_rest(monkeypatch):
    async with metered(monkeypatch) as (meter, _, client):
        await client.publish("t", b"x")
        with meter.running():
            async with anyio.create_task_group() as tasks:
                for _ in range(101):
                    tasks.start_soon(client.publish, "t", b"x")
    assert_at_most(meter, 101 * 12 + 90, sendmsg=2, recv=1)


async def test_a_stream_takes_one_call_for_a_message_and_48_for_a_batch(monkeypatch):
    async with metered(monkeypatch) as (meter, raw, client), client.producer("t", max_batch=100) as producer:
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


# -- receiving -----------------------------------------------------------------------------------------------


def ten_frames():
    return [messages(base, *[b"x"] * 500) for base in range(0, 5000, 500)]


async def test_a_message_takes_two_calls_and_a_frame_32(monkeypatch):
    async with metered(monkeypatch) as (meter, raw, client), client.subscribe("t", credit=20_000) as subscription:
        raw.deliver(*ten_frames())
        with meter.running():
            async for message in subscription:
                if message.offset == 4999:
                    break
    assert_at_most(meter, 5000 * 2 + 10 * 32, recv=1)


async def test_in_pieces_a_message_takes_one_call_and_a_frame_35(monkeypatch):
    async with metered(monkeypatch) as (meter, raw, client), client.subscribe("t", credit=20_000) as subscription:
        raw.deliver(*ten_frames())
        with meter.running():
            async for piece in subscription.pieces():
                if piece[-1].offset == 4999:
                    break
    assert_at_most(meter, 5000 + 10 * 35, recv=1)


async def test_a_conversation_takes_53_calls_and_one_system_call_for_a_message(monkeypatch):
    """The commits of readers that wait are put off, so that most messages cost none."""
    async with metered(monkeypatch) as (meter, raw, client), client.subscribe("t") as subscription:
        with meter.running():
            for base in range(100):
                with meter.paused():
                    raw.deliver(messages(base, b"x"))
                await anext(subscription)
    assert_at_most(meter, 100 * 53, recv=100)


async def test_a_frame_that_waits_is_few_objects_and_a_message_is_one(monkeypatch):
    async with metered(monkeypatch) as (_, raw, client), client.subscribe("t", credit=20_000) as subscription:
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
    """As what was received, and as the batch cut out of that; the payload is cut out of the batch when that is gone.

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
