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
                dropped |= 1 << place  # and its window is not prolonged
            elif key:
                self._ends.pop(key, None)  # so that it comes in last
                self._ends[key] = now + window_us
        return dropped

    def forget(self, now: int, most: int) -> None:
        """Forget windows that are over, and above `most` the oldest."""
        for key in list(self._ends):  # as they were opened, so as they end
            if self._ends[key] > now and len(self._ends) <= most:
                break
            del self._ends[key]
