"""A byte stream over a non-blocking TCP socket, for asyncio and trio alike.

anyio has one; this one exists because of what measurements of that one showed (each of these has a test):

* On asyncio, anyio's stream reads as soon as the socket is accepted, whether or not anything calls `receive`: in the
  test, 64 MiB that a peer pushes are in memory before the first byte is asked for. Here nothing is read that was not
  asked for, so TCP's flow control holds the peer back.
* Every receive there pauses and resumes the transport: two system calls for each message of a conversation.
* A write there always costs a turn of the event loop. Here `send_pieces_nowait` sends what the kernel takes at
  once, which is nearly always all of it.
* A task that waits for bytes is woken a turn of the event loop after they came. `each_readable` calls a plain function
  in the same turn where the event loop offers callbacks for that, which is to say on asyncio.
"""

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import SocketAttribute
from anyio.lowlevel import checkpoint

from zaichik.net.heap import keep_freed_memory
from zaichik.net.stream import RECEIVE_BYTES as RECEIVE_BYTES
from zaichik.net.stream import Buffer as Buffer
from zaichik.net.stream import Stream

UNSENT_BYTES = 256 * 1024  # that the system accepts while it cannot send them yet
DEAD_SECONDS = 90  # after which a peer that answers nothing at all, not even with a TCP acknowledgement, is given up
MAX_PIECES = 1024  # in one system call (IOV_MAX: POSIX asks for 16 only, Linux and macOS take this many)


class SocketStream(Stream):
    """A connected socket. The socket belongs to the stream from then on.

    Args:
        raw: a connected TCP socket.
    """

    def __init__(self, raw: socket.socket) -> None:
        keep_freed_memory()
        raw.setblocking(False)
        with suppress(OSError):  # macOS: the peer has gone again already; the first receive will report it
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a request is sent when it is made
            # How much the system holds for a peer that does not read: without a limit it is up to some megabytes.
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            _find_dead_peers(raw)
        self._raw = raw
        self.is_drained = True
        self._end_receiving: Callable[[], None] | None = None  # while `receive_each` is at work by callbacks

    @classmethod
    async def connect(cls, host: str, port: int) -> "SocketStream":
        """Returns a stream to that host and port, over the first of the host's addresses that answers.

        Raises:
            OSError: none of them did.
        """
        failure: OSError | None = None
        for family, kind, proto, _, address in await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                return cls(await _connected(socket.socket(family, kind, proto), address))
            except OSError as error:
                failure = error
        raise failure or OSError(f"{host} has no address")

    def receive_nowait(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Returns the bytes that are there; b"" if there are none.

        Raises:
            EndOfStream: the peer sends no more.
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """
        try:
            data = self._raw.recv(max_bytes)
        except BlockingIOError:
            self.is_drained = True
            return b""
        except OSError as error:
            raise self._translated(error) from error
        if not data:
            raise anyio.EndOfStream
        self.is_drained = len(data) < max_bytes
        return data

    async def each_readable(self, callback: Callable[[], bool]) -> None:
        """Call back whenever there is something to receive, until the callback returns False.

        Raises:
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
            BusyResourceError: another task is in this method. (Calling `receive` meanwhile is an error, not detected.)
            Exception: what the callback raises.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # trio
            await self.wait_readable()
            while callback():
                await self.wait_readable()
        else:
            await self._call_back(loop, callback)

    async def _call_back(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], bool]) -> None:
        end: asyncio.Future[None] = loop.create_future()
        # Not in the future: an error there would be in a cycle with its own traceback, which keeps alive what the
        # connection held until the garbage collector comes by.
        failed: list[Exception] = []

        def readable() -> None:
            if end.done():  # cancelled, after this call was due
                return
            try:
                is_more = callback()
            except Exception as error:
                failed.append(error)
            if failed or not is_more:
                end.set_result(None)
                loop.remove_reader(number)  # not a byte more is read than was asked for

        def close() -> None:
            loop.remove_reader(number)
            if not end.done():
                failed.append(anyio.ClosedResourceError())
                end.set_result(None)

        number = self._raw.fileno()
        if number < 0:
            raise anyio.ClosedResourceError
        if self._end_receiving is not None:
            raise anyio.BusyResourceError("receiving from")
        loop.add_reader(number, readable)
        self._end_receiving = close
        try:
            await end
        finally:
            self._end_receiving = None
            if self._raw.fileno() >= 0:
                loop.remove_reader(number)
        if failed:
            raise failed.pop()

    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Send these pieces in order, without joining them; returns those not taken, without copying them.

        One call takes `MAX_PIECES` at most.

        Raises:
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """
        try:
            taken = self._raw.sendmsg(pieces[:MAX_PIECES])
        except BlockingIOError:
            return list(pieces)
        except OSError as error:
            raise self._translated(error) from error
        return without_first(pieces, taken)

    async def wait_readable(self) -> None:
        """Wait until there is something to receive, most likely."""
        await self._wait(anyio.wait_readable)

    async def wait_writable(self) -> None:
        """Wait until the peer has read enough for more to be sent."""
        await self._wait(anyio.wait_writable)

    async def _wait(self, wait: Callable[[socket.socket], Any]) -> None:
        try:
            await wait(self._raw)
        except (OSError, ValueError) as error:  # ValueError: the descriptor of a closed socket is -1
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        return anyio.ClosedResourceError() if self._raw.fileno() < 0 else anyio.BrokenResourceError(str(error))

    @property
    def is_reset(self) -> bool:
        """Whether the peer has reset the connection, as a port scan does: then the socket has no peer any more."""
        try:
            self._raw.getpeername()
        except OSError:
            return True
        return False

    async def send_eof(self) -> None:
        """Send no more; receiving goes on."""
        try:
            self._raw.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._translated(error) from error

    async def aclose(self) -> None:
        """Close the socket. Tasks that wait in `receive` or `send` are woken with a ClosedResourceError."""
        if self._raw.fileno() >= 0:
            if self._end_receiving is not None:
                self._end_receiving()
            anyio.notify_closing(self._raw)
            self._raw.close()
        await checkpoint()

    def reset(self) -> None:
        """Have the next `aclose` reset the connection: the system drops the bytes that the peer has not read."""
        with suppress(OSError):  # it has gone already
            self._raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes that anyio's streams provide; its TLS stream asks for some of them."""
        return {
            SocketAttribute.family: lambda: self._raw.family,
            SocketAttribute.local_address: lambda: self._raw.getsockname()[:2],
            SocketAttribute.local_port: lambda: self._raw.getsockname()[1],
            SocketAttribute.raw_socket: lambda: self._raw,
            SocketAttribute.remote_address: lambda: self._raw.getpeername()[:2],
            SocketAttribute.remote_port: lambda: self._raw.getpeername()[1],
        }


