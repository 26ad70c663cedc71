"""What became of half a frame in 2020: two Pings, cut at every place.

Run it after "Type: a buffer of bytes".
"""

import struct

from frames import FrameBuffer

PINGS = b"".join(
    struct.pack("<IBBHIQ", 16, 7, 0, 0, number, number) for number in (1, 2)
)


class FrameBufferOf2020(FrameBuffer):
    """Takes a frame that is not all there for garbage, and throws it away."""

    def next_frame(self) -> bytes | None:
        """The next frame, or None; and then the buffer is empty."""
        frame = super().next_frame()
        if frame is None:
            self._bytes.clear()
        return frame


def survives(kind: type[FrameBuffer], cut: int) -> bool:
    """Whether both Pings come out if they arrive in two reads."""
    buffer = kind(largest=4096)
    frames = []
    for read in (PINGS[:cut], PINGS[cut:]):
        buffer.feed(read)
        try:
            while frame := buffer.next_frame():
                frames.append(frame)
        except Exception:
            return False
    return b"".join(frames) == PINGS


places = range(1, len(PINGS))
for kind in (FrameBufferOf2020, FrameBuffer):
    good = [cut for cut in places if survives(kind, cut)]
    count = f"{len(good)} of {len(places)}"
    print(f"{kind.__name__}: both frames come out for {count} places to cut")
    if len(good) < 3:
        print("  these are:", *good)
