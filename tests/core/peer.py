"""The other end of a connection: a stream in memory with a slow reader, and a client on it."""

from collections import deque
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream

from zaichik.net.background import BackgroundTasks
from zaichik.net.repeating import Repeating
from zaichik.net.socket_stream import without_first
from zaichik.server.connection import Connection
from zaichik.server.gate import OPEN
from zaichik_protocol import FrameDecoder, Hello, NeedData, encode

GUARD = 60  # seconds after which a test that waits in vain fails; nothing ever waits for it to pass


class MemoryStream(ByteStream):
    """One end, for the broker. `room` is how many bytes may be sent before the other end reads."""

    def __init__(self, room=2**60):
        self.incoming = deque()
        self.sent = bytearray()
        self.pieces = []  # all that was ever sent, by calls
        self.room = room
        self.is_ended = False  # the broker ended its side
        self.is_closed = False
        self.is_drained = True  # the last receive took all there was
        self.is_reset = False  # what the peer has not read is dropped when the broker closes it
        self.unacknowledged_bytes = None  # as where the system does not tell
        self.failure = None  # raised by whatever is done next
        self.send_failure = None  # likewise, by what sends
        self._changed = anyio.Event()

    def change(self):
        """Wake the tasks that wait for a change of this stream."""
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition):
        while not condition():
            await self._changed.wait()

    def receive_nowait(self, max_bytes=65536):
        if self.failure:
            raise self.failure
        self.is_drained = True
        if not self.incoming:
            return b""
        data = self.incoming.popleft()
        if not data:
            self.incoming.append(data)
            raise anyio.EndOfStream
        if len(data) > max_bytes:
            self.incoming.appendleft(data[max_bytes:])
        self.is_drained = len(data) < max_bytes
        return data[:max_bytes]

    async def receive(self, max_bytes=65536):
        await self.wait_readable()
        return self.receive_nowait(max_bytes)

    async def wait_readable(self):
        await anyio.lowlevel.checkpoint()
        await self.until(lambda: self.incoming or self.failure)

    async def each_readable(self, callback):
        await self.wait_readable()
        while callback():
            await self.wait_readable()

    async def receive_each(self, take):
        await self.each_readable(lambda: take(data) if (data := self.receive_nowait()) else True)

    def reset(self):
        self.is_reset = True

    def send_nowait(self, item):
        if failure := self.failure or self.send_failure:
            raise failure
        taken = bytes(item[: self.room])
        if taken:
            self.pieces.append(taken)
            self.room -= len(taken)
            self.sent += taken
            self.change()
        return len(taken)

    def send_pieces_nowait(self, pieces):
        return without_first(pieces, self.send_nowait(b"".join(pieces)))

    async def wait_writable(self):
        await anyio.lowlevel.checkpoint()
        await self.until(lambda: self.room > 0 or self.failure or self.send_failure)

    async def send(self, item):
        await anyio.lowlevel.checkpoint()
        while item := item[self.send_nowait(item) :]:
            await self.wait_writable()

    async def send_pieces(self, pieces):
        await self.send(b"".join(pieces))

    async def send_eof(self):
        await anyio.lowlevel.checkpoint()
        if failure := self.failure or self.send_failure:
            raise failure
        self.is_ended = True
        self.change()

    async def aclose(self):
        self.is_closed = True
        self.change()
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def connected_to(broker, *peers, gate=OPEN):
    """The broker serves these peers, each of a client of its own, as a server would; what comes out
    is the connections.

    Those that still run at the end of the block are cancelled.
    """
    connections = [
        Connection(peer.stream, broker, f"peer {at}", f"client {at}", gate)
        for at, peer in enumerate(peers)
    ]
    scheduler = broker.scheduler
    turns = Repeating(scheduler.run, lambda: scheduler.is_waited_for, scheduler.note_idle)
    scheduler.on_waiting = turns.wake
    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(turns.run)
            for connection in connections:
                tasks.group.start_soon(connection.run)
            yield connections


async def settled():
    """Wait until nothing is going on.

    A turn that waits for the event loop is no task, and takes two rounds of it.
    """
    for _ in range(8):
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


class Peer:
    """A client at the far end of a `MemoryStream`."""

    def __init__(self, room=2**60, *, greeting=True):
        self.stream = MemoryStream(room)
        self.decoder = FrameDecoder.for_client()
        if greeting:
            self.send(Hello(1, client="peer"))

    def send(self, *frames):
        """Send as one piece."""
        self.send_bytes(b"".join(map(encode, frames)))

    def send_bytes(self, data):
        self.stream.incoming.append(data)
        self.stream.change()

    def end(self):
        """A FIN: nothing more comes from this side."""
        self.send_bytes(b"")

    def reset(self):
        self.stream.failure = anyio.BrokenResourceError()
        self.stream.change()

    def read_on(self):
        """Begin to take what is sent."""
        self.stream.room = 2**60
        self.stream.change()

    async def receive(self):
        """The next frame; None if the broker ended the stream."""
        stream = self.stream
        with anyio.fail_after(GUARD):
            while isinstance(frame := self.decoder.next_frame(), NeedData):
                await stream.until(lambda: stream.sent or stream.is_ended or stream.is_closed)
                if not stream.sent:
                    return None
                self.decoder.receive_data(bytes(stream.sent))
                stream.sent.clear()
            return frame

    async def rest(self):
        """All frames up to the end."""
        frames = []
        while (frame := await self.receive()) is not None:
            frames.append(frame)
        return frames
