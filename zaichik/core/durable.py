"""The durable side of a topic: a write queue in front of the disk, and reads from the disk.

    published ──▶ accepted, has its offsets ──▶ `waiting` ──▶ written by the log, oldest first
                                                                │
                                                                └──▶ `on_synced`, or `on_refused`

Nothing is delivered, and nothing is answered, before it is on the disk: not even that a message was
compacted, because the one that kept it out may still be waiting. There is one queue, in the order
of the offsets. The log writes from its front: what is synced leaves the queue, is answered, and
goes into the ring, where it can be read. If the log has no room, the whole queue is rolled back,
the newest first: offsets, windows, producers' numbers, positions.

The ring is the end of the log, in memory. A reader that keeps up is served from there and never
touches the disk.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from zaichik.base.counted import counted
from zaichik.core.decisions import ALL_LOGS, DISK, EXPIRED, Move, note
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.pending import Pending
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.ringed import Ringed
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.core.shared_names.saving import NameSaver, NamesWrite
from zaichik.core.sharing import prices
from zaichik_protocol import FOREVER, Batch, ErrorCode, Frame, Overflow, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

# Bytes that may wait, or what the ring may hold if that is more: the size of one write.
WAITING_BYTES = 4 * 1024 * 1024
# Batches of one topic that may wait for the disk, however small: each takes more than a KiB.
WAITING_BATCHES = 65_536
# Of what waits, as much may not count as memory yet: counting takes time, and batches may be small.
UNCOUNTED_BYTES = 16 * 1024
NOTHING = Batch(b"", 0)  # what is stored of a batch if compaction drops all of it


@dataclass(slots=True)
class Write:
    """What the log is to write, and what waits for it.

    Attributes:
        base: the offset of its first message; without messages, of the next one.
        accepted_us: when it was accepted.
        what: what is stored of a publish; or why a numbered batch was refused for good; or the
            named positions that have moved, with None for those that are forgotten; or what has
            changed of shared names. None: nothing; it only waits for the writes before it.
        producer, sequence: of a numbered batch; else 0.
        dropped: the bitmap of what compaction dropped.
        compacted: how many messages that is.
        opened: the keys whose windows it has opened.
        known: the named positions that the log had before, if some have moved.
        answer: settled when it is on the disk, or with a refusal.
    """

    base: int
    accepted_us: int
    what: Batch | Refused | dict[str, int | None] | NamesWrite | None
    producer: int = 0
    sequence: int = 0
    dropped: bytes = b""
    compacted: int = 0
    opened: Sequence[bytes] = ()
    known: Mapping[str, int] | None = None
    answer: Pending = field(default_factory=Pending)


class Log(Protocol):
    """A topic's log on a disk. No method waits.

    Attributes:
        owner: has the writes that wait, and is called with their results.
        head: the first offset on the disk that stays: everything below is gone, or being removed.
        end: the offset after the last message that a start has found on the disk.
        size: its bytes, including those that are being written.
        damage: what is wrong with it, for a person; "" if no damage is known.
    """

    owner: "Durable"
    head: int
    end: int
    size: int
    damage: str

    def write(self) -> None:
        """Start writing: the owner has more writes that wait."""

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """Returns the batch with that offset.

        None if it has to be read first, after which `wake` is called.

        Raises:
            Refused: `DAMAGED`.
        """

    def is_reading(self, wake: Wake) -> bool:
        """Returns whether something is being read for that reader."""

    def release(self, wake: Wake) -> None:
        """Drop what was read for that reader."""

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """Call that with the first offset on the disk that was accepted at that time or later.

        With None if there is none.
        """

    def expired_until(self, time_us: int) -> int:
        """Returns an offset below which all was accepted at that time or before.

        It is the greatest that is known in memory.
        """

    def size_from(self, offset: int) -> int:
        """Returns the bytes of the files that hold anything from that offset on."""

    def drop_below(self, offset: int) -> None:
        """Remove files that hold nothing from that offset on."""

    def save(self) -> None:
        """Write a checkpoint, if there is anything new."""

    def delete(self, gone: Callable[[], None]) -> None:
        """Remove the log, then call that. Nothing that still waits is written."""


class Logs(Protocol):
    """Where the logs of all topics are.

    Attributes:
        used: their bytes.
    """

    used: int

    def sync_p99_us(self) -> int | None:
        """Returns the 99th percentile of how long the latest groups took to be on the disk.

        None before the first.
        """

    def check(self, name: str) -> None:
        """Refuse a new log of that name.

        Raises:
            Refused: `DAMAGED`: there is one that cannot be read.
        """

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> Log:
        """Returns a new log; call `check` first."""


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
        saver: its shared names, as the log has them.
        waiting: what the log is to write, the oldest first. A write in progress stays here until it
            is synced.
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
        self.waiting: deque[Write] = deque()
        self._head = log.head
        self._next = log.end
        self._expired = 0
        self._evicted = 0
        if settings.expires:
            self._expired = log.head
        else:
            self._evicted = log.head
        self._moves: list[Move] = []
        self._swept_size = -1  # of the log at the last sweep: it grows with all that is written
        # Of names: as the log has them, or will have them when all that waits is written.
        self._positions: Mapping[str, int] = positions or {}
        self.saver = NameSaver(topic)
        self.ring.begin_at(log.end)
        log.owner = self

    @property
    def head(self) -> int:
        """See `Retained`."""
        return self._head

    @property
    def next(self) -> int:
        """See `Retained`."""
        return self._next

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
        return self._next

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
        if log.damage:
            problem = f"the log of {topic.name!r} is damaged, so its end is not known: {log.damage}"
            raise Refused(ErrorCode.DAMAGED, problem, "topic")
        waiting = len(self.waiting)
        with_this = self.waiting_bytes + len(batch.data)
        most_waiting = max(settings.max_bytes, WAITING_BYTES)
        if with_this > most_waiting or waiting >= WAITING_BATCHES:
            problem = (
                f"too much waits for the disk of {topic.name!r}: "
                f"{counted(waiting, 'batch', 'batches')} of {counted(self.waiting_bytes, 'byte')}. "
                "Try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "topic")
        if settings.overflow != Overflow.REJECT:
            return
        if not topic.readers and not topic.names:
            return
        needed = topic.needed()
        most = settings.log_bytes - with_this
        # A full log removes files that no reader needs, so only the others count here.
        if log.size > most and needed < self._next and log.size_from(needed) > most:
            problem = (
                f"the log of {topic.name!r} is full, and a reader still needs offset {needed}. "
                "Retry later."
            )
            raise Refused(ErrorCode.TOPIC_FULL, problem, "topic")

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
        write = Write(self._next, now_us, stored, producer, sequence, dropped, compacted, opened)
        self._next += stored.count
        size = len(stored.data)
        before = self.waiting_memory
        self.waiting_bytes += size
        self.waiting_memory += size
        answer = self._write(write)
        if before // UNCOUNTED_BYTES != self.waiting_memory // UNCOUNTED_BYTES:
            topic.charge()
        answer.then(partial(topic.decisions.answered, now_us, batch))
        return answer

    def record_refusal(
        self, refusal: Refused, now_us: int, producer: int, sequence: int
    ) -> Pending | None:
        """See `Retained`. Without a number, or a log that can be written, nothing is recorded."""
        if not producer or refusal.code.retryable or self.log.damage:
            return None
        write = Write(self._next, now_us, refusal, producer, sequence)
        return self._write(write)

    def when_written(self, reply: Frame) -> Frame | Pending:
        """Returns the reply to come when the topic, and all that waits now, are on the disk."""
        written = self._write(Write(self._next, 0, None))
        return written.followed_by(lambda _: reply)

    def _write(self, write: Write) -> Pending:
        self.waiting.append(write)
        self.waiting_memory += prices.WAITING
        self.log.write()
        return write.answer

    def on_synced(self, count: int) -> None:
        """Answer this many writes, the oldest: they are on the disk.

        Readers follow, so each publisher knows first.
        """
        topic = self._topic
        is_counted = True
        for _ in range(count):
            done = self.waiting.popleft()
            self.waiting_memory -= prices.WAITING
            is_counted = False
            match done.what:
                case Batch() as batch:
                    size = len(batch.data)
                    self.waiting_bytes -= size
                    self.waiting_memory -= size
                    is_counted = batch.count > 0
                    readers = len(topic.readers)
                    compacted = done.compacted
                    reply = Published(0, done.base, batch.count, compacted, readers, done.dropped)
                    done.answer.settle(reply)
                    topic.count_compacted(compacted)
                    if batch.count:
                        topic.store(batch, done.accepted_us)
                case Refused() as refusal:
                    done.answer.settle(refusal)
                case NamesWrite() as names:
                    names.note_synced()
                case _:
                    done.answer.settle(True)
        # Storing a batch counts what the topic holds, and what still waits. If the last one was not
        # stored, it is counted here.
        if not is_counted:
            topic.charge()

    def on_refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first.

        If the log is damaged, all readers are given a turn: no message will come to wake them.
        """
        self.waiting_bytes = 0
        self.waiting_memory = 0
        while self.waiting:
            undone = self.waiting.pop()
            self._next = undone.base
            window = self._topic.window
            if window is not None:
                window.take_back(undone.opened)
            if undone.known is not None:
                self._positions = undone.known
            if isinstance(undone.what, NamesWrite):
                self.saver.undo(undone.what)
            undone.answer.settle(refusal)
        self._topic.charge()
        if self.log.damage:
            # Those that have read everything end in it (DUR-7).
            for reader in list(self._topic.readers):
                reader.make_ready()

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
        known = self._positions
        now: dict[str, int] = {}
        moved: dict[str, int | None] = {}
        for name, position in self._topic.names.items():
            if not isinstance(position, ExclusivePosition):
                continue
            committed = position.committed
            now[name] = committed
            if known.get(name) != committed:
                moved[name] = committed
        for name in known:
            if name not in now:
                # It was forgotten.
                moved[name] = None
        if moved:
            write = Write(self._next, now_us, moved, known=known)
            self._write(write)
            self._positions = now
        elif is_quiet:
            self.log.save()

    def save_names(self, now_us: int) -> None:
        """See `Retained`."""
        names = self.saver.write()
        if names is not None:
            self._write(Write(self._next, now_us, names))

    def delete(self) -> Pending | None:
        """See `Retained`. Everything that still waits is refused."""
        gone = Pending()
        self.log.delete(partial(self._is_deleted, gone))
        return gone

    def _is_deleted(self, gone: Pending) -> None:
        problem = f"topic {self._topic.name!r} was deleted while this waited for the disk"
        self.on_refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))
        gone.settle(True)

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
