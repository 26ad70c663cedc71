"""A table, and a reader of it, as plainly as possible: all messages, each with its fate.

Written from the rules TAB-1 to TAB-8. Nothing here is fast, and nothing is ever forgotten.
"""

from dataclasses import dataclass, field

from zaichik_protocol import (
    DeletionsMissed,
    EndCode,
    ErrorCode,
    Lagged,
    Messages,
    SubscriptionEnded,
)

LIVE, SUPERSEDED, EXPIRED, OVER, EVICTED = "live", "superseded", "expired", "over", "evicted"
DELIVERED, SKIPPED, PASSED = "delivered", "skipped", "passed"


@dataclass
class Message:
    offset: int
    key: bytes
    payload: bytes
    accepted_us: int
    fate: str = LIVE  # OVER: a tombstone whose time was over; EVICTED: one that went early
    superseded: int = -1  # the offset of the message that it has superseded

    @property
    def is_tombstone(self):
        return bool(self.key) and not self.payload

    @property
    def size(self):
        return len(self.key) + len(self.payload)


@dataclass(eq=False)
class ModelTable:
    capacity: int
    max_bytes: int
    ttl_us: float
    tombstones_us: float
    messages: list = field(default_factory=list)
    readers: list = field(default_factory=list)

    # -- what is there ---------------------------------------------------------------------------

    @property
    def end(self):
        return len(self.messages)

    def fates(self, *fates):
        return sum(message.fate in fates for message in self.messages)

    @property
    def live(self):
        return [message for message in self.messages if message.fate == LIVE]

    @property
    def head(self):
        """The offset after the last message whose retention has ended."""
        return max((m.offset + 1 for m in self.messages if m.fate == EXPIRED), default=0)

    @property
    def deleted_below(self):
        return max((m.offset + 1 for m in self.messages if m.fate in (OVER, EVICTED)), default=0)

    def from_offset(self, offset):
        """The messages from there on that can be read."""
        return [message for message in self.live if message.offset >= offset]

    # -- what happens ----------------------------------------------------------------------------

    def publish(self, pairs, now_us, *, tombstones):
        """Returns the first offset, or the code with which the batch is refused."""
        self.expire(now_us)
        if not tombstones and any(key and not payload for key, payload in pairs):
            return ErrorCode.INVALID_FIELD
        fates = [message.fate for message in self.messages]
        first = self.end
        for key, payload in pairs:
            arriving = Message(self.end, key, payload, now_us)
            for message in self.live:
                if key and message.key == key:
                    message.fate = SUPERSEDED
                    arriving.superseded = message.offset
            self.messages.append(arriving)
        kept = [message for message in self.live if not message.is_tombstone]
        too_many = len(kept) > self.capacity
        if too_many or sum(message.size + 8 for message in kept) > self.max_bytes:
            del self.messages[first:]
            for message, fate in zip(self.messages, fates, strict=True):
                message.fate = fate
            return ErrorCode.TABLE_FULL
        arrived = [message for message in self.live[-len(pairs) :] if message.offset >= first]
        coming = sum(message.is_tombstone for message in arrived)
        self._expire_tombstones(now_us, 2 * coming)
        self._limit_tombstones()
        return first

    def _limit_tombstones(self):
        while True:
            there = [message for message in self.live if message.is_tombstone]
            size = sum(len(message.key) + 8 for message in there)
            if size <= self.max_bytes // 4 or there[0].offset == self.end - 1:
                break
            self._goes(there[0], EVICTED)

    def _goes(self, tombstone, fate):
        """A tombstone goes: those that have not reached it, and may hold its key, miss it."""
        tombstone.fate = fate
        for reader in self.readers:
            if reader.cursor <= tombstone.offset and reader.position.held:
                reader.has_missed = True

    def expire(self, now_us):
        for message in self.live:
            if now_us >= message.accepted_us + self.ttl_us:
                message.fate = EXPIRED

    def sweep(self, now_us):
        self.expire(now_us)
        self._expire_tombstones(now_us, len(self.messages))

    def _expire_tombstones(self, now_us, most):
        there = [message for message in self.live if message.is_tombstone]
        for message in there[:most]:
            is_over = now_us >= message.accepted_us + self.tombstones_us
            if is_over and message.offset < self.end - 1:
                self._goes(message, OVER)


@dataclass(eq=False)
class ModelPosition:
    """A position, of a name or of one subscription.

    `held` is whether a reader of it may hold messages: something was sent, or it began elsewhere
    than at the earliest.
    """

    committed: int
    delivered: int
    held: bool
    name: str = ""


