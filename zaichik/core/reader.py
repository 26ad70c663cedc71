"""A reader, the broker's end of a subscription: a cursor, its credit, and what is in flight.

It never holds a message.

    committed          cursor              next_offset
    ────┬────────────────┬──────────────────────┬───▶ offsets
        │   in flight    │       ahead          │
        (delivered, not settled)

Everything sent to a reader comes out of `take`, one frame per call: lag, messages, the end. Free
credit is computed from what is in flight and never counted up or down, so no order of commits can
mint any.

`offsets since the start = delivered + skipped + passed + ahead`, always: the promise that nothing
is lost in silence. Only a table has holes to be passed (TAB-2).
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.position import Position
from zaichik.core.retained import Piece
from zaichik.core.subscriber import Subscriber
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import (
    DeletionsMissed,
    EndCode,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    Refused,
    Settle,
    Subscribe,
    SubscriptionEnded,
)

# Frames in flight that are tracked one by one; if there are more, neighbours are joined.
TRACKED_FRAMES = 16
REMEMBERED_TIMES = 8  # frames of messages, and reports of lag, whose time is remembered (EXP-3)


class Reader(Subscriber):
    """One reader of one topic.

    Args:
        request: the Subscribe, already checked.
        topic: the topic read.
        position: where it begins: a new position, or the position of its name.
        on_ready: called when `take` may return something again; see `make_ready`.
        description: its number and client, for error texts.
        connection: the number of its connection.

    Attributes:
        position: see above. If it is cut off, one of its own.
        start: where it began.
        cursor: the next offset to be delivered.
        delivered: messages sent.
        skipped: offsets reported as lag.
        passed: holes that it has gone over (TAB-2).
        redelivered_below: messages below it were sent to an earlier reader of the name; if there
            are none, it is not above `start`.
        in_flight_bytes: bytes in flight; a frame counts in full until its last message is settled.
        sent: the first offsets of the latest frames of messages, and when each was taken to be
            sent.
        lags: the latest reports of lag: the first offset, the end, and when.
    """

    def __init__(
        self,
        request: Subscribe,
        topic: TopicController,
        position: ExclusivePosition,
        on_ready: Callable[[Subscriber], None],
        description: str,
        connection: int,
    ) -> None:
        super().__init__(request, topic, on_ready, description, connection)
        self.position = position
        self.until = request.until
        self.start = position.committed
        self.cursor = position.committed
        self.delivered = 0
        self.skipped = 0
        self.passed = 0
        self.redelivered_below = position.delivered
        self.sent: deque[tuple[int, int]] = deque(maxlen=REMEMBERED_TIMES)
        # A list, because most readers never have one, and an empty deque is large.
        self.lags: list[tuple[int, int, int]] = []
        # In flight: the first offset, the end, how many messages, their bytes, and their offsets
        # if some between them are missing and it is known which.
        self._frames: deque[tuple[int, int, int, int, array[int] | None]] = deque()
        # Tombstones with offsets below it are not to be reported as missed, again or at all.
        self._deletions_known_below = 0

    def join(self) -> None:
        """Attach to the topic, and take over the position from its reader (CMT-3)."""
        position = self.position
        if position.reader is not None:
            position.reader.cut_off(EndCode.TAKEN_OVER)
        position.reader = self
        position.left_us = None
        position.is_waived = False
        self.topic.attach(self)

    def leave(self) -> None:
        """Detach from the topic (CLO-3). A named position stays, without a reader."""
        self.topic.detach(self)
        if self.position.reader is self:
            self.position.reader = None

    def cut_off(self, code: EndCode) -> None:
        """See `Subscriber`. Later commits no longer change the named position."""
        self.leave()
        self.position = ExclusivePosition(self.position.committed)
        self.why_cut_off = code
        self.make_ready()

    @property
    def stand(self) -> Position:
        """See `Subscriber`."""
        return self.position

    def stands_at(self) -> tuple[int, int]:
        """See `Subscriber`."""
        return self.cursor, self.position.committed

    @property
    def committed(self) -> int:
        """Every offset below is settled."""
        return self.position.committed

    @property
    def ahead(self) -> int:
        """Offsets published and not yet delivered, skipped or passed."""
        return self.topic.end - self.cursor

    @property
    def is_out_of_credit(self) -> bool:
        """Whether it gets nothing before a commit."""
        # Not ready although messages are ahead: it has credit left, but not the bytes that the
        # next message needs.
        return not self.has_credit or (self.ahead > 0 and not self.is_ready)

    @property
    def has_credit(self) -> bool:
        """Whether nothing is in flight, or less than both credits allow (CMT-1)."""
        if not self._frames:
            return True
        return self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes

    @property
    def waits_for_disk(self) -> bool:
        """Whether its next messages are being read."""
        return self.topic.retained.is_reading(self.make_ready)

    def take(self, now_us: int) -> Frame | None:
        """Returns the next frame for the reader; None if there is none now.

        If the reader is not ready afterwards, `make_ready` is called when it is: by the ring if it
        is caught up, by a commit if it is out of credit.
        """
        topic = self.topic
        topic.expire(now_us)
        retained = topic.retained
        before = self.cursor
        frame: Frame | None = None
        if not self.ended:
            frame = self._next_frame()
        if isinstance(frame, Messages):
            self.sent.append((before, now_us))
        elif isinstance(frame, Lagged):
            self.lags.append((before, self.cursor, now_us))
            del self.lags[:-REMEMBERED_TIMES]
        is_at_end = self.cursor == retained.end
        is_done = frame is None
        if frame is not None and is_at_end and self.cursor < self.until:
            # After the last message of a damaged log comes the end, in a turn of its own (DUR-7).
            is_done = not retained.damage
        if is_done:
            self.is_ready = False
            if is_at_end and self.has_credit and not self.ended:
                retained.wait(self, self.make_ready)
        return frame

    def _next_frame(self) -> Frame | None:
        if self.why_cut_off is not None:
            return self._end(self.why_cut_off, self.why_cut_off.meaning)
        # This needs no credit (RET-4).
        if self.cursor >= self.until:
            return self._end(EndCode.UNTIL, f"it reached offset {self.until}")
        if not self.has_credit:
            # Lag is not reported either: by the time the reader goes on, it may have grown (LAG-1).
            return None
        retained = self.topic.retained
        if retained.deleted_below > self._deletions_known_below and self._has_missed_deletions():
            return DeletionsMissed(self.id, retained.deleted_below)
        if self.cursor < retained.end:
            readable = self._readable_from(self.cursor)
            if self.cursor < readable:
                return self._go_on(readable)
            return self._deliver()
        damage = retained.damage
        # Then what comes next is unknown (DUR-7).
        if damage:
            return self._end(EndCode.DAMAGED, damage)
        return None

    def _readable_from(self, offset: int) -> int:
        """Returns the first offset from that one on that this reader can be sent."""
        return self.topic.retained.readable_from(offset)

    def _read(
        self, offset: int, before: int, messages: int, max_bytes: int, at_least: int
    ) -> Piece | None:
        """Returns messages for this reader from that offset on: see `Retained.read`."""
        return self.topic.retained.read(
            offset, before, messages, max_bytes, self.make_ready, at_least=at_least
        )

    def is_hidden(self, offset: int) -> bool:
        """Returns whether the message with that offset, which can be read, is not for it."""
        return False

    def _end(self, code: EndCode, text: str) -> SubscriptionEnded:
        self.ended = True
        self.topic.detach(self)
        return SubscriptionEnded(self.id, code, self.cursor, text)

    def _go_on(self, readable: int) -> Frame | None:
        """Returns what comes before the next offset that can be read, or there: lag or messages."""
        lost = self.topic.retained.lost_until(self.cursor)
        if self.cursor < lost:
            return self._skip(min(lost, self.until))
        return self._pass(min(readable, self.until))

    def _skip(self, to_offset: int) -> Lagged:
        lagged = Lagged(self.id, self.cursor, to_offset)
        self.skipped += to_offset - self.cursor
        self.cursor = to_offset
        return lagged

    def _pass(self, to_offset: int) -> Frame | None:
        """Go over holes up to that offset, and return what comes there, if anything does."""
        self.passed += to_offset - self.cursor
        self.cursor = to_offset
        return self._next_frame()

    def _has_missed_deletions(self) -> bool:
        """Returns whether tombstones have gone that it would still have been sent (TAB-5).

        They count as known from now on. What began at the earliest and has been sent nothing holds
        no keys that could have been deleted.
        """
        below = self.topic.retained.deleted_below
        self._deletions_known_below = below
        return self.cursor < below and not self.position.is_fresh

    def _deliver(self) -> Frame | None:
        """Returns as many messages of one time as credit and `until` allow.

        None if that is nothing, or the disk is read.
        """
        position = self.position
        first = self.cursor
        before = self.until
        # A frame is redelivered as a whole, or new as a whole.
        is_again = first < position.delivered
        if is_again:
            before = min(before, position.delivered)
        room = self.credit - self.in_flight
        room_bytes = self.credit_bytes - self.in_flight_bytes
        # With nothing in flight, one message goes out whatever its size (CMT-1).
        at_least = int(not self._frames)
        try:
            found = self._read(first, before, room, room_bytes, at_least)
        except Refused as damage:
            return self._end(EndCode.DAMAGED, damage.message)
        if found is None:
            # The messages that were to be read from the disk may have expired there.
            head = self.topic.retained.head
            if first < head:
                return self._skip(min(head, self.until))
            return None
        return self._send(found, is_again=is_again)

    def _send(self, piece: Piece, *, is_again: bool) -> Messages:
        """Returns the frame of these messages, which are in flight from now on."""
        accepted_us, batch, deltas = piece
        position = self.position
        first = self.cursor
        count = batch.count
        size = batch.size
        end = first + count
        offsets: array[int] | None = None
        has_holes = bool(deltas)
        if has_holes:
            end = first + deltas[-1] + 1
            offsets = array("Q", [first + delta for delta in deltas])
            self.passed += end - first - count
        if position.delivered < end:
            position.delivered = end
        position.is_fresh = False
        self._frames.append((first, end, count, size, offsets))
        if len(self._frames) > TRACKED_FRAMES:
            self._join_frames(over_gaps=False)
            if len(self._frames) > TRACKED_FRAMES:
                self._join_frames(over_gaps=True)
        self.cursor = end
        self.delivered += count
        self.in_flight += count
        self.in_flight_bytes += size
        return Messages(
            self.id,
            first,
            accepted_us,
            batch,
            deltas=deltas,
            holes=has_holes,
            redelivered=is_again,
        )

    def _join_frames(self, *, over_gaps: bool) -> None:
        """Join neighbouring frames in pairs: memory does not grow with the number in flight.

        With lag or holes between them, it is no longer known which of the offsets are in flight:
        they are settled together.
        """
        frames = self._frames
        joined: deque[tuple[int, int, int, int, array[int] | None]] = deque()
        while len(frames) > 1:
            first, end, count, size, offsets = frames.popleft()
            next_first, next_end, next_count, next_size, _ = frames[0]
            if end == next_first or over_gaps:
                frames.popleft()
                end = next_end
                count += next_count
                size += next_size
                offsets = None
            joined.append((first, end, count, size, offsets))
        # One is left if their number is odd.
        joined.extend(frames)
        self._frames = joined

    def commit(self, next_offset: int) -> int:
        """Settles every offset below `next_offset` and returns the committed offset (CMT-2).

        A frame's bytes are settled with its last message: offsets are remembered here, the sizes of
        single messages are not. Where many frames are in flight, the bytes of neighbours are
        settled together.

        Raises:
            Refused: `NOT_IN_FLIGHT`, beyond the cursor.
        """
        if next_offset > self.cursor:
            problem = (
                f"offset {next_offset - 1} has not been delivered yet; the next to be delivered is "
                f"{self.cursor}"
            )
            raise Refused(ErrorCode.NOT_IN_FLIGHT, problem, "next")
        self.position.committed = max(self.position.committed, next_offset)
        frames = self._frames
        while frames and frames[0][1] <= next_offset:
            _, _, count, size, _ = frames.popleft()
            self.in_flight -= count
            self.in_flight_bytes -= size
        if frames and frames[0][0] < next_offset:
            first, end, count, size, offsets = frames[0]
            # If joined over a gap, it is not known which of its offsets hold messages.
            left = count
            if count == end - first:
                left = end - next_offset
            elif offsets is not None:
                left = len(offsets) - bisect_left(offsets, next_offset)
            if left < count:
                self.in_flight -= count - left
                frames[0] = (next_offset, end, left, size, offsets)
        if self.has_credit:
            self.make_ready()
        return self.committed

    def settle(self, request: Settle, now_us: int) -> list[int]:
        """See `Subscriber`: it settles with commits."""
        problem = "this subscription shares no name: it settles with Commit"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "subscription")
