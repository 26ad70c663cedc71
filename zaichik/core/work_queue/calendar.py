"""A calendar of messages: which are due by now.

A timing wheel (Varghese and Lauck, 1987): one slot for each second, here in a dict. The usual heap
cannot remove from its middle, and nearly every message is settled long before its time is over. So
a heap has to keep what is settled, and then be rebuilt now and then to stay small. Here a message
is removed at once, in O(1), and an empty slot with it: nothing is in memory but what waits.

Times are judged once a second anyway, so a look at the seconds since the last one finds all.
"""

from collections.abc import Iterable
from operator import attrgetter

from zaichik.base.clock import SECOND_US
from zaichik.core.work_queue.message import OpenMessage

_IN_ORDER = attrgetter("due_us", "offset")


class Calendar:
    """Messages by their `due_us`, which must not change while they are in it."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[int, OpenMessage]] = {}
        self._count = 0
        # No slot is before that second.
        self._first_s = 0

    def __len__(self) -> int:
        """Returns how many messages wait."""
        return self._count

    @property
    def first_due_us(self) -> int | None:
        """When the first of them is due; None if none waits."""
        if not self._slots:
            return None
        first = self._slots[min(self._slots)]
        return min(message.due_us for message in first.values())

    def add(self, message: OpenMessage) -> None:
        """Add a message, which is not in it."""
        second = message.due_us // SECOND_US
        slot = self._slots.get(second)
        if slot is None:
            slot = {}
            self._slots[second] = slot
            self._first_s = min(self._first_s, second)
        slot[message.offset] = message
        self._count += 1

    def remove(self, message: OpenMessage) -> None:
        """Remove a message, which is in it."""
        second = message.due_us // SECOND_US
        slot = self._slots[second]
        del slot[message.offset]
        if not slot:
            del self._slots[second]
        self._count -= 1

    def take_due(self, now_us: int) -> list[OpenMessage]:
        """Removes and returns what is due by now, in the order of times, then of offsets."""
        due: list[OpenMessage] = []
        for second in self._seconds_until(now_us // SECOND_US):
            slot = self._slots.get(second, {})
            # Those of the present second may still have a part of it to wait.
            due.extend(message for message in slot.values() if message.due_us <= now_us)
        for message in due:
            self.remove(message)
        self._first_s = now_us // SECOND_US
        return sorted(due, key=_IN_ORDER)

    def _seconds_until(self, now_s: int) -> Iterable[int]:
        seconds = range(self._first_s, now_s + 1)
        # After a leap of the clock, there are fewer slots than seconds.
        if len(seconds) > len(self._slots):
            return [second for second in self._slots if second <= now_s]
        return seconds
