"""Topics: rows of messages, and who reads them."""

from bisect import bisect_left, bisect_right
from collections import deque
from operator import itemgetter
from typing import Any

from batches import Message, size_of
from clock import now_us
from errors import (
    BATCH_TOO_LARGE,
    INVALID_FIELD,
    OFFSET_AHEAD,
    TOPIC_EXISTS,
    Refused,
    require,
    require_text,
)
from producers import Producers
from settings import (
    CAPACITY,
    DEFAULTS,
    MAX_BYTES,
    MAX_KEYS,
    TTL_MS,
    WINDOW_MS,
)
from windows import Windows

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
        self._windows = Windows()
        self._batches: deque[tuple[int, int]] = deque()  # end, bytes
        self._bytes = 0  # the sum of these bytes
        self.readers: list[Any] = []  # each is a Reader, or a Queue
        self.queues: dict[bytes, Any] = {}  # each is a Queue

    @property
    def head(self) -> int:
        """The offset of the oldest message that is still there."""
        return self.next_offset - len(self.row)

    def start(self, where: int, value: int) -> int:
        """The offset at which a reader starts."""
        match where:
            case 0:  # the earliest; without a retention, nothing old
                return self.head if self.settings[TTL_MS] else self.next_offset
            case 1:  # the latest
                return self.next_offset
            case 2:  # an offset, even one that has gone
                good = value <= self.next_offset
                require(good, OFFSET_AHEAD, "value", "it is yet to come")
                return value
            case 3:  # a time
                times = itemgetter(0)
                return self.head + bisect_left(self.row, value, key=times)
            case _:
                raise Refused(INVALID_FIELD, "start", "it is 0 to 3")

    def configure(self, named: dict[int, int]) -> None:
        """Take settings, or refuse those that are not in force here."""
        if not self.is_configured and self.next_offset == 0:
            self.settings = DEFAULTS | named
            self.is_configured = True
        good = named.items() <= self.settings.items()
        require(good, TOPIC_EXISTS, "", f"it has {self.settings}")

    def publish(self, batch: list[Message], now: int) -> tuple[int, int]:
        """Put a batch into the row, all but what compaction drops.

        Returns the first message's offset, and the messages that were
        dropped: bit i stands for message i.
        """
        capacity, most = self.settings[CAPACITY], self.settings[MAX_BYTES]
        good = len(batch) <= capacity and size_of(batch) <= most
        require(good, BATCH_TOO_LARGE, "batch", f"{capacity}, {most} bytes")
        self.expire(now)
        first, dropped = self.next_offset, 0
        if window_us := self.settings[WINDOW_MS] * 1000:
            dropped = self._windows.sift(batch, now, window_us)
            self._windows.forget(now, self.settings[MAX_KEYS])
        kept = [each for i, each in enumerate(batch) if not dropped >> i & 1]
        self._store(kept, now)
        self._drop(len(self.row) - capacity)
        while self._bytes > most:
            self._drop(self._batches[0][0] - self.head)
        for reader in self.readers:
            reader.ring()
        return first, dropped

    def _store(self, batch: list[Message], now: int) -> None:
        """Put messages at the end of the row."""
        if batch:
            self.next_offset += len(batch)
            self.row += [(now, key, payload) for key, payload in batch]
            self._batches.append((self.next_offset, size_of(batch)))
            self._bytes += size_of(batch)

    def expire(self, now: int) -> None:
        """Drop what is past its retention. That is always the oldest."""
        if ttl_us := self.settings[TTL_MS] * 1000:
            times = itemgetter(0)
            self._drop(bisect_right(self.row, now - ttl_us, key=times))

    def sweep(self, now: int) -> None:
        """Free what nobody will read: it is done once a second."""
        self.expire(now)
        self._windows.forget(now, self.settings[MAX_KEYS])
        if self.settings[TTL_MS] == 0:
            cursors = [reader.cursor for reader in self.readers]
            self._drop(min(cursors, default=self.next_offset) - self.head)

    def _drop(self, count: int) -> None:
        """Drop that many messages, and batches that are then empty."""
        if count > 0:
            del self.row[:count]
            while self._batches and self._batches[0][0] <= self.head:
                _, size = self._batches.popleft()
                self._bytes -= size


class Topics(dict[bytes, Topic]):
    """All topics, by their names, and all producers."""

    def __init__(self) -> None:
        super().__init__()
        self.producers = Producers()

    def find(self, name: bytes) -> Topic:
        """The topic of that name; a new one, if there is none."""
        require_text(name, "topic")
        good = 0 < len(name) <= MAX_NAME and not name.startswith(b"$")
        require(good, INVALID_FIELD, "topic", "1 to 200 bytes, no $ first")
        bad = [c for c in name.decode() if c < " " or "\x7f" <= c < "\xa0"]
        require(not bad, INVALID_FIELD, "topic", "control characters")
        return self.setdefault(name, Topic())
