"""Connections within one process, for a broker and its clients where there are no sockets.

`install` puts them in the place of sockets, before anything listens or connects. The broker and the
clients are the shipped ones; they don't notice.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import anyio
import browser_clocks  # noqa: F401 - before zaichik is imported
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from zaichik.net.socket_stream import SocketStream, without_first
from zaichik.net.stream import RECEIVE_BYTES, Buffer, Stream
from zaichik.server import server

# Of one direction, what the receiver has not taken yet: about as much as a socket holds.
ROOM_BYTES = 256 * 1024

# Connections that may wait to be accepted.
BACKLOG = 100

FIRST_PORT = 1024


def install() -> None:
    """Have brokers listen, and clients connect, in memory."""
    server.Listener = MemoryListener  # type: ignore[attr-defined]
    SocketStream.connect = connect  # type: ignore[assignment, method-assign]


class Pipe:
    """One direction of a connection.

    Attributes:
        data: what was sent, and has not been received yet.
        is_ended: whether the sender sends no more.
        is_abandoned: whether the receiver has closed its end.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_ended = False
        self.is_abandoned = False
        self._changed = anyio.Event()

    def note_change(self) -> None:
        """Wake the tasks in `wait_until`."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait until that is so; other tasks run in any case."""
        await checkpoint()
        while not is_so():
            await self._changed.wait()


class MemoryStream(Stream):
    """One end of a connection.

    Args:
        incoming: what the peer sends.
        outgoing: what is sent to the peer.
    """

    def __init__(self, incoming: Pipe, outgoing: Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._is_closed = False
        self._is_reading = False
        self.is_drained = True

    def receive_nowait(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """See `Stream`."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        pipe = self._incoming
        data = bytes(pipe.data[:max_bytes])
        del pipe.data[:max_bytes]
        if not data and pipe.is_ended:
            raise anyio.EndOfStream
        # The end is something to receive, too.
        self.is_drained = not pipe.data and not pipe.is_ended
        if data:
            pipe.note_change()
        return data

    async def each_readable(self, callback: Callable[[], bool]) -> None:
        """See `Stream`."""
        if self._is_reading:
            raise anyio.BusyResourceError("receiving from")
        self._is_reading = True
        try:
            await self.wait_readable()
            while callback():
                await self.wait_readable()
        finally:
            self._is_reading = False

    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """See `Stream`."""
        if self._is_closed:
            raise anyio.ClosedResourceError
        pipe = self._outgoing
        if pipe.is_abandoned:
            raise anyio.BrokenResourceError
        taken = 0
        for piece in pieces:
            part = piece[: ROOM_BYTES - len(pipe.data)]
            pipe.data += part
            taken += len(part)
        if taken:
            pipe.note_change()
        return without_first(pieces, taken)

    async def wait_readable(self) -> None:
        """See `Stream`."""
        pipe = self._incoming
        await pipe.wait_until(lambda: bool(pipe.data) or pipe.is_ended or self._is_closed)

    async def wait_writable(self) -> None:
        """See `Stream`."""
        pipe = self._outgoing
        await pipe.wait_until(
            lambda: len(pipe.data) < ROOM_BYTES or pipe.is_abandoned or self._is_closed
        )

    async def send_eof(self) -> None:
        """Send no more; receiving goes on."""
        self._outgoing.is_ended = True
        self._outgoing.note_change()

    async def aclose(self) -> None:
        """Close this end. Tasks that wait in it are woken with a ClosedResourceError."""
        self._is_closed = True
        self._incoming.is_abandoned = True
        await self.send_eof()
        self._incoming.note_change()
        await checkpoint()

    @property
    def is_reset(self) -> bool:
        """See `Stream`: nobody scans ports here."""
        return False

    @property
    def unacknowledged_bytes(self) -> int | None:
        """See `Stream`."""
        return len(self._outgoing.data)

    def reset(self) -> None:
        """Have the next `aclose` drop what the peer has not read; here, nobody needs it."""

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """None: there is no socket."""
        return {}


class MemoryListener:
    """What `zaichik.net.listener.Listener` is for sockets.

    Attributes:
        host, port: its address.
    """

    # Those that listen, by their ports.
    by_port: ClassVar[dict[int, "MemoryListener"]] = {}
    next_port: ClassVar[int] = FIRST_PORT

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.newcomers, self._accepted = anyio.create_memory_object_stream[MemoryStream](BACKLOG)

    @classmethod
    async def open(cls, host: str, port: int) -> "MemoryListener":
        """Returns a listener on that port; 0 takes a free one."""
        if not port:
            port = cls.next_port
            cls.next_port += 1
        listener = cls.by_port[port] = cls(host, port)
        return listener

    async def serve(
        self,
        handler: Callable[..., Any],
        tasks: TaskGroup,
        turn: Callable[[], Awaitable[None]] = checkpoint,
    ) -> None:
        """Accept until cancelled or closed; `handler` runs in `tasks` for each connection."""
        number = 0
        async for stream in self._accepted:
            await turn()
            number += 1
            tasks.start_soon(handler, stream, f"{self.host}:{number}")

    async def __aenter__(self) -> "MemoryListener":
        """Returns the listener."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening."""
        self.by_port.pop(self.port, None)
        self.newcomers.close()
        self._accepted.close()


async def connect(host: str, port: int) -> MemoryStream:
    """Returns a stream to the broker that listens on that port.

    Raises:
        ConnectionRefusedError: there is none.
    """
    await checkpoint()
    listener = MemoryListener.by_port.get(port)
    if listener is None:
        raise ConnectionRefusedError(f"nothing listens on {host}:{port}")
    requests, replies = Pipe(), Pipe()
    listener.newcomers.send_nowait(MemoryStream(requests, replies))
    return MemoryStream(replies, requests)
