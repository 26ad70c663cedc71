"""Exercise 18.2, wrong: those that go early go unseen.

Fails at: a reader that had not got there is told
"""

from bisect import bisect_left
from collections import OrderedDict

from batches import Message
from errors import TABLE_FULL, require
from settings import (
    CAPACITY,
    DEFAULTS,
    MAX_BYTES,
    OF_A_TABLE,
    TOMBSTONES_MS,
    TTL_MS,
)
from topics import Row, Topic

EACH = 8  # bytes that a message counts besides its key and payload


class Table(Topic):
    """A topic that keeps the last message of each key.

    Its rows are in a dict. An offset that is no longer in it is a hole.
    """

    head = 0  # below it everything has expired

    def __init__(self) -> None:
        super().__init__()
        self.settings = DEFAULTS | OF_A_TABLE
        self._rows = OrderedDict[int, Row]()  # by their offsets
        self._newest: dict[bytes, int] = {}  # of each key, its offset
        self._offsets: list[int] = []  # all of `_rows`, and some holes
        self._tombstones = OrderedDict[int, int]()  # times, by offsets
        self._tombstone_bytes = 0
        self._count = 0  # of all others; their bytes are in `_bytes`

    def publish(self, batch: list[Message], now: int) -> tuple[int, int]:
        """Put a batch into the table. See `Topic`: nothing is dropped."""
        self.expire(now)
        self._require_room(batch)
        first = self.next_offset
        for key, payload in batch:
            if key in self._newest:
                self._remove(self._newest[key])
            self._put(now, key, payload)
        self._expire_tombstones(now)
        for reader in self.readers:
            reader.ring()
        return first, 0

    def _require_room(self, batch: list[Message]) -> None:
        """Refuse a batch after which there would be too much to read."""
        last = {key: payload for key, payload in batch if key}
        come = [*last.items(), *(each for each in batch if not each[0])]
        known = last.keys() & self._newest.keys()
        go = [self._rows[self._newest[key]][2:] for key in known]
        count = self._count + sum(map(_counts, come)) - sum(map(_counts, go))
        size = self._bytes + sum(map(_size, come)) - sum(map(_size, go))
        good = count <= self.settings[CAPACITY]
        good = good and size <= self.settings[MAX_BYTES]
        require(good, TABLE_FULL, "", "it is full: delete a key first")

    def _put(self, time: int, key: bytes, payload: bytes) -> None:
        """Put a message at the end."""
        offset = self.next_offset
        self.next_offset += 1
        self._rows[offset] = (offset, time, key, payload)
        self._offsets.append(offset)
        if key:
            self._newest[key] = offset
        if key and not payload:
            self._tombstones[offset] = time
            self._tombstone_bytes += len(key) + EACH
        self._count += _counts((key, payload))
        self._bytes += _size((key, payload))

    def _remove(self, offset: int) -> None:
        """Leave a hole where a message was."""
        _, _, key, payload = self._rows.pop(offset)
        self._count -= _counts((key, payload))
        self._bytes -= _size((key, payload))
        self._newest.pop(key, None)
        if self._tombstones.pop(offset, None) is not None:
            self._tombstone_bytes -= len(key) + EACH
        if len(self._offsets) > 2 * len(self._rows):
            self._offsets = list(self._rows)

    def next_row(self, offset: int) -> Row:
        """The next message at an offset or after it."""
        place = bisect_left(self._offsets, offset)
        while self._offsets[place] not in self._rows:
            place += 1
        return self._rows[self._offsets[place]]

    def first_since(self, time: int) -> int:
        """The offset of the first message that is not older than this."""
        since = (row[0] for row in self._rows.values() if row[1] >= time)
        return next(since, self.next_offset)

    def expire(self, now: int) -> None:
        """Drop what is past its retention. That is always the oldest."""
        ttl_us = self.settings[TTL_MS] * 1000
        while self._rows:
            offset, time, _, _ = next(iter(self._rows.values()))
            if time + ttl_us > now:
                break
            self._remove(offset)
            self.head = offset + 1
        self._expire_tombstones(now)

    def _expire_tombstones(self, now: int) -> None:
        """Drop tombstones that are old or too many, but not the newest."""
        kept_us = self.settings[TOMBSTONES_MS] * 1000
        most = self.settings[MAX_BYTES]
        while self._tombstones:
            offset, time = next(iter(self._tombstones.items()))
            is_due = time + kept_us <= now or self._tombstone_bytes * 4 > most
            if not is_due or offset == self.next_offset - 1:
                break
            self._remove(offset)
            if time + kept_us <= now:
                self.deleted_below = offset + 1


def _counts(message: Message) -> bool:
    """Whether a message takes room: a tombstone does not."""
    key, payload = message
    return not key or bool(payload)


def _size(message: Message) -> int:
    """How many bytes of a table's room a message takes."""
    return len(message[0]) + len(message[1]) + EACH if _counts(message) else 0
