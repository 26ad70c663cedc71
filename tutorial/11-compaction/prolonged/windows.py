"""Compaction windows: for a while, one message of a key is enough."""

from batches import Message


class Windows:
    """Of each key, when its window ends."""

    def __init__(self) -> None:
        self._ends: dict[bytes, int] = {}

    def sift(self, batch: list[Message], now: int, window_us: int) -> int:
        """Which messages to drop: bit i stands for message i."""
        dropped = 0
        for place, (key, _) in enumerate(batch):
            if key and now < self._ends.get(key, 0):
                dropped |= 1 << place
            self._ends[key] = now + window_us
        return dropped
