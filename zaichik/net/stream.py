"""What client and broker ask of a connection: bytes in both directions, with calls that never wait.

`SocketStream` offers it over a socket, `TlsStream` over any stream of this kind. The calls that end
in `_nowait` hold every rule. Those that wait are written here, once, on top of them.
"""

# Not compiled: its class has a parent of anyio's.

from abc import abstractmethod
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from zaichik.net.callback_reader import CallbackReader

Buffer = bytes | memoryview

# What is raised when the connection is gone, or was closed here.
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

# What one call receives: large enough that batches come whole, small enough to be fair.
RECEIVE_BYTES = 256 * 1024


class Stream(ByteStream):
    """A connection.

    Both `receive` and `send` wait only where the system call would block, or most likely would.
    That wait, or else a plain checkpoint, lets other tasks run: no peer, however fast, monopolizes
    the loop.

    Attributes:
        is_drained: whether the last receive took all there was. If so, wait until there is more; if
            not, the next receive may return something at once, and waiting for the socket may be in
            vain.
    """

    is_drained: bool

    @abstractmethod
    def receive_nowait(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Returns the bytes that are there; b"" if there are none.

        Raises:
            EndOfStream: the peer sends no more.
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """

    @abstractmethod
    async def each_readable(self, callback: Callable[[], bool]) -> None:
        """Call back whenever there is something to receive, until the callback returns False.

        Raises:
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
            BusyResourceError: another task is in this method. (Calling `receive` meanwhile is an
                error, not detected.)
            Exception: what the callback raises.
        """

    async def each_readable_above(self, below: "Stream", callback: Callable[[], bool]) -> None:
        """`each_readable` of a stream that stands on another one.

        It may have read more from the one below than it has given. No socket announces that, so it
        is announced here.
        """
        goes_on = True

        def readable() -> bool:
            nonlocal goes_on
            goes_on = callback()
            return goes_on and self.is_drained

        while goes_on:
            if self.is_drained:
                await below.each_readable(readable)
            else:  # the socket will not announce what is here
                await checkpoint()
                readable()

    @abstractmethod
    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """Send these pieces in order; returns those not taken, without copying them.

        The next call must begin with the bytes that were not taken.

        Raises:
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """

    @abstractmethod
    async def wait_readable(self) -> None:
        """Wait until there is something to receive, most likely."""

    @abstractmethod
    async def wait_writable(self) -> None:
        """Wait until the peer has read enough for more to be sent."""

    @property
    @abstractmethod
    def is_reset(self) -> bool:
        """Whether the peer has reset the connection, as a port scan does.

        The socket has no peer then.
        """

    @property
    @abstractmethod
    def unacknowledged_bytes(self) -> int | None:
        """How many of the bytes sent the peer's system has not acknowledged yet.

        None where the system does not tell.
        """

    @abstractmethod
    def reset(self) -> None:
        """Have the next `aclose` reset the connection.

        The system then drops the bytes that the peer has not read.
        """

    @property
    def callback_reader(self) -> CallbackReader | None:
        """What calls back in `each_readable`, so that another thread may do so.

        None if nothing does now, or it can't be done by another thread.
        """
        return None

    async def receive(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """Returns some bytes, at least one and at most `max_bytes`.

        If this is cancelled, nothing was taken.

        Raises:
            EndOfStream: the peer sends no more.
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """
        # The wait comes before the system call: once bytes are taken, there is nothing to cancel.
        if self.is_drained:
            await self.wait_readable()
        else:
            await checkpoint()
        data = self.receive_nowait(max_bytes)
        while not data:
            await self.wait_readable()
            data = self.receive_nowait(max_bytes)
        return data

    async def receive_each(self, take: Callable[[bytes], bool]) -> None:
        """Pass all bytes that come to `take`, as they come, until it returns False.

        Raises:
            EndOfStream: the peer sends no more; and as `each_readable` does.
        """

        def readable() -> bool:
            data = self.receive_nowait()
            # It was a false alarm, or only a part of a TLS record has come.
            if not data:
                return True
            return take(data)

        await self.each_readable(readable)

    async def send(self, item: bytes) -> None:
        """Send all of the bytes.

        If this is cancelled, some may be sent: then only close the stream.

        Raises:
            BrokenResourceError, ClosedResourceError: the connection is gone, or was closed here.
        """
        await self.send_pieces((item,))

    async def send_pieces(self, pieces: Sequence[Buffer]) -> None:
        """Send all of these pieces in order. Otherwise the same as `send`."""
        left = self.send_pieces_nowait(pieces)
        if not left:
            await checkpoint()
        while left:
            await self.wait_writable()
            left = self.send_pieces_nowait(left)
