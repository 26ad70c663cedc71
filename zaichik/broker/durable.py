"""The durable side of a topic: what was accepted and waits for the disk, and what is read from it.

    published ──▶ judged, has its offsets ──▶ waits for the log ──▶ synced: answered, then in the ring, readable

Nothing is delivered, and nothing is answered, before it is on the disk: not even that a message was compacted, because
the one that kept it out may still be waiting. The log is told in the order of the offsets and syncs in that order. If
it has no room, everything that waits is taken back, the newest first: offsets, compaction windows, producers' numbers.

The ring is the end of the log, in memory. A reader that keeps up is served from there and never touches the disk.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from zaichik.broker.compaction import CompactionWindow
from zaichik.broker.pending import Pending
from zaichik.broker.position import Position
from zaichik.broker.ring import BroadcastRing, Entry
from zaichik.broker.settings import TopicSettings
from zaichik_protocol import Batch, ErrorCode, Frame, Overflow, Published, Refused

LEAST_WAITING = 4 * 1024 * 1024  # bytes that may wait, however small the ring is: as much as is written at once
MOST_WAITING = 65_536  # publishes to one topic that wait for the disk, however small: each takes more than a KiB

Wake = Callable[[], None]
Done = Callable[[Refused | None], None]


class Log(Protocol):
    """A topic's log on a disk. No method waits.

    Attributes:
        head: the first offset on the disk.
        end: the offset after the last message on the disk.
        size: its bytes.
        damage: what is wrong with it, for a person; "" if nothing is known to be.
    """

    head: int
    end: int
    size: int
    damage: str

    def attach(self, owner: "LogOwner") -> None:
        """Tell that one what becomes of records."""

    def publish(
        self, base: int, accepted_us: int, batch: Batch | None, dropped: bytes, producer: int, sequence: int
    ) -> None:
        """Write what was stored of a publish."""

    def refuse(self, base: int, accepted_us: int, refusal: Refused, producer: int, sequence: int) -> None:
        """Write that a numbered batch was refused for good."""

    def move(self, base: int, accepted_us: int, positions: dict[str, int | None]) -> None:
        """Write that named positions have moved, or, with None, are forgotten."""

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
        """Returns an offset below which all was accepted at that time or before: the greatest that memory knows."""

    def size_from(self, offset: int) -> int:
        """Returns the bytes of the files that hold anything from that offset on."""

    def drop_below(self, offset: int) -> None:
        """Remove files that hold nothing from that offset on."""

    def save(self) -> None:
        """Write a checkpoint, if there is anything new."""

    def after_all(self, done: Done) -> None:
        """Call that when all that was asked for so far is done, or could not be done for want of room."""

    def delete(self, done: Done) -> None:
        """Remove the log, and call that."""


class LogOwner(Protocol):
    """Whoever is told what becomes of records.

    Attributes:
        needed: what is from that offset on must not be removed to make room.
    """

    @property
    def needed(self) -> int:
        """See above."""

    def synced(self, count: int) -> None:
        """So many more publishes are on the disk, the oldest first."""

    def refused(self, refusal: Refused) -> None:
        """None of those that still wait was written."""

    def head_moved(self, head: int) -> None:
        """The log begins there now."""


class Logs(Protocol):
    """Where the logs of all topics are."""

    def check(self, name: str) -> None:
        """Refuse a new log of that name.

        Raises:
            Refused: `DAMAGED`: there is one that cannot be read.
        """

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> Log:
        """Returns a new log, which `check` has not refused."""


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


@dataclass(slots=True)
class _Waiting:
    """A publish that waits for the disk.

    Attributes:
        answer: what its publisher waits for.
        accepted_us: when it was accepted.
        first_offset: of what is stored of it.
        batch: what is stored of it; None if that is nothing.
        dropped: the bitmap of what compaction dropped.
        compacted: how many that is.
        opened: the keys whose windows it has opened.
        refusal: why it was refused, if only that is written.
    """

    answer: Pending
    accepted_us: int
    first_offset: int
    batch: Batch | None = None
    dropped: bytes = b""
    compacted: int = 0
    opened: Sequence[bytes] = ()
    refusal: Refused | None = None

    @property
    def count(self) -> int:
        """How many offsets it takes."""
        return 0 if self.batch is None else self.batch.count


class Durable:
    """The durable side of one topic.

    Args:
        topic: the topic.
        log: its log.

    Attributes:
        log: see above.
        head: the oldest offset that can be read.
        next: the offset that the next message to be accepted will get.
        expired, evicted: messages that are gone from the log.
        lost: offsets that a repair has given up, as pairs: the first, and the one after the last; in order.
        waiting_bytes: of batches that wait for the disk.
    """

    def __init__(self, topic: Topic, log: Log) -> None:
        self.log = log
        self.head = log.head
        self.next = log.end
        self.waiting_bytes = 0
        ttl = topic.settings.expires
        self.expired, self.evicted = (log.head, 0) if ttl else (0, log.head)
        self.lost: Sequence[tuple[int, int]] = ()
        self._topic = topic
        self._waiting: deque[_Waiting] = deque()
        self._limit_us = -1  # messages accepted until then have expired
        self._moved: dict[str, int | None] = {}  # positions, as the log has them; None: they are being forgotten
        topic.ring.begin_at(log.end)
        log.attach(self)

    def knows(self, positions: dict[str, int]) -> None:
        """The log has these named positions."""
        self._moved.update(positions)

    @property
    def needed(self) -> int:
        """From that offset on nothing is removed to make room: what readers need, if the topic is lossless (RET-9)."""
        return self._topic.needed() if self._topic.settings.overflow == Overflow.REJECT else self.next

    # -- writing -----------------------------------------------------------------------------------------------

    def check_room(self, batch: Batch) -> None:
        """Refuse a batch that the log cannot take now.

        Raises:
            Refused: `DAMAGED`, `NO_MEMORY`, `TOPIC_FULL`.
        """
        name, settings = self._topic.name, self._topic.settings
        if self.log.damage:
            problem = f"the log of {name!r} is damaged, so that its end is not known: {self.log.damage}"
            raise Refused(ErrorCode.DAMAGED, problem, "topic")
        waiting = len(self._waiting)
        if self.waiting_bytes + len(batch.data) > max(settings.max_bytes, LEAST_WAITING) or waiting >= MOST_WAITING:
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
        stored = batch if len(kept) == batch.count else batch.select(kept) if kept else None
        keys = [] if stored is None or self._topic.window is None else stored.keys()
        opened = [key for key in keys if key]
        waiting = _Waiting(Pending(), now_us, self.next, stored, dropped, batch.count - len(kept), opened)
        self._wait(waiting)
        self.log.publish(self.next, now_us, stored, dropped, producer, sequence)
        self.next += waiting.count
        return waiting.answer

    def refuse(self, refusal: Refused, now_us: int, producer: int, sequence: int) -> Pending:
        """Have it written that a numbered batch was refused for good. Returns the answer: the refusal."""
        waiting = _Waiting(Pending(), now_us, self.next, refusal=refusal)
        self._wait(waiting)
        self.log.refuse(self.next, now_us, refusal, producer, sequence)
        return waiting.answer

    def _wait(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self.waiting_bytes += 0 if waiting.batch is None else len(waiting.batch.data)

    def synced(self, count: int) -> None:
        """Answer so many publishes, then let readers have them: a publisher knows before it hears its own echo."""
        topic = self._topic
        for _ in range(min(count, len(self._waiting))):  # none waits any more if the topic was deleted meanwhile
            done = self._waiting.popleft()
            if done.batch is not None:
                self.waiting_bytes -= len(done.batch.data)
            if done.refusal is not None:
                done.answer.settle(done.refusal)
                continue
            readers = len(topic.readers)
            done.answer.settle(Published(0, done.first_offset, done.count, done.compacted, readers, done.dropped))
            topic.count_compacted(done.compacted)
            if done.batch is not None:
                topic.store(done.batch, done.accepted_us)

    def refused(self, refusal: Refused) -> None:
        """Take back everything that waits, the newest first."""
        self._moved = dict.fromkeys(self._moved, -1)  # what was to be written about positions was refused as well
        while self._waiting:
            undone = self._waiting.pop()
            self.next = undone.first_offset
            if self._topic.window is not None:
                self._topic.window.take_back(undone.opened)
            undone.answer.settle(refusal)
        self.waiting_bytes = 0

    # -- reading -----------------------------------------------------------------------------------------------

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
        """How many of the messages that are not gone are lost."""
        return sum(end - max(begin, self.head) for begin, end in self.lost if end > self.head)

    def first_since(self, time_us: int) -> Pending:
        """Returns the offset to come of the first message on the disk accepted at that time or later."""
        answer, ring = Pending(), self._topic.ring

        def tell(found: int | None) -> None:
            offset = max(ring.head if found is None else found, self.head)
            answer.settle(min(offset, ring.next_offset))  # what was just synced may not be told of yet

        self.log.first_since(max(time_us, self._limit_us + 1), tell)
        return answer

    def expire(self, limit_us: int, below: int) -> None:
        """Messages accepted at that time or before are no longer delivered, nor those below that offset.

        Files go as wholes, later.
        """
        self._limit_us = max(self._limit_us, limit_us)
        self.expire_below(below)

    def expire_below(self, offset: int) -> None:
        """Every message below that offset has expired."""
        if offset > self.head:
            self.expired += offset - self.head
            self.head = offset

    def head_moved(self, head: int) -> None:
        """Files of the log were removed: readers continue where it begins now."""
        if head > self.head:
            self.evicted += head - self.head
            self.head = head

    def remembers(self, refusal: Refused) -> bool:
        """Whether the log has to know of a refusal: it is for good, and the log can be written."""
        return not refusal.code.retryable and not self.log.damage

    def after_all(self, reply: Frame) -> Pending:
        """Returns that reply, to come when all that was asked for so far is on the disk."""
        done = Pending()
        self.log.after_all(lambda refusal: done.settle(refusal or reply))
        return done

    # -- deletion ----------------------------------------------------------------------------------------------

    def delete(self) -> Pending:
        """Refuse what waits, and remove the log. Returns what is settled, perhaps with a refusal, when it is gone."""
        name, answer = self._topic.name, Pending()
        self.refused(Refused(ErrorCode.NO_SUCH_TOPIC, f"topic {name!r} was deleted while this waited for the disk"))
        self.log.delete(lambda refusal: answer.settle(refusal or True))
        return answer

    # -- once a second -----------------------------------------------------------------------------------------

    def sweep(self, now_us: int) -> None:
        """Expire files, and write the positions that have moved."""
        if self._limit_us >= 0:
            self.expire_below(min(self.log.expired_until(self._limit_us), self._topic.ring.next_offset))
            self.log.drop_below(self.head)
        names, moved = self._topic.names, dict[str, int | None]()
        for name, position in names.items():
            if self._moved.get(name) != position.committed:
                moved[name] = position.committed
        forgotten = [name for name, known in self._moved.items() if known is not None and name not in names]
        moved.update(dict.fromkeys(forgotten))
        self._moved.update(moved)
        if self.log.damage:
            return
        if moved:
            self.log.move(self.next, now_us, moved)
            self.log.after_all(partial(self._forget, forgotten))
        elif not self._waiting:
            self.log.save()

    def _forget(self, names: Sequence[str], refusal: Refused | None) -> None:
        """The log knows that these positions are forgotten, or is to be told again."""
        for name in names:
            if refusal is None and self._moved.get(name, 0) is None:
                del self._moved[name]
