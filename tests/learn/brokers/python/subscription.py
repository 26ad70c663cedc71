"""One reader of one topic: a task that sends what its credit allows, one frame a turn."""

import asyncio
import struct
from collections import deque
from typing import TYPE_CHECKING

import wire
from table_reading import TableReading

if TYPE_CHECKING:
    from connection import Connection
    from topic import Session, Stored, Topic


class Subscription(TableReading):
    """Its place is ``cursor``; what lies between ``committed`` and it, and was not skipped, is in flight."""

    def __init__(self, connection: "Connection", number: int, topic: "Topic", start: int, until: int) -> None:
        self.connection, self.number, self.topic = connection, number, topic
        self.start = self.cursor = self.committed = start
        self.until = until
        self.credit = self.credit_bytes = 1
        self.session: Session | None = None
        self.delivered_before = 0
        self.frames: deque[tuple[int, int, int]] = deque()  # of each in flight: first and last offset + 1, bytes
        self.in_flight = self.in_flight_bytes = 0
        self.begin_reading()
        self.ended = False
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    # Its end.

    def end(self) -> None:
        """Nothing is sent any more; the topic does not count it."""
        self.ended = True
        self.topic.readers.pop(self, None)
        if self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def lose(self, *, was_alone: bool) -> None:
        """Its connection is lost, without a Close."""

    def end_with(self, code: int, why: str) -> None:
        if self.ended:
            return
        self.end()
        body = struct.pack("<HQ", code, self.cursor) + wire.string(why)
        self.connection.send(wire.ENDED, self.number, body)

    def end_if_reached(self) -> None:
        if self.cursor >= self.until:
            self.end_with(wire.UNTIL, "the subscription reached its until")

    # What of the topic it may still be sent.

    def needed(self) -> int:
        return self.cursor

    def forget(self) -> None:
        """The position of its name goes, if it still has the name."""
        session = self.session
        if session is None or session.reader is not self:
            return
        sessions = self.topic.sessions
        for name in [name for name, kept in sessions.items() if kept is session]:
            del sessions[name]

    # Credit.

    def commit(self, upto: int) -> int:
        """Settles everything below the offset; the result is what is settled then."""
        if upto > self.cursor:
            raise wire.Fault(wire.NOT_IN_FLIGHT, "next", f"only what lies below {self.cursor} was delivered")
        if upto <= self.committed:
            return self.committed
        self.committed = upto
        while self.frames and self.frames[0][0] < upto:
            first, end, size = self.frames.popleft()
            if end > upto:
                self.in_flight -= upto - first
                self.frames.appendleft((upto, end, size))
                break
            self.in_flight -= end - first
            self.in_flight_bytes -= size
        self.settle_rows(upto)
        if self.session is not None and self.session.reader is self:
            self.session.committed = upto
        self.wake.set()
        return self.committed

    def has_free_credit(self) -> bool:
        if self.in_flight == 0:
            return True
        return self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes

    def fitting(self, stored: "Stored") -> tuple[int, int]:
        """How many messages of the batch may be sent now, and their bytes."""
        if not self.has_free_credit():
            return 0, 0
        end = min(stored.end, self.until, self.cursor + self.credit - self.in_flight)
        if self.cursor < self.delivered_before:
            end = min(end, self.delivered_before)
        room = self.credit_bytes - self.in_flight_bytes
        count = size = 0
        for at in range(self.cursor - stored.base, end - stored.base):
            one = len(stored.batch.keys[at]) + len(stored.batch.payloads[at])
            alone = self.in_flight == 0 and count == 0
            if not alone and (size >= room or size + one > room):
                break
            count += 1
            size += one
        return count, size

    # Sending.

    def has_something(self, now: int) -> bool:
        self.topic.expire(now)
        if self.topic.table is not None:
            return self.has_something_of(self.topic.table)
        if self.cursor < self.topic.head:
            return self.has_free_credit()
        if self.cursor >= self.topic.next:
            return False
        return self.fitting(self.topic.stored_at(self.cursor))[0] > 0

    async def run(self) -> None:
        connection = self.connection
        while not self.ended:
            self.wake.clear()
            if not self.has_something(connection.broker.now()):
                await self.wake.wait()
                continue
            async with connection.turn:
                await connection.room.wait()
                if not self.ended and self.has_something(connection.broker.now()):
                    self.send_next()
            await asyncio.sleep(0)

    def send_next(self) -> None:
        """Sends one frame: a lag, or messages of one batch."""
        if self.topic.table is not None and self.cursor >= self.topic.head:
            self.send_of(self.topic.table)
            self.end_if_reached()
            return
        head = self.topic.head
        if self.cursor < head:
            to = min(head, self.until)
            self.connection.send(wire.LAGGED, self.number, struct.pack("<QQ", self.cursor, to))
            self.cursor = to
        else:
            self._send_messages(self.topic.stored_at(self.cursor))
        self.end_if_reached()

    def _send_messages(self, stored: "Stored") -> None:
        count, size = self.fitting(stored)
        at = self.cursor - stored.base
        batch = wire.encode_batch(stored.batch.keys[at : at + count], stored.batch.payloads[at : at + count])
        flags = wire.REDELIVERED if self.cursor < self.delivered_before else 0
        body = struct.pack("<Qq", self.cursor, stored.time) + batch
        self.connection.send(wire.MESSAGES, self.number, body, flags)
        self.frames.append((self.cursor, self.cursor + count, size))
        self.in_flight += count
        self.in_flight_bytes += size
        self.cursor += count
        if self.session is not None:
            self.session.delivered = max(self.session.delivered, self.cursor)
