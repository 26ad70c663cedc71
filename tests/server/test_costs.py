"""What a message costs a connection in system calls, and a durable one in polls of the event loop;
tests/core/test_costs.py has what it costs the core.
"""

import asyncio
import socket
import statistics
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from conversation import batch
from limit_probes import MemoryListener
from peer import GUARD
from sim_disk import SimDisk

import zaichik
import zaichik_protocol
from zaichik.core.broker import Broker
from zaichik.net.socket_stream import SocketStream
from zaichik.server.running import running_broker
from zaichik.server.server import Server
from zaichik.storage.store import Store
from zaichik_protocol import (
    CreateTopic,
    FrameDecoder,
    Hello,
    NeedData,
    Publish,
    Setting,
    Subscribe,
    encode,
)

pytestmark = pytest.mark.anyio

ECHOES = 50
PACKAGES = tuple(str(Path(package.__file__).parent) for package in (zaichik, zaichik_protocol))


@pytest.fixture
def system_calls(monkeypatch):
    """How often each method was called, of those that are one system call each."""
    calls = Counter()

    def count(name, real):
        def counted(*arguments):
            calls[name] += 1
            return real(*arguments)

        monkeypatch.setattr(SocketStream, name, counted)

    for name in ("receive_nowait", "send_pieces_nowait"):
        count(name, getattr(SocketStream, name))
    return calls


async def test_a_message_that_is_echoed_takes_two_system_calls(system_calls):
    """The reply to the publish and the message itself leave together."""
    decoder = FrameDecoder.for_client()

    async def ask(stream, request, replies):
        await stream.send(encode(request))
        for _ in range(replies):
            with anyio.fail_after(GUARD):
                while isinstance(decoder.next_frame(), NeedData):
                    decoder.receive_data(await stream.receive())

    async with (
        running_broker() as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
    ):
        await ask(stream, Hello(1), 1)
        await ask(stream, Subscribe(2, "t", credit=1000, credit_bytes=2**20), 1)
        system_calls.clear()
        for sequence in range(ECHOES):
            await ask(stream, Publish(3, "t", batch(b"m"), producer=1, sequence=sequence), 2)
        assert system_calls == {"receive_nowait": ECHOES, "send_pieces_nowait": ECHOES}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.usefixtures("patchable")
async def test_a_lone_publish_takes_75_calls():
    """Of Python functions of the project's: from the socket that is readable to the reply."""
    calls = Counter()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            calls[frame.f_code.co_qualname] += 1

    requests = [
        encode(Publish(3, "t", batch(b"m"), producer=1, sequence=number))
        for number in range(ECHOES + 1)
    ]
    async with (
        running_broker() as server,
        await anyio.connect_tcp(server.host, server.port) as stream,
    ):
        for request in (encode(Hello(1)), requests.pop(0)):
            await stream.send(request)
            await stream.receive()
        counts = []
        for request in requests:
            calls.clear()
            sys.setprofile(profile)
            try:
                await stream.send(request)
                await stream.receive()
            finally:
                sys.setprofile(None)
            counts.append(calls.total())
    # Now and then, the scheduler gives a turn an iteration later.
    assert statistics.median(counts) <= 75, calls.most_common()
    assert calls["TopicController.publish"] == 1


# -- durable messages --------------------------------------------------------------------------

WARM_UP = [Hello(1), CreateTopic(2, "t", ((Setting.DURABLE, 1),))]


class PatientDisk(SimDisk):
    """A disk whose calls end when they may."""

    def __init__(self):
        super().__init__()
        self.may_end = threading.Event()
        self.under_way = self._wait

    def _wait(self, *_):
        assert self.may_end.wait(GUARD)


class LoneClient:
    """Sends one request after the other, each when it has the reply to the one before.

    It acts when the event loop is about to wait, and lets the disk go on then, too. So no count
    depends on when a thread comes to run.

    Args:
        peer: its socket.
        disk: the broker's.
        requests: what it sends.

    Attributes:
        counts: of the event loop's polls and of the functions that it was asked to call.
        before: the counts when each request was sent, and at the end.
        has_finished: set at the end.
    """

    def __init__(self, peer, disk, requests):
        self.counts = Counter()
        self.before = []
        self.has_finished = asyncio.Event()
        self._peer, self._disk, self._requests = peer, disk, [*requests]
        self._is_answered = True

    def watch(self, monkeypatch, loop):
        """Count, and be called, from now on."""
        select = loop._selector.select

        def poll(timeout):
            self.counts["polls"] += 1
            if timeout != 0 and not self.has_finished.is_set():
                self._act()
            if self.has_finished.is_set():
                timeout = 0  # the task that waits for this can run now
            return select(timeout)

        monkeypatch.setattr(loop._selector, "select", poll)
        for name in ("call_soon", "call_soon_threadsafe"):
            monkeypatch.setattr(loop, name, self._counted(name, getattr(loop, name)))

    def _counted(self, name, method):
        def counted(*arguments, **more):
            self.counts[name] += 1
            return method(*arguments, **more)

        return counted

    def _act(self):
        with suppress(BlockingIOError):
            self._is_answered = self._is_answered or bool(self._peer.recv(2**16))
        if not self._is_answered:
            self._disk.may_end.set()
            return
        self.before.append(self.counts.copy())
        if self._requests:
            self._disk.may_end.clear()
            self._is_answered = False
            self._peer.sendall(encode(self._requests.pop(0)))
        else:
            self._disk.may_end.set()
            self.has_finished.set()


class OneConnection(MemoryListener):
    """Accepts one stream, without a timer."""

    async def serve(self, handler, tasks, turn):
        (stream,) = self.peers
        await turn()
        tasks.start_soon(handler, stream, "memory:0")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_lone_durable_publish_takes_three_polls_and_wakes_no_task(monkeypatch, patchable):
    """The request comes, its group is handed to a thread, the thread is done."""
    disk = PatientDisk()
    disk.may_end.set()
    store = Store(disk)
    # What one end sends is there at once; TCP may take its time, on a busy machine.
    peer, accepted = socket.socketpair()
    listener = OneConnection([SocketStream(accepted)])
    server = Server(Broker(logs=store), listener, store)
    publishes = [Publish(3, "t", batch(b"m"), producer=1, sequence=number) for number in range(52)]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        with peer, anyio.fail_after(GUARD):
            peer.setblocking(False)
            client = LoneClient(peer, disk, [*WARM_UP, *publishes])
            client.watch(monkeypatch, asyncio.get_running_loop())
            await client.has_finished.wait()
        server.stop()
    # The first two begin a file, and a thread.
    cost = client.before[-1] - client.before[-51]
    assert cost == {"polls": 50 * 3, "call_soon": 50, "call_soon_threadsafe": 50}
