"""Readers: each walks along its topic's row at a pace of its own."""

from collections import deque
from collections.abc import Callable
from typing import Any

from batches import encode_batch
from construct import Container
from errors import NOT_IN_FLIGHT, require
from layouts import (
    ENDED,
    ENDED_TYPE,
    LAGGED,
    LAGGED_TYPE,
    MESSAGES,
    MESSAGES_TYPE,
    MISSED,
    MISSED_TYPE,
    encode,
)
from topics import Topic


class Reader:
    """One subscription: two offsets of one row.

    Below `committed` all is settled. From there up to `cursor` messages are
    in flight: delivered, and not settled. At `cursor` is the next one.
    A topic calls `ring` when it has news. At `until` it is all over.
    """

    def __init__(
        self, topic: Topic, wanted: Container[Any], ring: Callable[[], None]
    ) -> None:
        self.topic, self.id, self.ring = topic, wanted.id, ring
        self.cursor = topic.start(wanted.start, wanted.value)
        self.committed, self.until = self.cursor, wanted.until
        self.credit, self.credit_bytes = wanted.credit, wanted.credit_bytes
        self._in_flight: deque[tuple[int, int]] = deque()  # offset, size
        self._bytes = 0  # the sum of these sizes
        self._told = 0  # the last `deleted_below` that it was sent
        self._is_fresh = wanted.start == 0  # it holds nothing yet
        topic.readers.append(self)

    def leave(self) -> None:
        """Read no more of this topic."""
        if self in self.topic.readers:
            self.topic.readers.remove(self)

    def next_event(self, now: int) -> bytes | None:
        """The next message, or what was missed before it; None for now."""
        self.topic.expire(now)
        if self.cursor >= self.until:
            return self._ended()
        if not self._is_free() or self.cursor == self.topic.next_offset:
            return None
        below = self.topic.deleted_below
        if not self._is_fresh and max(self.cursor, self._told) < below:
            return self._missed(below)
        if self.cursor < self.topic.head:
            return self._lagged()
        offset, accepted_us, key, payload = self.topic.next_row(self.cursor)
        if offset >= self.until:  # up to there, only holes are left
            self.cursor = self.until
            return self._ended()
        size = len(key) + len(payload)
        if self._in_flight and self._bytes + size > self.credit_bytes:
            return None  # but alone, a message of any size may go
        batch = encode_batch([(key, payload)])
        event = {"base": offset, "accepted_us": accepted_us}
        self._in_flight.append((offset, size))
        self._bytes += size
        self.cursor = offset + 1
        if self._is_fresh:
            self._is_fresh, self._told = False, below
        return encode(
            MESSAGES_TYPE, self.id, MESSAGES.build({**event, "batch": batch})
        )

    def commit(self, following: int) -> int:
        """Settle all below an offset. Returns what is settled now."""
        require(following <= self.cursor, NOT_IN_FLIGHT, "next", "not yet")
        self.committed = max(self.committed, following)
        while self._in_flight and self._in_flight[0][0] < self.committed:
            _, size = self._in_flight.popleft()
            self._bytes -= size
        return self.committed

    def _lagged(self) -> bytes:
        """The offsets that were dropped before this reader got there."""
        end = min(self.topic.head, self.until)
        gap = {"from_offset": self.cursor, "to_offset": end}
        self.cursor = end
        return encode(LAGGED_TYPE, self.id, LAGGED.build(gap))

    def _missed(self, below: int) -> bytes:
        """Tombstones have gone that this reader had not got to."""
        self._told = below
        return encode(MISSED_TYPE, self.id, MISSED.build({"below": below}))

    def _ended(self) -> bytes | None:
        """Report, once, that no more will come."""
        if self not in self.topic.readers:
            return None
        self.leave()
        end = {"code": 1, "next": self.cursor, "text": b"until"}
        return encode(ENDED_TYPE, self.id, ENDED.build(end))

    def _is_free(self) -> bool:
        """Whether some credit is left."""
        has_messages = len(self._in_flight) < self.credit
        return has_messages and self._bytes < self.credit_bytes
