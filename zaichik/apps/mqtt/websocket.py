"""A WebSocket as a stream of bytes: MQTT's packets in binary frames (RFC 6455, sections 5 to 7).

    send:     pieces ──▶ frame ──▶ stream            MQTT on the left,
    receive:  bytes  ◀── parse ◀── stream            frames on the right

To MQTT, frames mean nothing: a packet may begin in one and end in another, and a frame may hold
many packets. So payloads are passed on as they come, and no frame or message is ever collected.
What is held here is bounded:

* of what comes: the part of a frame's header, or of a control frame, that has come; and frames that
  one turn has not parsed, because each costs time, however small it is;
* of what goes: one frame that the stream below has not taken, one pong, one close frame. A client
  that sends pings and reads nothing is owed the last pong only, as the RFC allows.

Bytes count as sent when their frame has left, not when it was made: until then the caller offers
the same bytes again, and they are not framed again.

A frame of text, or one that is longer than a packet may be, is refused as soon as its header has
come. The closing handshake: whoever begins sends a close frame, the other one answers with its own,
and the server ends the connection.
"""

# Not compiled: its class is a `Stream`, whose parent is anyio's.

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy

import anyio
from anyio.lowlevel import checkpoint
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping
from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

from zaichik.net.socket_stream import first_bytes, without_first
from zaichik.net.stream import GONE, RECEIVE_BYTES, Buffer, Stream

# Of the stream below, in one turn; and the frames that are parsed then.
TURN_BYTES = 64 * 1024
TURN_EVENTS = 256

# In one frame that is sent.
FRAME_BYTES = 64 * 1024

# For the client's close frame, after ours.
CLOSE_SECONDS = 1.0


