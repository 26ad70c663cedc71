"""A bounded broadcast ring: messages are stored once for all readers, and the oldest go first.

The usual broadcast channel gives each subscriber a queue; memory then grows with subscribers and
with the slowest of them. Here the messages are stored once and a subscriber is a number, the offset
it reads next. A subscriber that falls behind the head has lost messages, and knows exactly how
many: `head - cursor`.

    offsets   0   1   2 │ 3   4   5   6   7   8   9
    entries  [───dead──]│[    entry 3   ] [ 7  8  9 ]
                        head (here 4)                 next_offset = 10

An entry is a published batch, with the one time at which it was accepted. Entries are not objects
but columns: the bytes of the batches, their times, and the offsets of their first messages, side by
side. Python's garbage collector visits every object that can refer to others, and bytes and
integers cannot: a million entries are three objects to it, and not two million, over which it would
stop the broker for seconds. An `Entry` is made when one is read.

A cursor finds its entry by bisection, however many there are. (A deque would not do: reaching its
middle is O(n).) The bytes of a dead entry at the front are freed at once, and the columns are
trimmed when more than half of them is dead, which costs O(1) per append, amortized.

The bound in messages is exact although entries come in batches: the *head* is an offset and may
stand inside an entry. Nothing below it is ever read again; the entry's bytes are freed with its
last message. The bound in bytes takes whole entries.

All messages of an entry were accepted at one time and times never decrease. So the expired messages
are always a prefix, and expiry never visits the others.

Plain and synchronous: no I/O, no clock, no lock. Nothing awaits between a check and the change that
depends on it.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from zaichik.core.decisions import BYTES, CAPACITY, EXPIRED, MEMORY, Move, note
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
        batches: how many batches are held, the oldest perhaps only in part.
        bytes: bytes of the batches held.
        evicted: messages dropped to make room for newer ones (RET-6).
        expired: messages dropped because their retention had ended (RET-5, RET-1).
        moves: where the cause of the head's moves changed, the oldest first: the head at that
            moment, the time of the latest message then, and the cause from there on (EXP-2).
    """

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self.head = 0
        self.next_offset = 0
        self.batches = 0
        self.bytes = 0
        self.evicted = 0
        self.expired = 0
        self._batches: list[bytes] = []
        self._accepted_us = array("q")
        # As in a batch's columns, one more than there are entries: the end of the last.
        self._bases = array("q", [0])
        self.moves: list[Move] = []
        self._cause = 0  # that of the last move
        self._first = 0  # index of the first entry that is not dead
        # The last one that was read: often, other readers read it next.
        self._found: Entry | None = None
        # Callbacks for the next message, by waiter. A dict, because it keeps order and removes in
        # O(1).
        self._waiting: dict[object, Callable[[], None]] = {}

    def begin_at(self, offset: int) -> None:
        """Give the first message that offset. The ring must be empty."""
        self.head = offset
        self.next_offset = offset
        self._bases[0] = offset

    def head_after(self, batch: Batch) -> int:
        """Returns where the head would be if that batch were appended now."""
        end = self.next_offset + batch.count
        head = max(self.head, end - self.capacity)
        too_much = self.bytes + len(batch.data) - self.max_bytes
        index = self._first
        while too_much > 0:
            too_much -= len(self._batches[index])
            index += 1
            head = max(head, self._bases[index])
        return head

    def append(self, batch: Batch, accepted_us: int) -> None:
        """Store a batch at `next_offset`; evicts older ones if either bound requires it.

        The batch must fit an empty ring, and `accepted_us` must not be less than that of the last
        one.
        """
        self._batches.append(batch.data)
        self._accepted_us.append(accepted_us)
        self.next_offset += batch.count
        self._bases.append(self.next_offset)
        self.batches += 1
        self.bytes += len(batch.data)
        self._evict()
        # A waiter that is called may wait again, for the next message.
        waiting = self._waiting
        self._waiting = {}
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
    def _oldest_end(self) -> int:
        """The first offset after the oldest batch."""
        return self._bases[self._first + 1]

    def evict_oldest(self, cause: int = MEMORY) -> None:
        """Drop the oldest batch and count it as evicted (RET-6), for that cause.

        There must be one.
        """
        end = self._oldest_end
        self.evicted += end - self.head
        self._drop_below(end, cause)

    def expire_accepted_until(self, limit_us: int) -> None:
        """Drop every message accepted at or before `limit_us` and count it as expired."""
        while self.head < self.next_offset:
            if self._accepted_us[self._first] > limit_us:
                break
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
            index = after - 1
            base = bases[index]
            batch = Batch(self._batches[index], bases[after] - base)
            found = Entry(base, self._accepted_us[index], batch)
            self._found = found
        return found

    def first_accepted_since(self, time_us: int) -> int:
        """Returns the first readable offset accepted at `time_us` or later.

        `next_offset` if there is none.
        """
        index = bisect_right(self._accepted_us, time_us - 1, lo=self._first)
        # The head may be inside that entry.
        return max(self.head, self._bases[index])

    def accepted_us(self, offset: int) -> int | None:
        """Returns when the message with that offset was accepted.

        None if it cannot be read here.
        """
        if not self.head <= offset < self.next_offset:
            return None
        after = bisect_right(self._bases, offset, lo=self._first)
        return self._accepted_us[after - 1]

    def marks(self, most: int) -> list[tuple[int, int]]:
        """Returns the first offsets of some batches, and when they were accepted.

        They are spread evenly over all that are held.

        Args:
            most: how many, at most; if it is more than 1, the oldest batch and the newest are among
                them.
        """
        count = min(most, self.batches)
        last = self.batches - 1
        steps = max(count - 1, 1)
        marks = []
        for step in range(count):
            index = self._first + step * last // steps
            offset = max(self._bases[index], self.head)
            marks.append((offset, self._accepted_us[index]))
        return marks

    def wait(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the next message is appended.

        Once only, so that the cost of an append grows with the waiters and not with the
        subscribers.
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
        batches = self._batches
        bases = self._bases
        first = self._first
        while first < len(batches) and bases[first + 1] <= offset:
            self.bytes -= len(batches[first])
            batches[first] = b""
            first += 1
            self._found = None
        self.batches = len(batches) - first
        if first * 2 > len(batches):
            del batches[:first]
            del self._accepted_us[:first]
            del bases[:first]
            first = 0
        self._first = first
