"""A network in memory: sockets that offer the broker what `zaichik.net.socket_stream.SocketStream`
does.

A connection is two pipes, one for each direction. A pipe holds bytes that were sent and not
received yet: no more than its buffer, in pieces that arrive when the weather lets them, in order.
That is all TCP promises, and so it is all that anybody may count on: what was sent in one piece
comes in many or the other way round, late, or not at all.

Time is that of trio's clock; delays are whole milliseconds, so that things also happen at the same
moment and at the very edge of a duration. Nothing here has a task of its own: who receives waits
until the next piece is due.
"""

import math
from collections import deque
from dataclasses import dataclass

import anyio
import trio
from anyio.abc import ByteStream

from zaichik.net.socket_stream import without_first

MS = 0.001
RECEIVE_BYTES = 8 * 1024  # what one receive takes at most


@dataclass(frozen=True)
class Weather:
    """What a connection goes through.

    Attributes:
        latency_ms: delays; each piece has one of them.
        piece: bytes of a piece, at most; 0: all that was sent at once is one.
        buffer: bytes that may be on their way, each direction.
        stall, stall_ms: how likely a piece is held up on top, and for how long.
        short: how likely a send takes less than there is room for.
    """

    latency_ms: tuple[int, ...] = (0,)
    piece: int = 0
    buffer: int = 16384
    stall: float = 0.0
    stall_ms: int = 0
    short: float = 0.0


class Pipe:
    """One direction of a connection.

    Attributes:
        held: bytes sent and not received.
        is_ended: the sender sends no more.
        is_broken: the connection is gone; what was on its way is lost.
        is_stuck: nothing arrives any more, and nobody is told.
    """

    def __init__(self, random, weather):
        self._random = random
        self._weather = weather
        self._pieces = deque()  # when it arrives, bytes
        self._latest = 0.0
        self._changed = trio.Event()
        self.held = 0
        self.is_ended = self.is_broken = self.is_stuck = False

    def change(self, **attributes):
        """Set attributes and wake whoever waits."""
        for name, value in attributes.items():
            setattr(self, name, value)
        self._changed.set()
        self._changed = trio.Event()

    def send(self, data):
        """How many of the bytes were taken."""
        random, weather = self._random, self._weather
        size = min(len(data), weather.buffer - self.held)
        if size > 1 and random.random() < weather.short:
            size = random.randint(1, size)
        at = 0
        while at < size:
            end = min(size, at + random.randint(1, weather.piece)) if weather.piece else size
            self._pieces.append((self._arrival(), bytes(data[at:end])))
            at = end
        self.held += size
        self.change()
        return size

    def _arrival(self):
        random, weather = self._random, self._weather
        delay = random.choice(weather.latency_ms)
        if random.random() < weather.stall:
            delay += random.randrange(weather.stall_ms)
        self._latest = max(self._latest, trio.current_time() + delay * MS)
        return self._latest

    def take(self, max_bytes):
        """What has arrived, some or all of it; b"" if nothing has."""
        now = trio.current_time()
        taken = bytearray()
        while (
            self._pieces
            and self._pieces[0][0] <= now
            and len(taken) < max_bytes
            and not self.is_stuck
        ):
            at, data = self._pieces.popleft()
            room = max_bytes - len(taken)
            taken += data[:room]
            if len(data) > room:
                self._pieces.appendleft((at, data[room:]))
            if self._weather.piece and self._random.random() < 0.5:
                break
        self.held -= len(taken)
        if taken:
            self.change()
        return bytes(taken)

    @property
    def is_at_end(self):
        return self.is_ended and not self._pieces and not self.is_stuck

    async def wait(self, *, until_due):
        """Wait for a change, or until the next piece arrives; at least let other tasks run."""
        due = self._pieces[0][0] if until_due and self._pieces and not self.is_stuck else math.inf
        if due <= trio.current_time() or self.is_at_end or self.is_broken:
            await trio.lowlevel.checkpoint()
        elif due == math.inf:
            await self._changed.wait()
        else:
            with trio.move_on_at(due):
                await self._changed.wait()


