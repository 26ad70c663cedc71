"""How frames are cut into writes: whole, byte by byte, or glued together. TCP promises none of the three.

Every check runs in all patterns, without a word about it, because a broker that reads "a frame" from its socket
works on a quiet machine and fails elsewhere.
"""

from enum import Enum
from random import Random

import anyio.lowlevel
from anyio.abc import ByteSendStream

from zaichik.learn.wire import encode

# Of a long frame only the ends go byte by byte: that is where headers and fields are cut.
DRIPPED = 64
# A request that asks for silence: half of it hangs at the end of every glued write, the rest begins the next.
FILLER = encode("Ping", frame_id=0, value=0x5A)


class Pattern(Enum):
    """How frames go out; the value is what a report says of them."""

    WHOLE = "whole"
    DRIPPED = "byte by byte"
    GLUED = "glued together"


class Writer:
    """Puts frames on a stream in one pattern.

    A glued frame waits until `flush`, so that it goes out together with what is sent after it.

    Args:
        stream: where to.
        pattern: how.
        rng: says where the filler is cut.
    """

    def __init__(self, stream: ByteSendStream, pattern: Pattern, rng: Random) -> None:
        self._stream = stream
        self._pattern = pattern
        self._rng = rng
        self._waiting = b""
        self._owed = b""  # the rest of a filler whose beginning was sent

    async def write(self, frame: bytes) -> None:
        """Send a frame, or keep it for the next flush."""
        match self._pattern:
            case Pattern.WHOLE:
                await self._stream.send(frame)
            case Pattern.DRIPPED:
                await self._drip(frame)
            case Pattern.GLUED:
                self._waiting += frame

    async def _drip(self, frame: bytes) -> None:
        middle = max(DRIPPED, len(frame) - DRIPPED)
        for byte in frame[:DRIPPED]:
            await self._stream.send(bytes([byte]))
            await anyio.lowlevel.checkpoint()  # whoever else runs in this process gets a turn between two bytes
        if frame[DRIPPED:middle]:
            await self._stream.send(frame[DRIPPED:middle])
        for byte in frame[middle:]:
            await self._stream.send(bytes([byte]))

    async def flush(self) -> None:
        """Send what waits, with half a frame behind it."""
        if self._waiting:
            cut = self._rng.randrange(1, len(FILLER))
            data, self._waiting = self._owed + self._waiting + FILLER[:cut], b""
            self._owed = FILLER[cut:]
            await self._stream.send(data)

    async def exactly(self, data: bytes) -> None:
        """Send these bytes in one write, behind all that waits."""
        data = self._owed + self._waiting + data
        self._waiting = self._owed = b""
        if data:
            await self._stream.send(data)
