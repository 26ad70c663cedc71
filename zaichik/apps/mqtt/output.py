"""What is to be sent to one client: written at once where the socket takes it, and bounded.

`write` only collects. `flush` sends what was collected in one system call, which is nearly always
all of it. What the socket does not take stays here, and a task sends it as the client reads. While
more than `MOST_BYTES` wait, `is_full` is true: nothing more is taken from the window of messages,
and nothing more is read from the client, whose requests would only be answered into the same queue
(G-4).
"""

from collections.abc import Callable
from contextlib import suppress

import anyio

from zaichik.apps.gateways.traffic import Traffic
from zaichik.net.stream import GONE, Buffer, Stream

# A client that reads at all is kept busy by this much.
MOST_BYTES = 64 * 1024


class Output:
    """The bytes that one client has not been sent yet.

    Args:
        stream: the connection to it.
        traffic: what is sent is counted there.

    Attributes:
        on_room: called when the client has read so much that more can be written.
        traffic: see above.
    """

    def __init__(self, stream: Stream, traffic: Traffic) -> None:
        self.on_room: Callable[[], None] = lambda: None
        self.traffic = traffic
        self._stream = stream
        self._pieces: list[Buffer] = []
        self._bytes = 0
        # Whether the socket has refused some, so that `run` sends the rest.
        self._is_blocked = False
        self._blocked = anyio.Event()
        self._room = anyio.Event()
        self._is_closed = False

    @property
    def is_full(self) -> bool:
        """Whether the client must read before more is written."""
        return self._bytes > MOST_BYTES

    def write(self, data: bytes) -> None:
        """Add bytes, to be sent by the next `flush`."""
        self._pieces.append(data)
        self._bytes += len(data)

    def flush(self) -> None:
        """Send what was added, as far as the socket takes it now."""
        if self._is_blocked or not self._pieces:
            return
        # Most are small, and the system takes one piece faster than a thousand.
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        self._send_nowait()
        if self._pieces:
            self._is_blocked = True
            self._blocked.set()

    def _send_nowait(self) -> None:
        if self._is_closed:
            self._drop()
            return
        try:
            left = self._stream.send_pieces_nowait(self._pieces)
        except GONE:
            # The task that receives finds that out, too, and ends the connection.
            self.close()
            return
        self._pieces = left
        waiting = sum(map(len, left))
        self.traffic.sent_bytes += self._bytes - waiting
        self._bytes = waiting

    async def run(self) -> None:
        """Send what the socket did not take at once, until cancelled or the connection is gone."""
        with suppress(*GONE):
            while not self._is_closed:
                await self._blocked.wait()
                self._blocked = anyio.Event()
                await self._drain()

    async def _drain(self) -> None:
        while self._pieces and not self._is_closed:
            await self._stream.wait_writable()
            self._send_nowait()
            if not self.is_full:
                self._room.set()
        self._is_blocked = False
        self._room.set()
        self.on_room()

    async def has_room(self) -> None:
        """Wait until the client has read enough for more to be written."""
        while self.is_full and not self._is_closed:
            self._room = anyio.Event()
            await self._room.wait()

    async def emptied(self) -> None:
        """Wait until everything was sent, or the connection is gone."""
        self.flush()
        while self._pieces and not self._is_closed:
            self._room = anyio.Event()
            await self._room.wait()

    def close(self) -> None:
        """Drop what was not sent, and take no more."""
        self._is_closed = True
        self._drop()
        self._blocked.set()
        self._room.set()

    def _drop(self) -> None:
        self._pieces = []
        self._bytes = 0