def without_first(pieces: Sequence[Buffer], size: int) -> list[Buffer]:
    """Returns these pieces without their first `size` bytes; no bytes are copied."""
    for index, piece in enumerate(pieces):
        if size < len(piece):
            return [memoryview(piece)[size:] if size else piece, *pieces[index + 1 :]]
        size -= len(piece)
    return []


def first_bytes(pieces: Sequence[Buffer], size: int) -> bytes:
    """Returns the first `size` bytes of these pieces, or all there are, as a copy."""
    taken = []
    for piece in pieces:
        if size <= 0:
            break
        taken.append(memoryview(piece)[:size])
        size -= len(piece)
    return b"".join(taken)


def _find_dead_peers(raw: socket.socket) -> None:
    """Have TCP probe a silent peer, and give up in time: a pulled cable sends no signal."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    third = DEAD_SECONDS // 3
    # As far as the system has them; macOS calls the first one TCP_KEEPALIVE.
    for name, value in (
        ("TCP_KEEPIDLE", third), ("TCP_KEEPALIVE", third), ("TCP_KEEPINTVL", third // 3), ("TCP_KEEPCNT", 6),
        ("TCP_USER_TIMEOUT", DEAD_SECONDS * 1000),
    ):  # fmt: skip
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def _connected(raw: socket.socket, address: Any) -> socket.socket:
    """Returns the socket, connected; closes it if that fails or is cancelled."""
    try:
        await _connect(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw


async def _connect(raw: socket.socket, address: Any) -> None:
    raw.setblocking(False)
    try:
        raw.connect(address)
    except BlockingIOError:
        await anyio.wait_writable(raw)
        if code := raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(code, os.strerror(code)) from None
