"""Clients that behave badly, as bare streams: only what a test asks for is read or sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import anyio

from zaichik.net.socket_stream import SocketStream
from zaichik_protocol import NEED_DATA, FrameDecoder, Hello, Ping, Pong, encode

HELLO = encode(Hello(1, client="rude"))
PING = 77


@asynccontextmanager
async def greeted(port: int, *, heartbeat: bool = False) -> AsyncIterator[SocketStream]:
    """A stream whose Hello was sent, and whose Welcome was read."""
    async with await SocketStream.connect("127.0.0.1", port) as stream:
        await stream.send(encode(Hello(1, features=int(heartbeat), client="rude")))
        await first_reply(stream)
        yield stream


async def first_reply(stream: SocketStream) -> object:
    """The next frame; what follows it in the same read is lost."""
    decoder = FrameDecoder.for_client()
    while (frame := decoder.next_frame()) is NEED_DATA:
        decoder.receive_data(await stream.receive())
    return frame


async def answers(stream: SocketStream) -> bool:
    """Whether a Ping is answered with its Pong, and with nothing else before it."""
    await stream.send(encode(Ping(PING, PING)))
    return isinstance(await first_reply(stream), Pong)


async def send_for_ever(stream: SocketStream, data: bytes) -> None:
    """Send it again and again, until the broker has had enough of it. Nothing is read."""
    try:
        while True:
            await stream.send(data)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass


async def knock(port: int) -> NoReturn:
    """Come and say Hello, wait until that ends, and come again, for ever."""
    while True:
        try:
            async with await SocketStream.connect("127.0.0.1", port) as stream:
                await stream.send(HELLO)
                while await stream.receive():
                    pass
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            pass


async def is_served(port: int) -> bool:
    """Whether a connection is accepted and greeted."""
    try:
        async with greeted(port):
            return True
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
        return False
