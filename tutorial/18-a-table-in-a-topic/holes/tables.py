"""Tables: topics that keep the last message of each key."""

from typing import Any

from batches import Message
from settings import DEFAULTS, OF_A_TABLE
from topics import Row, Topic

HOLE: Any = None  # stands where a payload was


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
            self._supersede(key)
            if key:
                self._newest[key] = self.next_offset
            self._store([(key, payload)], now)
        for reader in self.readers:
            reader.ring()
        return first, 0

    def _supersede(self, key: bytes) -> None:
        """Where the last message of this key is, leave a hole."""
        place = self._newest.get(key, -1) - self.head
        if place >= 0:  # else there is none, or it has expired
            time, _, _ = self.row[place]
            self.row[place] = (time, b"", HOLE)

    def next_row(self, offset: int) -> Row:
        """The next message at an offset or after it."""
        while self.row[offset - self.head][-1] is HOLE:
            offset += 1
        return super().next_row(offset)
