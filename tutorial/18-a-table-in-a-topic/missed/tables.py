"""Tables: topics that keep the last message of each key."""

from bisect import bisect_left
from collections import OrderedDict

from batches import Message
from settings import DEFAULTS, OF_A_TABLE, TOMBSTONES_MS, TTL_MS
from topics import Row, Topic


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

    def publish(self, batch: list[Message], now: int) -> tuple[int, int]:
        """Put a batch into the table. See `Topic`: nothing is dropped."""
        self.expire(now)
        first = self.next_offset
        for key, payload in batch:
            if key in self._newest:
                self._remove(self._newest[key])
            self._put(now, key, payload)
        for reader in self.readers:
            reader.ring()
        return first, 0

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

    def _remove(self, offset: int) -> None:
        """Leave a hole where a message was."""
        _, _, key, _ = self._rows.pop(offset)
        self._newest.pop(key, None)
        self._tombstones.pop(offset, None)
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
        """Drop tombstones that were kept long enough, but not the newest."""
        kept_us = self.settings[TOMBSTONES_MS] * 1000
        while self._tombstones:
            offset, time = next(iter(self._tombstones.items()))
            if time + kept_us > now or offset == self.next_offset - 1:
                break
            self._remove(offset)
            self.deleted_below = offset + 1
