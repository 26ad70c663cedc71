"""A reader, the broker's end of a subscription: a cursor, its credit, and what is in flight. It never holds a message.

    committed          cursor              next_offset
    ────┬────────────────┬──────────────────────┬───▶ offsets
        │   in flight    │       ahead          │
        (delivered, not settled)

Everything sent to a reader comes out of `take`, one frame per call: lag, messages, the end. Free credit is computed
from what is in flight and never counted up or down, so no order of commits can mint any.

`offsets since the start = delivered + skipped + ahead`, always: the promise that nothing is lost in silence.
"""

from collections import deque
from collections.abc import Callable

from zaichik.broker.position import Position
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

TRACKED_FRAMES = 16  # frames in flight that are tracked one by one; if there are more, neighbours are joined
REMEMBERED = 8  # frames of messages, and reports of lag, whose time is remembered (EXP-3)


class Reader:
    """One reader of one topic. It is attached to the topic when it is made.

    Args:
        request: the Subscribe, already checked.
        topic: the topic read.
        position: where it begins: a new position, or the position of its name, which it takes over (CMT-3).
        on_ready: called when `take` may return something again; see `make_ready`.
        description: its number and client, for error texts.
        connection: the number of its connection.

    Attributes:
        id: the id of the Subscribe.
        name: what `describe` calls it, which sorts by topic, connection and id.
        position, description: see above.
        start: where it began.
        cursor: the next offset to be delivered.
        delivered: messages sent.
        skipped: offsets reported as lag.
        redelivered_below: messages below it were sent to an earlier reader of the name; if there are none, it is not
            above `start`.
        in_flight: messages sent and not settled.
        in_flight_bytes: their keys and payloads; a frame counts in full until its last message is settled.
        sent: the first offsets of the latest frames of messages, and when each was taken to be sent.
        lags: the latest reports of lag: the first offset, the end, and when.
        is_ready: whether it has asked for turns, and `take` may have another frame.
        why_cut_off: the code with which it was ended from outside; None if it was not.
        ended: whether `SubscriptionEnded` was sent: nothing follows it, but commits are still accepted.
    """

    def __init__(
        self,
        request: Subscribe,
        topic: TopicController,
        position: Position,
        on_ready: Callable[["Reader"], None],
        description: str,
        connection: int,
    ) -> None:
        self.id = request.id
        self.name = f"{topic.name}#{connection:08}.{request.id:010}"
        self.topic = topic
        self.position = position
        self.description = description
        self.credit = request.credit
        self.credit_bytes = request.credit_bytes
        self.until = request.until
        self.start = self.cursor = position.committed
        self.delivered = self.skipped = 0
        self.redelivered_below = position.delivered
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.sent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self.lags: list[tuple[int, int, int]] = []  # most readers never have one
        self.is_ready = False
        self.ended = False
        self._frames: deque[tuple[int, int, int, int]] = deque()  # in flight: first offset, end, messages, bytes
        self._on_ready = on_ready
        self.why_cut_off: EndCode | None = None
        if position.reader is not None:
            position.reader.cut_off(EndCode.TAKEN_OVER)
        position.reader, position.left_us, position.is_waived = self, None, False
        topic.attach(self)

    def leave(self) -> None:
        """Detach from the topic (CLO-3). A named position stays, without a reader."""
        self.topic.detach(self)
        if self.position.reader is self:
            self.position.reader = None

    def cut_off(self, code: EndCode) -> None:
        """End the subscription: another reader took over the name (CMT-3), or the topic is deleted (TOP-6).

        `SubscriptionEnded` is its next frame, and later commits no longer change the named position.
        """
        self.leave()
        self.position = Position(self.position.committed)
        self.why_cut_off = code
        self.make_ready()

    @property
    def committed(self) -> int:
        """Every offset below is settled."""
        return self.position.committed

    @property
    def ahead(self) -> int:
        """Offsets published and not yet delivered or skipped."""
        return self.topic.end - self.cursor

    @property
    def has_credit(self) -> bool:
        """Whether nothing is in flight, or less than both credits allow (CMT-1)."""
        return not self._frames or (self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes)

    @property
    def waits_for_disk(self) -> bool:
        """Whether its next messages are being read."""
        durable = self.topic.durable
        return durable is not None and durable.log.is_reading(self.make_ready)

    def make_ready(self) -> None:
        """Ask for turns, by calling `on_ready` once; after that, not again until `take` has nothing more."""
        if not self.is_ready:
            self.is_ready = True
            self._on_ready(self)

    def take(self, now_us: int) -> Frame | None:
        """Returns the next frame for the reader; None if there is none now.

        If the reader is not ready afterwards, `make_ready` is called when it is: by the ring if it is caught up, by a
        commit if it is out of credit.
        """
        topic = self.topic
        topic.expire(now_us)
        before, frame = self.cursor, None if self.ended else self._next_frame()
        if isinstance(frame, Messages):
            self.sent.append((before, now_us))
        elif isinstance(frame, Lagged):
            self.lags = [*self.lags[1 - REMEMBERED :], (before, self.cursor, now_us)]
        if frame is None or self.cursor == topic.end < self.until:
            self.is_ready = False
            if self.cursor == topic.end and self.has_credit and not self.ended:
                topic.wait(self)
        return frame

    def _next_frame(self) -> Frame | None:
        topic = self.topic
        if self.why_cut_off is not None:
            return self._end(self.why_cut_off, self.why_cut_off.meaning)
        if self.cursor >= self.until:  # needs no credit (RET-4)
            return self._end(EndCode.UNTIL, f"it reached offset {self.until}")
        if not self.has_credit:
            return None  # lag is not reported either: by the time the reader can go on, it may have grown (LAG-1)
        durable = topic.durable
        readable = topic.head if durable is None else durable.readable_from(self.cursor)
        if self.cursor < readable:
            return self._skip(min(readable, self.until))
        if self.cursor < topic.end:
            return self._deliver()
        if durable is not None and durable.log.damage:  # what comes next is unknown (DUR-7)
            return self._end(EndCode.DAMAGED, durable.log.damage)
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

    def _deliver(self) -> Frame | None:
        """Returns as much of one batch as credit and `until` allow; None if that is nothing, or the disk is read."""
        position = self.position
        room = min(self.credit - self.in_flight, self.until - self.cursor)
        again = position.delivered - self.cursor
        if again > 0:
            room = min(room, again)
        # With nothing in flight, one message goes out whatever its size (CMT-1).
        left, topic = self.credit_bytes - self.in_flight_bytes, self.topic
        try:
            found = topic.read(self.cursor, room, left, self.make_ready, at_least=int(not self._frames))
        except Refused as damage:
            return self._end(EndCode.DAMAGED, damage.message)
        if found is None:
            return self._skip(min(topic.head, self.until)) if self.cursor < topic.head else None
        accepted_us, batch = found
        size = batch.size
        messages = Messages(self.id, self.cursor, accepted_us, batch, redelivered=again > 0)
        end = self.cursor + batch.count
        position.delivered = max(position.delivered, end)
        self._frames.append((self.cursor, end, batch.count, size))
        if len(self._frames) > TRACKED_FRAMES:
            self._join_frames(over_gaps=False)
        if len(self._frames) > TRACKED_FRAMES:
            self._join_frames(over_gaps=True)
        self.cursor = end
        self.delivered += batch.count
        self.in_flight += batch.count
        self.in_flight_bytes += size
        return messages

    def _join_frames(self, *, over_gaps: bool) -> None:
        """Join neighbouring frames in pairs, so that memory does not grow with the number in flight.

        With lag between them, it is no longer known which of the offsets are in flight: they are settled together.
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
        """Settles every offset below `next_offset` and returns the committed offset (CMT-2).

        A frame's bytes are settled with its last message: offsets are remembered here, the sizes of single messages are
        not. Where many frames are in flight, the bytes of neighbours are settled together.

        Raises:
            Refused: `NOT_IN_FLIGHT`, beyond the cursor.
        """
        if next_offset > self.cursor:
            raise Refused(
                ErrorCode.NOT_IN_FLIGHT,
                f"offset {next_offset - 1} has not been delivered yet; the next to be delivered is {self.cursor}",
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
