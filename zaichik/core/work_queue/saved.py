"""What a log keeps of a shared name: numbers, bytes and text, all of one moment (SHR-9).

A start restores a name as it was then. What workers had waits for their owners; what was settled or
counted since is not known, so it is delivered again, or counts less than it did.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zaichik.core.work_queue.absence import AFTER_START_US, Absence
from zaichik.core.work_queue.dead import DeadMessage
from zaichik.core.work_queue.message import OpenMessage, Place
from zaichik.core.work_queue.patience import Patience
from zaichik.core.work_queue.tickets import Tickets
from zaichik.core.work_queue.work_queue import QueueSettings, WorkQueue

# Offset, place, count, whether it is suspect, how often it was given back, when it is due (which a
# start believes only of what is DELAYED), ticket, owner of the worker that has it, bytes.
SavedOpen = tuple[int, int, int, int, int, int, int, int, int]
# Offset, count, time.
SavedDead = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SavedQueue:
    """One name.

    Attributes:
        start, next, done, skipped, passed, forgotten: see `Ledger`.
        max_deliveries, by_key: see `QueueSettings`.
        opened: the open messages, in the order of offsets.
        keys: their keys; nothing if none has one.
        dead: the dead, in the order of offsets.
        dead_keys: their keys.
        reasons: why they are dead.
    """

    start: int
    next: int
    done: int
    skipped: int
    passed: int
    forgotten: int
    max_deliveries: int
    by_key: int
    opened: Sequence[SavedOpen]
    keys: Sequence[bytes]
    dead: Sequence[SavedDead]
    dead_keys: Sequence[bytes]
    reasons: Sequence[str]


def save_queue(queue: WorkQueue, offsets: Iterable[int]) -> SavedQueue:
    """Returns what the log keeps of that name, as it is now.

    Args:
        queue: the name.
        offsets: of its messages, only those that are open or dead at these offsets.
    """
    ledger = queue.ledger
    messages = []
    dead = []
    for offset in sorted(offsets):
        message = ledger.find(offset)
        death = ledger.dead.get(offset)
        if message is not None:
            messages.append(message)
        elif death is not None:
            dead.append(death)
    owners = {}
    # Nearly always, nothing has changed in a second, and many messages are open.
    if messages:
        owners = _owners(queue)
    keys = [message.key for message in messages]
    # Nearly always, all of them have keys, or none.
    if not any(keys):
        keys = []
    return SavedQueue(
        start=ledger.start,
        next=ledger.next,
        done=ledger.done,
        skipped=ledger.skipped,
        passed=ledger.passed,
        forgotten=ledger.forgotten,
        max_deliveries=queue.settings.max_deliveries,
        by_key=int(queue.settings.by_key),
        opened=[
            (
                message.offset,
                int(message.place),
                message.count,
                int(message.is_suspect),
                message.given_back,
                message.due_us,
                message.ticket,
                # A ticket that nobody has any more is in no hand.
                owners.get(message.ticket, 0),
                message.size,
            )
            for message in messages
        ],
        keys=keys,
        dead=[(each.offset, each.count, each.died_us) for each in dead],
        dead_keys=[each.key for each in dead],
        reasons=[each.reason for each in dead],
    )


def _owners(queue: WorkQueue) -> dict[int, int]:
    """Returns the owner of each ticket that a worker has, or that waits for its owner."""
    owners = queue.absences.owners()
    for worker in queue.workers:
        owners.update(dict.fromkeys(worker.held, worker.owner))
    return owners


def restore_queue(
    saved: SavedQueue,
    settings: QueueSettings,
    tickets: Tickets,
    patience: Patience,
    end: int,
    machine_us: int,
) -> WorkQueue:
    """Returns the name as it was saved, after a start of the broker.

    Args:
        saved: what the log has.
        settings: the limits are used; the rest was saved.
        tickets: those of the broker.
        patience: that of the broker.
        end: the end of the topic: all up to there may have been handed out before.
        machine_us: the machine's clock, by which owners are waited for.
    """
    agreed = QueueSettings(
        saved.max_deliveries, bool(saved.by_key), settings.max_open, settings.max_dead
    )
    queue = WorkQueue(saved.start, agreed, tickets, patience, delivered=end)
    ledger = queue.ledger
    ledger.next = saved.next
    ledger.done = saved.done
    ledger.skipped = saved.skipped
    ledger.passed = saved.passed
    ledger.forgotten = saved.forgotten
    keys = saved.keys or [b""] * len(saved.opened)
    opened = []
    held: dict[int, dict[int, OpenMessage]] = {}
    for row, key in zip(saved.opened, keys, strict=True):
        owner, message = _message(row, key)
        opened.append(message)
        if message.place == Place.ABSENT:
            held.setdefault(owner, {})[message.ticket] = message
    dead = []
    for (offset, count, died_us), key, reason in zip(
        saved.dead, saved.dead_keys, saved.reasons, strict=True
    ):
        dead.append(DeadMessage(offset, key, count, reason, died_us))
    ledger.restore(opened, dead)
    for owner, messages in held.items():
        in_order = dict(sorted(messages.items()))
        absence = Absence(in_order, machine_us + AFTER_START_US, is_lost=False)
        queue.absences.add(owner, absence)
    queue.published(end)
    return queue


def _message(row: SavedOpen, key: bytes) -> tuple[int, OpenMessage]:
    """Returns an open message that was saved, and the owner of the worker that had it."""
    offset, saved_place, count, is_suspect, given_back, due_us, ticket, owner, size = row
    place = Place(saved_place)
    if place == Place.HELD:
        place = Place.ABSENT
    # No owner comes back for it: the broker releases it.
    if place == Place.ABSENT and not owner:
        place = Place.READY
        count -= 1
    message = OpenMessage(offset, key, place, count)
    # Since it was saved, any of them may have been handed out.
    message.is_again = True
    message.is_suspect = bool(is_suspect)
    message.given_back = given_back
    if place == Place.DELAYED:
        message.due_us = due_us
    message.ticket = ticket
    message.size = size
    return owner, message
