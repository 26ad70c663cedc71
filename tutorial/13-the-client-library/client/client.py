"""A client of the broker, for other programs."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
import layouts
from anyio.abc import ObjectReceiveStream, SocketStream
from anyio.streams.memory import MemoryObjectSendStream
from batches import Message, decode_batch
from construct import Container
from errors import Refused
from frames import FrameBuffer
from layouts import ERROR, ERROR_TYPE, HEADER, MESSAGES, REQUESTS, encode
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
    """One connection. One task reads it, and hands out what comes."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._ids = count(1)
        self._sending = anyio.Lock()
        # Where a frame goes, by its id: to whoever asked, or subscribed.
        self._boxes: dict[int, MemoryObjectSendStream[bytes]] = {}

    async def ask(self, request: str, /, **fields: Any) -> Container[Any]:
        """Send a request. Returns what the broker answers."""
        frame_id = next(self._ids)
        box = await self._send(request, frame_id, fields)
        try:
            return answer_to(request, await box.receive())
        finally:
            box.close()
            self._boxes.pop(frame_id).close()

    async def _send(
        self, request: str, frame_id: int, fields: dict[str, Any]
    ) -> ObjectReceiveStream[bytes]:
        """Send a request. Returns where the frames of its id will come."""
        put, box = anyio.create_memory_object_stream[bytes](math.inf)
        self._boxes[frame_id] = put
        kind, layout = KINDS[request]
        async with self._sending:
            frame = encode(kind, frame_id, layout.build(fields))
            await self._stream.send(frame)
        return box

    async def read(self) -> None:
        """Put each frame into the box of its id, until no more come."""
        frames = FrameBuffer(MAX_FRAME)
        try:
            async for data in self._stream:
                frames.feed(data)
                while frame := frames.next_frame():
                    # No box: nobody waits any more, or it is a GoAway.
                    if box := self._boxes.get(HEADER.parse(frame).id):
                        box.send_nowait(frame)
            raise anyio.BrokenResourceError  # ends the block of `connect`
        finally:
            for box in self._boxes.values():
                box.close()  # whoever still waits there is told so

    async def subscribe(self, topic: str) -> AsyncIterator[Message]:
        """The messages of a topic that come from now on."""
        reader = next(self._ids)
        wanted = {**FROM_NOW_ON, "topic": topic.encode()}
        box = await self._send("subscribe", reader, wanted)
        answer_to("subscribe", await box.receive())
        return self._messages(reader, box)

    async def _messages(
        self, reader: int, box: ObjectReceiveStream[bytes]
    ) -> AsyncIterator[Message]:
        """One after the other. Each is settled when the next is wanted."""
        async for frame in box:
            if HEADER.parse(frame).type != layouts.MESSAGES_TYPE:
                continue  # a Lagged: a better client would report it
            event = MESSAGES.parse(frame[HEADER.sizeof() :])
            batch = decode_batch(event.batch)
            for message in batch:
                yield message
            end = event.base + len(batch)
            await self.ask("commit", subscription=reader, next=end)


@asynccontextmanager
async def connect(port: int) -> AsyncIterator[Client]:
    """A client, for as long as the block lasts."""
    async with (
        await anyio.connect_tcp("127.0.0.1", port) as stream,
        anyio.create_task_group() as tasks,
    ):
        client = Client(stream)
        tasks.start_soon(client.read)
        await client.ask("hello", **HELLO)
        yield client
        tasks.cancel_scope.cancel()
