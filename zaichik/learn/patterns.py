"""How frames are cut into writes: whole, byte by byte, or glued together. TCP promises none.

Every check runs in all patterns, without mentioning it, because a broker that reads "a frame" from
its socket works on an idle machine and fails elsewhere.
"""

from enum import Enum
from random import Random

import anyio.lowlevel
from anyio.abc import ByteSendStream

from zaichik.learn.wire import encode

# Only the ends of a long frame go byte by byte: that is where headers and fields are cut.
DRIPPED = 64
# A request that gets no reply: part of it ends every glued write, and the rest begins the next one.
FILLER = encode("Ping", frame_id=0, value=0x5A)


class Pattern(Enum):
    """How frames are sent; the value is what reports say."""

    WHOLE = "whole"
    DRIPPED = "byte by byte"
    GLUED = "glued together"


class Writer:
    """Writes frames to a stream in one pattern.

    A glued frame waits for `flush`, so that it goes out together with what is sent after it.

    Args:
        stream: the stream to write to.
        pattern: how to write.
        rng: decides where the filler is cut.
    """

    def __init__(self, stream: ByteSendStream, pattern: Pattern, rng: Random) -> None:
        self._stream = stream
        self._pattern = pattern
        self._rng = rng
        self._waiting = b""
        self._owed = b""  # the rest of a filler whose first part was sent

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
            # Other tasks in this process get a turn between bytes.
            await anyio.lowlevel.checkpoint()
        if frame[DRIPPED:middle]:
            await self._stream.send(frame[DRIPPED:middle])
        for byte in frame[middle:]:
            await self._stream.send(bytes([byte]))

    async def flush(self) -> None:
        """Send what waits, followed by part of a filler."""
        if self._waiting:
            cut = self._rng.randrange(1, len(FILLER))
            data, self._waiting = self._owed + self._waiting + FILLER[:cut], b""
            self._owed = FILLER[cut:]
            await self._stream.send(data)

    async def exactly(self, data: bytes) -> None:
        """Send these bytes in one write, after all that waits."""
        data = self._owed + self._waiting + data
        self._waiting = self._owed = b""
        if data:
            await self._stream.send(data)
