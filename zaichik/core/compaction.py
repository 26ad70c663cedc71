"""The compaction window: for its length, the first message of a key keeps later ones out.

This is keep-first compaction, what NATS JetStream calls a duplicate window. What Kafka calls log
compaction keeps the *last* message of a key; that is another rule and not this one.

A window opens at t0 and covers `[t0, t0 + window)`. Repeats inside do not prolong it, so a key that
is published without a pause still gets one message through per window (COM-1).

The table maps a key to its t0. Times never decrease and a key is only inserted when its window
opens, so a dict in insertion order *is* in order of t0, and the windows that have closed are always
a prefix. Closing them costs O(1) per insertion: no heap, no timer, no scan. (An `OrderedDict`,
because finding the first item of a plain dict means walking over all the items that were deleted
before it.)
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from zaichik_protocol import FOREVER


class CompactionWindow:
    """The open windows of one topic, by key.

    Args:
        window_us: length in microseconds; at `FOREVER` and above, windows never close.
        max_keys: windows remembered at most; the oldest is forgotten first (COM-6).

    Attributes:
        key_bytes: total bytes of the keys remembered.
        forgotten: windows that were forgotten while still open, to make room.
    """

    def __init__(self, window_us: int, max_keys: int) -> None:
        self._window_us = window_us
        self._max_keys = max_keys
        self._opened_us: OrderedDict[bytes, int] = OrderedDict()
        self.key_bytes = 0
        self.forgotten = 0

    def __len__(self) -> int:
        """Returns the number of windows remembered."""
        return len(self._opened_us)

    def admit(self, keys: list[bytes], now_us: int) -> list[int]:
        """Returns the indices of the messages to keep, of a batch with these keys (COM-2).

        The time is `now_us` for all of them. Each message kept opens a window. One without a key
        (b"") is always kept and opens none (COM-5).
        """
        self.close(now_us)
        opened = self._opened_us
        kept = []
        for index, key in enumerate(keys):
            if key:
                if key in opened:
                    continue
                opened[key] = now_us
                self.key_bytes += len(key)
            kept.append(index)
        if len(opened) > self._max_keys:
            self.forget(len(opened) - self._max_keys)
        return kept

    def shift(self, by_us: int) -> None:
        """Have all windows end that much later: the clock has jumped."""
        for key in self._opened_us:
            self._opened_us[key] += by_us

    def opening_times(self) -> Iterable[tuple[bytes, int]]:
        """Returns the keys and when their windows opened, the oldest first."""
        return self._opened_us.items()

    def newest(self, most_bytes: int, now_us: int) -> Iterator[tuple[bytes, int]]:
        """Returns the keys whose windows are open and when they opened, the newest first.

        Args:
            most_bytes: stops once the keys have this many bytes.
            now_us: the clock's reading.
        """
        for key, opened_us in reversed(self._opened_us.items()):
            is_closed = opened_us + self._window_us <= now_us
            if is_closed or most_bytes <= 0:
                return
            most_bytes -= len(key)
            yield key, opened_us

    def opened_us(self, key: bytes) -> int | None:
        """Returns when the window of that key opened; None if none is remembered."""
        return self._opened_us.get(key)

    def take_back(self, keys: Iterable[bytes]) -> None:
        """Close the windows of messages that were not stored after all."""
        for key in keys:
            if self._opened_us.pop(key, None) is not None:
                self.key_bytes -= len(key)

    def forget(self, count: int) -> None:
        """Forget the `count` oldest windows, although they are open (COM-6)."""
        count = min(count, len(self._opened_us))
        for _ in range(count):
            self._drop_oldest()
            self.forgotten += 1

    def close(self, now_us: int) -> None:
        """Close the windows that have ended by `now_us`."""
        if self._window_us >= FOREVER:
            return
        opened = self._opened_us
        while opened:
            oldest_us = next(iter(opened.values()))
            if oldest_us + self._window_us > now_us:
                break
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, _ = self._opened_us.popitem(last=False)
        self.key_bytes -= len(key)


def bitmap(count: int, kept: Sequence[int]) -> bytes:
    """Returns one bit for each of `count` messages, lowest first: set if it is not in `kept`."""
    size = (count + 7) // 8
    # Where windows are long, and batches small, all of a batch is usually dropped.
    if not kept:
        if count == 1:
            return b"\1"
        bits_of_all = (1 << count) - 1
        return bits_of_all.to_bytes(size, "little")
    bits = bytearray(size)
    for index in set(range(count)).difference(kept):
        bits[index >> 3] |= 1 << (index & 7)
    return bytes(bits)
