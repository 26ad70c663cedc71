"""How a subscription reads a table: it passes holes, counts rows, and is told when it has missed deletions."""

import struct
from collections import deque
from typing import TYPE_CHECKING

import wire
from table import Row, Table

if TYPE_CHECKING:
    from subscription import Subscription


class TableReading:
    """What a subscription of a table does otherwise than one of a ring."""

    told: int | None  # the ``deleted_below`` that it was told, or need not be; None: whatever it is
    misses: bool  # a tombstone that it had not reached has gone
    rows: deque[tuple[list[int], int]]  # for each frame in flight: the offsets not settled, and its bytes

    def begin_reading(self: "Subscription") -> None:
        self.told, self.misses, self.rows = 0, False, deque()

    def settle_rows(self: "Subscription", upto: int) -> None:
        """Takes the messages below the offset out of flight; the bytes of a frame stay until its last one is."""
        while self.rows:
            offsets, size = self.rows.popleft()
            left = [offset for offset in offsets if offset >= upto]
            self.in_flight -= len(offsets) - len(left)
            if left:
                self.rows.appendleft((left, size))
                return
            self.in_flight_bytes -= size

    def has_something_of(self: "Subscription", table: Table) -> bool:
        """Whether there is a lag, a missed deletion or a message to be sent. Holes are passed on the way."""
        if self.told is not None and table.deleted_below > max(self.cursor, self.told):
            self.misses = True
        if self.cursor < self.topic.head:
            return self.has_free_credit()
        self.cursor = max(self.cursor, min(table.next_row(self.cursor), self.until))
        self.end_if_reached()
        if self.ended:
            self.wake.set()
            return False
        return self.has_free_credit() and (self.misses or bool(self._fitting_rows(table)))

    def _fitting_rows(self: "Subscription", table: Table) -> list[Row]:
        """What may be sent now in one frame."""
        until = self.until
        if self.cursor < self.delivered_before:
            until = min(until, self.delivered_before)
        count, size = self.in_flight, self.in_flight_bytes
        fitting: list[Row] = []
        for row in table.run(self.cursor, until):
            is_too_much = count + 1 > self.credit or size + row.size > self.credit_bytes
            if count > 0 and is_too_much:
                break
            count, size = count + 1, size + row.size
            fitting.append(row)
        return fitting

    def send_of(self: "Subscription", table: Table) -> None:
        """Sends one frame: that deletions were missed, or messages."""
        if self.misses:
            self.misses = False
            self.told = table.deleted_below
            self.connection.send(wire.DELETIONS_MISSED, self.number, struct.pack("<Q", table.deleted_below))
            return
        rows = self._fitting_rows(table)
        if self.told is None:
            self.told = table.deleted_below
            if self.session is not None:
                self.session.told = self.told
        flags = wire.REDELIVERED if self.cursor < self.delivered_before else 0
        offsets = [row.offset for row in rows]
        body = struct.pack("<Qq", offsets[0], rows[0].time)
        if offsets[-1] - offsets[0] >= len(rows):
            flags |= wire.HOLES
            body += struct.pack(f"<{len(rows) + 1}I", len(rows), *[offset - offsets[0] for offset in offsets])
        batch = wire.encode_batch([row.key for row in rows], [row.payload for row in rows])
        self.connection.send(wire.MESSAGES, self.number, body + batch, flags)
        size = sum(row.size for row in rows)
        self.rows.append((offsets, size))
        self.in_flight += len(rows)
        self.in_flight_bytes += size
        self.cursor = offsets[-1] + 1
        if self.session is not None:
            self.session.delivered = max(self.session.delivered, self.cursor)
