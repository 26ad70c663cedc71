"""A work queue: the position that several readers of a shared name have together (SHR).

                              ┌─────────── comes again: retry, release, lost ──────────┐
                              ▼                                                        │
    topic ──in order──▶ offered to the worker ──handed out, with a ticket──▶ held ─────┤
                        that waits longest                                             │
                                                         done, dead, gone ◀────────────┘

A worker asks with `offer` what it may have, reads that from the topic, and takes it with `hand_out`
or `hand_out_next`; if it is not there any more, with `skip` or `pass_over`. It asks again until
there is nothing. Then it waits in the line, and `on_call` tells it to ask again. Nothing is
reserved for it in between: an offer changes nothing but the line.

Three questions decide what a worker is offered, in this order:

- May its connection have anything? While a suspect is in its hand, or it drains for one, no.
- Does a suspect wait? It goes first, but only to an empty hand.
- Is it the worker's turn? Then what is ready comes before what is new.

What comes back is judged by `retries`: whether it counts, when it comes again, whether it is dead.

Every operation costs O(log n) for each message that it moves. Only while suspects wait, all workers
that wait are looked at.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from zaichik.core.work_queue.absence import AFTER_LOSS_US, AFTER_START_US, Absence, Absences
from zaichik.core.work_queue.isolation import Isolation
from zaichik.core.work_queue.ledger import Ledger
from zaichik.core.work_queue.line import Line
from zaichik.core.work_queue.message import OpenMessage, Place
from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.retries import Retries
from zaichik.core.work_queue.tickets import Tickets
from zaichik.core.work_queue.worker import Worker
from zaichik_protocol import ErrorCode, Outcome, Refused

DELAYED_FOR_EACH_OPEN = 10  # the bound of what waits for its time, in `max_open`
# What an open or dead message costs beside its key and reason, as `prices` are measured (SHR-10):
# some 360 that a worker has, 480 with keys in order.
MESSAGE_BYTES = 500
# The same for a ticket that a worker has not settled in time.
OVERDUE_BYTES = 120

LOST = "its worker's connection was lost"
TIMED_OUT = "its worker took longer than its time-out"
LOST_BY_PROGRAM = "its program failed with several messages open"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """What the workers of a name agree in, and the broker's limits for it.

    Attributes:
        max_deliveries: a message that has failed so often is dead; 0: never (SHR-5).
        by_key: whether messages of a key are handed out in order, one at a time (SHR-8).
        max_open: the most open messages, but those that wait for their time (SHR-2).
        max_dead: the dead, with which nothing more is handed out (SHR-5).
    """

    max_deliveries: int = 5
    by_key: bool = False
    max_open: int = 10_000
    max_dead: int = 10_000


class Offer(NamedTuple):
    """What a worker may have now.

    Attributes:
        first: the first offset.
        most: how many messages; more than 1 only if they are new.
        is_new: whether they were not handed out before, as far as the name knows.
    """

    first: int
    most: int
    is_new: bool


class Delivery(NamedTuple):
    """What is said of messages that are handed out together.

    Attributes:
        ticket: the ticket of the first; the others have those that follow.
        number: which delivery of each this is, of those that count.
        is_again: whether they were handed out before, counted or not.
    """

    ticket: int
    number: int
    is_again: bool


class WorkQueue:
    """The messages of one shared name, and its workers.

    Args:
        start: the offset where it begins.
        settings: see `QueueSettings`.
        tickets, patience: those of the broker.
        delivered: offsets below it may have been handed out by an earlier run of the broker.

    Attributes:
        settings: see above.
        ledger: what became of each offset, and what waits to be handed out again.
        workers: those that are connected, in the order in which they came.
        absences: those that may come back.
        end: the end of the topic, as far as it is known here.
        on_recall: called when a worker waits that may not have waited before, and nobody has asked
            this queue for anything.
    """

    def __init__(
        self,
        start: int,
        settings: QueueSettings,
        tickets: Tickets,
        patience: Patience,
        delivered: int = 0,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger(start)
        # A set that keeps order, so that everything is repeatable.
        self.workers: dict[Worker, None] = {}
        self.absences = Absences()
        self.end = start
        self.on_recall: Callable[[], None] = lambda: None
        self._tickets = tickets
        self._patience = patience
        self._delivered = delivered
        # How many tickets of workers are overdue.
        self._overdue = 0
        self._line = Line()
        self._isolation = Isolation(self.ledger, self._line, lambda: self.is_stopped)
        self._retries = Retries(self.ledger, settings.max_deliveries)

    # -- workers come ----------------------------------------------------------------------------

    def check_agreed(self, max_deliveries: int, *, by_key: bool) -> None:
        """Refuse a worker that asks for settings which the name cannot have now (SHR-1).

        Raises:
            Refused: `INVALID_FIELD`, with what the name has.
        """
        settings = self.settings
        may_change = not self.workers
        if by_key != settings.by_key and not (may_change and not self.ledger.open):
            problem = "the order of keys is decided by the first reader, and messages are open"
            raise Refused(ErrorCode.INVALID_FIELD, problem, "by_key")
        if max_deliveries != settings.max_deliveries and not may_change:
            problem = (
                f"this name has max_deliveries {settings.max_deliveries}; it can be changed while "
                "nobody reads"
            )
            raise Refused(ErrorCode.INVALID_FIELD, problem, "max_deliveries")

    def agree(self, max_deliveries: int, *, by_key: bool) -> None:
        """Have the settings that a worker asks for, which were checked."""
        self.settings = replace(self.settings, max_deliveries=max_deliveries, by_key=by_key)
        self._retries.max_deliveries = max_deliveries

    def join(self, worker: Worker, tickets: Collection[int], now_us: int) -> Worker | None:
        """Take a worker in; if its owner was away, it keeps what it names (SHR-4a).

        Args:
            worker: the worker, which has nothing yet.
            tickets: those that its program has.
            now_us: the clock's reading.

        Returns:
            The worker of the same owner whose place it takes, which has left by then; None if there
            was none.

        Raises:
            Refused: `TAKEN_OVER`: its owner has made a later attempt.
        """
        replaced, absence = self._claim(worker)
        if replaced is not None:
            absence = Absence(self._part_with(replaced), until_us=0)
        self.workers[worker] = None
        named = frozenset(tickets)
        known: Collection[int] = ()
        if absence is not None:
            known = absence.held
            self._return(worker, absence, named, now_us)
        # Its program is busy with what is not open here any more: it timed out, say.
        for ticket in sorted(named.difference(known)):
            # Nobody can tell how many of them were ever given.
            if worker.in_flight < worker.credit and self._overdue < self.settings.max_open:
                worker.overdue[ticket] = 0
                worker.hand.add_overdue()
                self._overdue += 1
        self.line_up(worker)
        return replaced

    def _claim(self, worker: Worker) -> tuple[Worker | None, Absence | None]:
        """Returns the earlier worker of the owner, or its absence."""
        owner = worker.owner
        if not owner:
            return None, None
        absence = self.absences.get(owner)
        replaced = None
        attempt = -1
        for other in self.workers:
            if other.owner == owner:
                replaced = other
                attempt = other.attempt
        if absence is not None:
            attempt = absence.attempt
        if worker.attempt <= attempt:
            problem = f"this is attempt {worker.attempt}; its owner has made a later one"
            raise Refused(ErrorCode.TAKEN_OVER, problem, "attempt")
        return replaced, self.absences.take(owner)

    def _return(
        self, worker: Worker, absence: Absence, named: Collection[int], now_us: int
    ) -> None:
        """Give back to a worker what it had and names; the rest never reached it."""
        for ticket, message in absence.held.items():
            if ticket in named:
                self._put(message, worker, now_us)
            else:
                self._retries.release(message, now_us)

    # -- handing out -----------------------------------------------------------------------------

    def offer(self, worker: Worker, end: int) -> Offer | None:
        """Returns what that worker may have now; None if there is nothing, and it waits.

        Args:
            worker: a worker that has joined.
            end: the end of the topic.
        """
        self.end = end
        hand = worker.hand
        # It comes back when it settles something.
        if not worker.has_credit:
            self._stand_aside(worker)
            return None
        if not hand.takes_more(worker):
            hand.watch(worker)
            self._stand_aside(worker)
            return None
        if self._isolation.is_needed:
            if not hand.size:
                return Offer(next(iter(self.ledger.suspects)), 1, is_new=False)
            if self._isolation.drain(worker):
                self.wake()
                return None
            hand.watch(worker)
        return self._offer_in_turn(worker)

    def _offer_in_turn(self, worker: Worker) -> Offer | None:
        """Returns what is there, unless it is for others, which were called."""
        available = self.available
        is_called = self._line.is_called(worker)
        if not is_called and self._line.called >= available:
            self._line.join(worker)
            return None
        ledger = self.ledger
        if available and ledger.ready:
            return Offer(next(iter(ledger.ready)), 1, is_new=False)
        if available:
            return Offer(ledger.next, self._most_new(worker, available), is_new=True)
        self._line.put_back(worker)
        # It was called for a suspect, and its hand is not empty any more: another one's may be.
        if self._isolation.is_needed:
            self.wake()
        return None

    def _most_new(self, worker: Worker, new: int) -> int:
        """Returns how many of the new messages may go to that worker in one frame."""
        # Each may have to wait for another one of its key.
        if self.settings.by_key:
            return 1
        most = min(new, self._tickets.left, worker.credit - worker.in_flight)
        first = self.ledger.next
        # A frame is redelivered as a whole, or new as a whole.
        if first < self._delivered:
            most = min(most, self._delivered - first)
        return most

    @property
    def is_stopped(self) -> bool:
        """Whether nothing at all is handed out, new or again."""
        return len(self.ledger.dead) >= self.settings.max_dead or not self._tickets.left

    @property
    def new(self) -> int:
        """How many messages that were not handed out yet may be, for all workers together."""
        ledger = self.ledger
        max_open = self.settings.max_open
        if len(ledger.delayed) >= DELAYED_FOR_EACH_OPEN * max_open:
            return 0
        return max(min(self.end - ledger.next, max_open - ledger.active), 0)

    @property
    def available(self) -> int:
        """How many messages can be handed out now, but suspects."""
        if self.is_stopped:
            return 0
        return len(self.ledger.ready) + self.new

    def hand_out(self, worker: Worker, offset: int, size: int, now_us: int) -> Delivery:
        """Hand out a message that waited, which was offered to that worker.

        Args:
            worker: the worker.
            offset: the message's offset.
            size: bytes of its key and payload.
            now_us: the clock's reading.
        """
        message = self.ledger.waiting(offset)
        self.ledger.stop_waiting(message)
        return self._give(worker, [message], [size], now_us)

    def hand_out_next(
        self,
        worker: Worker,
        offsets: Sequence[int],
        sizes: Iterable[int],
        now_us: int,
        key: bytes = b"",
    ) -> Delivery | None:
        """Hand out new messages, which were offered to that worker.

        Args:
            worker: the worker.
            offsets: their offsets, in order; one if keys are in order. What is missing between
                them, and before the first, are holes.
            sizes: bytes of the key and payload of each.
            now_us: the clock's reading.
            key: the message's key, if keys are in order.

        Returns:
            What is said of them; None if another message of the key is open, so this one waits for
            it. Then ask for the next offer.
        """
        is_again = offsets[0] < self._delivered
        opened = []
        for offset in offsets:
            message = self.ledger.open_next(offset, key)
            message.is_again = is_again
            opened.append(message)
        if opened[0].place == Place.BLOCKED:
            return None
        return self._give(worker, opened, sizes, now_us)

    def _give(
        self, worker: Worker, messages: list[OpenMessage], sizes: Iterable[int], now_us: int
    ) -> Delivery:
        first = messages[0]
        delivery_is_again = first.is_again
        ticket = self._tickets.take(len(messages))
        for number, (message, size) in enumerate(zip(messages, sizes, strict=True), ticket):
            message.ticket = number
            message.size = size
            message.count += 1
            message.is_again = True
            self._put(message, worker, now_us)
        self._line.leave(worker)
        if first.is_suspect:
            self._isolation.note_handed_out(worker)
        self.wake()
        return Delivery(ticket, first.count, delivery_is_again)

    def _put(self, message: OpenMessage, worker: Worker, now_us: int) -> None:
        """Have a worker have a message, with a new time-out."""
        message.place = Place.HELD
        message.due_us = 0
        if worker.timeout_us:
            message.due_us = self._patience.at(now_us) + worker.timeout_us
            worker.timeouts.add(message)
        worker.held[message.ticket] = message
        worker.in_flight_bytes += message.size
        worker.hand.add(1, message.is_suspect)
        self.ledger.on_change(message.offset)

    def skip(self, first: int, end: int) -> None:
        """Skip what was offered: it is gone from the topic, and `Lagged` tells so (SHR-7).

        Args:
            first: the offset that was offered.
            end: the offset after the last that is gone; if the message waited, the one after it.
        """
        if first == self.ledger.next:
            self.ledger.skip_to(end)
        else:
            self.ledger.close_skipped(self.ledger.waiting(first))
        self.wake()

    def pass_over(self, first: int, end: int) -> None:
        """Pass over what was offered: it is a hole; see `skip`."""
        if first == self.ledger.next:
            self.ledger.pass_to(end)
        else:
            self.ledger.close_passed(self.ledger.waiting(first))
        self.wake()

    def decline(self, worker: Worker) -> None:
        """Have a worker not take its offer: it has no bytes for it, or waits for a disk.

        It waits until it settles something, or `line_up` is called.
        """
        self._stand_aside(worker)

    # -- whose turn it is ------------------------------------------------------------------------

    def line_up(self, worker: Worker) -> None:
        """Have a worker wait for messages, if it has credit."""
        if worker in self.workers and worker.has_credit:
            self._line.join(worker)
        self.wake()

    def recall(self, worker: Worker) -> None:
        """Have a worker wait again: what happened at another name has let its hand take more."""
        self.line_up(worker)
        self.on_recall()

    def _stand_aside(self, worker: Worker) -> None:
        """Have a worker not wait for messages any more; what it was called for goes to others."""
        was_called = self._line.is_called(worker)
        self._line.leave(worker)
        if was_called:
            self.wake()

    def published(self, end: int) -> None:
        """Note the new end of the topic."""
        self.end = end
        self.wake()

    @property
    def is_waited_for(self) -> bool:
        """Whether a worker waits for messages, so that `published` should be called."""
        return len(self._line) > 0

    def wake(self) -> None:
        """Call as many of the workers that wait as there are messages.

        Called after every change.
        """
        self._isolation.trim()
        # Those that were called will ask, and then it is decided what they get.
        if not self._line.idle:
            return
        if self._isolation.is_needed:
            self._isolation.find_hands()
        self._line.call(self.available)

    def stop_draining(self, worker: Worker) -> None:
        """Let a worker's hand take more again: it cannot be empty soon."""
        self._isolation.stop_draining(worker)

    # -- settling --------------------------------------------------------------------------------

    def settle(
        self,
        worker: Worker,
        tickets: Iterable[int],
        outcome: Outcome,
        now_us: int,
        delay_us: int | None = None,
        reason: str = "",
    ) -> list[int]:
        """Settle messages that a worker has. Returns the tickets that are late (SHR-3).

        Args:
            worker: the worker.
            tickets: of the deliveries.
            outcome: the same for all; `check_outcome` has accepted it.
            now_us: the clock's reading.
            delay_us: of a RETRY and an EXTEND.
            reason: of a RETRY and a REJECT.
        """
        late = []
        # Before anything is taken out of the hand: all of these are company to each other.
        is_alone = worker.hand.size == 1
        for ticket in tickets:
            message = worker.held.get(ticket)
            if message is None:
                late.append(ticket)
                if outcome != Outcome.EXTEND:
                    self._settle_late(worker, ticket)
            elif outcome == Outcome.EXTEND:
                self._extend(message, worker, delay_us, now_us)
            else:
                self._take_back(message, worker)
                self._settle_one(message, outcome, now_us, delay_us, reason, is_alone=is_alone)
        self.line_up(worker)
        return late

    def _settle_late(self, worker: Worker, ticket: int) -> None:
        """End what a message that has timed out still uses of the worker's credit (SHR-4)."""
        size = worker.overdue.pop(ticket, None)
        if size is not None:
            worker.in_flight_bytes -= size
            worker.hand.remove_overdue()
            self._overdue -= 1

    def _extend(
        self, message: OpenMessage, worker: Worker, delay_us: int | None, now_us: int
    ) -> None:
        if worker.timeout_us and delay_us is not None:
            worker.timeouts.remove(message)
            message.due_us = self._patience.at(now_us) + delay_us
            worker.timeouts.add(message)

    def _take_back(self, message: OpenMessage, worker: Worker) -> None:
        """Take a message out of a worker's hand. It must be put somewhere else next."""
        del worker.held[message.ticket]
        worker.in_flight_bytes -= message.size
        if message.due_us:
            worker.timeouts.remove(message)
            message.due_us = 0
        worker.hand.remove(was_suspect=message.is_suspect)

    def _settle_one(
        self,
        message: OpenMessage,
        outcome: Outcome,
        now_us: int,
        delay_us: int | None,
        reason: str,
        *,
        is_alone: bool,
    ) -> None:
        match outcome:
            case Outcome.DONE:
                self.ledger.close_done(message)
            case Outcome.RETRY:
                self._retries.retry(message, delay_us, reason, now_us)
            case Outcome.REJECT:
                self.ledger.bury(message, reason, now_us)
            case Outcome.RELEASE:
                self._retries.release(message, now_us)
            case Outcome.GIVE_BACK:
                self._retries.give_back(message, now_us, is_alone=is_alone)
            case Outcome.LOSE:
                self._retries.lose(message, LOST_BY_PROGRAM, now_us, is_alone=is_alone)

    # -- workers go ------------------------------------------------------------------------------

    def leave(self, worker: Worker, now_us: int) -> None:
        """Release what a worker has: it leaves, or has to (SHR-4a)."""
        for message in self._part_with(worker).values():
            self._retries.release(message, now_us)
        self.wake()

    def lose(self, worker: Worker, now_us: int, machine_us: int, *, is_lost: bool = True) -> None:
        """Have what a worker has wait for its owner: its connection is lost (SHR-4a).

        Args:
            worker: the worker; all others of the connection are lost as well, one after another.
            now_us: the clock's reading.
            machine_us: that of the machine's clock.
            is_lost: whether the connection is lost; else it is the broker that ends.
        """
        worker.hand.lose()
        wait_us = AFTER_LOSS_US
        if not is_lost:
            wait_us = AFTER_START_US
        absence = Absence(
            self._part_with(worker),
            machine_us + wait_us,
            worker.attempt,
            was_alone=worker.hand.was_alone,
            is_lost=is_lost,
        )
        for message in absence.held.values():
            message.place = Place.ABSENT
            self.ledger.on_change(message.offset)
        if not worker.owner:
            self._end_absence(absence, now_us)
        elif absence.held:
            self.absences.add(worker.owner, absence)
        self.wake()

    def _part_with(self, worker: Worker) -> dict[int, OpenMessage]:
        """Remove a worker. Returns what it had, which must be put somewhere else next."""
        del self.workers[worker]
        self._line.leave(worker)
        self._isolation.stop_draining(worker)
        hand = worker.hand
        hand.stop_watching(worker)
        held = dict(worker.held)
        for message in held.values():
            self._take_back(message, worker)
        if worker.overdue:
            hand.remove_overdue(len(worker.overdue))
            self._overdue -= len(worker.overdue)
            worker.overdue.clear()
        return held

    def _end_absence(self, absence: Absence, now_us: int) -> None:
        for message in absence.held.values():
            if absence.is_lost:
                self._retries.lose(message, LOST, now_us, is_alone=absence.was_alone)
            else:
                self._retries.release(message, now_us)

    # -- time ------------------------------------------------------------------------------------

    def sweep(self, now_us: int, machine_us: int) -> None:
        """Do what is due. Called once a second, after everything that has arrived was read.

        Args:
            now_us: the clock's reading; `patience` was swept with it.
            machine_us: that of the machine's clock.
        """
        self._line.sweep()
        self._isolation.sweep()
        for absence in self.absences.take_ended(machine_us):
            self._end_absence(absence, now_us)
        self.ledger.end_delays(now_us)
        patience_us = self._patience.at(now_us)
        for worker in self.workers:
            for message in worker.timeouts.take_due(patience_us):
                self._time_out(message, worker, now_us)
        self.wake()

    def _time_out(self, message: OpenMessage, worker: Worker, now_us: int) -> None:
        """Take a message from its worker, whose program may still be busy with it (SHR-4)."""
        is_alone = worker.hand.size == 1
        del worker.held[message.ticket]
        worker.overdue[message.ticket] = message.size
        self._overdue += 1
        message.due_us = 0
        worker.hand.time_out(was_suspect=message.is_suspect)
        self._retries.lose(message, TIMED_OUT, now_us, is_alone=is_alone)

    # -- the dead --------------------------------------------------------------------------------

    def revive(self, offsets: Iterable[int]) -> int:
        """Returns how many of these, which were dead and can be read, are open again (SHR-5)."""
        revived = 0
        for offset in offsets:
            # While as many are dead as may be, nothing is handed out, so what is open stays open.
            is_full = self.ledger.active >= self.settings.max_open
            if is_full and len(self.ledger.dead) < self.settings.max_dead:
                break
            revived += self.ledger.revive(offset)
        self.wake()
        return revived

    def forget(self, offsets: Iterable[int]) -> int:
        """Returns how many of these were dead, and are forgotten now."""
        forgotten = 0
        for offset in offsets:
            forgotten += self.ledger.forget(offset)
        self.wake()
        return forgotten

    # -- reports ---------------------------------------------------------------------------------

    @property
    def cost(self) -> int:
        """Bytes that the client pays for which has made the name (SHR-10)."""
        ledger = self.ledger
        count = ledger.open + len(ledger.dead)
        of_messages = MESSAGE_BYTES * count + ledger.key_bytes + ledger.dead.reason_bytes
        return of_messages + OVERDUE_BYTES * self._overdue
