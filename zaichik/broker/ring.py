"""A bounded broadcast ring: every message is stored once, however many read it, and the oldest go first.

The usual broadcast channel gives each subscriber a queue; memory then grows with subscribers and with the
slowest of them. Here the messages are stored once and a subscriber is a number, the offset it reads next.
A subscriber that falls behind the head has lost messages, and knows exactly how many: `head - cursor`.

    offsets   0   1   2 │ 3   4   5   6   7   8   9
    entries  [───dead──]│[    entry 3   ] [ 7  8  9 ]
                        head (here 4)                 next_offset = 10

An entry is a published batch, with the one time at which it was accepted. Two lists run side by side, the
entries and the offsets of their first messages, so that a cursor finds its entry by bisection, however many
there are. (A deque would not do: reaching its middle is O(n).) The bytes of a dead entry at the front are freed
at once, and the lists are trimmed when more than half of them is dead, which costs O(1) per append, amortized.

The bound in messages is exact although entries come in batches: the *head* is an offset and may stand inside
an entry. Nothing below it is ever read again; the entry's bytes are freed with its last message. The bound in
bytes takes whole entries.

All messages of an entry were accepted at one time and times never decrease. So the expired messages are always a
prefix, and expiry never looks at the others.

Plain and synchronous: no I/O, no clock, no lock. Nothing awaits between a check and the change that depends on it.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from zaichik_protocol import Batch


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored batch.

    Attributes:
        base: offset of its first message.
        accepted_us: when the broker accepted it.
        batch: its messages, as the bytes that came in.
    """

    base: int
    accepted_us: int
    batch: Batch

    @property
    def end(self) -> int:
        """The first offset after it."""
        return self.base + self.batch.count


_DEAD = Entry(0, 0, Batch(b"", 0))  # replaces a dropped entry, so that its bytes are freed


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
    """

    def __init__(self, capacity: int, max_bytes: int) -> None:
        self.capacity = capacity
        self.max_bytes = max_bytes
        self.head = 0
        self.next_offset = 0
        self.bytes = 0
        self.evicted = 0
        self.expired = 0
        self._entries: list[Entry] = []
        self._bases: list[int] = []
        self._first = 0  # index of the first entry that is not dead
        # Callbacks for the next message, by waiter. A dict, because it keeps order and removes in O(1).
        self._waiting: dict[object, Callable[[], None]] = {}

    def head_after(self, batch: Batch) -> int:
        """Returns where the head would be if that batch were appended now."""
        head = max(self.head, self.next_offset + batch.count - self.capacity)
        too_much, index = self.bytes + len(batch.data) - self.max_bytes, self._first
        while too_much > 0:
            entry = self._entries[index]
            too_much -= len(entry.batch.data)
            head = max(head, entry.end)
            index += 1
        return head

    def append(self, batch: Batch, accepted_us: int) -> None:
        """Store a batch at `next_offset`; evicts older ones if either bound requires it.

        The batch must fit an empty ring, and `accepted_us` must not be less than that of the last one.
        """
        self._entries.append(Entry(self.next_offset, accepted_us, batch))
        self._bases.append(self.next_offset)
        self.next_offset += batch.count
        self.bytes += len(batch.data)
        self._evict()
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()

    def _evict(self) -> None:
        """Drop the oldest messages until both bounds hold."""
        before = self.head
        self._drop_below(max(self.head, self.next_offset - self.capacity))
        while self.bytes > self.max_bytes:
            self._drop_below(self._entries[self._first].end)
        self.evicted += self.head - before

    @property
    def batches(self) -> int:
        """The number of batches held, the oldest perhaps only in part."""
        return len(self._entries) - self._first

    def evict_oldest(self) -> None:
        """Drop the oldest batch and count it as evicted (RET-6). There must be one."""
        end = self._entries[self._first].end
        self.evicted += end - self.head
        self._drop_below(end)

    def expire_accepted_until(self, limit_us: int) -> None:
        """Drop every message accepted at or before `limit_us` and count it as expired."""
        while self.head < self.next_offset and self._entries[self._first].accepted_us <= limit_us:
            self.expire_below(self._entries[self._first].end)

    def expire_below(self, offset: int) -> None:
        """Drop every message below `offset` and count it as expired."""
        if offset > self.head:
            self.expired += offset - self.head
            self._drop_below(offset)

    def entry(self, offset: int) -> Entry:
        """Returns the entry that holds `offset`, which must be readable."""
        return self._entries[bisect_right(self._bases, offset, lo=self._first) - 1]

    def first_accepted_since(self, time_us: int) -> int:
        """Returns the first readable offset accepted at `time_us` or later; `next_offset` if there is none."""
        index = bisect_right(self._entries, time_us - 1, lo=self._first, key=lambda entry: entry.accepted_us)
        return max(self.head, self._bases[index]) if index < len(self._bases) else self.next_offset

    def wait(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, when the next message is appended.

        Once only, so that the cost of an append grows with the waiters and not with the subscribers.
        """
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        """Remove a waiter, if it is waiting."""
        self._waiting.pop(waiter, None)

    def _drop_below(self, offset: int) -> None:
        self.head = offset
        while self._first < len(self._entries):
            entry = self._entries[self._first]
            if entry.end > offset:
                break
            self.bytes -= len(entry.batch.data)
            self._entries[self._first] = _DEAD
            self._first += 1
        if self._first * 2 > len(self._entries):
            del self._entries[: self._first], self._bases[: self._first]
            self._first = 0