class WebSocketStream(Stream):
    """The bytes in the frames of a WebSocket. The stream below belongs to it from then on.

    Args:
        stream: the stream below; the opening handshake is complete.
        most_bytes: of the payload of a frame.
        received: what was received after the handshake.
    """

    def __init__(self, stream: Stream, most_bytes: int, received: bytes = b"") -> None:
        # What the client did wrong.
        self._problem = ""
        self.is_drained = False
        self._stream = stream
        self._protocol = Connection(ConnectionType.SERVER, [_Limits(most_bytes)], received)
        # The library has bytes that were not parsed.
        self._is_behind = True
        # Payload that nobody has asked for yet.
        self._payload = bytearray()
        self._framed: list[Buffer] = []
        # How many of the caller's bytes are in it.
        self._owed = 0
        self._pong = b""
        # How we begin the closing handshake.
        self._goodbye = CloseConnection(CloseReason.NORMAL_CLOSURE)
        # Of what can be received; it stays.
        self._end: Exception | None = None
        self._is_aborted = False

    # -- receiving

    def receive_nowait(self, max_bytes: int = RECEIVE_BYTES) -> bytes:
        """See `Stream`.

        What one call parses is bounded: it may return nothing, and more is there.
        """
        if not self._payload and self._end is None:
            self._parse(max_bytes)
        data = bytes(self._payload[:max_bytes])
        del self._payload[:max_bytes]
        if not data and self._end is not None:
            # Without the traceback, which would keep alive what the connection held.
            raise copy(self._end)
        self.is_drained = self._stream.is_drained and not self._has_more
        return data

    @property
    def _has_more(self) -> bool:
        """Whether the next call returns something without reading from the stream below."""
        return bool(self._payload) or self._is_behind or self._end is not None

    def _parse(self, max_bytes: int) -> None:
        if not self._is_behind:
            self._protocol.receive_data(self._stream.receive_nowait(min(max_bytes, TURN_BYTES)))
        self._is_behind = False
        for count, event in enumerate(self._protocol.events(), start=1):
            self._take(event)
            if self._end is not None:
                break
            if count == TURN_EVENTS:
                self._is_behind = True
                break
        # Sending will find out; what was received counts.
        with suppress(*GONE):
            self._flush()

    def _take(self, event: Event) -> None:
        match event:
            case BytesMessage():
                self._payload += event.data
            case Ping():
                if self._protocol.state is ConnectionState.OPEN:
                    self._pong = bytes(self._protocol.send(event.response()))
            case CloseConnection():
                self._end = anyio.EndOfStream()
                self._close(event)
            case _:
                # A pong, which nobody has asked for.
                pass

    def _close(self, event: CloseConnection) -> None:
        """Note the end: the client's close frame, or what breaks the protocol."""
        match self._protocol.state:
            case ConnectionState.CLOSED:
                # It is the answer to ours.
                pass
            case ConnectionState.REMOTE_CLOSING:
                self._say_close(event.response())
            case _:
                # Our close frame waits for `aclose`: what came before is still answered.
                self._problem = PROBLEMS.get(event.code, str(event.reason))
                self._end = anyio.BrokenResourceError(self._problem)
                self._goodbye = CloseConnection(event.code, self._problem)

    def _say_close(self, event: CloseConnection) -> None:
        # Nothing may follow.
        self._pong = b""
        self._framed.append(self._protocol.send(event))

    async def each_readable(self, callback: Callable[[], bool]) -> None:
        """See `Stream`."""
        await self.each_readable_above(self._stream, callback)

    async def wait_readable(self) -> None:
        """See `Stream`."""
        if self._has_more:
            await checkpoint()
        else:
            await self._stream.wait_readable()

    # -- sending

    def send_pieces_nowait(self, pieces: Sequence[Buffer]) -> list[Buffer]:
        """See `Stream`. The beginning of what is returned may be in a frame already."""
        if self._protocol.state is not ConnectionState.OPEN:
            raise anyio.BrokenResourceError("the closing handshake has begun")
        left = list(pieces)
        while self._flush():
            left = without_first(left, self._owed)
            data = first_bytes(left, FRAME_BYTES)
            self._owed = len(data)
            if not data:
                break
            self._framed.append(self._protocol.send(BytesMessage(data)))
        return left

    def _flush(self) -> bool:
        """Sends frames as far as the stream takes them at once; returns whether all have left.

        A pong that it does not take leaves with the next bytes in either direction.
        """
        while self._framed or self._pong:
            if not self._framed:
                self._framed.append(self._pong)
                self._pong = b""
            self._framed = self._stream.send_pieces_nowait(self._framed)
            if self._framed:
                return False
        return True

    async def _flush_all(self) -> None:
        while not self._flush():
            await self._stream.wait_writable()

    async def wait_writable(self) -> None:
        """See `Stream`."""
        await self._stream.wait_writable()

    # -- the end

    async def send_eof(self) -> None:
        """Begin the closing handshake: send a close frame, and nothing after it.

        Receiving goes on, up to the client's close frame. Waits while the client reads nothing.
        """
        if self._protocol.state is ConnectionState.OPEN:
            self._say_close(self._goodbye)
        await self._flush_all()

    async def aclose(self) -> None:
        """Close the stream below, after the closing handshake, for which the client has a second.

        There is none after a reset, or if this is cancelled; but our close frame is sent if it goes
        at once.
        """
        try:
            if not self._is_aborted:
                await self._shake_hands()
        finally:
            self._end = anyio.ClosedResourceError()
            await self._stream.aclose()

    async def _shake_hands(self) -> None:
        if self._protocol.state is ConnectionState.OPEN:
            self._say_close(self._goodbye)
        with suppress(anyio.EndOfStream, *GONE):
            self._flush()
            with anyio.move_on_after(CLOSE_SECONDS):
                await self._flush_all()
                await self._wait_for_close()

    async def _wait_for_close(self) -> None:
        """Wait for the client's close frame; after what is no frame, for the end of its bytes.

        Closing a socket with unread bytes resets the connection, and the client may lose what it
        has not read yet.
        """
        if self._protocol.state is ConnectionState.CLOSED:
            return
        while not self._problem:
            await self.receive()
        while True:
            await self._stream.receive(TURN_BYTES)

    @property
    def unacknowledged_bytes(self) -> int | None:
        """How many bytes of frames the peer's system has not acknowledged yet, if it tells."""
        return self._stream.unacknowledged_bytes

    def reset(self) -> None:
        """See `Stream`."""
        self._is_aborted = True
        self._stream.reset()

    @property
    def is_reset(self) -> bool:
        """See `Stream`."""
        return self._stream.is_reset


PROBLEMS: dict[int, str] = {
    CloseReason.UNSUPPORTED_DATA: "MQTT has binary frames only",
    CloseReason.MESSAGE_TOO_BIG: "a frame is longer than a packet may be",
}


class _Limits(Extension):
    """Refuses frames by their headers: that is where the library lets an extension look.

    It is never offered, and changes no frame.
    """

    name = "limits"

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes

    def enabled(self) -> bool:
        return True

    def offer(self) -> bool:
        return False

    def frame_inbound_header(
        self,
        proto: FrameDecoder | FrameProtocol,
        opcode: Opcode,
        rsv: RsvBits,
        payload_length: int,
    ) -> CloseReason | RsvBits:
        """Returns why the frame is refused, or which reserved bits it may have."""
        if opcode is Opcode.TEXT:
            return CloseReason.UNSUPPORTED_DATA
        if payload_length > self._most_bytes:
            return CloseReason.MESSAGE_TOO_BIG
        return RsvBits(False, False, False)
