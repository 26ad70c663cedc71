"""Everything is caught, so that a cancellation from outside is taken for silence, and the task goes on.

Fails at: somebody else's cancellation is not yours to stop
"""

import anyio
from anyio.abc import ByteReceiveStream


async def next_bytes(stream: ByteReceiveStream, seconds: float) -> bytes | None:
    """What the next read brings, or None."""
    try:
        with anyio.fail_after(seconds):
            return await stream.receive()
    except anyio.EndOfStream:
        return b""
    except BaseException:
        return None
