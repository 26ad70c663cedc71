"""A topic: its ring of messages, its windows, the positions of its named readers. Nothing here waits or sends."""

from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import wire
from table import TABLE, TOMBSTONES, Table
from work_queue import WorkQueue

if TYPE_CHECKING:
    from subscription import Subscription

TTL, WINDOW, CAPACITY, MAX_BYTES, MAX_KEYS, _JOURNAL, OVERFLOW = range(1, 8)
DEFAULTS = {TTL: 0, WINDOW: 0, CAPACITY: 10_000, MAX_BYTES: 67_108_864, MAX_KEYS: 100_000, OVERFLOW: 0}
OF_TABLES = {TABLE: 1, TOMBSTONES: 86_400_000}
UPPER = {CAPACITY: 10_000_000, MAX_BYTES: 2**40, MAX_KEYS: 10_000_000}
LONGEST_MS = 3_155_760_000_000
REJECT = 1
KEPT_SECONDS = 60
KEPT_OWNERS = 64


class Stored(NamedTuple):
    """Messages of one batch, as they lie in the ring: offsets from ``base``, all accepted at ``time``."""

    base: int
    time: int
    batch: wire.Batch
    size: int

    @property
    def end(self) -> int:
        return self.base + len(self.batch.keys)


@dataclass(eq=False)
class Session:
    """The position of a named reader, and who may have the name."""

    committed: int
    delivered: int
    reader: "Subscription | None" = None
    gone_at: float = 0.0
    owner: int | None = None
    attempt: int = 0
    replaced: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT_OWNERS))
    begins_empty: bool = False  # it began at the earliest
    told: int | None = None  # of a table: ``deleted_below`` when the name was sent its first message

    def judge(self, owner: int | None, attempt: int) -> None:
        """Refuses an owner that was replaced, and a request that is older than the last one."""
        if owner is None:
            return
        if owner in self.replaced:
            raise wire.Fault(wire.TAKEN_OVER, "owner", "the name went to another owner")
        if owner == self.owner and attempt <= self.attempt:
            raise wire.Fault(wire.TAKEN_OVER, "attempt", "a later attempt of this owner has the name")

    def hand_over(self, owner: int | None, attempt: int) -> None:
        if self.owner is not None and owner != self.owner:
            self.replaced.append(self.owner)
        self.owner, self.attempt = owner, attempt


class Accepted(NamedTuple):
    """The answer to a publish."""

    first_offset: int
    stored: int
    dropped: list[bool]


def check_settings(pairs: list[tuple[int, int]]) -> dict[int, int]:
    """The settings by number; those unknown, doubled or out of range are refused."""
    named: dict[int, int] = {}
    for number, value in pairs:
        if number not in DEFAULTS | OF_TABLES:
            raise wire.Fault(wire.UNSUPPORTED, "settings", f"setting {number} is not known")
        if number in named:
            raise wire.Fault(wire.INVALID_FIELD, "settings", f"setting {number} is named twice")
        if number in (TTL, WINDOW, TOMBSTONES):
            good = value <= LONGEST_MS or value == wire.FOREVER
        elif number in (OVERFLOW, TABLE):
            good = value <= REJECT
        else:
            good = 1 <= value <= UPPER[number]
        if not good:
            raise wire.Fault(wire.INVALID_FIELD, "settings", f"setting {number} cannot be {value}")
        named[number] = value
    check_table(named)
    return named


def check_table(named: dict[int, int]) -> None:
    """Refuses what a table cannot have, and what only a table has."""
    if not named.get(TABLE):
        if TOMBSTONES in named:
            raise wire.Fault(wire.INVALID_FIELD, "settings", "only tables keep tombstones")
    elif named.get(TTL) == 0 or named.get(WINDOW) or named.get(OVERFLOW):
        raise wire.Fault(wire.INVALID_FIELD, "settings", "a table keeps messages, and neither compacts nor rejects")


