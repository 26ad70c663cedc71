"""Workers, the readers of a shared name, and hands: what all workers of a connection have.

    connection 7   hand    ┌ thumbs: worker 1 has 4, 5; worker 2 has 9, and 3 timed out there
                   size 5  └ mails:  worker 3 has 12

Workers of one connection are one program, and when it dies, all of them lose what they had. Any of
these messages may have killed it. So guilt is a matter of the hand: a message that was alone in it
when it was lost is charged; what was lost in company is only suspect, and gets a hand of its own
the next time (SHR-6).

What has timed out is not with the worker any more, but the program may still be busy with it. So it
stays in the hand, and uses credit, until the worker says something of it, or leaves (SHR-4).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from zaichik.core.work_queue.calendar import Calendar
from zaichik.core.work_queue.message import OpenMessage

if TYPE_CHECKING:
    from zaichik.core.work_queue.work_queue import WorkQueue


class Hand:
    """What the workers of one connection have, of all names together.

    Attributes:
        size: how many messages, those included that have timed out.
        suspects: how many of them are suspect, which is 1 at most, unless an owner came back.
        overdue: how many of them have timed out.
        drains_for: the worker for whose sake nothing more goes into this hand: when it is empty,
            that worker gets a suspect.
        is_lost: whether the connection is lost.
        was_alone: whether there was one message in the hand when it was lost.
    """

    def __init__(self) -> None:
        self.size = 0
        self.suspects = 0
        self.overdue = 0
        self.drains_for: Worker | None = None
        self.is_lost = False
        self.was_alone = False
        # Those that want to know when the hand is empty, or takes more again.
        self._watching: dict[Worker, None] = {}

    @property
    def can_drain(self) -> bool:
        """Whether it may be told to drain: it takes more now, and will be empty at some time."""
        return not (self.suspects or self.overdue or self.drains_for)

    def takes_more(self, worker: "Worker") -> bool:
        """Returns whether that worker of the connection may have anything now."""
        if self.suspects:
            return False
        if self.drains_for is None:
            return True
        return self.drains_for is worker and not self.size

    def watch(self, worker: "Worker") -> None:
        """Have that worker's name called, once, when the hand is empty or takes more again."""
        self._watching[worker] = None

    def stop_watching(self, worker: "Worker") -> None:
        """Undo `watch`."""
        self._watching.pop(worker, None)

    def add(self, count: int, suspects: int) -> None:
        """Put messages into the hand, so many of them suspect."""
        self.size += count
        self.suspects += suspects

    def remove(self, *, was_suspect: bool) -> None:
        """Take a message out of the hand."""
        self.size -= 1
        self.suspects -= was_suspect
        if was_suspect or not self.size:
            self._tell()

    def add_overdue(self) -> None:
        """Put something into the hand that timed out before."""
        self.size += 1
        self.overdue += 1

    def time_out(self, *, was_suspect: bool) -> None:
        """Note that a message in the hand has timed out: it stays there, and is overdue."""
        self.overdue += 1
        self.suspects -= was_suspect
        # It may never be empty now.
        drains_for = self.drains_for
        if drains_for is not None:
            drains_for.queue.stop_draining(drains_for)
        elif was_suspect:
            self._tell()

    def remove_overdue(self, count: int = 1) -> None:
        """Take out what timed out, because its program is done with it, or gone."""
        self.size -= count
        self.overdue -= count
        # It is empty, or can drain again.
        if not self.overdue:
            self._tell()

    def drain(self, worker: "Worker") -> None:
        """Take nothing more until the hand is empty and that worker got a suspect."""
        self.drains_for = worker

    def stop_draining(self) -> None:
        """Take more again."""
        self.drains_for = None
        self._tell()

    def lose(self) -> None:
        """Note that the connection is lost, with what is in the hand now; only once."""
        if not self.is_lost:
            self.is_lost = True
            self.was_alone = self.size == 1

    def _tell(self) -> None:
        if self.is_lost or not self._watching:
            return
        watching = self._watching
        self._watching = {}
        for worker in watching:
            worker.queue.recall(worker)


class Worker:
    """One reader of a shared name, as the name sees it.

    Args:
        queue: the name's queue.
        hand: that of its connection.
        credit: the most messages that it has at a time.
        credit_bytes: the same in bytes; one message, of any size, may always go.
        timeout_us: its time-out; 0: none.
        on_call: called when there may be something for it.
        owner: see `ExclusivePosition.claim`; 0 if it cannot come back.
        attempt: see `ExclusivePosition.claim`.

    Attributes:
        held: the messages that it has, by ticket.
        timeouts: when these time out.
        overdue: the tickets of those that have timed out and are not settled, and their bytes.
        in_flight_bytes: bytes of both.
    """

    def __init__(
        self,
        queue: "WorkQueue",
        hand: Hand,
        *,
        credit: int,
        credit_bytes: int,
        timeout_us: int,
        on_call: Callable[[], None],
        owner: int = 0,
        attempt: int = 0,
    ) -> None:
        self.queue = queue
        self.hand = hand
        self.credit = credit
        self.credit_bytes = credit_bytes
        self.timeout_us = timeout_us
        self.on_call = on_call
        self.owner = owner
        self.attempt = attempt
        self.held: dict[int, OpenMessage] = {}
        self.timeouts = Calendar()
        self.overdue: dict[int, int] = {}
        self.in_flight_bytes = 0

    @property
    def in_flight(self) -> int:
        """How many messages use its credit."""
        return len(self.held) + len(self.overdue)

    @property
    def has_credit(self) -> bool:
        """Whether it has nothing, or less than both credits allow (CMT-1)."""
        in_flight = self.in_flight
        if not in_flight:
            return True
        return in_flight < self.credit and self.in_flight_bytes < self.credit_bytes
