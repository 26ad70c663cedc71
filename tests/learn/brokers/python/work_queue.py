"""A shared name: a queue of messages that several workers have together. Nothing here waits or sends."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import wire

if TYPE_CHECKING:
    from topic import Topic
    from worker import Worker

NEVER = float("inf")
ABSENT_SECONDS = 2
MOST_OPEN = 10_000
FIRST_WAIT, LONGEST_WAIT = 1, 60  # seconds


@dataclass(eq=False)
class Open:
    """A message that was handed out and is neither done nor dead, or one that waits for another of its key."""

    offset: int
    key: bytes
    count: int = 0  # deliveries that count, this one included
    is_again: bool = False  # it was handed out before, counted or not
    is_suspect: bool = False  # it may have ended a worker
    ready_at: float = 0  # while it waits
    ticket: int = 0  # of the last delivery
    size: int = 0
    late_at: float = NEVER  # while a worker has it


class Dead(NamedTuple):
    """A message that is handed out no more."""

    key: bytes
    deliveries: int
    died_us: int
    reason: str


@dataclass(eq=False)
class Absence:
    """What a worker had whose connection is lost, and for how long its owner may come back for it."""

    owner: int | None
    attempt: int
    held: dict[int, Open]
    until: float
    was_alone: bool


class WorkQueue:
    """An open message is with a worker, with one that is absent, or in ``waiting``."""

    def __init__(
        self, topic: "Topic", start: int, max_deliveries: int, tickets: Iterator[int], *, by_key: bool
    ) -> None:
        self.topic, self.next = topic, start
        self.max_deliveries, self.by_key, self.tickets = max_deliveries, by_key, tickets
        self.open: dict[int, Open] = {}
        self.waiting: dict[int, Open] = {}
        self.dead: dict[int, Dead] = {}
        self.workers: dict[Worker, None] = {}
        self.absences: list[Absence] = []

    # Where it is.

    def start(self) -> int:
        """The first offset that was not handed out yet."""
        return min((message.offset for message in self.waiting.values() if not message.is_again), default=self.next)

    def committed(self) -> int:
        return min(self.open, default=self.next)

    def needed(self) -> int:
        """What lies below may go from the topic."""
        return min([self.next, *self.open, *self.dead])

    # Workers come and go.

    def agree(self, max_deliveries: int, *, by_key: bool) -> None:
        if by_key != self.by_key and (self.workers or self.open):
            raise wire.Fault(wire.INVALID_FIELD, "by_key", "the first reader has decided about the order of keys")
        if max_deliveries != self.max_deliveries and self.workers:
            raise wire.Fault(wire.INVALID_FIELD, "max_deliveries", f"this name has {self.max_deliveries}")
        self.max_deliveries, self.by_key = max_deliveries, by_key

    def judge(self, owner: int | None, attempt: int) -> None:
        """Refuses a request that is older than the last one of this owner."""
        others: list[Worker | Absence] = [*self.workers, *self.absences]
        if any(owner is not None and other.owner == owner and other.attempt >= attempt for other in others):
            raise wire.Fault(wire.TAKEN_OVER, "attempt", "a later attempt of this owner has the name")

    def join(self, worker: "Worker", tickets: list[int], seconds: float) -> None:
        """Takes a worker in. Its owner keeps what it names; the rest of what it had is released."""
        had = self._take_from_owner(worker.owner)
        self.workers[worker] = None
        for ticket, message in had.items():
            if ticket in tickets:
                worker.have(message, seconds)
            else:
                self._release(message)
        self.wake()

    def _take_from_owner(self, owner: int | None) -> dict[int, Open]:
        had: dict[int, Open] = {}
        if owner is None:
            return had
        for worker in [worker for worker in self.workers if worker.owner == owner]:
            had |= self.part_with(worker)
            worker.end_with(wire.NAME_TAKEN, "its owner has asked for the name again")
        for absence in [absence for absence in self.absences if absence.owner == owner]:
            had |= absence.held
            self.absences.remove(absence)
        return had

    def part_with(self, worker: "Worker") -> dict[int, Open]:
        """The worker leaves; the result is what it had, which is open still."""
        self.workers.pop(worker, None)
        worker.overdue.clear()
        had = dict(worker.held)
        for message in had.values():
            worker.have_no_more(message)
        return had

    def leave(self, worker: "Worker") -> None:
        for message in self.part_with(worker).values():
            self._release(message)
        self.wake()

    def lose(self, worker: "Worker", seconds: float, now: int, *, was_alone: bool) -> None:
        """The worker's connection is lost. What it has waits for its owner, or is lost as well."""
        had = self.part_with(worker)
        absence = Absence(worker.owner, worker.attempt, had, seconds + ABSENT_SECONDS, was_alone)
        if worker.owner is None:
            self._end_absence(absence, seconds, now)
        else:
            self.absences.append(absence)
        self.wake()

    def _end_absence(self, absence: Absence, seconds: float, now: int) -> None:
        for message in absence.held.values():
            self.lose_one(message, seconds, now, is_alone=absence.was_alone)

    def forget(self) -> None:
        """The name goes, with all that is open or dead."""
        for name in [name for name, queue in self.topic.queues.items() if queue is self]:
            del self.topic.queues[name]

    def wake(self) -> None:
        for worker in self.workers:
            worker.wake.set()

    # Handing out.

    def offer(self, worker: "Worker", seconds: float) -> Open | None:
        """The message that a worker with free credit may have now. A suspect is alone in a hand."""
        if worker.connection.has_suspect():
            return None
        is_busy = worker.connection.hand_size() > 0
        for message in list(self.waiting.values()):
            if self.topic.is_hole(message.offset):
                del self.waiting[message.offset], self.open[message.offset]
            elif message.ready_at <= seconds and not (message.is_suspect and is_busy) and not self._is_blocked(message):
                return message
        return self._new()

    def _is_blocked(self, message: Open) -> bool:
        """Whether one of its key must be settled first."""
        if not self.by_key or not message.key:
            return False
        return any(other.key == message.key and other.offset < message.offset for other in self.open.values())

    def _new(self) -> Open | None:
        """The next message that was not handed out yet. Those that wait for one of their key are open from now on."""
        self.next = self.topic.next_readable(self.next)
        while self.next < self.topic.next and len(self.open) < MOST_OPEN:
            found = self.topic.read(self.next)
            message = Open(self.next, found[1] if found else b"")
            if not self._is_blocked(message):
                return message
            self.open[message.offset] = self.waiting[message.offset] = message
            self.next = self.topic.next_readable(self.next + 1)
        return None

    def hand_out(self, worker: "Worker", message: Open, seconds: float) -> None:
        """The worker has it from now on."""
        if self.waiting.pop(message.offset, None) is None:
            self.next = message.offset + 1
            self.open[message.offset] = message
        message.ticket = next(self.tickets)
        message.count += 1
        worker.have(message, seconds)

    def skip(self, message: Open) -> int:
        """What was offered has gone from the topic. The result is where the gap ends."""
        if self.waiting.pop(message.offset, None) is not None:
            del self.open[message.offset]
            return message.offset + 1
        self.next = self.topic.head
        return self.next

    # Settling.

    def settle_one(self, message: Open, how: "Settlement", seconds: float, *, is_alone: bool) -> None:
        """What becomes of a message that its worker does not have any more."""
        if how.outcome == wire.DONE:
            del self.open[message.offset]
        elif how.outcome == wire.RETRY:
            message.is_suspect = False
            delay = wait_after(message.count) if how.delay is None else how.delay
            self._fail(message, how.reason, seconds + delay, how.now)
        elif how.outcome == wire.REJECT:
            self._bury(message, how.reason, how.now)
        elif how.outcome == wire.RELEASE:
            self._release(message)
        elif how.outcome == wire.GIVE_BACK:
            message.count -= 1
            self._wait(message, seconds + FIRST_WAIT)
        elif how.outcome == wire.LOSE:
            self.lose_one(message, seconds, how.now, is_alone=is_alone)

    def lose_one(self, message: Open, seconds: float, now: int, *, is_alone: bool) -> None:
        """A message that was alone is guilty, and is charged; what was lost in company is only suspect."""
        message.is_suspect = True
        if is_alone:
            self._fail(message, "its worker was lost, or took too long", seconds, now)
        else:
            message.count -= 1
            self._wait(message, seconds)

    def _fail(self, message: Open, reason: str, ready_at: float, now: int) -> None:
        if 0 < self.max_deliveries <= message.count:
            self._bury(message, reason, now)
        else:
            self._wait(message, ready_at)

    def _release(self, message: Open) -> None:
        message.count -= 1
        self._wait(message, 0)

    def _wait(self, message: Open, ready_at: float) -> None:
        message.ready_at = ready_at
        self.waiting[message.offset] = message

    def _bury(self, message: Open, reason: str, now: int) -> None:
        del self.open[message.offset]
        self.dead[message.offset] = Dead(message.key, message.count, now, reason)

    # Once a second.

    def sweep(self, seconds: float, now: int) -> None:
        """What was lost, or has taken too long, comes again; and what has waited for its time."""
        for absence in [absence for absence in self.absences if absence.until <= seconds]:
            self.absences.remove(absence)
            self._end_absence(absence, seconds, now)
        for worker in self.workers:
            for message in [message for message in worker.held.values() if message.late_at <= seconds]:
                is_alone = worker.connection.hand_size() == 1
                worker.time_out(message)
                self.lose_one(message, seconds, now, is_alone=is_alone)
        self.wake()

    # The dead.

    def page(self, first: int, count: int, selected: list[int] | None) -> tuple[list[int], int | None]:
        """The offsets of the dead that a request is about, and where those begin that are left."""
        about = sorted(offset for offset in self.dead if offset >= first)
        if selected is not None:
            about = [offset for offset in about if offset in selected]
        following = about[count] if len(about) > count else None
        return about[:count], following

    def revive(self, offsets: list[int]) -> int:
        """Opens those again that can be read; the result is how many."""
        readable = [offset for offset in offsets if self.topic.read(offset) is not None]
        for offset in readable:
            message = self.open[offset] = Open(offset, self.dead.pop(offset).key)
            message.is_again = True
            self._wait(message, 0)
        self.wake()
        return len(readable)


class Settlement(NamedTuple):
    """What a Settle says of its tickets."""

    outcome: int
    delay: float | None  # seconds
    reason: str
    now: int


def wait_after(failures: int) -> float:
    """Seconds before another try: more with each one."""
    return min(FIRST_WAIT * 2 ** max(failures - 1, 0), LONGEST_WAIT)
