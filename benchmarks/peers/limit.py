"""The limit: the same bytes through a bare relay in Python, recv → send, with no messages in it.

Run as a program it is the relay: the first connection is the reader, the second one is the writer.
"""

# ruff: noqa: D102 - what the methods promise is said in peer.py

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.peers.peer import Job, Link, Peer, Receipt

PIECE = 64 * 1024  # bytes a send
READ = 256 * 1024
BYTES = 1 << 30  # enough for a run to last


class LimitLink(Link):
    """A blocking socket: there is nothing faster in plain Python. The first byte tells the relay who it is."""

    def __init__(self, job: Job, stream: socket.socket) -> None:
        self._size = job.size
        self._socket = stream

    async def subscribe(self, receipt: Receipt) -> None:
        self._socket.sendall(b"r")
        self._socket.recv(1)

    async def receive(self, receipt: Receipt) -> None:
        await asyncio.to_thread(self._receive, receipt)

    def _receive(self, receipt: Receipt) -> None:
        expected, size = receipt.expected * self._size, 0
        buffer = bytearray(READ)
        while size < expected and (count := self._socket.recv_into(buffer)):
            size += count
        receipt.count = size // self._size

    async def stream(self, payload: bytes, messages: int) -> None:
        self._socket.sendall(b"w")
        left, piece = len(payload) * messages, memoryview(bytes(PIECE))
        while left > 0:
            self._socket.sendall(piece[: min(left, PIECE)])
            left -= PIECE


class LimitPeer(Peer):
    """Not a broker: what is left of one if everything is taken away but the bytes and the three processes."""

    label = "bare relay (the limit)"
    uvloop = False
    scenarios = frozenset({"throughput"})

    def messages(self, planned: int, size: int) -> int:
        """As many as give a measurable number of bytes, for there is no cost per message."""
        return min(BYTES, planned * 1024) // size

    def commands(self, directory: Path, port: int) -> list[list[str]]:
        return [[sys.executable, "-m", "benchmarks.peers.limit", str(port)]]

    @asynccontextmanager
    async def link(self, job: Job) -> AsyncIterator[Link]:
        with socket.create_connection(("127.0.0.1", job.port)) as stream:
            yield LimitLink(job, stream)


def relay(port: int) -> None:
    """Move what the writer sends to the reader, once."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        ends: dict[bytes, socket.socket] = {}
        while len(ends) < 2:
            stream, _ = listener.accept()
            who = stream.recv(1)  # b"": somebody only looked whether there is a server
            if who:
                ends[who] = stream
            if who == b"r":
                stream.sendall(b".")
        buffer = memoryview(bytearray(READ))
        while count := ends[b"w"].recv_into(buffer):
            ends[b"r"].sendall(buffer[:count])


PEER = LimitPeer()

if __name__ == "__main__":
    relay(int(sys.argv[1]))
