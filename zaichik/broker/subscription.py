"""A subscription: an integer cursor, its credit, and what is in flight. It never holds a message.

    committed          cursor              next_offset
    ────┬────────────────┬──────────────────────┬───▶ offsets
        │   in flight    │       ahead          │
        (delivered, not settled)

Everything a reader can be told comes out of `take`, one frame a call: lag, messages, the end. Free credit is
computed from what is in flight and never counted up or down, so no order of commits can mint any.

`offsets since the start = delivered + skipped + ahead`, always: the promise that nothing is lost in silence.
"""

from collections import deque
from collections.abc import Callable

from zaichik.broker.session import Session
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import (
    EndCode,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    Refused,
    Subscribe,
    SubscriptionEnded,
)

FRAMES_TOLD_APART = 16  # in flight; of more, neighbours are joined


class Subscription:
    """One reader's place in one topic. It counts as a reader from now on.

    Args:
        request: what was asked for, already checked.
        topic: the topic read.
        position: where it begins: a new position, or that of its name, which it takes over (CMT-3).
        on_ready: called when `take` may have something again; see `make_ready`.
        description: whose it is, in words.

    Attributes:
        id: the number of the Subscribe.
        position, description: see above.
        start: where it began.
        cursor: the next offset to be delivered.
        delivered: messages sent.
        skipped: offsets told as lag.
        in_flight: messages sent and not settled.
        is_ready: whether it has asked for a turn and not had its last one.
        ended: whether `SubscriptionEnded` was sent: nothing follows it, but commits are still accepted.
    """

    def __init__(
        self,
        request: Subscribe,
        topic: TopicController,
        position: Session,
        on_ready: Callable[["Subscription"], None],
        description: str,
    ) -> None:
        self.id = request.id
        self.topic = topic
        self.position = position
        self.description = description
        self.credit = request.credit
        self.credit_bytes = request.credit_bytes
        self.until = request.until
        self.start = self.cursor = position.committed
        self.delivered = 0
        self.skipped = 0
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.is_ready = False
        self.ended = False
        self._frames: deque[tuple[int, int, int, int]] = deque()  # in flight: first offset, end, messages, bytes
        self._on_ready = on_ready
        self._cut_off: EndCode | None = None
        if position.reader is not None:
            position.reader.cut_off(EndCode.TAKEN_OVER)
        position.reader, position.left_us = self, None
        topic.attach(self)

    def leave(self) -> None:
        """It is no reader any more (CLO-3); the position of a named one stays."""
        self.topic.detach(self)
        if self.position.reader is self:
            self.position.reader = None

    def cut_off(self, code: EndCode) -> None:
        """Read no more: another one has the name (CMT-3), or the topic is deleted (TOP-6).

        The reader is told, and commits are of no effect any more.
        """
        self.leave()
        self.position = Session(self.position.committed)
        self._cut_off = code
        self.make_ready()

    @property
    def committed(self) -> int:
        """Everything below is settled."""
        return self.position.committed

    @property
    def ahead(self) -> int:
        """Offsets published and not yet delivered or skipped."""
        return self.topic.end - self.cursor

    @property
    def has_credit(self) -> bool:
        """Whether nothing is in flight, or less than either credit (CMT-1)."""
        return not self._frames or (self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes)

    def make_ready(self) -> None:
        """Ask for a turn, once, until `take` comes back with nothing."""
        if not self.is_ready:
            self.is_ready = True
            self._on_ready(self)

    def take(self, now_us: int) -> Frame | None:
        """The next thing to tell the reader; None if there is nothing, and then `make_ready` will be called.

        By the ring if the reader is caught up, by its own commit if it is out of credit.
        """
        self.topic.expire(now_us)
        frame = None if self.ended else self._next_frame()
        if frame is None:
            self.is_ready = False
            if self.ahead == 0 and self.has_credit and not self.ended:
                self.topic.wait(self)
        return frame

    def _next_frame(self) -> Frame | None:
        topic = self.topic
        if self._cut_off is not None:
            return self._end(self._cut_off, self._cut_off.meaning)
        if self.cursor >= self.until:  # needs no credit (RET-4)
            return self._end(EndCode.UNTIL, f"it reached offset {self.until}")
        if not self.has_credit:
            return None  # nor is lag told: what the reader cannot take now may be more by then (LAG-1)
        if self.cursor < topic.head:
            return self._skip(min(topic.head, self.until))
        if self.cursor < topic.end:
            return self._deliver()
        return None

    def _end(self, code: EndCode, text: str) -> SubscriptionEnded:
        self.ended = True
        self.topic.detach(self)
        return SubscriptionEnded(self.id, code, self.cursor, text)

    def _skip(self, to_offset: int) -> Lagged:
        lagged = Lagged(self.id, self.cursor, to_offset)
        self.skipped += to_offset - self.cursor
        self.cursor = to_offset
        return lagged

    def _deliver(self) -> Messages | None:
        """As much of one batch as credit and `until` allow."""
        position = self.position
        room = min(self.credit - self.in_flight, self.until - self.cursor)
        again = position.delivered - self.cursor
        if again > 0:
            room = min(room, again)
        # One message of any size, while nothing is in flight (CMT-1).
        found = self.topic.read(
            self.cursor, room, self.credit_bytes - self.in_flight_bytes, at_least=int(not self._frames)
        )
        if found is None:
            return None
        accepted_us, batch = found
        messages = Messages(self.id, self.cursor, accepted_us, batch, redelivered=again > 0)
        end = self.cursor + batch.count
        position.delivered = max(position.delivered, end)
        self._frames.append((self.cursor, end, batch.count, batch.size))
        if len(self._frames) > FRAMES_TOLD_APART:
            self._join_frames(over_gaps=False)
        if len(self._frames) > FRAMES_TOLD_APART:
            self._join_frames(over_gaps=True)
        self.cursor = end
        self.delivered += batch.count
        self.in_flight += batch.count
        self.in_flight_bytes += batch.size
        return messages

    def _join_frames(self, *, over_gaps: bool) -> None:
        """Count neighbours as one, two by two, so that what is remembered does not grow with what is in flight.

        Where lag lies between them, it is no longer known which offsets are in flight: then they are settled together.
        """
        frames, self._frames = self._frames, deque()
        while len(frames) > 1:
            (first, end, count, size), (next_first, next_end, next_count, next_size) = frames.popleft(), frames[0]
            if end == next_first or over_gaps:
                frames.popleft()
                end, count, size = next_end, count + next_count, size + next_size
            self._frames.append((first, end, count, size))
        self._frames.extend(frames)

    def commit(self, next_offset: int) -> int:
        """Settle everything below `next_offset`; what is committed now (CMT-2).

        A frame's bytes are settled with its last message: the offsets are here, the messages are not. Where many frames
        are in flight, those of neighbours are settled together.

        Raises:
            Refused: `NOT_IN_FLIGHT`, beyond the cursor.
        """
        if next_offset > self.cursor:
            raise Refused(
                ErrorCode.NOT_IN_FLIGHT,
                f"offset {next_offset - 1} was not delivered yet; the next to be delivered is {self.cursor}",
                "next",
            )
        self.position.committed = max(self.position.committed, next_offset)
        frames = self._frames
        while frames and frames[0][1] <= next_offset:
            _, _, count, size = frames.popleft()
            self.in_flight -= count
            self.in_flight_bytes -= size
        if frames and frames[0][0] < next_offset:
            first, end, count, size = frames[0]
            if count == end - first:  # no gap
                settled = next_offset - first
                self.in_flight -= settled
                frames[0] = (next_offset, end, count - settled, size)
        if self.has_credit:
            self.make_ready()
        return self.committed
