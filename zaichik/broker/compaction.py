"""The compaction window: the first message of a key keeps later ones out, for exactly the window's length.

This is keep-first compaction, what NATS JetStream calls a duplicate window. What Kafka calls log compaction
keeps the *last* message of a key; that is another rule and not this one.

A window opens at t0 and covers `[t0, t0 + window)`. Repeats inside do not prolong it, so a key that never
falls silent still gets a message through once a window (COM-1).

The table maps a key to its t0. Times never decrease and a key is only inserted when its window opens, so a
dict in insertion order *is* in order of t0, and the windows that have closed are always a prefix. Closing them
costs O(1) per insertion: no heap, no timer, no scan. (An `OrderedDict`, because the first item of a plain dict is
found by walking over all that were deleted before it.)
"""

from collections import OrderedDict

from zaichik_protocol import FOREVER


class CompactionWindow:
    """Which keys are inside a window.

    Args:
        window_us: length in microseconds; from `FOREVER` on it never closes.
        max_keys: windows remembered at most; the oldest is forgotten first (COM-6).

    Attributes:
        key_bytes: of all keys remembered.
        forgotten: windows that were forgotten while still open, for want of room.
    """

    def __init__(self, window_us: int, max_keys: int) -> None:
        self._window_us = window_us
        self._max_keys = max_keys
        self._opened_us: OrderedDict[bytes, int] = OrderedDict()
        self.key_bytes = self.forgotten = 0

    def __len__(self) -> int:
        """Windows remembered."""
        return len(self._opened_us)

    def admit(self, keys: list[bytes], now_us: int) -> list[int]:
        """The indices of the messages to keep, of a batch with these keys, all judged at `now_us` (COM-2).

        Windows open for those kept. A message without a key (b"") is always kept and opens nothing (COM-5).
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

    def forget(self, count: int) -> None:
        """Forget the oldest windows, so many of them, although they are open (COM-6)."""
        for _ in range(min(count, len(self._opened_us))):
            self._drop_oldest()
            self.forgotten += 1

    def close(self, now_us: int) -> None:
        """Forget the windows that are over at `now_us`."""
        if self._window_us >= FOREVER:
            return
        opened = self._opened_us
        while opened and next(iter(opened.values())) + self._window_us <= now_us:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, _ = self._opened_us.popitem(last=False)
        self.key_bytes -= len(key)
