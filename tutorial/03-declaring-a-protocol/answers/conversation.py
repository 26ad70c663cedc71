"""One client's conversation with us: bytes in, bytes out, no socket."""

from typing import Any

from construct import Container
from frames import FrameBuffer
from layouts import HEADER, PING, REPLY, REQUESTS, encode


class Conversation:
    """What one client has said so far, and what we answer."""

    def __init__(self) -> None:
        self._buffer = FrameBuffer(4096)

    def receive(self, data: bytes) -> bytes:
        """What to answer to what a read has brought."""
        self._buffer.feed(data)
        replies = b""
        while frame := self._buffer.next_frame():
            replies += self._answer(frame)
        return replies

    def _answer(self, frame: bytes) -> bytes:
        """The reply to one request; nothing if it asks for silence."""
        header = HEADER.parse(frame)
        name, layout = REQUESTS[header.type]
        fields = layout.parse(frame[HEADER.sizeof() :])
        reply = self._carry_out(name, fields)
        if header.id == 0:
            return b""
        return encode(header.type | REPLY, header.id, reply)

    def _carry_out(self, name: str, fields: Container[Any]) -> bytes:
        """Do what was asked for. Returns the reply's body."""
        match name:
            case "ping":
                return PING.build(fields)
            case _:
                raise NotImplementedError(name)
