"""A topic: settings, one ring, one compaction window, and who reads it. Here the rules of time are applied.

Retention decides how long a message can be read (`expire`), compaction whether it is stored at all
(`publish`). Both look at the same clock reading, which the caller passes in.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from zaichik.broker.budget import Budget
from zaichik.broker.compaction import CompactionWindow
from zaichik.broker.ring import BroadcastRing
from zaichik.broker.settings import TopicSettings, out_of_range
from zaichik_protocol import FOREVER, Batch, EndCode, ErrorCode, Overflow, Published, Refused, Start

if TYPE_CHECKING:
    from zaichik.broker.journal import Journal

MICROSECONDS_PER_MS = 1000


class Place(Protocol):
    """Where a reader stands: what a topic knows of a subscription, and of a named one whose reader is away."""

    @property
    def needed(self) -> int:
        """The oldest offset that it may still have to be sent."""

    @property
    def who(self) -> str:
        """Whose place it is, in words."""


class Reader(Place, Protocol):
    """A live subscription, as its topic knows it."""

    def cut_off(self, code: EndCode) -> None:
        """Read no more, and tell why."""


class TopicController:
    """One topic. All methods are synchronous; `now_us` is the clock's reading, which never decreases.

    Args:
        name: its name.
        settings: see `TopicSettings`.
        epoch: when it was made; together with the name its identity. Never 0.
        explicit: whether somebody asked for these settings, or first use created it (TOP-3).
        budget: the bytes all topics may hold together; by default there is no such bound.

    Attributes:
        published: messages that arrived: `published = stored + compacted`.
        compacted: messages that compaction dropped.
        readers: its live subscriptions.
        places: for whom messages are kept: those of them that are anonymous, and all named ones, live or not.
        journal: what tells of every message published, if it has one (JRN-1).
        unused_us: when a sweep first found it unused; None if it was used since (TOP-7).
    """

    def __init__(
        self, name: str, settings: TopicSettings, epoch: int, *, explicit: bool, budget: Budget | None = None
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.published = 0
        self.compacted = 0
        self.readers: dict[Reader, None] = {}  # a set that keeps order, so that everything is repeatable
        self.places: dict[Place, None] = {}
        self.journal: Journal | None = None
        self.unused_us: int | None = None
        self.ring = BroadcastRing(settings.capacity, settings.max_bytes, budget)
        self._apply(settings, explicit=explicit)
        self.ring.budget.add(self.ring)  # not before: a topic that is refused leaves nothing behind

    def _apply(self, settings: TopicSettings, *, explicit: bool) -> None:
        if settings.overflow == Overflow.REJECT:
            self.ring.budget = self.ring.budget.set_aside(self.ring, settings.max_bytes)
        self.settings = settings
        self.explicit = explicit
        self.ring.capacity = settings.capacity
        self.ring.max_bytes = settings.max_bytes
        window_us = settings.compaction_window_ms * MICROSECONDS_PER_MS
        self.window = CompactionWindow(window_us, settings.max_keys) if window_us else None

    def create_again(self, pairs: tuple[tuple[int, int], ...]) -> None:
        """Accept a second CreateTopic with these settings, or refuse it (TOP-2, TOP-3).

        Raises:
            Refused: `TOPIC_EXISTS`, with the difference; `NO_MEMORY` (RET-9).
        """
        wanted = self.settings.merged(pairs)
        if not self.explicit and self.ring.next_offset == 0:
            self._apply(wanted, explicit=True)
        elif wanted != self.settings:
            differences = ", ".join(
                f"{name} is {_shown(getattr(self.settings, name))}, asked for {_shown(getattr(wanted, name))}"
                for name in TopicSettings.__dataclass_fields__
                if getattr(wanted, name) != getattr(self.settings, name)
            )
            raise Refused(
                ErrorCode.TOPIC_EXISTS,
                f"topic {self.name!r} exists with other settings: {differences}. "
                "Leave them out to use it as it is, or choose another name.",
                "settings",
            )

    def publish(self, batch: Batch, now_us: int, request_id: int = 0) -> Published:
        """Store a batch, compacted, all of it at one time (PUB-2, COM-2): the answer to the request of that id.

        Raises:
            Refused: `BATCH_TOO_LARGE` for the ring (RET-6), or for all of them (RET-10), `TOPIC_FULL` (RET-9); then
                nothing was stored.
        """
        max_bytes = min(self.settings.max_bytes, self.ring.budget.limit)
        if batch.count > self.settings.capacity or len(batch.data) > max_bytes:
            raise Refused(
                ErrorCode.BATCH_TOO_LARGE,
                f"a batch of {batch.count} and {len(batch.data)} bytes is more than the ring of {self.name!r} holds "
                f"({self.settings.capacity} messages, {max_bytes} bytes). Send smaller batches.",
                "batch",
            )
        self.expire(now_us)
        if self.settings.overflow == Overflow.REJECT:
            self._check_room(batch)
        first_offset = self.ring.next_offset
        kept: Sequence[int] = range(batch.count)
        if self.window is not None:
            kept = self.window.admit(batch.keys(), now_us)
        compacted = batch.count - len(kept)
        if self.journal is not None:  # first, so that its room never costs the messages it tells of (RET-10)
            self.journal.write(batch, kept, first_offset, now_us)
        if not compacted:
            self.store(batch, now_us)
        elif kept:
            self.store(batch.select(kept), now_us)
        self.published += compacted
        self.compacted += compacted
        dropped = _bitmap(batch.count, kept) if compacted else b""
        return Published(request_id, first_offset, len(kept), compacted, len(self.readers), dropped)

    def _check_room(self, batch: Batch) -> None:
        """Refuse a batch for which somebody would lose messages (RET-9).

        Who still needs what is looked at only if the ring is full, and who is furthest back only to tell of it. What
        compaction would drop of the batch counts: nothing may have changed yet if it is refused.
        """
        head = self.ring.head_after(batch)
        if head > self.ring.head and self.needed() < head:
            slowest = min(self.places, key=lambda place: place.needed)
            raise Refused(
                ErrorCode.TOPIC_FULL,
                f"topic {self.name!r} is full, and {slowest.who} still needs offset "
                f"{max(slowest.needed, self.ring.head)}. Send the batch again when it has read on.",
                "topic",
            )

    def needed(self) -> int:
        """The oldest offset that anybody may still have to be sent."""
        return min((place.needed for place in self.places), default=self.ring.next_offset)

    def store(self, batch: Batch, now_us: int) -> None:
        """Store a batch as it is."""
        self.published += batch.count
        self.ring.append(batch, now_us)

    def expire(self, now_us: int) -> None:
        """Drop what may no longer be read: readable while accepted ≤ now < accepted + ttl (RET-1, RET-5)."""
        ttl_ms = self.settings.retention_ttl_ms
        if ttl_ms not in (0, FOREVER):
            self.ring.expire_accepted_until(now_us - ttl_ms * MICROSECONDS_PER_MS)

    def sweep(self, now_us: int) -> None:
        """Free what time has freed; called once a second, so that an idle topic lets go by itself (RET-7).

        Without retention, that is also what lies below every reader: no one is waiting for it (RET-1).
        """
        self.expire(now_us)
        if self.settings.retention_ttl_ms == 0:
            self.ring.expire_below(self.needed())
        if self.window is not None:
            self.window.close(now_us)

    def is_unused(self, now_us: int, ttl_us: float) -> bool:
        """Whether first use has made it and nobody has used it since, for that long (TOP-7). Asked once a second."""
        if self.explicit or self.ring.next_offset or self.places or self.readers:
            self.unused_us = None
        elif self.unused_us is None:
            self.unused_us = now_us
        return self.unused_us is not None and now_us - self.unused_us >= ttl_us

    def check_empty(self, now_us: int) -> None:
        """Refuse to be deleted if a message would be lost, or a reader cut off (TOP-6).

        Raises:
            Refused: `NOT_EMPTY`.
        """
        self.expire(now_us)
        messages, named = self.ring.next_offset - self.ring.head, len(self.places.keys() - self.readers.keys())
        if messages or named or self.readers:
            raise Refused(
                ErrorCode.NOT_EMPTY,
                f"topic {self.name!r} has {messages} messages, {len(self.readers)} subscriptions and {named} named "
                "positions. To delete it with all of them, do not ask for it to be empty.",
                "topic",
            )

    def delete(self) -> None:
        """End every subscription and let go of every message (TOP-6). What may be kept of it afterwards is empty."""
        for reader in list(self.readers):
            reader.cut_off(EndCode.DELETED)
        self.ring.expire_below(self.ring.next_offset)
        self.ring.budget.remove(self.ring)

    def position(self, start: int, value: int, now_us: int) -> int:
        """The offset at which a subscription begins (RET-4).

        Raises:
            Refused: `OFFSET_AHEAD`, `INVALID_FIELD`.
        """
        self.expire(now_us)
        ring = self.ring
        match start:
            case Start.EARLIEST:
                return ring.head if self.settings.retention_ttl_ms else ring.next_offset
            case Start.LATEST:
                return ring.next_offset
            case Start.OFFSET if value <= ring.next_offset:
                return value
            case Start.OFFSET:
                raise Refused(
                    ErrorCode.OFFSET_AHEAD,
                    f"topic {self.name!r} ends before offset {ring.next_offset}, so it cannot be read from {value}",
                    "value",
                )
            case Start.TIME:
                return ring.first_accepted_since(value)
            case _:
                raise out_of_range("start", start, "0 to 3")

    def attach(self, reader: Reader, place: Place) -> None:
        """Count a live subscription in, which stands there: at its session, or at itself if it has no name.

        From now on, what is needed there is not freed (RET-1), nor evicted if the topic may lose nothing (RET-9).
        """
        self.readers[reader] = None
        self.places[place] = None

    def detach(self, reader: Reader) -> None:
        """Count a live subscription out, wherever it stands; what was kept for it is kept no more."""
        self.readers.pop(reader, None)
        self.keep_no_more(reader)
        self.ring.stop_waiting(reader)

    def keep_no_more(self, place: Place) -> None:
        """Whoever stood there is gone."""
        self.places.pop(place, None)


def _bitmap(count: int, kept: Sequence[int]) -> bytes:
    """One bit for each of `count` messages, set for those that are not in `kept`."""
    bitmap = bytearray((count + 7) // 8)
    for index in set(range(count)).difference(kept):
        bitmap[index >> 3] |= 1 << (index & 7)
    return bytes(bitmap)


def _shown(value: int) -> str:
    return "forever" if value == FOREVER else str(value)
