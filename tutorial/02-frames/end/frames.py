"""Bytes in, frames out: puts together what TCP cut, parts what it glued."""

LENGTH_SIZE = 4
SMALLEST = 8  # the length counts the other 8 bytes of the header


class BadLength(Exception):
    """An impossible length: nobody knows where the next frame begins."""

    def __init__(self, length: int) -> None:
        super().__init__(f"a length of {length} is impossible")
        self.length = length


class FrameBuffer:
    """Keeps bytes until a frame is whole, of `largest` length at most."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self._bytes = bytearray()

    def feed(self, data: bytes) -> None:
        """Keep what a read has brought."""
        self._bytes += data

    def next_frame(self) -> bytes | None:
        """The next frame, or None if it is not all there yet."""
        if len(self._bytes) < LENGTH_SIZE:
            return None
        length = int.from_bytes(self._bytes[:LENGTH_SIZE], "little")
        if not SMALLEST <= length <= self.largest:
            raise BadLength(length)
        size = LENGTH_SIZE + length
        if len(self._bytes) < size:
            return None
        frame = bytes(self._bytes[:size])
        del self._bytes[:size]
        return frame