def in_force(named: dict[int, int]) -> dict[int, int]:
    """All settings of a new topic. Those of tables are only in a table."""
    if named.get(TABLE):
        return DEFAULTS | {TTL: wire.FOREVER} | OF_TABLES | named
    return DEFAULTS | {number: value for number, value in named.items() if number in DEFAULTS}


class Topic:
    """Its messages lie in a list of batches, in the order of their offsets; ``first`` is the oldest one's index."""

    def __init__(self, name: str, epoch: int, named: dict[int, int], *, explicit: bool) -> None:
        self.name, self.epoch, self.explicit = name, epoch, explicit
        self.settings = in_force(named)
        self.ring: list[Stored] = []
        self.bases: list[int] = []
        self.first = 0
        self.bytes = 0
        self.head = 0
        self.next = 0
        self.windows: OrderedDict[bytes, int] = OrderedDict()  # of each key its last opening, the oldest first
        self.readers: dict[Subscription, None] = {}
        self.sessions: dict[str, Session] = {}
        self.queues: dict[str, WorkQueue] = {}
        self.table: Table | None = None
        self.begin_table()

    def begin_table(self) -> None:
        if TABLE in self.settings:
            self.table = Table(self)

    # What is in it.

    def adopt(self, named: dict[int, int]) -> None:
        """CreateTopic for a topic that exists."""
        if not self.explicit and self.next == 0:
            self.settings = in_force(named)
            self.explicit = True
            self.begin_table()
            return
        for number, value in named.items():
            if self.settings.get(number, 0) != value:
                raise wire.Fault(wire.TOPIC_EXISTS, "", f"setting {number} is not {value}")

    def expire(self, now: int) -> None:
        """Drops what is older than the retention."""
        if self.table is not None:
            self.table.expire(now)
            return
        ttl = self.settings[TTL]
        if not 0 < ttl < wire.FOREVER:
            return
        while self.first < len(self.ring) and self.ring[self.first].time + ttl * 1000 <= now:
            self._drop_batch()

    def _drop_batch(self) -> None:
        gone = self.ring[self.first]
        self.first += 1
        self.bytes -= gone.size
        self.head = max(self.head, gone.end)
        if self.first > 256 and self.first * 2 > len(self.ring):
            del self.ring[: self.first], self.bases[: self.first]
            self.first = 0

    def free_below(self, offset: int) -> None:
        """The messages below the offset go, and batches of which none is left."""
        self.head = max(self.head, offset)
        while self.first < len(self.ring) and self.ring[self.first].end <= self.head:
            self._drop_batch()

    def stored_at(self, offset: int) -> Stored:
        return self.ring[bisect_right(self.bases, offset, self.first) - 1]

    def offset_at(self, time: int) -> int:
        """The first message accepted at or after the time, else the next one to come."""
        if self.table is not None:
            return self.table.offset_at(time)
        at = bisect_left(self.ring, time, self.first, key=lambda stored: stored.time)
        return max(self.head, self.ring[at].base) if at < len(self.ring) else self.next

    def earliest(self) -> int:
        return self.next if self.settings[TTL] == 0 else self.head

    # One message, for shared names.

    def read(self, offset: int) -> tuple[int, bytes, bytes] | None:
        """The message's acceptance time, key and payload; None if it has gone, or is a hole."""
        if self.table is not None:
            row = self.table.rows.get(offset)
            return row and (row.time, row.key, row.payload)
        if not self.head <= offset < self.next:
            return None
        stored = self.stored_at(offset)
        at = offset - stored.base
        return stored.time, stored.batch.keys[at], stored.batch.payloads[at]

    def is_hole(self, offset: int) -> bool:
        return self.table is not None and offset >= self.head and offset not in self.table.rows

    def next_readable(self, offset: int) -> int:
        """The first offset from here on that is no hole: readable, or gone."""
        if self.table is None or offset < self.head:
            return offset
        return self.table.next_row(offset)

    # Publishing.

    def publish(self, batch: wire.Batch, now: int, *, tombstones: bool = False) -> Accepted:
        """Stores what no window keeps out; a batch that is refused changes nothing."""
        if self.table is not None:
            first = self.next
            self.table.publish(batch, now, tombstones=tombstones)
            return Accepted(first, len(batch.keys), [False] * len(batch.keys))
        self.expire(now)
        if len(batch.keys) > self.settings[CAPACITY] or batch.size > self.settings[MAX_BYTES]:
            raise wire.Fault(wire.BATCH_TOO_LARGE, "batch", "it is larger than the topic's ring")
        if self.settings[OVERFLOW] == REJECT:
            self._refuse_if_needed(len(batch.keys), batch.size)
        dropped = self._compact(batch, now)
        first_offset = self.next
        if any(dropped):
            keys = [key for key, out in zip(batch.keys, dropped, strict=True) if not out]
            payloads = [payload for payload, out in zip(batch.payloads, dropped, strict=True) if not out]
            batch = wire.Batch(keys, payloads)
        if batch.keys:
            stored = Stored(self.next, now, batch, batch.size)
            self.ring.append(stored)
            self.bases.append(stored.base)
            self.bytes += stored.size
            self.next = stored.end
            self._evict()
        return Accepted(first_offset, len(batch.keys), dropped)

    def _compact(self, batch: wire.Batch, now: int) -> list[bool]:
        window = self.settings[WINDOW]
        if window == 0:
            return [False] * len(batch.keys)
        dropped = []
        for key in batch.keys:
            out = bool(key) and self._is_open(key, now)
            if key and not out:
                self.windows.pop(key, None)
                self.windows[key] = now
            dropped.append(out)
        self._forget_windows(now)
        return dropped

    def _is_open(self, key: bytes, now: int) -> bool:
        opened = self.windows.get(key)
        window = self.settings[WINDOW]
        return opened is not None and (window == wire.FOREVER or now < opened + window * 1000)

    def _forget_windows(self, now: int) -> None:
        while self.windows:
            if self._is_open(next(iter(self.windows)), now) and len(self.windows) <= self.settings[MAX_KEYS]:
                break
            self.windows.popitem(last=False)

    def _evict(self) -> None:
        self.free_below(self.next - self.settings[CAPACITY])
        while self.bytes > self.settings[MAX_BYTES]:
            self._drop_batch()

    def _refuse_if_needed(self, count: int, size: int) -> None:
        """TOPIC_FULL if the batch would push out what a reader still needs."""
        head = max(self.head, self.next + count - self.settings[CAPACITY])
        held, at = self.bytes, self.first
        while at < len(self.ring) and (self.ring[at].end <= head or held + size > self.settings[MAX_BYTES]):
            head = max(head, self.ring[at].end)
            held -= self.ring[at].size
            at += 1
        if head == self.head:
            return
        needed_here = [max(r.cursor, self.head) < min(r.until, head) for r in self.readers if r.session is None]
        needed_by_name = [session.committed < head for session in self.sessions.values()]
        needed_by_queue = [queue.needed() < head for queue in self.queues.values()]
        if any(needed_here) or any(needed_by_name) or any(needed_by_queue):
            raise wire.Fault(wire.TOPIC_FULL, "", "a reader still needs what would have to go")

    # Once a second.

    def sweep(self, now: int, seconds: float) -> None:
        for name, session in list(self.sessions.items()):
            if session.reader is None and seconds >= session.gone_at + KEPT_SECONDS:
                del self.sessions[name]
        self.expire(now)
        for queue in self.queues.values():
            queue.sweep(seconds, now)
        if self.settings[TTL] == 0:
            places = [reader.needed() for reader in self.readers]
            places += [session.committed for session in self.sessions.values()]
            places += [queue.needed() for queue in self.queues.values()]
            self.free_below(min([*places, self.next]))
        if self.settings[WINDOW]:
            self._forget_windows(now)
