"""Mosquitto with paho-mqtt on the event loop: QoS 0, and QoS 1 where an acknowledgement is asked
for.

paho's own loop is a thread; its documented hooks put it on an event loop instead, which avoids
contention between threads for the interpreter, and makes many subscribers tasks, as with the other
clients.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import CHUNK, Job, Link, Peer, Receipt

CONFIG = """
listener {port} 127.0.0.1
allow_anonymous true
persistence false
log_type error
# Nothing is dropped for a slow reader, and small packets leave at once.
max_queued_messages 0
max_inflight_messages 0
set_tcp_nodelay true
"""


class MosquittoLink(Link):
    """A paho client, read and written when its socket is ready."""

    def __init__(self, job: Job) -> None:
        self._loop = asyncio.get_running_loop()
        self._job = job
        self._connected = asyncio.Event()
        self._subscribed = asyncio.Event()
        self._writable = asyncio.Event()
        self._received = 0  # messages
        self._unacknowledged: dict[int, asyncio.Future[None]] = {}
        paho = import_module("paho.mqtt.client")
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self.client: Any = client
        client.max_inflight_messages_set(0)
        client.max_queued_messages_set(0)
        client.on_socket_open = lambda _client, _data, sock: self._loop.add_reader(sock, self._read)
        client.on_socket_close = lambda _client, _data, sock: self._loop.remove_reader(sock)
        client.on_socket_register_write = lambda _client, _data, sock: self._loop.add_writer(
            sock, self._write
        )
        client.on_socket_unregister_write = self._unregister
        client.on_connect = lambda *_: self._connected.set()
        client.on_subscribe = lambda *_: self._subscribed.set()
        client.on_publish = lambda _client, _data, number, *_: self._acknowledge(number)

    def _read(self) -> None:
        """All that has come, up to a bound: by itself paho handles one packet a call, each a turn
        of the loop.
        """
        for _ in range(CHUNK):
            before = self._received
            self.client.loop_read()
            if self._received == before:
                break

    def _write(self) -> None:
        self.client.loop_write()

    def _unregister(self, _client: Any, _data: Any, sock: Any) -> None:
        self._loop.remove_writer(sock)
        self._writable.set()

    def _acknowledge(self, number: int) -> None:
        future = self._unacknowledged.pop(number, None)
        if future is not None and not future.done():
            future.set_result(None)

    async def connect(self) -> None:
        """Returns when the broker has agreed."""
        self.client.connect("127.0.0.1", self._job.port, keepalive=600)
        await self._connected.wait()

    async def _drain(self) -> None:
        """Wait until everything queued is with the kernel."""
        while self.client.want_write():
            self._writable.clear()
            await self._writable.wait()

    async def subscribe(self, receipt: Receipt) -> None:
        take = receipt.take

        def on_message(_client: Any, _data: Any, message: Any) -> None:
            self._received += 1
            take(message.payload)

        self.client.on_message = on_message
        self.client.subscribe(self._job.topic, qos=0)
        await self._subscribed.wait()

    async def stream(self, payload: bytes, messages: int) -> None:
        publish, topic = self.client.publish, self._job.topic
        for first in range(0, messages, CHUNK):
            for _ in range(min(CHUNK, messages - first)):
                publish(topic, payload)
            await self._drain()
            await asyncio.sleep(0)  # the other publishers of this process have their turn

    async def send(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self.client.publish(self._job.topic, payload)

    async def publish(self, payload: bytes) -> None:
        number = self.client.publish(self._job.topic, payload, qos=1).mid
        self._unacknowledged[number] = future = self._loop.create_future()
        await future


class MosquittoPeer(Peer):
    """Mosquitto, nothing on disk."""

    label = "Mosquitto, paho-mqtt"
    keeps = "nothing is kept (QoS 0; QoS 1 where acknowledged; persistence off)"
    batching = "one packet a message; the socket is drained every 1000"
    program = "mosquitto"
    tells_version = "-h"
    modules = ("paho.mqtt",)
    share = 0.05
    scenarios = frozenset({*Peer.scenarios, "calls", "script"})

    def missing(self) -> str:
        with suppress(ModuleNotFoundError):  # find_spec raises where the parent package is missing
            return super().missing()
        return "the Python package paho-mqtt"

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        config = directory / "mosquitto.conf"
        config.write_text(CONFIG.format(port=port), encoding="utf-8")
        return [[self.program, "-c", str(config)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        link = MosquittoLink(job)
        await link.connect()
        try:
            yield link
        finally:
            link.client.disconnect()

    @contextmanager
    def caller(self, job: Job) -> Iterator[Callable[[bytes], object]]:
        paho = import_module("paho.mqtt.client")
        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", job.port, keepalive=600)
        client.loop_start()
        try:
            yield lambda payload: client.publish(job.topic, payload, qos=1).wait_for_publish()
        finally:
            client.disconnect()
            client.loop_stop()

    def script(self, job: Job) -> str:
        return f"""
from paho.mqtt import publish
publish.single({job.topic!r}, b"message", qos=1, port={job.port})
"""


PEER = MosquittoPeer()
