"""A byte stream over a non-blocking TCP socket, for asyncio and trio alike.

anyio has one; this one exists because of what measurements of that one showed (each of these has a
test):

* On asyncio, anyio's stream reads as soon as the socket is accepted, whether or not anything calls
  `receive`: in the test, 64 MiB that a peer pushes are in memory before the first byte is asked
  for. Here nothing is read that was not asked for, so TCP's flow control holds the peer back.
* Every receive there pauses and resumes the transport: two system calls for each message of a
  conversation.
* A write there always costs a turn of the event loop. Here `send_pieces_nowait` sends what the
  kernel takes at once, which is nearly always all of it.
* A task that waits for bytes is woken a turn of the event loop after they came. `each_readable`
  calls a plain function in the same turn where the event loop offers callbacks for that, which is
  to say on asyncio.
"""

# Not compiled: its class is a `Stream`, whose parent is anyio's.

import asyncio
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import SocketAttribute
from anyio.lowlevel import checkpoint

from zaichik.net.attempts import Attempts
from zaichik.net.callback_reader import CallbackReader
from zaichik.net.heap import keep_freed_memory
from zaichik.net.stream import RECEIVE_BYTES as RECEIVE_BYTES
from zaichik.net.stream import Buffer as Buffer
from zaichik.net.stream import Stream

# What the system accepts while it cannot send it yet.
UNSENT_BYTES = 256 * 1024

# macOS's option for what is in the send buffer (SO_NWRITE); Python has no name for it.
DARWIN_SO_NWRITE = 0x1024

# After this time, a peer is given up that answers nothing, not even with a TCP acknowledgement.
DEAD_SECONDS = 90

# In one system call (IOV_MAX): POSIX asks for 16 only, Linux and macOS take this many.
MAX_PIECES = 1024


class SocketStream(Stream):
    """A connected socket. The socket belongs to the stream from then on.

    Args:
        raw: a connected TCP socket.
    """

    def __init__(self, raw: socket.socket) -> None:
        keep_freed_memory()
        raw.setblocking(False)
        # It fails on macOS if the peer has gone again already. The first receive will report that.
        with suppress(OSError):
            # A request is sent when it is made.
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # How much the system holds for a peer that does not read: without a limit it is up to
            # some megabytes.
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
            _find_dead_peers(raw)
        self._raw = raw
        self.is_drained = True
        # Only while `each_readable` is at work by callbacks.
        self._reader: CallbackReader | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> "SocketStream":
        """Returns a stream to that host and port.

        It is over the first of the host's addresses that answers; see `attempts`.

        Raises:
            OSError: none of them did.
        """
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        attempts = Attempts(
            [(family, kind, proto, address) for family, kind, proto, _, address in found]
        )
        try:
            await _Race(attempts).run()
        except BaseException:
            if attempts.winner is not None:
                attempts.winner.close()
            raise
        finally:
            attempts.close()
        if attempts.winner is None:
            raise attempts.failure or OSError(f"{host} has no address")
        return cls(attempts.winner)

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
            BusyResourceError: another task is in this method. (Calling `receive` meanwhile is an
                error, not detected.)
            Exception: what the callback raises.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # trio
            await self.wait_readable()
            while callback():
                await self.wait_readable()
        else:
            await self._call_back(callback)

    async def _call_back(self, callback: Callable[[], bool]) -> None:
        number = self._raw.fileno()
        if number < 0:
            raise anyio.ClosedResourceError
        if self._reader is not None:
            raise anyio.BusyResourceError("receiving from")
        reader = CallbackReader(number, callback)
        self._reader = reader
        try:
            await reader.wait()
        finally:
            self._reader = None
            if self._raw.fileno() >= 0:
                reader.stop()

    @property
    def callback_reader(self) -> CallbackReader | None:
        """See `Stream`."""
        return self._reader

    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Send these pieces in order, without joining them.

        Returns those not taken, without copying them.

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
        # It is a ValueError if the socket is closed, and its descriptor -1.
        except (OSError, ValueError) as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        """Returns the error of the system as one of anyio's."""
        if self._raw.fileno() < 0:
            return anyio.ClosedResourceError()
        return anyio.BrokenResourceError(str(error))

    @property
    def is_reset(self) -> bool:
        """Whether the peer has reset the connection, as a port scan does.

        The socket has no peer then.
        """
        try:
            self._raw.getpeername()
        except OSError:
            return True
        return False

    @property
    def unacknowledged_bytes(self) -> int | None:
        """How many of the bytes sent the peer's system has not acknowledged yet.

        None where the system does not tell, or the socket is closed.
        """
        try:
            if sys.platform == "darwin":
                return self._raw.getsockopt(socket.SOL_SOCKET, DARWIN_SO_NWRITE)
            # Linux calls it SIOCOUTQ for sockets, which is the same number.
            answer = fcntl.ioctl(self._raw, termios.TIOCOUTQ, bytes(4))
        # It is a ValueError if the socket is closed, and its descriptor -1.
        except (OSError, ValueError):
            return None
        return int.from_bytes(answer, sys.byteorder)

    async def send_eof(self) -> None:
        """Send no more; receiving goes on."""
        try:
            self._raw.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._translated(error) from error

    async def aclose(self) -> None:
        """Close the socket.

        Tasks that wait in `receive` or `send` are woken with a ClosedResourceError.
        """
        if self._raw.fileno() >= 0:
            if self._reader is not None:
                self._reader.close()
            anyio.notify_closing(self._raw)
            self._raw.close()
        await checkpoint()

    def reset(self) -> None:
        """Have the next `aclose` reset the connection.

        The system then drops the bytes that the peer has not read.
        """
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
            first = piece
            if size:
                first = memoryview(piece)[size:]
            return [first, *pieces[index + 1 :]]
        size -= len(piece)
    return []


def first_bytes(pieces: Sequence[Buffer], size: int) -> bytes:
    """Returns the first `size` bytes of these pieces, or all there are, as a copy."""
    taken: list[Buffer] = []
    for piece in pieces:
        if size <= 0:
            break
        taken.append(memoryview(piece)[:size])
        size -= len(piece)
    return b"".join(taken)


def _find_dead_peers(raw: socket.socket) -> None:
    """Have TCP probe a silent peer, and give up in time: a pulled cable sends no signal."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle_seconds = DEAD_SECONDS // 3
    options = {
        "TCP_KEEPIDLE": idle_seconds,
        "TCP_KEEPALIVE": idle_seconds,  # as macOS calls it
        "TCP_KEEPINTVL": idle_seconds // 3,
        "TCP_KEEPCNT": 6,
        "TCP_USER_TIMEOUT": DEAD_SECONDS * 1000,  # in milliseconds
    }
    for name, value in options.items():
        # No system has all of them.
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Race:
    """Drives the attempts until one has succeeded, or all have failed."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        # Set when an attempt has ended.
        self._news = anyio.Event()

    async def run(self) -> None:
        attempts = self._attempts
        async with anyio.create_task_group() as tasks:
            while not attempts.is_over:
                now = anyio.current_time()
                seconds = attempts.seconds_left(now)
                if seconds:
                    self._news = anyio.Event()
                    with anyio.move_on_after(seconds):
                        await self._news.wait()
                elif (raw := attempts.begin(now)) is not None:
                    tasks.start_soon(self._end, raw)
            tasks.cancel_scope.cancel()

    async def _end(self, raw: socket.socket) -> None:
        await anyio.wait_writable(raw)
        self._attempts.end(raw)
        self._news.set()
