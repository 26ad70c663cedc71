"""The writes of one durable topic that wait for its log, in the order of their offsets.

    published ──▶ accepted, has its offsets ──▶ `waiting` ──▶ written by the log, oldest first
                                                                │
                                                                └──▶ synced, or taken back

Nothing is delivered, and nothing is answered, before it is on the disk. The log writes from the
front of the queue. What is synced leaves it there. If the log has no room, the whole queue is taken
back from the other end, the newest first: offsets, producers' numbers, positions.

What is done with a batch that is synced, or taken back, depends on the kind of topic: the queue
only hands it over.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from zaichik.base.counted import counted
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.log import Log, Write
from zaichik.core.pending import Pending
from zaichik.core.retained import Retained
from zaichik.core.shared_names.saving import NameSaver, NamesWrite
from zaichik.core.sharing import prices
from zaichik_protocol import Batch, ErrorCode, Frame, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

# Bytes that may wait, or what the topic may hold in memory if that is more: the size of one write.
WAITING_BYTES = 4 * 1024 * 1024
# Batches of one topic that may wait for the disk, however small: each takes more than a KiB.
WAITING_BATCHES = 65_536
# Of what waits, as much may not count as memory yet: counting takes time, and batches may be small.
UNCOUNTED_BYTES = 16 * 1024


class WriteQueue:
    """See above.

    Args:
        topic: the topic.
        retained: what it retains, which counts the bytes that wait.
        log: its log.
        positions: the named positions that the log has.

    Attributes:
        waiting: the writes, the oldest first. A write in progress stays here until it is synced.
        next: the offset that the next message will get.
        saver: the shared names, as the log has them.
    """

    def __init__(
        self,
        topic: "TopicController",
        retained: Retained,
        log: Log,
        positions: Mapping[str, int] | None,
    ) -> None:
        self.waiting: deque[Write] = deque()
        self.next = log.end
        self.saver = NameSaver(topic)
        self._topic = topic
        self._retained = retained
        self._log = log
        # Of names: as the log has them, or will have them when all that waits is written.
        self._positions: Mapping[str, int] = positions or {}

    # -- what is accepted ------------------------------------------------------------------------

    def check(self, batch: Batch, max_bytes: int) -> None:
        """Refuse a batch that cannot wait now.

        Args:
            batch: the batch.
            max_bytes: what the topic may hold in memory.

        Raises:
            Refused: `DAMAGED`, `NO_MEMORY`.
        """
        damage = self._log.damage
        name = self._topic.name
        if damage:
            problem = f"the log of {name!r} is damaged, so its end is not known: {damage}"
            raise Refused(ErrorCode.DAMAGED, problem, "topic")
        waiting = len(self.waiting)
        waiting_bytes = self._retained.waiting_bytes
        too_much = waiting_bytes + len(batch.data) > max(max_bytes, WAITING_BYTES)
        if too_much or waiting >= WAITING_BATCHES:
            problem = (
                f"too much waits for the disk of {name!r}: "
                f"{counted(waiting, 'batch', 'batches')} of {counted(waiting_bytes, 'byte')}. "
                "Try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "topic")

    def add_batch(self, write: Write, batch: Batch) -> Pending:
        """Have a batch written, which takes the next offsets, and count what waits.

        Returns the answer to come.
        """
        self.next = write.base + batch.count
        size = len(batch.data)
        retained = self._retained
        before = retained.waiting_memory
        retained.waiting_bytes += size
        retained.waiting_memory += size
        answer = self._add(write)
        if before // UNCOUNTED_BYTES != retained.waiting_memory // UNCOUNTED_BYTES:
            self._topic.charge()
        return answer

    def record_refusal(
        self, refusal: Refused, now_us: int, producer: int, sequence: int
    ) -> Pending | None:
        """See `Retained`. Without a number, or a log that can be written, nothing is recorded."""
        if not producer or refusal.code.retryable or self._log.damage:
            return None
        write = Write(self.next, now_us, refusal, producer, sequence)
        return self._add(write)

    def when_written(self, reply: Frame) -> Frame | Pending:
        """Returns the reply to come when the topic, and all that waits now, are on the disk."""
        written = self._add(Write(self.next, 0, None))
        return written.followed_by(lambda _: reply)

    def save_positions(self, now_us: int) -> bool:
        """Have the named positions written that have moved. Returns whether there were any."""
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
        moved |= {name: None for name in known if name not in now}  # those that were forgotten
        if not moved:
            return False
        self._add(Write(self.next, now_us, moved, known=known))
        self._positions = now
        return True

    def save_names(self, now_us: int) -> None:
        """See `Retained`."""
        names = self.saver.write()
        if names is not None:
            self._add(Write(self.next, now_us, names))

    def _add(self, write: Write) -> Pending:
        self.waiting.append(write)
        self._retained.waiting_memory += prices.WAITING
        self._log.write()
        return write.answer

    # -- what becomes of it ----------------------------------------------------------------------

    def take_synced(self) -> Write:
        """Take the oldest write out of the queue: it is on the disk. The caller answers it."""
        done = self.waiting.popleft()
        retained = self._retained
        retained.waiting_memory -= prices.WAITING
        if isinstance(done.what, Batch):
            size = len(done.what.data)
            retained.waiting_bytes -= size
            retained.waiting_memory -= size
        return done

    def answer(self, done: Write) -> None:
        """Answer a write that is on the disk."""
        match done.what:
            case Batch() as batch:
                readers = len(self._topic.readers)
                reply = Published(0, done.base, batch.count, done.compacted, readers, done.dropped)
                done.answer.settle(reply)
            case Refused() as refusal:
                done.answer.settle(refusal)
            case NamesWrite() as names:
                names.note_synced()
            case _:
                done.answer.settle(True)

    def take_back(self, refusal: Refused) -> Iterator[Write]:
        """Take back everything that waits, the newest first, and refuse it.

        Each write is returned before it is refused, so that the topic can undo it. If the log is
        damaged, all readers are then given a turn: no message will come to wake them.
        """
        retained = self._retained
        retained.waiting_bytes = 0
        retained.waiting_memory = 0
        while self.waiting:
            undone = self.waiting.pop()
            self.next = undone.base
            if undone.known is not None:
                self._positions = undone.known
            if isinstance(undone.what, NamesWrite):
                self.saver.undo(undone.what)
            yield undone
            undone.answer.settle(refusal)
        self._topic.charge()
        if self._log.damage:
            # Those that have read everything end in it (DUR-7).
            for reader in list(self._topic.readers):
                reader.make_ready()

    def delete(self) -> Pending:
        """Have the log removed, then refuse everything that still waits.

        Returns what is settled after that.
        """
        gone = Pending()
        self._log.delete(partial(self._refuse_rest, gone))
        return gone

    def _refuse_rest(self, gone: Pending) -> None:
        problem = f"topic {self._topic.name!r} was deleted while this waited for the disk"
        self._log.owner.on_refused(Refused(ErrorCode.NO_SUCH_TOPIC, problem))
        gone.settle(True)
