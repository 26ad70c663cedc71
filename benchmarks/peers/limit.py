"""The limit: the same bytes through a bare relay in Python, recv → send, with no messages in it.

Run as a program it is the relay. A connection's first byte tells what it is: a reader, a writer,
both at once (it gets its own bytes back) or a late reader, which is sent as many bytes as it asks
for out of the relay's memory.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
import selectors
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Job, Link, Peer, Receipt

PIECE = 64 * 1024  # bytes a send
READ = 256 * 1024
BYTES = 1 << 30  # enough for a run to last
READER, WRITER, BOTH, LATE = b"r", b"w", b"b", b"l"


class StreamLink(Link):
    """A blocking socket in a thread: there is nothing faster in plain Python.

    Bytes are counted, and nothing else.
    """

    def __init__(self, job: Job, stream: socket.socket) -> None:
        self._job = job
        self._socket = stream
        self._thread = ThreadPoolExecutor(1)

    async def subscribe(self, receipt: Receipt) -> None:
        late = self._job.role == "replay"
        size = receipt.expected * self._job.size
        self._socket.sendall(LATE + size.to_bytes(8) if late else READER)
        self._socket.recv(1)

    async def receive(self, receipt: Receipt) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._receive, receipt)

    def _receive(self, receipt: Receipt) -> None:
        expected, size = receipt.expected * self._job.size, 0
        buffer = bytearray(READ)
        while size < expected and (count := self._socket.recv_into(buffer)):
            size += count
        receipt.count = size // self._job.size

    async def stream(self, payload: bytes, messages: int) -> None:
        if self._job.role == "publisher":  # what a late reader is sent need not be published
            self._socket.sendall(WRITER)
            await asyncio.get_running_loop().run_in_executor(
                self._thread, self._stream, len(payload) * messages
            )

    def _stream(self, size: int) -> None:
        send_zeros(self._socket, size)


class EchoLink(Link, asyncio.Protocol):
    """Messages of one size that come back; no frame, no number, no topic."""

    def __init__(self, job: Job) -> None:
        self._size = job.size
        self._rest = b""
        self._receipt: Receipt | None = None
        self._unanswered: deque[asyncio.Future[None]] = deque()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(BOTH)

    def data_received(self, data: bytes) -> None:
        data, size = self._rest + data, self._size
        whole = len(data) - len(data) % size
        for begin in range(0, whole, size):
            if self._receipt is not None:
                self._receipt.take(data[begin : begin + size])
            else:
                self._unanswered.popleft().set_result(None)
        self._rest = data[whole:]

    async def subscribe(self, receipt: Receipt) -> None:
        self._receipt = receipt

    async def stream(self, payload: bytes, messages: int) -> None:
        raise NotImplementedError

    async def send(self, payloads: Sequence[bytes]) -> None:
        self._transport.write(b"".join(payloads))

    async def publish(self, payload: bytes) -> None:
        answer = asyncio.get_running_loop().create_future()
        self._unanswered.append(answer)
        self._transport.write(payload)
        await answer


class LimitPeer(Peer):
    """Not a broker: what is left of one if everything is taken away but the bytes and the
    processes.
    """

    label = "bare relay"
    keeps = "nothing is kept"
    batching = "64 KiB a send; one message a write where each is awaited or timed"
    is_limit = True
    scenarios = frozenset({*Peer.scenarios, "keepfirst", "replay"})

    def messages(self, job: Job) -> int:
        """As many as give a measurable number of bytes, for there is no cost per message."""
        return min(BYTES, job.messages * 1024) // job.size

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        return [[sys.executable, "-m", "benchmarks.peers.limit", str(port)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        if job.role in ("acknowledged", "roundtrip"):
            loop = asyncio.get_running_loop()
            transport, link = await loop.create_connection(
                lambda: EchoLink(job), "127.0.0.1", job.port
            )
            yield link
            transport.close()
        else:
            with socket.create_connection(("127.0.0.1", job.port)) as stream:
                yield StreamLink(job, stream)


def send_zeros(stream: socket.socket, size: int) -> None:
    """As many bytes as are asked for, a piece at a time."""
    piece = memoryview(bytes(PIECE))
    while size > 0:
        stream.sendall(piece[: min(size, PIECE)])
        size -= PIECE


def relay(port: int) -> None:
    """Move what the writers send to every reader, for ever."""
    readers: list[socket.socket] = []
    buffer = memoryview(bytearray(READ))
    with (
        socket.create_server(("127.0.0.1", port)) as listener,
        selectors.DefaultSelector() as selector,
    ):
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                source: Any = key.fileobj
                if source is listener:
                    greet(listener.accept()[0], readers, selector)
                elif count := source.recv_into(buffer):
                    for target in key.data:
                        target.sendall(buffer[:count])
                else:
                    selector.unregister(source)
                    source.close()


def greet(
    stream: socket.socket, readers: list[socket.socket], selector: selectors.BaseSelector
) -> None:
    """Let a connection be what it says it is."""
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    match stream.recv(1):
        case b"r":
            readers.append(stream)
            stream.sendall(b".")
        case b"w":
            selector.register(stream, selectors.EVENT_READ, readers)
        case b"b":
            selector.register(stream, selectors.EVENT_READ, [stream])
        case b"l":
            size = int.from_bytes(stream.recv(8))
            stream.sendall(b".")
            send_zeros(stream, size)
        case _:  # somebody only looked whether there is a server
            stream.close()


PEER = LimitPeer()

if __name__ == "__main__":
    relay(int(sys.argv[1]))
