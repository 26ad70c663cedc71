"""Readers: each walks along its topic's row at a pace of its own."""

from collections import deque
from collections.abc import Callable
from typing import Any

from batches import Message, encode_batch
from construct import Container
from errors import NOT_IN_FLIGHT, require
from layouts import LAGGED, LAGGED_TYPE, MESSAGES, MESSAGES_TYPE, encode
from topics import Topic

MOST = 100  # messages of a frame


class Reader:
    """One subscription: three offsets of one row.

    Below `committed` all is settled. From there up to `cursor` messages are
    in flight: delivered, and not settled. At `cursor` is the next one.
    A topic calls `ring` when it has news.
    """

    def __init__(self, topic: Topic, wanted: Container[Any], ring: Callable[[], None]) -> None:
        self.topic, self.id, self.ring = topic, wanted.id, ring
        self.cursor = self.committed = topic.next_offset
        self.credit, self.credit_bytes = wanted.credit, wanted.credit_bytes
        self._in_flight: deque[tuple[int, int]] = deque()  # offset, size
        self._bytes = 0  # the sum of these sizes
        topic.readers.append(self)

    def leave(self) -> None:
        """Read no more of this topic."""
        self.topic.readers.remove(self)

    def next_event(self) -> bytes | None:
        """The next messages, or what was missed before; None for now."""
        if not self._is_free() or self.cursor == self.topic.next_offset:
            return None
        if self.cursor < self.topic.head:
            return self._lagged()
        place, base = self.cursor - self.topic.head, self.cursor
        accepted_us, before = self.topic.row[place][0], self._bytes
        batch: list[Message] = []
        for time, key, payload in self.topic.row[place : place + MOST]:
            size = len(key) + len(payload)
            if time != accepted_us or not self._is_free():
                break
            if self._in_flight and self._bytes + size > self.credit_bytes:
                break  # but alone, a message of any size may go
            batch.append((key, payload))
            self._in_flight.append((self.cursor, 0))
            self._bytes += size
            self.cursor += 1
        if not batch:
            return None
        # Bytes come back with the frame's last message, all of them.
        self._in_flight[-1] = (self.cursor - 1, self._bytes - before)
        event = {"base": base, "accepted_us": accepted_us}
        body = MESSAGES.build({**event, "batch": encode_batch(batch)})
        return encode(MESSAGES_TYPE, self.id, body)

    def commit(self, following: int) -> int:
        """Settle all below an offset. Returns what is settled now."""
        require(following <= self.cursor, NOT_IN_FLIGHT, "next", "not yet")
        self.committed = max(self.committed, following)
        while self._in_flight and self._in_flight[0][0] < self.committed:
            _, size = self._in_flight.popleft()
            self._bytes -= size
        return self.committed

    def _lagged(self) -> bytes:
        """From where to where messages had gone before we got there."""
        gap = {"from_offset": self.cursor, "to_offset": self.topic.head}
        self.cursor = self.topic.head
        return encode(LAGGED_TYPE, self.id, LAGGED.build(gap))

    def _is_free(self) -> bool:
        """Whether some credit is left."""
        has_messages = len(self._in_flight) < self.credit
        return has_messages and self._bytes < self.credit_bytes
