"""Topics: rows of messages, and who reads them."""

from bisect import bisect_right
from operator import itemgetter
from typing import Any

from batches import Message
from clock import now_us
from errors import (
    BATCH_TOO_LARGE,
    INVALID_FIELD,
    TOPIC_EXISTS,
    require,
    require_text,
)
from settings import CAPACITY, DEFAULTS, TTL_MS

MAX_NAME = 200  # bytes


class Topic:
    """One topic: a row of messages, which leave only at the front.

    A message's offset is the number it got when it came. It stays, however
    many go before it: the row's first message has the offset `head`.
    """

    def __init__(self) -> None:
        self.epoch = now_us()  # tells it from later ones of its name
        self.settings = DEFAULTS
        self.is_configured = False  # whether somebody has named settings
        self.row: list[tuple[int, bytes, bytes]] = []  # time, key, payload
        self.next_offset = 0
        self.readers: list[Any] = []  # each is a Reader

    @property
    def head(self) -> int:
        """The offset of the oldest message that is still there."""
        return self.next_offset - len(self.row)

    @property
    def earliest(self) -> int:
        """Where a reader starts that wants everything."""
        return self.head if self.settings[TTL_MS] else self.next_offset

    def configure(self, named: dict[int, int]) -> None:
        """Take settings, or refuse those that are not in force here."""
        if not self.is_configured and self.next_offset == 0:
            self.settings = DEFAULTS | named
            self.is_configured = True
        good = named.items() <= self.settings.items()
        require(good, TOPIC_EXISTS, "", f"it has {self.settings}")

    def publish(self, batch: list[Message], now: int) -> int:
        """Put a batch into the row. Returns the first message's offset."""
        capacity = self.settings[CAPACITY]
        good = len(batch) <= capacity
        require(good, BATCH_TOO_LARGE, "batch", f"it keeps {capacity}")
        first = self.next_offset
        self.next_offset += len(batch)
        self.row += [(now, key, payload) for key, payload in batch]
        del self.row[:-capacity]  # all but the newest
        self.expire(now)
        for reader in self.readers:
            reader.ring()
        return first

    def expire(self, now: int) -> None:
        """Drop what is past its retention. That is always the oldest."""
        if ttl_us := self.settings[TTL_MS] * 1000:
            times = itemgetter(0)
            gone = bisect_right(self.row, now - ttl_us, key=times)
            del self.row[:gone]


class Topics(dict[bytes, Topic]):
    """All topics, by their names."""

    def find(self, name: bytes) -> Topic:
        """The topic of that name; a new one, if there is none."""
        require_text(name, "topic")
        good = 0 < len(name) <= MAX_NAME and not name.startswith(b"$")
        require(good, INVALID_FIELD, "topic", "1 to 200 bytes, no $ first")
        bad = [c for c in name.decode() if c < " " or "\x7f" <= c < "\xa0"]
        require(not bad, INVALID_FIELD, "topic", "control characters")
        return self.setdefault(name, Topic())
