"""A table: the last message of each key, all messages without one, and tombstones. Nothing here waits or sends."""

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

import wire

if TYPE_CHECKING:
    from topic import Topic

TTL, CAPACITY, MAX_BYTES, TABLE, TOMBSTONES = 1, 3, 4, 11, 12  # numbers of settings
EACH = 8  # bytes that a message counts besides its key and payload
MOST_ROWS = 1000  # in one frame


class Row(NamedTuple):
    """A message that can be read."""

    offset: int
    time: int
    key: bytes
    payload: bytes

    @property
    def size(self) -> int:
        return len(self.key) + len(self.payload)

    @property
    def counted(self) -> int:
        return self.size + EACH

    @property
    def is_tombstone(self) -> bool:
        return bool(self.key) and not self.payload


class Table:
    """Of a topic. ``order`` has the offsets of all rows, and for a while those of rows that are gone: holes."""

    def __init__(self, topic: "Topic") -> None:
        self.topic = topic
        self.rows: dict[int, Row] = {}
        self.order: list[int] = []
        self.newest: dict[bytes, int] = {}
        self.graves: dict[int, Row] = {}
        self.grave_bytes = 0
        self.count = 0  # of rows that are no tombstones
        self.bytes = 0
        self.deleted_below = 0  # above the offset of every tombstone that has gone

    # Publishing.

    def publish(self, batch: wire.Batch, now: int, *, tombstones: bool) -> None:
        """Stores all of the batch, or refuses it and changes nothing."""
        pairs = list(zip(batch.keys, batch.payloads, strict=True))
        if not tombstones and any(key and not payload for key, payload in pairs):
            raise wire.Fault(wire.INVALID_FIELD, "batch", "a tombstone is not meant without the flag TOMBSTONES")
        topic = self.topic
        self.expire(now)
        added = [Row(topic.next + i, now, *pair) for i, pair in enumerate(pairs)]
        self._refuse_if_full(added)
        topic.next += len(added)
        for row in added:
            self._put(row)
        self._bury(now)

    def _refuse_if_full(self, added: list[Row]) -> None:
        """TABLE_FULL if more could be read after the batch than the settings allow."""
        last = {row.key: row for row in added if row.key}
        stay = [row for row in added if not row.key or last[row.key] is row]
        go = [self.rows[self.newest[key]] for key in last if key in self.newest]
        count = self.count + sum(not row.is_tombstone for row in stay) - sum(not row.is_tombstone for row in go)
        size = self.bytes
        size += sum(row.counted for row in stay if not row.is_tombstone)
        size -= sum(row.counted for row in go if not row.is_tombstone)
        settings = self.topic.settings
        if count > settings[CAPACITY] or size > settings[MAX_BYTES]:
            raise wire.Fault(wire.TABLE_FULL, "", "the table would hold more than it may; delete keys first")

    def _put(self, row: Row) -> None:
        before = self.newest.get(row.key) if row.key else None
        if before is not None:
            self._drop(self.rows[before])
        self.rows[row.offset] = row
        self.order.append(row.offset)
        if row.key:
            self.newest[row.key] = row.offset
        if row.is_tombstone:
            self.graves[row.offset] = row
            self.grave_bytes += row.counted
        else:
            self.count += 1
            self.bytes += row.counted

    def _drop(self, row: Row) -> None:
        """A row becomes a hole."""
        del self.rows[row.offset]
        if row.key:
            del self.newest[row.key]
        if row.is_tombstone:
            del self.graves[row.offset]
            self.grave_bytes -= row.counted
        else:
            self.count -= 1
            self.bytes -= row.counted
        if len(self.order) > 2 * len(self.rows) + 100:
            self.order = list(self.rows)

    # Time.

    def expire(self, now: int) -> None:
        """Drops what is older than the retention, and tombstones that have been there for their time."""
        ttl = self.topic.settings[TTL]
        while self.rows and ttl < wire.FOREVER:
            oldest = next(iter(self.rows.values()))
            if oldest.time + ttl * 1000 > now:
                break
            self._drop(oldest)
            self.topic.head = oldest.offset + 1
        self._bury(now)

    def _bury(self, now: int) -> None:
        """Lets the oldest tombstones go, in time or because there are too many, but not the newest message."""
        kept = self.topic.settings[TOMBSTONES]
        while self.graves:
            oldest = next(iter(self.graves.values()))
            is_old = kept < wire.FOREVER and oldest.time + kept * 1000 <= now
            is_too_much = self.grave_bytes * 4 > self.topic.settings[MAX_BYTES]
            is_last = oldest.offset == self.topic.next - 1
            if is_last or not (is_old or is_too_much):
                break
            self._drop(oldest)
            self.deleted_below = oldest.offset + 1

    # Reading.

    def next_row(self, offset: int) -> int:
        """The offset of the first row at or after this one, else the next offset of the topic."""
        for index in range(bisect_left(self.order, offset), len(self.order)):
            if self.order[index] in self.rows:
                return self.order[index]
        return self.topic.next

    def run(self, offset: int, until: int) -> list[Row]:
        """Rows from an offset on that were accepted at one time."""
        found: list[Row] = []
        for index in range(bisect_left(self.order, offset), len(self.order)):
            row = self.rows.get(self.order[index])
            if row is None:
                continue
            if row.offset >= until or len(found) == MOST_ROWS or (found and row.time != found[0].time):
                break
            found.append(row)
        return found

    def offset_at(self, time: int) -> int:
        """The first row accepted at or after the time, else the next one to come."""
        return next((row.offset for row in self.rows.values() if row.time >= time), self.topic.next)
