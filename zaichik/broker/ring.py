"""A bounded broadcast ring: every message is stored once, however many read it, and the oldest go first.

The usual broadcast channel gives each subscriber a queue; memory then grows with subscribers and with the
slowest of them. Here the messages are stored once and a subscriber is a number, the offset it reads next.
A subscriber that falls behind the head has lost messages, and knows exactly how many: `head - cursor`.

    offsets   0   1   2 │ 3   4   5   6   7   8   9
    entries  [───dead──]│[    entry 3   ] [ 7  8  9 ]
                        head (here 4)                 next_offset = 10

An entry is a published batch, with the one time at which it was accepted. Entries are not objects but columns: the
bytes of the batches, their times, and the offsets of their first messages, side by side. Python's garbage collector
visits every object that can refer to others, and bytes and integers cannot: a million entries are three objects to it,
and not two million, over which it would stop the broker for seconds. An `Entry` is made when one is read.

A cursor finds its entry by bisection, however many there are. (A deque would not do: reaching its middle is O(n).) The
bytes of a dead entry at the front are freed at once, and the columns are trimmed when more than half of them is dead,
which costs O(1) per append, amortized.

The bound in messages is exact although entries come in batches: the *head* is an offset and may stand inside
an entry. Nothing below it is ever read again; the entry's bytes are freed with its last message. The bound in
bytes takes whole entries.

All messages of an entry were accepted at one time and times never decrease. So the expired messages are always a
prefix, and expiry never looks at the others.

Plain and synchronous: no I/O, no clock, no lock. Nothing awaits between a check and the change that depends on it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from zaichik.explain.decisions import BYTES, CAPACITY, EXPIRED, MEMORY, Move, note
from zaichik_protocol import Batch


class Entry(NamedTuple):
    """A stored batch.

    Attributes:
        base: offset of its first message.
        accepted_us: when the broker accepted it.
        batch: its messages, as the bytes that came in.
    """

    base: int
    accepted_us: int
    batch: Batch


class BroadcastRing:
    """The messages of one topic, from `head` up to, not including, `next_offset`.

    Args:
        capacity: the limit in messages.
        max_bytes: the limit in bytes of batches.

    Attributes:
        head: the oldest offset that can be read.
        next_offset: the offset the next message will get; also the number of messages ever stored.
        bytes: bytes of the batches held.
        evicted: messages dropped to make room for newer ones (RET-6).
        expired: messages dropped because their retention had ended (RET-5, RET-1).
        moves: where the cause of the head's moves changed, the oldest first: the head at that moment, the time of the
            latest message then, and the cause from there on (EXP-2).
    """

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self.head = 0
        self.next_offset = 0
        self.bytes = 0
        self.evicted = 0
        self.expired = 0
        self._batches: list[bytes] = []
        self._accepted_us = array("q")
        self._bases = array("q", [0])  # as in a batch's columns, one more than there are entries: the end of the last
        self.moves: list[Move] = []
        self._cause = 0  # that of the last one
        self._first = 0  # index of the first entry that is not dead
        self._found: Entry | None = None  # the last one that was read: often, other readers read it next
        # Callbacks for the next message, by waiter. A dict, because it keeps order and removes in O(1).
        self._waiting: dict[object, Callable[[], None]] = {}

    def begin_at(self, offset: int) -> None:
        """Give the first message that offset. The ring must be empty."""
        self.head = self.next_offset = self._bases[0] = offset

    def head_after(self, batch: Batch) -> int:
        """Returns where the head would be if that batch were appended now."""
        head = max(self.head, self.next_offset + batch.count - self.capacity)
        too_much, index = self.bytes + len(batch.data) - self.max_bytes, self._first
        while too_much > 0:
            too_much -= len(self._batches[index])
            index += 1
            head = max(head, self._bases[index])
        return head

    def append(self, batch: Batch, accepted_us: int) -> None:
        """Store a batch at `next_offset`; evicts older ones if either bound requires it.

        The batch must fit an empty ring, and `accepted_us` must not be less than that of the last one.
        """
        self._batches.append(batch.data)
        self._accepted_us.append(accepted_us)
        self.next_offset += batch.count
        self._bases.append(self.next_offset)
        self.bytes += len(batch.data)
        self._evict()
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()

    def _evict(self) -> None:
        """Drop the oldest messages until both bounds hold."""
        before = self.head
        if self.next_offset - self.head > self.capacity:
            self._drop_below(self.next_offset - self.capacity, CAPACITY)
        while self.bytes > self.max_bytes:
            self._drop_below(self._oldest_end, BYTES)
        self.evicted += self.head - before

    @property
    def batches(self) -> int:
        """The number of batches held, the oldest perhaps only in part."""
        return len(self._batches) - self._first

    @property
    def _oldest_end(self) -> int:
        """The first offset after the oldest batch."""
        return self._bases[self._first + 1]

    def evict_oldest(self, cause: int = MEMORY) -> None:
        """Drop the oldest batch and count it as evicted (RET-6), for that cause. There must be one."""
        end = self._oldest_end
        self.evicted += end - self.head
        self._drop_below(end, cause)

    def expire_accepted_until(self, limit_us: int) -> None:
        """Drop every message accepted at or before `limit_us` and count it as expired."""
        while self.head < self.next_offset and self._accepted_us[self._first] <= limit_us:
            self.expire_below(self._oldest_end)

    def expire_below(self, offset: int) -> None:
        """Drop every message below `offset` and count it as expired."""
        if offset > self.head:
            self.expired += offset - self.head
            self._drop_below(offset)

    def entry(self, offset: int) -> Entry:
        """Returns the entry that holds `offset`, which must be readable."""
        found = self._found
        if found is None or not found.base <= offset < found.base + found.batch.count:
            bases = self._bases
            after = bisect_right(bases, offset, lo=self._first)
            batch = Batch(self._batches[after - 1], bases[after] - bases[after - 1])
            found = self._found = Entry(bases[after - 1], self._accepted_us[after - 1], batch)
        return found

    def first_accepted_since(self, time_us: int) -> int:
        """Returns the first readable offset accepted at `time_us` or later; `next_offset` if there is none."""
        return max(self.head, self._bases[bisect_right(self._accepted_us, time_us - 1, lo=self._first)])

    def accepted_us(self, offset: int) -> int | None:
        """Returns when the message with that offset was accepted; None if it cannot be read here."""
        index = bisect_right(self._bases, offset, lo=self._first) - 1
        return self._accepted_us[index] if self.head <= offset < self.next_offset else None

    def marks(self, most: int) -> list[tuple[int, int]]:
        """Returns the first offsets of some batches, spread evenly over all that are held, and when they were accepted.

        Args:
            most: how many, at most; if it is more than 1, the oldest batch and the newest are among them.
        """
        count = min(most, self.batches)
        steps = (self._first + index * (self.batches - 1) // max(count - 1, 1) for index in range(count))
        return [(max(self._bases[step], self.head), self._accepted_us[step]) for step in steps]

    def wait(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the next message is appended.

        Once only, so that the cost of an append grows with the waiters and not with the subscribers.
        """
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        """Remove a waiter, if it is waiting."""
        self._waiting.pop(waiter, None)

    def _drop_below(self, offset: int, cause: int = EXPIRED) -> None:
        if cause != self._cause:
            self._cause = cause
            note(self.moves, self.head, self._accepted_us[-1], cause)
        self.head = offset
        batches, first = self._batches, self._first
        while first < len(batches) and self._bases[first + 1] <= offset:
            self.bytes -= len(batches[first])
            batches[first] = b""
            first += 1
            self._found = None
        if first * 2 > len(batches):
            del batches[:first], self._accepted_us[:first], self._bases[:first]
            first = 0
        self._first = first
