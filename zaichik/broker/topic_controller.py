"""A topic: its settings, a ring, a compaction window, and its readers. The rules about time are applied here.

Retention decides how long a message can be read (`expire`), compaction whether it is stored at all
(`publish`). Both use the same clock reading, which the caller passes in.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from zaichik.broker.compaction import CompactionWindow, bitmap
from zaichik.broker.durable import Durable, Wake
from zaichik.broker.pending import Pending
from zaichik.broker.position import LiveReader, Position
from zaichik.broker.ring import BroadcastRing
from zaichik.broker.settings import TopicSettings, out_of_range
from zaichik.explain.decisions import COMPACTED, MEMORY, OTHERS, Decisions
from zaichik.sharing import prices
from zaichik.sharing.budget import Budget
from zaichik_protocol import Batch, EndCode, ErrorCode, Overflow, Published, Refused, Start

MICROSECONDS_PER_MS = 1000
SMALLEST_BATCH = len(Batch.of([(b"", b"")]).data)
FORGOTTEN_AT_ONCE = 1000  # windows evicted in one step when memory is short: each is small

Observer = Callable[[Batch, Sequence[int], int, int], None]


class TopicController:
    """One topic. All methods are synchronous; `now_us` is the clock's reading, which never decreases.

    Args:
        name: its name.
        settings: see `TopicSettings`.
        epoch: when it was created; name and epoch together are its identity. Never 0.
        explicit: whether a CreateTopic asked for these settings; otherwise first use created it (TOP-3).
        budget: the bytes that all topics may hold together; by default there is no such bound.
        client: the client that it is charged to, for quotas.

    Attributes:
        published: messages that arrived: `published = stored + compacted`.
        compacted: messages that compaction dropped.
        refused: batches that were refused because the topic was full (RET-9).
        readers: its live subscriptions.
        names: its named positions, with and without a reader (CMT-3).
        memory: bytes that it holds, at their real cost (`prices`).
        unreserved: the part of `memory` that is not reserved for it.
        observer: called before a published batch is stored, with the batch, the indices of the messages to be stored,
            the offset of the first of these, and the time.
        unused_us: when a sweep first found it unused; None if it has been used since (TOP-7).
        decisions: the batches of which something was not stored, to explain why (EXP-1).
        durable: its side on the disk (DUR), which an empty topic may be given; None if it is in memory only.
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
    ) -> None:
        self.name = name
        self.client = client
        self.epoch = epoch
        self.published = self.compacted = self.refused = 0
        self.readers: dict[LiveReader, None] = {}  # a set that keeps order, so that everything is repeatable
        self.names: dict[str, Position] = {}
        self.observer: Observer | None = None
        self.unused_us: int | None = None
        self.durable: Durable | None = None
        self.decisions = Decisions(self._charge)
        self.memory = self.unreserved = self._stored = 0
        self.budget = budget or Budget()
        self.ring = BroadcastRing(settings.capacity, settings.max_bytes)
        self._reserved = 0
        self._apply(settings, explicit=explicit)

    def _apply(self, settings: TopicSettings, *, explicit: bool) -> None:
        if settings.overflow == Overflow.REJECT and not settings.durable:
            # The most that its ring can cost, however small its batches are.
            batches = min(settings.capacity, settings.max_bytes // SMALLEST_BATCH)
            self.budget.reserve(size := settings.max_bytes + prices.ENTRY * batches)
            self._reserved = size
        self.budget.add(self)
        self.settings, self.explicit = settings, explicit
        self.ring.capacity, self.ring.max_bytes = settings.capacity, settings.max_bytes
        self._ttl_us = settings.retention_ttl_ms * MICROSECONDS_PER_MS if settings.expires else 0
        window_us = settings.compaction_window_ms * MICROSECONDS_PER_MS
        self.window = CompactionWindow(window_us, settings.max_keys) if window_us else None
        self._account()

    # -- reading -----------------------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """The oldest offset that can be read."""
        return self.ring.head if self.durable is None else self.durable.head

    @property
    def end(self) -> int:
        """The offset that the next message will get."""
        return self.ring.next_offset

    def read(
        self, offset: int, messages: int, max_bytes: int, wake: Wake, *, at_least: int
    ) -> tuple[int, Batch] | None:
        """Returns when messages from `offset` on were accepted, and the messages; None if none fits `max_bytes`.

        They are from one batch. A whole batch is returned as its stored bytes, without a copy. None also means that
        they have to be read from the disk first, or have just expired there.

        Args:
            offset: from the head on, and before the end.
            messages: how many, at most; at least 1.
            max_bytes: the most bytes of keys and payloads.
            wake: called when what had to be read from the disk is there.
            at_least: 1 to return a message even if it is larger than `max_bytes`, else 0.

        Raises:
            Refused: `DAMAGED`.
        """
        durable, ring = self.durable, self.ring
        entry = durable.entry(offset, wake) if durable is not None and offset < ring.head else ring.entry(offset)
        if entry is None:
            return None
        batch, first = entry.batch, offset - entry.base
        stop = min(first + messages, batch.count)
        if batch.size > max_bytes:
            stop = max(batch.fitting(first, stop, max_bytes), first + at_least)
            if stop == first:
                return None
        return entry.accepted_us, batch.cut(first, stop)

    def wait(self, reader: LiveReader) -> None:
        """Call the reader's `make_ready` once, when the next message is stored."""
        self.ring.wait(reader, reader.make_ready)

    # -- writing -----------------------------------------------------------------------------------------------

    def create_again(self, pairs: tuple[tuple[int, int], ...]) -> None:
        """Accept another CreateTopic with these settings, or refuse it (TOP-2, TOP-3).

        Raises:
            Refused: `TOPIC_EXISTS`, with the difference; `NO_MEMORY` (RET-9).
        """
        wanted = self.settings.merged(pairs)
        if not self.explicit and self.ring.next_offset == 0 and self.durable is None:
            self._apply(wanted, explicit=True)
        elif wanted != self.settings:
            raise Refused(
                ErrorCode.TOPIC_EXISTS,
                f"topic {self.name!r} exists with other settings: {self.settings.difference(wanted)}. "
                "Leave them out to use it as it is, or choose another name.",
                "settings",
            )

    def publish(
        self, batch: Batch, now_us: int, request_id: int = 0, producer: int = 0, sequence: int = 0
    ) -> Published | Pending:
        """Compacts and stores a batch, with one timestamp, and returns the reply to the request of that id.

        If the topic is durable, the reply is to come, with id 0, and the batch's number is stored with the batch.

        Rules: PUB-2, COM-2, DUR-1.

        Raises:
            Refused: `BATCH_TOO_LARGE` for the ring (RET-6) or for the budget (RET-10), or `TOPIC_FULL` (RET-9); for a
                durable topic also `NO_MEMORY` or `DAMAGED`; then nothing was stored.
        """
        max_bytes = self.settings.max_bytes
        if not self._reserved:
            max_bytes = min(max_bytes, self.budget.limit)
        if batch.count > self.settings.capacity or len(batch.data) > max_bytes:
            raise Refused(
                ErrorCode.BATCH_TOO_LARGE,
                f"a batch of {batch.count} messages and {len(batch.data)} bytes is more than the ring of {self.name!r} "
                f"holds ({self.settings.capacity} messages, {max_bytes} bytes). Send smaller batches.",
                "batch",
            )
        self.expire(now_us)
        durable = self.durable
        if durable is not None:
            durable.check_room(batch)
        elif self.settings.overflow == Overflow.REJECT:
            self._check_room(batch)
        first_offset = self.ring.next_offset
        kept: Sequence[int] = range(batch.count) if self.window is None else self.window.admit(batch.keys(), now_us)
        compacted = batch.count - len(kept)
        dropped = bitmap(batch.count, kept) if compacted else b""
        if durable is not None:
            answer = durable.publish(batch, kept, dropped, now_us, producer, sequence)
            answer.then(partial(self.decisions.answered, now_us, batch))
            return answer
        if self.observer is not None:  # first, so that making room for its record never evicts this batch (RET-10)
            self.observer(batch, kept, first_offset, now_us)
        if not compacted:
            self.store(batch, now_us)
        else:
            self.published += compacted  # as `count_compacted` does: where most is dropped, a call for each batch costs
            self.compacted += compacted
            self.decisions.remember(now_us, batch, COMPACTED, first_offset, dropped)
            if kept:
                self.store(batch.select(kept), now_us)
        return Published(request_id, first_offset, len(kept), compacted, len(self.readers), dropped)

    def count_compacted(self, count: int) -> None:
        """Count messages that compaction dropped."""
        self.published += count
        self.compacted += count

    def _check_room(self, batch: Batch) -> None:
        """Refuse a batch if storing it would evict messages that a reader still needs (RET-9).

        Readers are examined only if the ring is full, and the slowest is looked up only for the error text. Messages
        that compaction would drop count as well: a refused batch must not have opened windows.
        """
        head = self.ring.head_after(batch)
        if head > self.ring.head and self.needed() < head:
            slowest = min(self.positions(), key=lambda position: position.needed)
            offset = max(slowest.needed, self.ring.head)
            problem = f"topic {self.name!r} is full, and {slowest.description} still needs offset {offset}"
            raise Refused(ErrorCode.TOPIC_FULL, f"{problem}. Retry when it has read further.", "topic")

    def positions(self) -> chain[Position]:
        """Every position that retains messages. A name that has a reader comes twice, which changes no minimum."""
        names = (position for position in self.names.values() if not position.is_waived)
        return chain((reader.position for reader in self.readers), names)

    def needed(self) -> int:
        """Returns the oldest offset that may still have to be delivered to any reader."""
        return min((position.needed for position in self.positions()), default=self.end)

    def store(self, batch: Batch, now_us: int) -> None:
        """Store a batch without compaction."""
        self.published += batch.count
        self.ring.append(batch, now_us)
        self._account()
        if self.budget.used > self.budget.limit:  # as in `_charge`: a call for each batch costs
            self.budget.evict_over_limit(self)

    def expire(self, now_us: int) -> None:
        """Drop expired messages: one is readable while accepted ≤ now < accepted + ttl (RET-1, RET-5)."""
        if self._ttl_us:
            before, limit_us = self.ring.head, now_us - self._ttl_us
            self.ring.expire_accepted_until(limit_us)
            if self.durable is not None:
                self.durable.expire(limit_us, self.ring.head if self.ring.head != before else 0)
            if self.ring.head != before:
                self._account()

    def sweep(self, now_us: int) -> None:
        """Expire messages and windows; called once a second, so that an idle topic frees memory too (RET-7).

        Without retention, messages that every reader has passed are expired as well (RET-1).
        """
        self.expire(now_us)
        if self.settings.retention_ttl_ms == 0:
            self.ring.expire_below(self.needed())
        if self.window is not None:
            self.window.close(now_us)
        if self.durable is not None:
            self.durable.sweep(now_us)
        self._account()

    # -- memory ------------------------------------------------------------------------------------------------

    def _charge(self) -> None:
        """Recompute the memory held, and evict if all topics together hold too much (RET-10)."""
        self._account()
        if self.budget.used > self.budget.limit:
            self.budget.evict_over_limit(self)

    def _account(self) -> None:
        """Recompute the memory held, and charge the budget with the part that is not reserved."""
        stored, waiting = self.ring.bytes, self.durable.waiting_bytes if self.durable else 0
        memory = prices.TOPIC + stored + waiting + prices.ENTRY * self.ring.batches + self.decisions.bytes
        if self.window is not None:
            keys = prices.KEY * len(self.window) + self.window.key_bytes
            memory += keys if self.observer is None else 2 * keys  # a journal knows the winner of each
        unreserved = max(memory - self._reserved, 0)
        self.budget.used += unreserved - self.unreserved
        self.budget.stored += stored - self._stored
        self.memory, self.unreserved, self._stored = memory, unreserved, stored

    def can_evict(self, *, leaving: int) -> bool:
        """Returns whether there are windows to evict, or more than `leaving` batches (RET-10)."""
        # Compiled, `bool(self.window)` would only ask whether there is a table of windows, and not whether it is empty.
        return self._can_evict_batch(leaving) or bool(self.decisions.known) or len(self.window or ()) > 0

    def _can_evict_batch(self, leaving: int) -> bool:
        return not self._reserved and self.ring.batches > leaving

    def evict_oldest(self, *, leaving: int) -> None:
        """Evict the oldest batch if there are more than `leaving`; or else a decision; or else the oldest windows."""
        if self._can_evict_batch(leaving):
            self.ring.evict_oldest(MEMORY if leaving else OTHERS)
        elif self.decisions.known:  # before windows: nothing but an explanation depends on them
            self.decisions.forget()
        elif self.window is not None:
            self.window.forget(FORGOTTEN_AT_ONCE)
        self._account()

    # -- deletion ----------------------------------------------------------------------------------------------

    def is_unused(self, now_us: int, ttl_us: float) -> bool:
        """Returns whether the topic was created by first use and unused for `ttl_us` (TOP-7). Called once a second."""
        if self.explicit or self.end or self.names or self.readers:
            self.unused_us = None
        elif self.unused_us is None:
            self.unused_us = now_us
        return self.unused_us is not None and now_us - self.unused_us >= ttl_us

    def check_empty(self, now_us: int) -> None:
        """Refuse the deletion if it would lose a message or end a subscription (TOP-6).

        Raises:
            Refused: `NOT_EMPTY`.
        """
        self.expire(now_us)
        messages, named = self.end - self.head, len(self.names)
        if messages or named or self.readers:
            raise Refused(
                ErrorCode.NOT_EMPTY,
                f"topic {self.name!r} has {messages} messages, {len(self.readers)} subscriptions and {named} named "
                "positions. To delete it with all of them, leave out the condition that it is empty.",
                "topic",
            )

    def delete(self) -> Pending | None:
        """End every subscription and free every message (TOP-6), even if something still refers to the topic.

        Returns what is settled when it is gone from the disk, too; None if it was never there.
        """
        for reader in list(self.readers):
            reader.cut_off(EndCode.DELETED)
        self.ring.expire_below(self.end)
        self.window = None
        self._account()
        self.budget.remove(self)
        self.budget.used -= self.unreserved
        self.budget.give_back(self._reserved)
        self.budget = Budget()  # what is remembered from now on, of batches that waited for the disk, is free
        return None if self.durable is None else self.durable.delete()

    # -- readers -----------------------------------------------------------------------------------------------

    def position(self, start: int, value: int, now_us: int) -> int | Pending:
        """Returns the offset at which a subscription begins (RET-4), as an answer to come if it must be read from disk.

        Raises:
            Refused: `OFFSET_AHEAD`, `INVALID_FIELD`.
        """
        self.expire(now_us)
        ring = self.ring
        match start:
            case Start.EARLIEST if self.durable is not None:
                return self.durable.earliest()
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
                found = ring.first_accepted_since(value)
                if self.durable is not None and found == ring.head and self.head < found:
                    return self.durable.first_since(value)
                return found
            case _:
                raise out_of_range("start", start, "0 to 3")

    def attach(self, reader: LiveReader) -> None:
        """Add a live subscription.

        The messages it needs are no longer freed (RET-1), nor evicted if the topic is lossless (RET-9).
        """
        self.readers[reader] = None

    def detach(self, reader: LiveReader) -> None:
        """Remove a live subscription."""
        self.readers.pop(reader, None)
        self.ring.stop_waiting(reader)
        if self.durable is not None:
            self.durable.log.release(reader.make_ready)
