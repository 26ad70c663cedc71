"""A topic: its settings, what it retains, a compaction window, and its readers.

The rules about time are applied here.

Retention decides how long a message can be read (`expire`), compaction whether it is stored at all
(`publish`). Both use the same clock reading, which the caller passes in.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from zaichik.base.clock import MILLISECOND_US
from zaichik.base.counted import counted
from zaichik.core.compaction import CompactionWindow, bitmap
from zaichik.core.decisions import MEMORY, OTHERS, Decisions
from zaichik.core.in_memory import InMemory
from zaichik.core.jumps import Jump, least_kept_us
from zaichik.core.pending import Pending
from zaichik.core.position import Position
from zaichik.core.retained import Retained
from zaichik.core.settings import TopicSettings, out_of_range
from zaichik.core.sharing import prices
from zaichik.core.sharing.budget import Budget
from zaichik_protocol import Batch, EndCode, ErrorCode, Published, Refused, Start

if TYPE_CHECKING:
    from zaichik.core.subscriber import Subscriber

FORGOTTEN_AT_ONCE = 1000  # windows evicted in one step when memory is short: each is small

Observer = Callable[[Batch, Sequence[int], int, int, Sequence[int]], None]


class TopicController:
    """One topic.

    All methods are synchronous; `now_us` is the clock's reading, which never decreases.

    Args:
        name: its name.
        settings: see `TopicSettings`.
        epoch: when it was created; name and epoch together are its identity. Never 0.
        explicit: whether a CreateTopic asked for these settings; otherwise first use created it
            (TOP-3).
        budget: the bytes that all topics may hold together; by default there is no such bound.
        client: the client that it is charged to, for quotas.
        retain: makes what it retains, of the topic and the settings that it is given: now, and
            again when a CreateTopic gives settings of its own to a topic made by first use.

    Attributes:
        published: messages that arrived: `published = stored + compacted`.
        compacted: messages that compaction dropped.
        refused: batches that were refused because the topic was full (RET-9, TAB-1).
        readers: its live subscriptions.
        names: its named positions, with and without a reader (CMT-3).
        memory: bytes that it holds, at their real cost (`prices`).
        unreserved: the part of `memory` that is not reserved for it.
        observer: called before a published batch is stored, with the batch, the indices of the
            messages to be stored, the offset of the first of these, the time, and, in a table, the
            offset that each message supersedes.
        unused_us: when a sweep first found it unused; None if it has been used since (TOP-7).
        held_until_us: until then, nothing is freed that no reader waits for (PAT-3).
        decisions: the batches of which something was not stored, to explain why (EXP-1).
        retained: its messages, in memory or on a disk.
        jumps: those of the broker's clock; time that they skip does not count (DUR-8).
        expired_until_us: messages accepted until then have expired; -1 if none do.
    """

    def __init__(
        self,
        name: str,
        settings: TopicSettings,
        epoch: int,
        *,
        explicit: bool,
        budget: Budget | None = None,
        client: str = "",
        retain: "Callable[[TopicController, TopicSettings], Retained]" = InMemory,
    ) -> None:
        self.name = name
        self.client = client
        self.epoch = epoch
        self.published = 0
        self.compacted = 0
        self.refused = 0
        # A set that keeps order, so that everything is repeatable.
        self.readers: dict[Subscriber, None] = {}
        self.names: dict[str, Position] = {}
        self.observer: Observer | None = None
        self.unused_us: int | None = None
        self.held_until_us = 0
        self.jumps: Sequence[Jump] = ()
        self.decisions = Decisions(self.charge)
        self.memory = 0
        self.unreserved = 0
        self._stored = 0
        self.budget = budget or Budget()
        self._retain = retain
        self._apply(settings, explicit=explicit)

    def _apply(self, settings: TopicSettings, *, explicit: bool) -> None:
        """Take these settings. Nothing is stored yet."""
        # First, because it may be refused: then nothing has changed.
        self.retained = self._retain(self, settings)
        self.budget.add(self)
        self.settings = settings
        self.explicit = explicit
        self.expired_until_us = -1
        self._ttl_us = 0
        if settings.expires:
            self._ttl_us = settings.retention_ttl_ms * MILLISECOND_US
        self.window: CompactionWindow | None = None
        if settings.compaction_window_ms:
            window_us = settings.compaction_window_ms * MILLISECOND_US
            self.window = CompactionWindow(window_us, settings.max_keys)
        self._account()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """The oldest offset that can be read."""
        return self.retained.head

    @property
    def end(self) -> int:
        """The offset that the next message will get."""
        return self.retained.end

    # -- writing ---------------------------------------------------------------------------------

    def create_again(self, pairs: tuple[tuple[int, int], ...]) -> None:
        """Accept another CreateTopic with these settings, or refuse it (TOP-2, TOP-3).

        Raises:
            Refused: `TOPIC_EXISTS`, with the difference; `NO_MEMORY` (RET-9).
        """
        wanted = self.settings.merged(pairs)
        is_fixed = self.explicit or self.retained.has_fixed_settings
        # A reader that has begun may not know tables.
        if wanted.table and self.readers:
            is_fixed = True
        if not is_fixed:
            self._apply(wanted, explicit=True)
            # They wait for a message of what the topic has retained before.
            for reader in list(self.readers):
                reader.make_ready()
        elif wanted != self.settings:
            difference = self.settings.difference(wanted)
            problem = (
                f"topic {self.name!r} exists with other settings: {difference}. "
                "Leave them out to use it as it is, or choose another name."
            )
            raise Refused(ErrorCode.TOPIC_EXISTS, problem, "settings")

    def publish(
        self,
        batch: Batch,
        now_us: int,
        request_id: int = 0,
        producer: int = 0,
        sequence: int = 0,
        *,
        tombstones: bool = False,
    ) -> Published | Pending:
        """Compacts and stores a batch, with one timestamp, and returns the request's reply.

        If the topic is durable, the reply is to come, with id 0, and the batch's number is stored
        with the batch. `tombstones` is whether it may delete keys of a table (TAB-6).

        Rules: PUB-2, COM-2, DUR-1, TAB-1.

        Raises:
            Refused: `BATCH_TOO_LARGE` for the ring (RET-6) or for the budget (RET-10), or
                `TOPIC_FULL` (RET-9); for a durable topic also `NO_MEMORY` or `DAMAGED`, for a table
                `TABLE_FULL` or `INVALID_FIELD`; then nothing was stored.
        """
        retained = self.retained
        capacity = retained.most_messages
        max_bytes = retained.most_bytes
        if not retained.reserved:
            # What was superseded in tables may have taken more than half for a while. But a batch
            # is too large for good, or not at all.
            max_bytes = min(max_bytes, max(self.budget.limit, self.budget.half))
        if batch.count > capacity or len(batch.data) > max_bytes:
            problem = (
                f"a batch of {counted(batch.count, 'message')} and "
                f"{counted(len(batch.data), 'byte')} is more than the ring of {self.name!r} holds "
                f"({counted(capacity, 'message')}, {counted(max_bytes, 'byte')}). "
                "Send smaller batches."
            )
            raise Refused(ErrorCode.BATCH_TOO_LARGE, problem, "batch")
        # `expire` asks this too, but a call for each batch costs time.
        if self._ttl_us:
            self.expire(now_us)
        if retained.may_be_full:
            retained.check_room(batch)
        kept: Sequence[int]
        dropped = b""
        if self.window is None:
            kept = range(batch.count)
        else:
            kept = self.window.admit(batch.keys(), now_us)
            if len(kept) < batch.count:
                dropped = bitmap(batch.count, kept)
        return retained.publish(
            batch, kept, dropped, now_us, request_id, producer, sequence, tombstones=tombstones
        )

    def count_compacted(self, count: int) -> None:
        """Count messages that compaction dropped."""
        self.published += count
        self.compacted += count

    def positions(self) -> chain[Position]:
        """Every position that retains messages.

        A name that has a reader comes twice, which changes no minimum.
        """
        live = (reader.stand for reader in self.readers)
        named = (position for position in self.names.values() if not position.is_waived)
        return chain(live, named)

    def needed(self) -> int:
        """Returns the oldest offset that may still have to be delivered to any reader."""
        needed = (position.needed for position in self.positions())
        return min(needed, default=self.end)

    def store(self, batch: Batch, now_us: int) -> None:
        """Store a batch without compaction."""
        self.retained.append(batch, now_us)
        self.count_stored(batch.count)

    def count_stored(self, count: int) -> None:
        """Count that many messages, which have just been stored, and what they take."""
        self.published += count
        # As `charge` does: a call for each batch costs time.
        self._account()
        if self.budget.used > self.budget.limit:
            self.budget.evict_over_limit(self)

    def expire(self, now_us: int) -> None:
        """Drop expired messages (RET-1, RET-5).

        A message is readable while accepted ≤ now < accepted + ttl.
        """
        if self._ttl_us:
            limit_us = now_us - self._ttl_us
            if self.jumps:
                limit_us = least_kept_us(self.jumps, limit_us)
            self.expired_until_us = limit_us
            if self.retained.expire(limit_us):
                self._account()

    def sweep(self, now_us: int) -> None:
        """Expire messages and windows (RET-7).

        Called once a second, so that an idle topic frees memory too. Without retention, messages
        that every reader has passed are expired as well (RET-1).
        """
        self.expire(now_us)
        if self.window is not None:
            self.window.close(now_us)
        self.retained.sweep(now_us)
        self._account()

    # -- memory ----------------------------------------------------------------------------------

    def charge(self) -> None:
        """Recompute the memory held, and evict if all topics together hold too much (RET-10)."""
        self._account()
        if self.budget.used > self.budget.limit:
            self.budget.evict_over_limit(self)

    def _account(self) -> None:
        """Recompute the memory held, and charge the budget with the part that is not reserved."""
        retained = self.retained
        stored, memory = retained.held()
        memory += prices.TOPIC + self.decisions.bytes
        window = self.window
        if window is not None:
            keys = prices.KEY * len(window) + window.key_bytes
            memory += keys
            # A journal knows the winner of each key.
            if self.observer is not None:
                memory += keys
        unreserved = max(memory - retained.reserved, 0)
        self.budget.used += unreserved - self.unreserved
        self.budget.stored += stored - self._stored
        self.memory = memory
        self.unreserved = unreserved
        self._stored = stored

    def can_evict(self, *, leaving: int) -> bool:
        """Returns whether there are windows to evict, or more than `leaving` batches (RET-10)."""
        if self._can_evict_batch(leaving) or self.decisions.known:
            return True
        # Compiled, `bool(self.window)` would only ask whether there is a table of windows, and not
        # whether it is empty.
        return self.window is not None and len(self.window) > 0

    def _can_evict_batch(self, leaving: int) -> bool:
        return not self.retained.reserved and self.retained.batches > leaving

    def evict_oldest(self, *, leaving: int) -> None:
        """Evict the oldest batch if there are more than `leaving`.

        Or else a decision; or else the oldest windows.
        """
        if self._can_evict_batch(leaving):
            # Only the topic that is published to keeps its last batch.
            cause = OTHERS
            if leaving:
                cause = MEMORY
            self.retained.evict_oldest(cause)
        elif self.decisions.known:
            # Before windows, because nothing but an explanation depends on decisions.
            self.decisions.forget()
        elif self.window is not None:
            self.window.forget(FORGOTTEN_AT_ONCE)
        self._account()

    # -- deletion --------------------------------------------------------------------------------

    def is_unused(self, now_us: int, ttl_us: float) -> bool:
        """Returns whether the topic was created by first use and unused for `ttl_us` (TOP-7).

        Called once a second.
        """
        if self.explicit or self.end or self.names or self.readers:
            self.unused_us = None
            return False
        if self.unused_us is None:
            self.unused_us = now_us
        return now_us - self.unused_us >= ttl_us

    def check_empty(self, now_us: int) -> None:
        """Refuse the deletion if it would lose a message or end a subscription (TOP-6).

        Raises:
            Refused: `NOT_EMPTY`.
        """
        self.expire(now_us)
        messages = self.retained.resident
        subscriptions = len(self.readers)
        named = len(self.names)
        if messages or named or subscriptions:
            problem = (
                f"topic {self.name!r} has {counted(messages, 'message')}, "
                f"{counted(subscriptions, 'subscription')} and "
                f"{counted(named, 'named position')}. "
                "To delete it with all of them, leave out the condition that it is empty."
            )
            raise Refused(ErrorCode.NOT_EMPTY, problem, "topic")

    def delete(self) -> Pending | None:
        """End every subscription and free every message (TOP-6).

        They are freed even if something still refers to the topic. Returns what is settled when it
        is gone from the disk, too; None if it was never there.
        """
        for reader in list(self.readers):
            reader.cut_off(EndCode.DELETED)
        self.retained.drop_all()
        self.window = None
        self._account()
        self.budget.remove(self)
        self.budget.used -= self.unreserved
        self.budget.give_back(self.retained.reserved)
        # Batches that waited for the disk are still refused, and remembered: that is not charged.
        self.budget = Budget()
        return self.retained.delete()

    # -- readers ---------------------------------------------------------------------------------

    def position(self, start: int, value: int, now_us: int) -> int | Pending:
        """Returns the offset at which a subscription begins (RET-4).

        If the disk must be read for that, it is an answer to come.

        Raises:
            Refused: `OFFSET_AHEAD`, `INVALID_FIELD`.
        """
        self.expire(now_us)
        end = self.end
        match start:
            case Start.EARLIEST:
                return self.retained.earliest()
            case Start.LATEST:
                return end
            case Start.OFFSET if value <= end:
                return value
            case Start.OFFSET:
                problem = (
                    f"topic {self.name!r} ends before offset {end}, so it cannot be read from "
                    f"{value}"
                )
                raise Refused(ErrorCode.OFFSET_AHEAD, problem, "value")
            case Start.TIME:
                return self.retained.first_since(value)
            case _:
                raise out_of_range("start", start, "0 to 3")

    def attach(self, reader: "Subscriber") -> None:
        """Add a live subscription.

        The messages it needs are no longer freed (RET-1), nor evicted if the topic is lossless
        (RET-9).
        """
        self.readers[reader] = None

    def detach(self, reader: "Subscriber") -> None:
        """Remove a live subscription."""
        self.readers.pop(reader, None)
        self.retained.stop_waiting(reader)
        self.retained.release(reader.make_ready)