class SimulatedSocket(ByteStream):
    """One end of a connection.

    Args:
        incoming, outgoing: its two pipes.
        number: of the connection; its port, as far as anybody asks.
        on_said: called with the pieces of a `send_pieces_nowait`, at the time of the call; not with
            those again that an earlier one has left.
        peer: the address of the other end.
    """

    def __init__(self, incoming, outgoing, number, on_said=None, peer="simulated"):
        self._incoming = incoming
        self._outgoing = outgoing
        self.number = number
        self._on_said = on_said
        self.peer = peer
        self._left = None  # what the last `send_pieces_nowait` has given back
        self._is_closed = False
        self.is_drained = True
        self.unacknowledged_bytes = None  # as where the system does not tell

    def _check(self, pipe):
        if self._is_closed:
            raise anyio.ClosedResourceError
        if pipe.is_broken:
            raise anyio.BrokenResourceError("cut")

    async def receive(self, max_bytes=RECEIVE_BYTES):
        await self._incoming.wait(
            until_due=True
        )  # before anything is taken: so nothing is lost if it is cancelled
        while True:
            self._check(self._incoming)
            if data := self._incoming.take(max_bytes):
                return data
            if self._incoming.is_at_end:
                raise anyio.EndOfStream
            await self._incoming.wait(until_due=True)

    def receive_nowait(self, max_bytes=RECEIVE_BYTES):
        self._check(self._incoming)
        data = self._incoming.take(max_bytes)
        if not data and self._incoming.is_at_end:
            raise anyio.EndOfStream
        self.is_drained = len(data) < max_bytes
        return data

    async def wait_readable(self):
        await self._incoming.wait(until_due=True)
        self._check(self._incoming)

    async def each_readable(self, callback):
        await self.wait_readable()
        while callback():
            await self.wait_readable()

    async def receive_each(self, take):
        while take(await self.receive()):
            pass

    def send_nowait(self, data):
        self._check(self._outgoing)
        return self._outgoing.send(data)

    def send_pieces_nowait(self, pieces):
        if self._on_said and pieces is not self._left:
            self._on_said(pieces)
        self._left = without_first(pieces, self.send_nowait(b"".join(pieces)))
        return self._left

    async def send(self, item):
        await trio.lowlevel.checkpoint()
        while item := item[self.send_nowait(item) :]:
            await self.wait_writable()

    async def send_pieces(self, pieces):
        await self.send(b"".join(pieces))

    async def wait_writable(self):
        await trio.lowlevel.checkpoint()
        while (
            not self._is_closed
            and not self._outgoing.is_broken
            and self._outgoing.held >= self.buffer
        ):
            await self._outgoing.wait(until_due=False)
        self._check(self._outgoing)

    @property
    def buffer(self):
        return self._outgoing._weather.buffer

    async def send_eof(self):
        await trio.lowlevel.checkpoint()
        self._check(self._outgoing)
        self._outgoing.change(is_ended=True)

    async def aclose(self):
        """Close it. As in TCP: if bytes came that nobody has received, the connection is reset."""
        if not self._is_closed:
            self._is_closed = True
            if self._incoming.held:
                self._outgoing.change(is_broken=True)
            self._outgoing.change(is_ended=True)
            self._incoming.change(is_broken=True)  # who sends into it learns that nobody is there
        await trio.lowlevel.checkpoint()

    def reset(self):
        """Have `aclose` drop what is on its way."""
        self.cut()

    def cut(self):
        """Break the connection, for both ends; what is on its way is lost."""
        self._incoming.change(is_broken=True)
        self._outgoing.change(is_broken=True)

    def pull(self):
        """Pull the cable: nothing arrives any more, on either side, and nobody is told."""
        self._incoming.change(is_stuck=True)
        self._outgoing.change(is_stuck=True)

    is_reset = False  # what is cut before it was served is found out by the first receive


class SimulatedListener:
    """Where clients connect; offers the server what `zaichik.net.listener.Listener` does.

    Args:
        connections: how many there were before, on other listeners.

    Attributes:
        connections: how many there were, with those.
        sockets: the server's ends of its own.
    """

    host, port = "simulated", 0

    def __init__(self, connections=0):
        self._give, self._take = trio.open_memory_channel(math.inf)
        self._is_open = True
        self.connections = connections
        self.sockets = []

    def connect(self, random, weather, on_said, kind=SimulatedSocket, host="simulated"):
        """The client's end of a new connection, of that kind, from that address.

        Raises:
            ConnectionRefusedError: nobody listens any more.
        """
        if not self._is_open:
            raise ConnectionRefusedError
        self.connections += 1
        up, down = Pipe(random, weather), Pipe(random, weather)
        self.sockets.append(SimulatedSocket(up, down, self.connections, on_said, host))
        self._give.send_nowait(self.sockets[-1])
        return kind(down, up, self.connections)

    async def serve(self, handler, tasks, turn):
        async for socket in self._take:
            try:
                await turn()
            except trio.Cancelled:
                socket.cut()  # nobody has accepted it
                raise
            tasks.start_soon(handler, socket, f"{socket.peer}:{socket.number}")

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        """Close it; who was not accepted yet is turned away."""
        self.close()

    def close(self):
        """Turn everybody away."""
        self._is_open = False
        while True:
            try:
                self._take.receive_nowait().cut()
            except trio.WouldBlock:
                break
