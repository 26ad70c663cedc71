"""Compaction windows: for a while, one message of a key is enough."""

from batches import Message


class Windows:
    """The keys that a topic has seen."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def sift(self, batch: list[Message]) -> int:
        """Which messages to drop: bit i stands for message i."""
        dropped = 0
        for place, (key, _) in enumerate(batch):
            if key in self._seen:
                dropped |= 1 << place
            elif key:
                self._seen.add(key)
        return dropped
