"""The durable side of a topic: a write queue in front of the disk, and reads from the disk.

    published ──▶ judged, has its offsets ──▶ `waiting` ──▶ the log writes the oldest ──▶ `synced`, or `refused`

Nothing is delivered, and nothing is answered, before it is on the disk: not even that a message was compacted, because
the one that kept it out may still be waiting. There is one queue, in the order of the offsets. The log writes from its
front: what is synced leaves the queue, is answered, and goes into the ring, where it can be read. If the log has no
room, the whole queue is rolled back, the newest first: offsets, windows, producers' numbers, positions.

The ring is the end of the log, in memory. A reader that keeps up is served from there and never touches the disk.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zaichik.broker.compaction import CompactionWindow
from zaichik.broker.pending import Pending
from zaichik.broker.position import Position
from zaichik.broker.ring import BroadcastRing, Entry
from zaichik.broker.settings import TopicSettings
from zaichik.explain.decisions import ALL_LOGS, DISK, EXPIRED, Move, note
from zaichik_protocol import FOREVER, Batch, ErrorCode, Frame, Overflow, Published, Refused

WAITING_BYTES = 4 * 1024 * 1024  # that may wait, or what the ring may hold if that is more: the size of one write
WAITING_BATCHES = 65_536  # of one topic that may wait for the disk, however small: each takes more than a KiB
NOTHING = Batch(b"", 0)  # what is stored of a batch if compaction drops all of it

Wake = Callable[[], None]


@dataclass(slots=True)
class Write:
    """What the log is to write, and what waits for it.

    Attributes:
        base: the offset of its first message; without messages, of the next one.
        accepted_us: when it was accepted.
        what: what is stored of a publish; or why a numbered batch was refused for good; or the named positions that
            have moved, with None for those that are forgotten. None: nothing; it only waits for the writes before it.
        producer, sequence: of a numbered batch; else 0.
        dropped: the bitmap of what compaction dropped.
        compacted: how many messages that is.
        opened: the keys whose windows it has opened.
        known: the named positions that the log had before, if some have moved.
        answer: settled when it is on the disk, or with a refusal.
    """

    base: int
    accepted_us: int
    what: Batch | Refused | dict[str, int | None] | None
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
        """Returns the batch with that offset; None if it has to be read first, after which `wake` is called.

        Raises:
            Refused: `DAMAGED`.
        """

    def is_reading(self, wake: Wake) -> bool:
        """Returns whether something is being read for that reader."""

    def release(self, wake: Wake) -> None:
        """Drop what was read for that reader."""

    def first_since(self, time_us: int, found: Callable[[int | None], None]) -> None:
        """Call that with the first offset on the disk accepted at that time or later, or with None."""

    def expired_until(self, time_us: int) -> int:
        """Returns the greatest offset known in memory below which all was accepted at that time or before."""

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
        """Returns the 99th percentile of how long the latest groups took to be on the disk; None before the first."""

    def check(self, name: str) -> None:
        """Refuse a new log of that name.

        Raises:
            Refused: `DAMAGED`: there is one that cannot be read.
        """

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> Log:
        """Returns a new log; call `check` first."""


class Topic(Protocol):
    """A topic, as its durable side sees it. Fields are documented in `TopicController`."""

    name: str
    settings: TopicSettings
    ring: BroadcastRing
    window: CompactionWindow | None
    readers: dict[Any, None]
    names: dict[str, Position]

    def store(self, batch: Batch, now_us: int) -> None:
        """Put a batch in the ring."""

    def count_compacted(self, count: int) -> None:
        """Count messages that compaction dropped."""

    def needed(self) -> int:
        """Returns the oldest offset that may still have to be delivered to any reader."""


class Durable:
    """The durable side of one topic.

    Args:
        topic: the topic.
        log: its log.

    Attributes:
        log: see above.
        head: the oldest offset that can be read.
        next: the offset that the next message to be accepted will get.
        expired, evicted: messages that are gone from the log, by cause.
        moves: where the cause of their removal changed, since the start: see `BroadcastRing`.
        lost: offsets that a repair has given up, as pairs: the first, and the one after the last; in order.
        waiting: what the log is to write, the oldest first. A write in progress stays here until it is synced.
        waiting_bytes: the bytes of the batches that wait.
    """

    def __init__(self, topic: Topic, log: Log) -> None:
        self.log = log
        self.head = log.head
        self.next = log.end
        self.waiting: deque[Write] = deque()
        self.waiting_bytes = 0
        ttl = topic.settings.expires
        self.expired, self.evicted = (log.head, 0) if ttl else (0, log.head)
        self.lost: Sequence[tuple[int, int]] = ()
        self.moves: list[Move] = []
        self._topic = topic
        self._limit_us = -1  # messages accepted until then have expired
        self._positions: Mapping[str, int] = {}  # of names: as the log has them, or will when all of this is written
        topic.ring.begin_at(log.end)
        log.owner = self

    def knows(self, positions: Mapping[str, int]) -> None:
        """Note that the log has these named positions."""
        self._positions = positions

    @property
    def needed(self) -> int:
        """The offset from which nothing is removed to make room: what readers need, if it is lossless (RET-9)."""
        return self._topic.needed() if self._topic.settings.overflow == Overflow.REJECT else self.next

    # -- writing -----------------------------------------------------------------------------------------------

    def check_room(self, batch: Batch) -> None:
        """Refuse a batch that the log cannot take now.

        Raises:
            Refused: `DAMAGED`, `NO_MEMORY`, `TOPIC_FULL`.
        """
        name, settings = self._topic.name, self._topic.settings
        if self.log.damage:
            problem = f"the log of {name!r} is damaged, so its end is not known: {self.log.damage}"
            raise Refused(ErrorCode.DAMAGED, problem, "topic")
        waiting, most_bytes = len(self.waiting), max(settings.max_bytes, WAITING_BYTES)
        if self.waiting_bytes + len(batch.data) > most_bytes or waiting >= WAITING_BATCHES:
            problem = f"{waiting} batches of {self.waiting_bytes} bytes wait for the disk of {name!r}. Try again later."
            raise Refused(ErrorCode.NO_MEMORY, problem, "topic")
        if settings.overflow == Overflow.REJECT and (self._topic.readers or self._topic.names):
            more, needed = self.waiting_bytes + len(batch.data), self._topic.needed()
            most = settings.log_bytes - more
            if self.log.size > most and needed < self.next and self.log.size_from(needed) > most:
                problem = f"the log of {name!r} is full, and a reader still needs offset {needed}. Retry later."
                raise Refused(ErrorCode.TOPIC_FULL, problem, "topic")

    def publish(
        self, batch: Batch, kept: Sequence[int], dropped: bytes, now_us: int, producer: int, sequence: int
    ) -> Pending:
        """Give what is kept of a batch its offsets, and have it written. Returns the answer: a `Published`."""
        stored = batch if len(kept) == batch.count else batch.select(kept) if kept else NOTHING
        keys = stored.keys() if kept and self._topic.window is not None else []
        opened = [key for key in keys if key]
        write = Write(self.next, now_us, stored, producer, sequence, dropped, batch.count - len(kept), opened)
        self.next += stored.count
        self.waiting_bytes += len(stored.data)
        return self._write(write)

    def remembers(self, refusal: Refused) -> bool:
        """Returns whether the log has to record a refusal: it is for good, and the log can be written."""
        return not refusal.code.retryable and not self.log.damage

    def refuse(self, refusal: Refused, now_us: int, producer: int, sequence: int) -> Pending:
        """Record that a numbered batch was refused for good. Returns the answer: the refusal."""
        return self._write(Write(self.next, now_us, refusal, producer, sequence))

    def after_all(self, reply: Frame) -> Pending:
        """Returns that reply as one to come: when the topic and all that waits now are on the disk."""
        return self._write(Write(self.next, 0, None)).followed_by(lambda _: reply)

    def _write(self, write: Write) -> Pending:
        self.waiting.append(write)
        self.log.write()
        return write.answer

    def synced(self, count: int) -> None:
        """Answer this many writes, the oldest: they are on the disk. Readers follow, so each publisher knows first."""
        topic = self._topic
        for _ in range(count):
            done = self.waiting.popleft()
            match done.what:
                case Batch() as batch:
                    self.waiting_bytes -= len(batch.data)
                    readers = len(topic.readers)
                    done.answer.settle(Published(0, done.base, batch.count, done.compacted, readers, done.dropped))
                    topic.count_compacted(done.compacted)
                    if batch.count:
                        topic.store(batch, done.accepted_us)
                case Refused() as refusal:
                    done.answer.settle(refusal)
                case _:
                    done.answer.settle(True)

    def refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first."""
        while self.waiting:
            undone = self.waiting.pop()
            self.next = undone.base
            if self._topic.window is not None:
                self._topic.window.take_back(undone.opened)
            if undone.known is not None:
                self._positions = undone.known
            undone.answer.settle(refusal)
        self.waiting_bytes = 0

    # -- reading -----------------------------------------------------------------------------------------------

    def earliest(self) -> int | Pending:
        """Returns where a subscription from `earliest` begins. What is being removed counts as gone."""
        if self._limit_us >= 0 and self.head < self._topic.ring.head:
            return self.first_since(0)
        return max(self.head, self.log.head)

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """Returns the batch with that offset, which is not in the ring; None if it must be read first, or has expired.

        Raises:
            Refused: `DAMAGED`.
        """
        found = self.log.entry(offset, wake)
        while found is not None and found.accepted_us <= self._limit_us:
            self.expire_below(found.base + found.batch.count)
            first = self.readable_from(self.head)
            found = None if first >= self._topic.ring.head else self.log.entry(first, wake)
        return found if offset >= self.head else None

    def readable_from(self, offset: int) -> int:
        """Returns the first offset from that one on that can be read: neither gone, nor lost (DUR-7)."""
        offset = max(offset, self.head)
        for begin, end in self.lost:
            if begin <= offset < end:
                offset = end
        return offset

    @property
    def damaged(self) -> int:
        """The number of messages that were damaged and given up by a repair, and are not gone otherwise (DUR-7)."""
        return sum(end - max(begin, self.head) for begin, end in self.lost if end > self.head)

    def first_since(self, time_us: int) -> Pending:
        """Returns the offset to come of the first message on the disk accepted at that time or later."""
        answer, ring = Pending(), self._topic.ring

        def tell(found: int | None) -> None:
            offset = max(ring.head if found is None else found, self.head, self.log.head)
            answer.settle(min(offset, ring.next_offset))  # what was just synced may not be in the ring yet

        self.log.first_since(max(time_us, self._limit_us + 1), tell)
        return answer

    def expire(self, limit_us: int, below: int) -> None:
        """Deliver no more messages accepted at that time or before, nor those below that offset.

        Files are removed later, as a whole.
        """
        self._limit_us = max(self._limit_us, limit_us)
        self.expire_below(below)

    def expire_below(self, offset: int) -> None:
        """Expire every message below that offset."""
        self.expired += self._move_head(offset, EXPIRED)

    def head_moved(self, head: int, own: int = FOREVER) -> None:
        """Move readers to where the log begins now: files of it were removed.

        Args:
            head: where it begins.
            own: what lies below this offset had to go for the log's own limit, the rest for that of all logs (DUR-9).
        """
        self.evicted += self._move_head(min(head, own), DISK) + self._move_head(head, ALL_LOGS)

    def _move_head(self, head: int, cause: int) -> int:
        """Begin at that offset, if that is further on, for that cause. Returns how many messages are gone by that."""
        count = max(head - self.head, 0)
        if count:
            note(self.moves, self.head, 0, cause)
        self.head += count
        return count

    def delete(self) -> Pending:
        """Remove the log, and refuse everything that still waits. Returns what is settled when the log is gone."""
        gone, problem = Pending(), f"topic {self._topic.name!r} was deleted while this waited for the disk"

        def tell() -> None:
            self.refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))
            gone.settle(True)

        self.log.delete(tell)
        return gone

    # -- once a second -----------------------------------------------------------------------------------------

    def sweep(self, now_us: int) -> None:
        """Expire files, and write the positions that have moved."""
        if self._limit_us >= 0:
            self.expire_below(min(self.log.expired_until(self._limit_us), self._topic.ring.next_offset))
            self.log.drop_below(self.head)
        if self.log.damage:
            return
        known, now = self._positions, {name: position.committed for name, position in self._topic.names.items()}
        moved: dict[str, int | None] = {name: offset for name, offset in now.items() if known.get(name) != offset}
        moved.update((name, None) for name in known if name not in now)
        if moved:
            self._write(Write(self.next, now_us, moved, known=known))
            self._positions = now
        elif not self.waiting:
            self.log.save()
