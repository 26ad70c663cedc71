"""A shared name of a topic: the position that several readers have together (SHR).

    topic ──published, read, gone──▶ SharedPosition ──▶ WorkQueue
                                          ▲
    SharedReader ──joins, takes, settles, leaves

The queue decides what each worker gets. After whatever happens, it has to know where the topic
ends, and the topic whom to call when that changes; and the client pays for what is remembered. All
of that is in `changed`.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from zaichik.base.counted import counted
from zaichik.core.position import Position
from zaichik.core.retained import Retained
from zaichik.core.topic_controller import TopicController
from zaichik.core.work_queue.tickets import BLOCK
from zaichik.core.work_queue.work_queue import WorkQueue
from zaichik.core.work_queue.worker import Worker
from zaichik_protocol import EndCode, ErrorCode, Outcome, Refused

if TYPE_CHECKING:
    from zaichik.core.shared_names.shared_names import SharedNames
    from zaichik.core.shared_names.shared_reader import SharedReader


class SharedPosition(Position):
    """One shared name.

    Args:
        names: those of the broker.
        topic: its topic.
        queue: what became of its messages.
        key, client: see `Position`.

    Attributes:
        topic, queue: see above.
        readers: the subscriptions that have it, by their workers.
    """

    def __init__(
        self, names: "SharedNames", topic: TopicController, queue: WorkQueue, key: str, client: str
    ) -> None:
        super().__init__(key, client)
        self.topic = topic
        self.queue = queue
        queue.on_recall = self.changed
        self.readers: dict[Worker, SharedReader] = {}
        self._names = names
        # What it needed when it was written to a disk; None if it never was, or need not be.
        self._saved_needed: int | None = None
        # Bytes that the client is charged for what is open and dead (SHR-10).
        self._charged = 0
        self._is_forgotten = False

    # -- as a position ---------------------------------------------------------------------------

    @property
    def needed(self) -> int:
        """See `Position`. The dead are needed as well, and what a start would know (SHR-9)."""
        needed = self.queue.ledger.needed
        if self._saved_needed is not None:
            return min(needed, self._saved_needed)
        return needed

    def unsettled(self, retained: Retained) -> int:
        """See `Position`. Those between open ones may be settled, and the dead are."""
        ledger = self.queue.ledger
        end = retained.end
        return ledger.open + end - ledger.next - retained.holes_between(ledger.next, end)

    @property
    def description(self) -> str:
        """See `Position`. It says what holds the topic back, which may not be a reader."""
        ledger = self.queue.ledger
        which = f"the shared name {self.name!r}"
        # Other users must not learn a user's names.
        if self.user:
            which = "a shared name"
        has = f"{counted(len(self.readers), 'worker')}, {ledger.open} open"
        return f"{which} ({has}, {len(ledger.dead)} dead)"

    @property
    def has_reader(self) -> bool:
        """See `Position`."""
        return bool(self.readers)

    @property
    def is_forgotten_by_time(self) -> bool:
        """See `Position`: what is open there are jobs (SHR-9)."""
        return False

    def let_go(self) -> None:
        """See `Position`."""
        self._is_forgotten = True
        self.topic.retained.stop_waiting(self)
        self._names.memory.take(self.client, -self._charged)
        self._charged = 0
        self._names.positions.pop(self, None)

    # -- on a disk -------------------------------------------------------------------------------

    @property
    def next_ticket(self) -> int:
        """The ticket that is given next."""
        return self._names.tickets.next

    @property
    def needs_save(self) -> bool:
        """Whether tickets will soon be used up, or are (SHR-3)."""
        return self._names.tickets.left < BLOCK // 2

    def note_saved(self, needed: int, ticket: int) -> None:
        """Note that it was written, with what it needed then, and the next ticket."""
        self.know_needed(needed)
        self._names.note_saved(ticket)

    def know_needed(self, needed: int) -> None:
        """Note what a start would find that it needs."""
        self._saved_needed = needed

    # -- workers ---------------------------------------------------------------------------------

    def join(self, reader: "SharedReader", tickets: Collection[int]) -> None:
        """Take a worker in; see `WorkQueue.join`.

        Raises:
            Refused: `TAKEN_OVER`.
        """
        replaced = self.queue.join(reader.worker, tickets, self._names.now_us)
        if replaced is not None:
            self.readers.pop(replaced).cut_off(EndCode.TAKEN_OVER)
        self._names.positions[self] = None
        self.readers[reader.worker] = reader
        self.left_us = None
        self.is_waived = False
        self.changed()
        # Not only with the next sweep: nothing is handed out before.
        if self.queue.is_stopped:
            self.topic.retained.save_names(self._names.now_us)

    def leave(self, worker: Worker) -> None:
        """Release what a worker has, if it has not left yet."""
        if self.readers.pop(worker, None) is not None:
            self.queue.leave(worker, self._names.now_us)
            self.changed()

    def lose(self, worker: Worker, *, is_lost: bool) -> None:
        """Have what a worker has wait for its owner, if it has not left yet.

        Args:
            worker: the worker.
            is_lost: whether its connection is lost; else the broker is about to stop.
        """
        if self.readers.pop(worker, None) is not None:
            names = self._names
            self.queue.lose(worker, names.now_us, names.machine_us, is_lost=is_lost)
            self.changed()

    def settle(
        self,
        worker: Worker,
        tickets: Iterable[int],
        outcome: Outcome,
        now_us: int,
        delay_us: int | None,
        reason: str,
    ) -> list[int]:
        """Settle messages that a worker has; see `WorkQueue.settle`."""
        self._names.note_time(now_us)
        late = self.queue.settle(worker, tickets, outcome, now_us, delay_us, reason)
        self.changed()
        return late

    def check_forget(self, reader: "SharedReader | None" = None) -> None:
        """Refuse to forget the name while anybody reads, but for that one.

        Raises:
            Refused: `NOT_EMPTY`.
        """
        others = len(self.readers)
        if reader is not None and reader.worker in self.readers:
            others -= 1
        if others:
            problem = f"{counted(others, 'worker')} of this name would lose what they have"
            raise Refused(ErrorCode.NOT_EMPTY, problem, "subscription")

    # -- what happens ----------------------------------------------------------------------------

    def sweep(self, now_us: int, machine_us: int) -> None:
        """Do what is due; see `WorkQueue.sweep`."""
        self.queue.sweep(now_us, machine_us)
        self.changed()

    def revive(self, offsets: Iterable[int]) -> int:
        """Returns how many dead messages with these offsets, which can be read, are open again."""
        revived = self.queue.revive(offsets)
        self.changed()
        return revived

    def forget_dead(self, offsets: Iterable[int]) -> int:
        """Returns how many dead messages with these offsets are forgotten."""
        forgotten = self.queue.forget(offsets)
        self.changed()
        return forgotten

    def changed(self) -> None:
        """Have queue, topic and client know what has changed."""
        # A worker whose subscription has ended may still settle what it had, which is late.
        if self._is_forgotten:
            return
        retained = self.topic.retained
        self.queue.published(retained.end)
        # Only while a worker waits: a publish costs the topic nothing otherwise.
        if self.queue.is_waited_for:
            retained.wait(self, self.changed)
        else:
            retained.stop_waiting(self)
        cost = self.queue.cost
        if cost != self._charged:
            self._names.memory.take(self.client, cost - self._charged)
            self._charged = cost
