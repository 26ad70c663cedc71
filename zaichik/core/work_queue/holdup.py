"""Why nothing is handed out at a name, for `describe` and people (SHR-2).

A queue that stands still without a word is what users of other queues complain of most.
"""

from enum import Enum, auto

from zaichik.core.work_queue.work_queue import DELAYED_FOR_EACH_OPEN, WorkQueue


class Holdup(Enum):
    """Why; in this order, the first that is true.

    Attributes:
        NO_WORKER: nobody reads.
        TOO_MANY_DEAD: the name has `max_dead` dead messages: revive or forget some.
        TICKETS: the disk has not saved the last block of tickets yet.
        SUSPECT: a suspect waits for an empty hand.
        NO_CREDIT: messages are there, and no worker takes any.
        TOO_MANY_DELAYED: too many messages wait for their time to hand out new ones.
        HOT_KEY: most of what may be open waits for one key; see `KeyOrder.busiest`.
        TOO_MANY_OPEN: as much is open as may be.
        WITH_WORKERS: there is nothing new; workers have the rest.
        ABSENT: the rest waits for owners that may come back.
        DELAYED: the rest waits for its time.
        EMPTY: everything is settled.
    """

    NO_WORKER = auto()
    TOO_MANY_DEAD = auto()
    TICKETS = auto()
    SUSPECT = auto()
    NO_CREDIT = auto()
    TOO_MANY_DELAYED = auto()
    HOT_KEY = auto()
    TOO_MANY_OPEN = auto()
    WITH_WORKERS = auto()
    ABSENT = auto()
    DELAYED = auto()
    EMPTY = auto()


def holdup(queue: WorkQueue) -> Holdup:
    """Returns why nothing is handed out just now; for a report, so it costs O(n)."""
    ledger = queue.ledger
    if not queue.workers:
        return Holdup.NO_WORKER
    if len(ledger.dead) >= queue.settings.max_dead:
        return Holdup.TOO_MANY_DEAD
    if queue.is_stopped:
        return Holdup.TICKETS
    if ledger.suspects:
        return Holdup.SUSPECT
    if queue.available:
        return Holdup.NO_CREDIT
    if queue.end > ledger.next:
        return _why_nothing_new(queue)
    return _what_is_waited_for(queue)


def _why_nothing_new(queue: WorkQueue) -> Holdup:
    """Returns why new messages are not handed out, although there are some."""
    max_open = queue.settings.max_open
    if len(queue.ledger.delayed) >= DELAYED_FOR_EACH_OPEN * max_open:
        return Holdup.TOO_MANY_DELAYED
    _, waiting = queue.ledger.keys.busiest()
    if 2 * waiting > max_open:
        return Holdup.HOT_KEY
    return Holdup.TOO_MANY_OPEN


def _what_is_waited_for(queue: WorkQueue) -> Holdup:
    """Returns what has to happen before a message comes again, where no new one is there."""
    if any(worker.held for worker in queue.workers):
        return Holdup.WITH_WORKERS
    if len(queue.absences):
        return Holdup.ABSENT
    if len(queue.ledger.delayed):
        return Holdup.DELAYED
    return Holdup.EMPTY
