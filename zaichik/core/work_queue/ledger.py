"""What became of each offset of a shared name: exactly one thing (SHR-7).

    start                                   next                  end of the topic
    ────┬────────────────────────────────────┬──────────────────────┬───▶ offsets
        │ settled, and only counted:         │ not handed out yet
        │   done, skipped, passed, forgotten │
        │ remembered one by one:             │
        │   open, dead                       │

    next - start = done + skipped + passed + forgotten + dead + open

What is done leaves only a count, so memory does not grow with what was done, however long one
message takes, but with what was not. Who has an open message, and when its time is over, is not
known here: see `work_queue`.

Offsets come in order, leave in any order, and never come back. So the first of a dict in the order
of insertion is the oldest. (An `OrderedDict`: finding the first item of a plain dict means walking
over those that were deleted before it.) A message that dies or is revived keeps its place in it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from zaichik.core.work_queue.calendar import Calendar
from zaichik.core.work_queue.dead import DeadMessage, DeadMessages
from zaichik.core.work_queue.key_order import KeyOrder
from zaichik.core.work_queue.message import OpenMessage, Place


class Ledger:
    """The fates of the offsets of one name, and what waits to be handed out again.

    Args:
        start: the first offset that counts.

    Attributes:
        start: see above.
        next: the first offset that was not handed out yet.
        done: messages settled as done.
        skipped: offsets that were gone from the topic when their turn came.
        passed: offsets that were holes then.
        forgotten: dead messages that somebody forgot.
        dead: the dead.
        ready: the open messages that are READY and not suspect, the next one first.
        suspects: those that are READY and suspect, the next one first.
        delayed: those that are DELAYED.
        keys: which of them wait for others of their key.
        key_bytes: bytes of the keys that are remembered: of those that are open or dead.
        on_change: called with the offset of each message of which something changes that a log
            keeps; but for numbers of the whole name, as those of what is done.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        self.done = 0
        self.skipped = 0
        self.passed = 0
        self.forgotten = 0
        self.dead = DeadMessages()
        self.ready: OrderedDict[int, OpenMessage] = OrderedDict()
        self.suspects: OrderedDict[int, OpenMessage] = OrderedDict()
        self.delayed = Calendar()
        self.keys = KeyOrder()
        self.key_bytes = 0
        self.on_change: Callable[[int], object] = _ignore
        # By offset; None is a dead one.
        self._unsettled: OrderedDict[int, OpenMessage | None] = OrderedDict()

    @property
    def open(self) -> int:
        """How many messages are open, those that wait included."""
        return len(self._unsettled) - len(self.dead)

    @property
    def active(self) -> int:
        """How many are open and do not wait for their time: those that `max_open` bounds."""
        return self.open - len(self.delayed)

    @property
    def needed(self) -> int:
        """The oldest offset that may still have to be delivered, the dead included (SHR-9)."""
        for offset in self._unsettled:
            return offset
        return self.next

    def open_messages(self) -> Iterator[OpenMessage]:
        """Returns all open messages, in the order of offsets."""
        for message in self._unsettled.values():
            if message is not None:
                yield message

    @property
    def unsettled(self) -> Iterable[int]:
        """The offsets of all that is open or dead, in order."""
        return self._unsettled.keys()

    def find(self, offset: int) -> OpenMessage | None:
        """Returns the open message with that offset; None if it is not open."""
        return self._unsettled.get(offset)

    # -- opening ---------------------------------------------------------------------------------

    def open_next(self, offset: int, key: bytes = b"") -> OpenMessage:
        """Opens and returns the message at that offset; what lies before it is passed.

        It is HELD, or BLOCKED if another one of its key is open.
        """
        self.pass_to(offset)
        self.next = offset + 1
        message = OpenMessage(offset, key)
        self._unsettled[offset] = message
        self.key_bytes += len(key)
        if key and not self.keys.enter(message):
            message.place = Place.BLOCKED
        self.on_change(offset)
        return message

    def pass_to(self, offset: int) -> None:
        """Pass what was not handed out yet, up to that offset: they are holes."""
        self.passed += offset - self.next
        self.next = offset

    def skip_to(self, offset: int) -> None:
        """Skip what was not handed out yet, up to that offset: it is gone."""
        self.skipped += offset - self.next
        self.next = offset

    # -- waiting ---------------------------------------------------------------------------------

    def wait(self, message: OpenMessage, due_us: int, now_us: int) -> None:
        """Have an open message wait until that time; until its turn, if that has come."""
        if due_us > now_us:
            message.place = Place.DELAYED
            message.due_us = due_us
            self.delayed.add(message)
            self.on_change(message.offset)
        else:
            self._make_ready(message)

    def end_delays(self, now_us: int) -> None:
        """Have those that are due wait for their turn."""
        for message in self.delayed.take_due(now_us):
            self._make_ready(message)

    def _make_ready(self, message: OpenMessage) -> None:
        message.place = Place.READY
        message.due_us = 0
        if message.is_suspect:
            self.suspects[message.offset] = message
        else:
            self.ready[message.offset] = message
        self.on_change(message.offset)

    def waiting(self, offset: int) -> OpenMessage:
        """Returns the message with that offset, which must be READY."""
        message = self.ready.get(offset)
        if message is None:
            message = self.suspects[offset]
        return message

    def stop_waiting(self, message: OpenMessage) -> None:
        """Remove a message that is READY from those that wait for their turn."""
        if message.is_suspect:
            del self.suspects[message.offset]
        else:
            del self.ready[message.offset]

    # -- settling --------------------------------------------------------------------------------

    def close_done(self, message: OpenMessage) -> None:
        """Count a HELD message as done."""
        self.done += 1
        self._close(message)

    def close_skipped(self, message: OpenMessage) -> None:
        """Count a READY message as skipped: it is gone."""
        self.skipped += 1
        self.stop_waiting(message)
        self._close(message)

    def close_passed(self, message: OpenMessage) -> None:
        """Count a READY message as passed: it is a hole by now."""
        self.passed += 1
        self.stop_waiting(message)
        self._close(message)

    def _close(self, message: OpenMessage) -> None:
        del self._unsettled[message.offset]
        self.on_change(message.offset)
        self.key_bytes -= len(message.key)
        self._let_next_of_key_go(message.key)

    def bury(self, message: OpenMessage, reason: str, now_us: int) -> None:
        """Have a message that no worker has any more be dead (SHR-5)."""
        self._unsettled[message.offset] = None
        dead = DeadMessage(message.offset, message.key, message.count, reason, now_us)
        self.dead.add(dead)
        self.on_change(message.offset)
        self._let_next_of_key_go(message.key)

    def _let_next_of_key_go(self, key: bytes) -> None:
        if not key:
            return
        following = self.keys.leave(key)
        if following is not None:
            self._make_ready(following)

    # -- the dead --------------------------------------------------------------------------------

    def revive(self, offset: int) -> bool:
        """Have a dead message be open again, as if it had never failed.

        Returns whether one with that offset was dead.
        """
        dead = self.dead.remove(offset)
        if dead is None:
            return False
        message = OpenMessage(offset, dead.key, is_again=True)
        self._unsettled[offset] = message
        if message.key and not self.keys.enter(message):
            message.place = Place.BLOCKED
            self.on_change(offset)
        else:
            self._make_ready(message)
        return True

    def forget(self, offset: int) -> bool:
        """Returns whether there was a dead message with that offset, which is forgotten now."""
        dead = self.dead.remove(offset)
        if dead is None:
            return False
        self.forgotten += 1
        self.key_bytes -= len(dead.key)
        del self._unsettled[offset]
        self.on_change(offset)
        return True

    # -- a start of the broker -------------------------------------------------------------------

    def restore(self, opened: list[OpenMessage], dead: list[DeadMessage]) -> None:
        """Take over what was open and dead, each where it says that it was."""
        unsettled: dict[int, OpenMessage | None] = {each.offset: None for each in dead}
        for message in opened:
            unsettled[message.offset] = message
        for offset in sorted(unsettled):
            self._unsettled[offset] = unsettled[offset]
        for each in dead:
            self.dead.add(each)
            self.key_bytes += len(each.key)
        # Of each key, the one that may go comes first, so that the others wait for it.
        for message in sorted(opened, key=_is_blocked):
            if message.key:
                self.key_bytes += len(message.key)
                self.keys.enter(message)
            if message.place == Place.DELAYED:
                self.delayed.add(message)
            elif message.place == Place.READY:
                self._make_ready(message)


def _ignore(offset: int) -> None:
    """Do nothing: no log keeps the name."""


def _is_blocked(message: OpenMessage) -> bool:
    return message.place == Place.BLOCKED
