"""Tables: topics that keep the last message of each key."""

from batches import Message
from settings import DEFAULTS, OF_A_TABLE
from topics import Topic


class Table(Topic):
    """A topic that keeps the last message of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = DEFAULTS | OF_A_TABLE
        self._newest: dict[bytes, int] = {}  # of each key, its offset

    def publish(self, batch: list[Message], now: int) -> tuple[int, int]:
        """Put a batch into the row. See `Topic`: nothing is dropped."""
        self.expire(now)
        first = self.next_offset
        for key, payload in batch:
            if key in self._newest:
                place = self._newest[key] - self.head
                self.row[place] = (now, key, payload)
            else:
                self._store([(key, payload)], now)
                if key:
                    self._newest[key] = self.next_offset - 1
        for reader in self.readers:
            reader.ring()
        return first, 0