@dataclass(eq=False)
class ModelTableReader:
    id: int
    table: ModelTable
    position: ModelPosition
    until: int
    credit: int
    credit_bytes: int
    cursor: int = 0
    ended: bool = False
    has_missed: bool = False  # deletions, of which it was not told yet
    fates: dict = field(default_factory=dict)  # offset → DELIVERED, SKIPPED or PASSED
    frames: list = field(default_factory=list)  # the offsets and the bytes of all delivered
    may_be_stuck: bool = (
        False  # it was seen waiting for room for one message, and has not committed since
    )

    def __post_init__(self):
        self.start = self.cursor = self.position.committed
        self.has_missed = self.position.held and self.cursor < self.table.deleted_below
        self.table.readers.append(self)

    @property
    def committed(self):
        return self.position.committed

    @property
    def in_flight(self):
        return sum(
            fate == DELIVERED and offset >= self.committed for offset, fate in self.fates.items()
        )

    @property
    def in_flight_bytes(self):
        return sum(size for offsets, size in self.frames if offsets[-1] >= self.committed)

    @property
    def has_credit(self):
        return self.in_flight == 0 or (
            self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes
        )

    def next_messages(self):
        """The most that may be in the next frame."""
        ahead = self.table.from_offset(self.cursor)
        if not ahead:
            return []
        first, before = ahead[0], self.until
        if first.offset < self.position.delivered:
            before = min(before, self.position.delivered)
        taken, size = [], 0
        for message in ahead:
            if message.offset >= before or message.accepted_us != first.accepted_us:
                break
            fits = (
                self.in_flight + len(taken) < self.credit
                and self.in_flight_bytes + size + message.size <= self.credit_bytes
            )
            if not fits and (taken or self.in_flight):
                break
            taken.append(message)
            size += message.size
        return taken

    def owed(self):
        """What is due: an event; or messages, of which a frame has the first ones; or None."""
        table = self.table
        if self.ended:
            return None
        if self.cursor >= self.until:
            return self._end()
        if not self.has_credit:
            return None
        if self.has_missed:
            return DeletionsMissed(self.id, table.deleted_below)
        if self.cursor < table.head:
            return Lagged(self.id, self.cursor, min(table.head, self.until))
        if min([*(m.offset for m in table.from_offset(self.cursor)), table.end]) >= self.until:
            return self._end()
        return self.next_messages() or None

    def _end(self):
        at = max(self.cursor, self.until)
        return SubscriptionEnded(self.id, EndCode.UNTIL, at, f"it reached offset {self.until}")

    @property
    def is_stuck(self):
        """It has credit, but not enough for the message that comes next."""
        ahead = self.table.from_offset(self.cursor)
        return not self.ended and self.has_credit and bool(ahead) and self.owed() is None

    def hear(self, frame):
        """Check a frame against what is due, and take it."""
        due = self.owed()
        if isinstance(frame, Messages):
            self._hear_messages(frame, due)
            return
        assert frame == due
        match frame:
            case SubscriptionEnded():
                self.goes_to(frame.next, PASSED)
                self.ended = True
                self.table.readers.remove(self)
            case Lagged():
                self.goes_to(frame.to_offset, SKIPPED)
            case DeletionsMissed():
                self.has_missed = False

    def _hear_messages(self, frame, due):
        """A frame has the first of the messages that are due, as many as the broker likes."""
        assert isinstance(due, list)
        offsets = [frame.base + delta for delta in frame.deltas or range(frame.batch.count)]
        assert frame.holes == bool(frame.deltas)
        are_missing = offsets[-1] - offsets[0] >= len(offsets)
        assert frame.holes == are_missing
        pairs = zip(frame.batch.keys(), frame.batch.payloads(), strict=True)
        heard = [(offset, *pair) for offset, pair in zip(offsets, pairs, strict=True)]
        assert heard == [(m.offset, m.key, m.payload) for m in due[: len(heard)]]
        assert frame.accepted_us == due[0].accepted_us
        assert frame.redelivered == (offsets[0] < self.position.delivered)
        for offset in offsets:
            self.goes_to(offset, PASSED)
            self.goes_to(offset + 1, DELIVERED)
        self.frames.append((offsets, frame.batch.size))
        self.position.delivered = max(self.position.delivered, self.cursor)
        self.position.held = True

    def goes_to(self, to, fate):
        """Give that fate to every offset up to that one."""
        for offset in range(self.cursor, to):
            assert offset not in self.fates
            self.fates[offset] = fate
        self.cursor = max(self.cursor, to)

    def passes(self, to):
        """The broker says that it stands there: only holes may be between."""
        assert to >= self.cursor
        for message in self.table.messages[self.cursor : to]:
            assert message.fate not in (LIVE, EXPIRED)
        self.goes_to(to, PASSED)

    def commit(self, to):
        """Returns whether that may be committed."""
        if to > self.cursor:
            return False
        self.position.committed = max(self.position.committed, to)
        self.may_be_stuck = False
        return True
