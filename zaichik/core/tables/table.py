"""What a table retains: the last message of each key (TAB). They are read from memory.

Nothing is evicted: whoever came later would miss keys and not know it. What would not fit is
refused. A batch is judged by its result, so one that deletes as much as it adds always fits.

Memory is reserved as the table grows, and given back as it shrinks, so no other topic can evict
from it, and it cannot take more than half of the broker's bytes together with the lossless topics.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zaichik.base.clock import MILLISECOND_US
from zaichik.base.counted import counted
from zaichik.core.decisions import Move
from zaichik.core.pending import Pending
from zaichik.core.retained import Piece, Retained, Wake
from zaichik.core.search import Found, Match
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.tables.keep_last import Change, KeepLast
from zaichik_protocol import FOREVER, Batch, ErrorCode, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

TOMBSTONES_AT_ONCE = 1000  # that go in one sweep
TOMBSTONES_PART = 4  # besides what can be read, tombstones have a quarter of `max_bytes` (TAB-5)


class Table(Retained):
    """What a table retains.

    Args:
        topic: the topic.
        settings: those that it is given now.
        limits: the broker's.

    Attributes:
        kept: the messages.
    """

    def __init__(
        self, topic: "TopicController", settings: TopicSettings, limits: BrokerSettings
    ) -> None:
        super().__init__(topic, "")
        self.has_holes = True
        self.kept = KeepLast()
        self._capacity = settings.capacity
        self._max_bytes = settings.max_bytes
        # Of a frame: what is joined from several batches must not be larger than one of them can
        # be, or it would not fit into the largest frame.
        self._max_batch = limits.max_batch
        self._max_message = limits.max_message
        self._tombstones_us = -1
        if settings.tombstones_ms != FOREVER:
            self._tombstones_us = settings.tombstones_ms * MILLISECOND_US

    def _reserve(self) -> None:
        """Reserve what it has grown by, or give back what it has shrunk by.

        Tombstones may just have gone, too.
        """
        memory = self._memory()
        self._topic.budget.adjust(memory - self.reserved)
        self.reserved = memory
        self.deleted_below = self.kept.deleted_below

    def _memory(self) -> int:
        """Returns the bytes that all of it takes."""
        return self.kept.memory

    # -- writing ---------------------------------------------------------------------------------

    @property
    def has_fixed_settings(self) -> bool:
        """See `Retained`."""
        return self.kept.next_offset > 0

    def limit_bytes(self, max_bytes: int) -> None:
        """See `Retained`."""
        self._max_bytes = max_bytes

    def check_room(self, batch: Batch) -> None:
        """See `Retained`: `publish` judges what would be there after the batch."""

    def publish(
        self,
        batch: Batch,
        kept: Sequence[int],
        dropped: bytes,
        now_us: int,
        request_id: int,
        producer: int,
        sequence: int,
        *,
        tombstones: bool,
    ) -> Published | Pending:
        """See `Retained`. It is stored at once, and whole: a table has no window.

        Raises:
            Refused: `TABLE_FULL`; `INVALID_FIELD` for tombstones that are not meant (TAB-6).
        """
        kept_now = self.kept
        change = self._judged(batch, tombstones=tombstones)
        self._check(change, kept_now.messages, kept_now.size, kept_now.keyless)
        topic = self._topic
        first_offset = kept_now.next_offset
        # The journal comes first, as in other topics: it says what is superseded now.
        if topic.observer is not None:
            superseded = kept_now.predecessors(batch)
            topic.observer(batch, kept, first_offset, now_us, superseded)
        self._store(change, now_us)
        topic.count_stored(batch.count)
        return Published(request_id, first_offset, batch.count, 0, len(topic.readers), b"")

    def _judged(self, batch: Batch, *, tombstones: bool) -> Change:
        """Returns what a batch would change; refuses tombstones that are not meant.

        Raises:
            Refused: `INVALID_FIELD`.
        """
        change = self.kept.judge(batch)
        if change.has_tombstones and not tombstones:
            problem = (
                "in a table, an empty payload deletes its key, and the request does not say that "
                "this is meant: publish a tombstone (None in Python, --tombstone in a shell, the "
                "flag TOMBSTONES on the wire)"
            )
            raise Refused(ErrorCode.INVALID_FIELD, problem, "batch")
        return change

    def append(self, batch: Batch, accepted_us: int) -> None:
        """See `Retained`."""
        self._store(self.kept.judge(batch), accepted_us)

    def _store(self, change: Change, now_us: int) -> None:
        self.kept.append(change, now_us)
        if change.tombstones and self._tombstones_us >= 0:
            # More than come, because a sweep drops only some at once, and they may come faster.
            most = 2 * len(change.tombstones)
            self.kept.expire_tombstones(now_us - self._tombstones_us, most)
        self.kept.limit_tombstones(self._max_bytes // TOMBSTONES_PART)
        # Deletions are always accepted. So that they take no memory from other topics when there
        # is none left for tables, older ones go.
        grown = self.kept.memory - self.reserved
        if change.tombstones and not self._topic.budget.has_room(grown):
            self.kept.limit_memory(self.reserved)
        self._reserve()

    def _check(self, change: Change, messages: int, size: int, keyless: int) -> None:
        """Refuse a batch after which there would be more than there may be (TAB-1).

        Args:
            change: what there would be.
            messages: how many there are before it; see `KeepLast`.
            size: what these take.
            keyless: how many of them have no key.

        Raises:
            Refused: `TABLE_FULL`.
        """
        has_grown = change.messages > messages or change.size > size
        if change.messages > self._capacity:
            limit = f"{counted(change.messages, 'message')}, and its capacity is {self._capacity}"
        elif change.size > self._max_bytes:
            limit = f"{counted(change.size, 'byte')}, and its max_bytes is {self._max_bytes}"
        elif has_grown and not self._topic.budget.has_room(change.size - self.kept.size):
            limit = "more memory, and the broker has none left for tables"
        else:
            return
        problem = (
            f"table {self._topic.name!r} would hold {limit}. Delete keys, or make a larger table."
        )
        keyless += change.keyless
        if keyless:
            without = counted(keyless, "message")
            problem += f" It would have {without} without a key, which nothing replaces."
        raise Refused(ErrorCode.TABLE_FULL, problem, "batch")

    # -- reading ---------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """See `Retained`. There may be holes from there on."""
        return self.kept.head

    @property
    def end(self) -> int:
        """See `Retained`."""
        return self.kept.next_offset

    @property
    def next(self) -> int:
        """See `Retained`."""
        return self.kept.next_offset

    def readable_from(self, offset: int) -> int:
        """See `Retained`."""
        return self.kept.readable_from(offset)

    def lost_until(self, offset: int) -> int:
        """See `Retained`: only what has expired is lost."""
        return max(offset, self.kept.head)

    def read(
        self,
        offset: int,
        before: int,
        messages: int,
        max_bytes: int,
        wake: Wake,
        *,
        at_least: int,
    ) -> Piece | None:
        """See `Retained`."""
        found = self.kept.together(offset)
        batch = found.batch
        offsets = found.offsets
        first = bisect_left(offsets, offset)
        stop = min(first + messages, first + self._max_batch, batch.count)
        max_bytes = min(max_bytes, self._max_message)
        if offsets[stop - 1] >= before:
            stop = bisect_left(offsets, before)
        if batch.size > max_bytes:
            fitting = batch.fitting(first, stop, max_bytes)
            stop = max(fitting, first + at_least)
            if stop == first:
                return None
        deltas: tuple[int, ...] = ()
        # There are holes among them.
        if offsets[stop - 1] - offset >= stop - first:
            deltas = tuple([at - offset for at in offsets[first:stop]])
        return found.accepted_us, batch.cut(first, stop), deltas

    def wait(self, waiter: object, wake: Wake) -> None:
        """See `Retained`."""
        self.kept.wait(waiter, wake)

    def stop_waiting(self, waiter: object) -> None:
        """See `Retained`."""
        self.kept.stop_waiting(waiter)

    def earliest(self) -> int | Pending:
        """See `Retained`."""
        return self.kept.head

    def first_since(self, time_us: int) -> int | Pending:
        """See `Retained`."""
        return self.kept.first_accepted_since(time_us)

    # -- what goes -------------------------------------------------------------------------------

    def expire(self, limit_us: int) -> bool:
        """See `Retained`."""
        before = self.kept.head
        self.kept.expire_accepted_until(limit_us)
        if self.kept.head == before:
            return False
        self._reserve()
        return True

    def evict_oldest(self, cause: int) -> None:
        """See `Retained`: it has no batches that can be evicted."""

    def drop_all(self) -> None:
        """See `Retained`."""
        self.kept.drop_all()
        self._reserve()

    def expired_until(self, time_us: int) -> int:
        """See `Retained`: what has expired is gone."""
        return self.kept.head

    def sweep(self, now_us: int) -> None:
        """See `Retained`: tombstones whose time is over go (TAB-5)."""
        self.kept.forget_expired()
        if self._tombstones_us >= 0:
            self.kept.expire_tombstones(now_us - self._tombstones_us, TOMBSTONES_AT_ONCE)
        self._reserve()

    # -- what it takes ---------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        """See `Retained`: nothing can be evicted."""
        return 0

    def held(self) -> tuple[int, int]:
        """See `Retained`: what can be read, and the memory of all rows and keys."""
        return self.kept.size + self.kept.tombstone_bytes, self.reserved

    # -- what `describe` and `explain` report ----------------------------------------------------

    @property
    def resident(self) -> int:
        """See `Retained`."""
        return self.kept.live

    @property
    def expired(self) -> int:
        """See `Retained`: tombstones whose time was over, too."""
        return self.kept.expired

    @property
    def evicted(self) -> int:
        """See `Retained`: tombstones that went early."""
        return self.kept.evicted

    @property
    def superseded(self) -> int:
        """See `Retained`."""
        return self.kept.superseded

    @property
    def moves(self) -> list[Move]:
        """See `Retained`."""
        return self.kept.moves

    @property
    def head_in_memory(self) -> int:
        """See `Retained`."""
        return self.kept.head

    def accepted_us(self, offset: int) -> int | None:
        """See `Retained`."""
        return self.kept.accepted_us(offset)

    def marks(self, most: int) -> list[tuple[int, int]]:
        """See `Retained`."""
        return self.kept.marks(most)

    def holes_between(self, begin: int, end: int) -> int:
        """See `Retained`."""
        begin = max(begin, self.kept.head)
        if begin >= end:
            return 0
        return end - begin - self.kept.live_between(begin, end)[0]

    def nearest(self, key: bytes, at_us: int) -> Found:
        """See `Retained`. There is one message of a key at most, and it is found at once."""
        before: Match | None = None
        after: Match | None = None
        offset = self.kept.offset_of(key)
        accepted_us = None
        if offset >= 0:
            accepted_us = self.kept.accepted_us(offset)
        if accepted_us is not None and accepted_us <= at_us:
            before = (accepted_us, offset)
        elif accepted_us is not None:
            after = (accepted_us, offset)
        return Found(before, after, self.kept.head, self.kept.next_offset)

    def successor(self, offset: int) -> int:
        """See `Retained`."""
        return self.kept.successor(offset)

    def own_fields(self) -> dict[str, Any]:
        """See `Retained`."""
        kept = self.kept
        return {
            "keys": kept.messages - kept.keyless,
            "tombstones": len(kept.tombstones),
            "tombstone_bytes": kept.tombstone_bytes,
            "deleted_below": kept.deleted_below,
        }
