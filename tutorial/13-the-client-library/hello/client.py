"""A client of the broker, for other programs."""

from itertools import count
from typing import Any

import layouts
from anyio.abc import SocketStream
from construct import Container
from errors import Refused
from frames import FrameBuffer
from layouts import ERROR, ERROR_TYPE, HEADER, REQUESTS, encode
from limits import MAX_FRAME

KINDS = {name: (kind, fields) for kind, (name, fields) in REQUESTS.items()}
REPLIES = {
    "hello": layouts.WELCOME,
    "create": layouts.CREATED,
    "publish": layouts.PUBLISHED,
    "subscribe": layouts.SUBSCRIBED,
    "commit": layouts.COMMITTED,
    "ping": layouts.PING,
}

HELLO = {
    "magic": b"ZAIK",
    "version_min": 1,
    "version_max": 1,
    "features": 0,
    "client": b"my client",
    "auth": 0,
    "user": b"",
    "secret": b"",
}

FROM_NOW_ON = {
    "name": b"",
    "start": 1,
    "value": 0,
    "epoch": 0,
    "until": 2**64 - 1,
    "credit": 1000,
    "credit_bytes": 1_048_576,
}


def answer_to(request: str, frame: bytes) -> Container[Any]:
    """What a reply says; an Error is raised."""
    body = frame[HEADER.sizeof() :]
    if HEADER.parse(frame).type == ERROR_TYPE:
        error = ERROR.parse(body)
        raise Refused(error.code, error.field.decode(), error.message.decode())
    return REPLIES[request].parse(body)


class Client:
    """One connection. Ask, and wait for the answer."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._ids = count(1)
        self._frames = FrameBuffer(MAX_FRAME)

    async def ask(self, request: str, /, **fields: Any) -> Container[Any]:
        """Send a request. Returns what the broker answers."""
        kind, layout = KINDS[request]
        frame = encode(kind, next(self._ids), layout.build(fields))
        await self._stream.send(frame)
        return answer_to(request, await self._next_frame())

    async def _next_frame(self) -> bytes:
        """The next frame that comes."""
        while not (frame := self._frames.next_frame()):
            self._frames.feed(await self._stream.receive())
        return frame
