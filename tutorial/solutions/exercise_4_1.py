"""Exercise 4.1: no longer than that."""

import anyio
from anyio.abc import ByteReceiveStream


async def next_bytes(stream: ByteReceiveStream, seconds: float) -> bytes | None:
    """What the next read brings; None if nothing comes within so many seconds; b"" if the stream has ended."""
    with anyio.move_on_after(seconds):
        try:
            return await stream.receive()
        except anyio.EndOfStream:
            return b""
    return None
