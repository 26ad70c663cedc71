"""One reader of a shared name: it has messages one by one, and settles each by itself."""

import struct
from typing import TYPE_CHECKING

import wire
from subscription import Subscription
from work_queue import NEVER, Open, Settlement, WorkQueue

if TYPE_CHECKING:
    from connection import Connection


class Worker(Subscription):
    """``held`` is what it has, by ticket; ``overdue`` what it has had for too long, and still uses its credit."""

    def __init__(self, connection: "Connection", number: int, queue: WorkQueue) -> None:
        super().__init__(connection, number, queue.topic, queue.start(), wire.FOREVER)
        self.queue = queue
        self.committed = queue.committed()
        self.held: dict[int, Open] = {}
        self.overdue: dict[int, int] = {}  # bytes
        self.owner: int | None = None
        self.attempt = 0
        self.timeout = NEVER  # seconds

    # Its end.

    def end(self) -> None:
        super().end()
        self.queue.leave(self)

    def lose(self, *, was_alone: bool) -> None:
        broker = self.connection.broker
        self.queue.lose(self, broker.seconds(), broker.now(), was_alone=was_alone)

    def forget(self) -> None:
        """Its name goes, if nobody else has it."""
        if self.queue.workers.keys() - {self}:
            raise wire.Fault(wire.NOT_EMPTY, "", "others have this name")
        self.queue.forget()

    def needed(self) -> int:
        return self.queue.needed()

    # What it has.

    def have(self, message: Open, seconds: float) -> None:
        message.late_at = seconds + self.timeout
        self.held[message.ticket] = message
        self.in_flight += 1
        self.in_flight_bytes += message.size

    def have_no_more(self, message: Open) -> None:
        del self.held[message.ticket]
        self.in_flight -= 1
        self.in_flight_bytes -= message.size

    def time_out(self, message: Open) -> None:
        del self.held[message.ticket]
        self.overdue[message.ticket] = message.size

    def settle(self, tickets: list[int], how: Settlement) -> list[int]:
        """The result are the tickets that were not open here."""
        seconds = self.connection.broker.seconds()
        is_alone = self.connection.hand_size() == 1
        late = []
        for ticket in tickets:
            message = self.held.get(ticket)
            if message is None:
                late.append(ticket)
                if how.outcome != wire.EXTEND:
                    self._end_overdue(ticket)
            elif how.outcome == wire.EXTEND:
                message.late_at = seconds + (how.delay or 0)
            else:
                self.have_no_more(message)
                self.queue.settle_one(message, how, seconds, is_alone=is_alone)
        self.queue.wake()
        # Those of other names may have waited for an empty hand.
        for worker in self.connection.workers():
            worker.wake.set()
        return late

    def _end_overdue(self, ticket: int) -> None:
        size = self.overdue.pop(ticket, None)
        if size is not None:
            self.in_flight -= 1
            self.in_flight_bytes -= size

    def commit(self, upto: int) -> int:
        raise wire.Fault(wire.INVALID_FIELD, "subscription", f"its name is shared: settle, and do not commit {upto}")

    # Sending.

    def has_something(self, now: int) -> bool:
        self.topic.expire(now)
        if not self.has_free_credit():
            return False
        message = self.queue.offer(self, self.connection.broker.seconds())
        if message is None:
            return False
        found = self.topic.read(message.offset)
        if found is None or self.in_flight == 0:
            return True
        return self.in_flight_bytes + len(found[1]) + len(found[2]) <= self.credit_bytes

    def send_next(self) -> None:
        """Sends one frame: a lag, or one message."""
        seconds = self.connection.broker.seconds()
        message = self.queue.offer(self, seconds)
        assert message is not None
        found = self.topic.read(message.offset)
        if found is None:
            body = struct.pack("<QQ", message.offset, self.queue.skip(message))
            self.connection.send(wire.LAGGED, self.number, body)
            return
        time, key, payload = found
        message.size = len(key) + len(payload)
        self.queue.hand_out(self, message, seconds)
        flags = wire.TICKETS | (wire.REDELIVERED if message.is_again else 0)
        message.is_again = True
        body = struct.pack("<QqQH", message.offset, time, message.ticket, min(message.count, 65535))
        self.connection.send(wire.MESSAGES, self.number, body + wire.encode_batch([key], [payload]), flags)
