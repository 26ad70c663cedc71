"""The durable side of a topic: a write queue in front of the disk, and reads from the disk.

    published ──▶ accepted, has its offsets ──▶ waits ──▶ written by the log, oldest first
                                                            │
                                                            └──▶ `on_synced`, or `on_refused`

Nothing is delivered, and nothing is answered, before it is on the disk: not even that a message was
compacted, because the one that kept it out may still be waiting (`WriteQueue`). What is synced is
answered, and goes into the ring, where it can be read. If the log has no room, all that waits is
taken back, windows included.

The ring is the end of the log, in memory. A reader that keeps up is served from there and never
touches the disk.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from zaichik.core.decisions import ALL_LOGS, DISK, EXPIRED, Move, note
from zaichik.core.log import Log, Write
from zaichik.core.pending import Pending
from zaichik.core.position import no_room
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.ringed import Ringed
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.shared_names.saved_names import SavedName
from zaichik.core.write_queue import WriteQueue
from zaichik_protocol import FOREVER, Batch, Frame, Overflow, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

NOTHING = Batch(b"", 0)  # what is stored of a batch if compaction drops all of it


class Durable(Ringed):
    """What a durable topic retains: all that is in its log.

    Args:
        topic: the topic.
        settings: those that it is given now.
        log: its log.
        lost: offsets that a repair has given up, as pairs: the first, and the one after the last;
            in order.
        positions: the named positions that the log has.

    Attributes:
        log, lost: see above.
        queue: what the log is to write.
    """

    def __init__(
        self,
        topic: "TopicController",
        settings: TopicSettings,
        log: Log,
        lost: Sequence[tuple[int, int]] = (),
        positions: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(topic, settings, topic.name)
        self.may_be_full = True
        self.log = log
        self.lost = lost
        self.queue = WriteQueue(topic, self, log, positions)
        self._head = log.head
        self._expired = 0
        self._evicted = 0
        if settings.expires:
            self._expired = log.head
        else:
            self._evicted = log.head
        self._moves: list[Move] = []
        self._swept_size = -1  # of the log at the last sweep: it grows with all that is written
        self.ring.begin_at(log.end)
        log.owner = self

    @property
    def head(self) -> int:
        """See `Retained`."""
        return self._head

    @property
    def next(self) -> int:
        """See `Retained`."""
        return self.queue.next

    @property
    def waiting(self) -> deque[Write]:
        """See `LogOwner`."""
        return self.queue.waiting

    @property
    def damage(self) -> str:
        """See `Retained`: what is wrong with the log (DUR-7)."""
        return self.log.damage

    @property
    def needed(self) -> int:
        """The offset from which nothing is removed to make room.

        If the topic is lossless, that is what readers need (RET-9).
        """
        if self._topic.settings.overflow == Overflow.REJECT:
            return self._topic.needed()
        return self.queue.next

    # -- writing ---------------------------------------------------------------------------------

    @property
    def has_fixed_settings(self) -> bool:
        """See `Retained`: they are on the disk."""
        return True

    def check_room(self, batch: Batch) -> None:
        """Refuse a batch that the log cannot take now.

        Raises:
            Refused: `DAMAGED`, `NO_MEMORY`, `TOPIC_FULL`.
        """
        topic = self._topic
        log = self.log
        settings = topic.settings
        self.queue.check(batch, settings.max_bytes)
        if settings.overflow != Overflow.REJECT:
            return
        if not topic.readers and not topic.names:
            return
        needed = topic.needed()
        most = settings.log_bytes - self.waiting_bytes - len(batch.data)
        # A full log removes files that no reader needs, so only the others count here.
        if log.size > most and needed < self.next and log.size_from(needed) > most:
            raise no_room(f"the log of {topic.name!r}", log.head, topic.positions())

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
        """Give what is kept of a batch its offsets, and have it written, with its number.

        Returns the answer to come: a `Published`.
        """
        if not kept:
            stored = NOTHING
        elif len(kept) == batch.count:
            stored = batch
        else:
            stored = batch.select(kept)
        topic = self._topic
        # If the disk has no room, the windows that this batch has opened are closed again.
        opened: list[bytes] = []
        if kept and topic.window is not None:
            keys = stored.keys()
            opened = [key for key in keys if key]
        compacted = batch.count - len(kept)
        base = self.queue.next
        write = Write(base, now_us, stored, producer, sequence, dropped, compacted, opened)
        answer = self.queue.add_batch(write, stored)
        answer.then(partial(topic.decisions.answered, now_us, batch))
        return answer

    def record_refusal(
        self, refusal: Refused, now_us: int, producer: int, sequence: int
    ) -> Pending | None:
        """See `Retained`."""
        return self.queue.record_refusal(refusal, now_us, producer, sequence)

    def when_written(self, reply: Frame) -> Frame | Pending:
        """See `Retained`."""
        return self.queue.when_written(reply)

    def on_synced(self, count: int) -> None:
        """Answer this many writes, the oldest: they are on the disk.

        Readers follow, so each publisher knows first.
        """
        topic = self._topic
        for _ in range(count):
            done = self.queue.take_synced()
            self.queue.answer(done)
            if isinstance(done.what, Batch):
                batch = done.what
                topic.count_compacted(done.compacted)
                if batch.count:
                    topic.store(batch, done.accepted_us)
        # Storing a batch counts what still waits, too; but the last ones may have stored nothing.
        topic.charge()

    def on_refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first: its windows are closed again."""
        for undone in self.queue.take_back(refusal):
            window = self._topic.window
            if window is not None:
                window.take_back(undone.opened)

    # -- reading ---------------------------------------------------------------------------------

    def earliest(self) -> int | Pending:
        """See `Retained`. Files that are being removed count as gone."""
        if self._topic.expired_until_us >= 0 and self._head < self.ring.head:
            return self._first_on_disk(0)
        return max(self._head, self.log.head)

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See `Retained`."""
        limit_us = self._topic.expired_until_us
        found = self.log.entry(offset, wake)
        while found is not None and found.accepted_us <= limit_us:
            self._expire_below(found.base + found.batch.count)
            first = self.readable_from(self._head)
            if first >= self.ring.head:
                # All that is not in the ring has expired.
                return None
            found = self.log.entry(first, wake)
        if offset < self._head:
            return None
        return found

    def readable_from(self, offset: int) -> int:
        """See `Retained` (DUR-7)."""
        offset = max(offset, self._head)
        for begin, end in self.lost:
            if begin <= offset < end:
                offset = end
        return offset

    def is_reading(self, wake: Wake) -> bool:
        """See `Retained`."""
        return self.log.is_reading(wake)

    def release(self, wake: Wake) -> None:
        """See `Retained`."""
        self.log.release(wake)

    def first_since(self, time_us: int) -> int | Pending:
        """See `Retained`. It is on the disk if the ring has no message before that time."""
        found = self.ring.first_accepted_since(time_us)
        if found == self.ring.head and self._head < found:
            return self._first_on_disk(time_us)
        return found

    def _first_on_disk(self, time_us: int) -> Pending:
        """Returns the offset to come of the first message on the disk since that time."""
        answer = Pending()
        since_us = max(time_us, self._topic.expired_until_us + 1)
        self.log.first_since(since_us, partial(self._found_first, answer))
        return answer

    def _found_first(self, answer: Pending, found: int | None) -> None:
        ring = self.ring
        if found is None:
            found = ring.head
        offset = max(found, self._head, self.log.head)
        # Messages that were just synced may not be in the ring yet.
        answer.settle(min(offset, ring.next_offset))

    # -- what goes -------------------------------------------------------------------------------

    def ring_has_expired(self) -> None:
        """See `Retained`. Files are removed later, as a whole."""
        self._expire_below(self.ring.head)

    def expired_until(self, time_us: int) -> int:
        """See `Retained`."""
        return self.log.expired_until(time_us)

    def _expire_below(self, offset: int) -> None:
        self._expired += self._move_head(offset, EXPIRED)

    def on_head_moved(self, head: int, own: int = FOREVER) -> None:
        """Move readers to where the log begins now: files of it were removed.

        Args:
            head: where it begins.
            own: what lies below this offset had to go for the log's own limit; what lies after it,
                for that of all logs (DUR-9).
        """
        self._evicted += self._move_head(min(head, own), DISK)
        self._evicted += self._move_head(head, ALL_LOGS)

    def _move_head(self, head: int, cause: int) -> int:
        """Begin at that offset, if that is further on, for that cause.

        Returns how many messages are gone by that.
        """
        count = max(head - self._head, 0)
        if count:
            note(self._moves, self._head, 0, cause)
        self._head += count
        return count

    def sweep(self, now_us: int) -> None:
        """Expire files, and write the positions that have moved, or else a checkpoint if it is due.

        That is when the topic is quiet: nothing was written since the last sweep. A busy one gets
        its checkpoints from the log, one for so many bytes.
        """
        limit_us = self._topic.expired_until_us
        if limit_us >= 0:
            expired = self.log.expired_until(limit_us)
            self._expire_below(min(expired, self.ring.next_offset))
            self.log.drop_below(self._head)
        if self.log.damage:
            return
        size = self.log.size
        is_quiet = size == self._swept_size and not self.waiting
        self._swept_size = size
        self.save_names(now_us)
        has_moved = self.queue.save_positions(now_us)
        if is_quiet and not has_moved:
            self.log.save()

    def save_names(self, now_us: int) -> None:
        """See `Retained`."""
        self.queue.save_names(now_us)

    def know_name(self, key: str, name: SavedName) -> None:
        """See `Retained`."""
        self.queue.saver.know(key, name)

    def delete(self) -> Pending | None:
        """See `Retained`."""
        return self.queue.delete()

    # -- what `describe` reports -----------------------------------------------------------------

    @property
    def expired(self) -> int:
        """See `Retained`."""
        return self._expired

    @property
    def evicted(self) -> int:
        """See `Retained`."""
        return self._evicted

    @property
    def damaged(self) -> int:
        """See `Retained` (DUR-7)."""
        damaged = 0
        for begin, end in self.lost:
            if end > self._head:
                damaged += end - max(begin, self._head)
        return damaged

    @property
    def moves(self) -> list[Move]:
        """See `Retained`: since the start."""
        return self._moves

    @property
    def waiting_batches(self) -> int:
        """See `Retained`: writes, of which some may hold no batch."""
        return len(self.waiting)

    def own_fields(self) -> dict[str, Any]:
        """See `Retained`."""
        return {
            "log_bytes": self.log.size,
            "waiting_bytes": self.waiting_bytes,
            "damage": self.log.damage,
        }

    def name_ttl_s(self, limits: BrokerSettings) -> float:
        """See `Retained`."""
        return limits.disk_session_ttl
