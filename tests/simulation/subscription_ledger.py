"""One subscription's book: what the broker said to it, frame by frame, against what it asked for.

Each frame must begin where the last one ended: what is neither delivered nor told as lag would be
lost in silence (P2). And what is told as lag must have been gone, by the topic's ledger.
"""

from zaichik_protocol import FOREVER, EndCode, Overflow, Start

from .topic_ledger import offsets_of
from .trace import Anomaly


class SubscriptionLedger:
    """One subscription, from its `Subscribed` on.

    Args:
        topic: the topic's ledger.
        request: the Subscribe.
        reply: the Subscribed.
        session: the book of its name, if it has one.
        claim: which of those it is that asked for the name.

    Attributes:
        cursor: the next offset it must be told of.
        committed: everything below is settled.
        is_over: nothing may come any more, and why.
    """

    def __init__(self, topic, request, reply, session=None, claim=0):
        self.topic = topic
        self.session = session
        self.claim = claim
        self.is_resumed = reply.resumed
        self.request = request
        self.start = self.cursor = self.committed = reply.start
        self.live = reply.live
        self.delivered = self.skipped = 0
        self.is_over = ""
        self.passed = 0
        self._frames = []  # in flight: offsets, and bytes

    def check_start(self, next_offset, acked_end, now_us):
        """Whether it begins where it should (RET-4).

        Args:
            next_offset: the topic's end now, perhaps later than it was carried out.
            acked_end: what was known to be stored when it was asked for.
            now_us: the time now.
        """
        topic, request, start = self.topic, self.request, self.start
        if not acked_end <= self.live <= next_offset:
            known = f"{acked_end} was acknowledged before, and {next_offset} is next"
            raise Anomaly("P3", f"{topic.name}: a reader is told that {self.live} is next; {known}")
        wanted = start
        if self.is_resumed:
            return  # where its name stands
        match request.start:
            case Start.LATEST:
                wanted = self.live
            case Start.OFFSET:
                wanted = request.value
            case Start.EARLIEST if not topic.settings.retention_ttl_ms:
                wanted = self.live
            case Start.EARLIEST if self._was_there(next_offset, now_us):
                wanted = start - 1
            case Start.TIME:
                accepted_us = topic.accepted_us(start - 1)
                is_too_late = accepted_us is not None and accepted_us >= request.value
                if is_too_late and self._was_there(next_offset, now_us):
                    wanted = start - 1
        if wanted != start:
            raise Anomaly(
                "P3", f"{topic.name}: a reader of {request.start} {request.value} begins at {start}"
            )

    def _was_there(self, next_offset, now_us):
        """Whether the message before its start could have been read."""
        topic, before = self.topic, self.start - 1
        has_retention = topic.settings.retention_ttl_ms > 0
        return has_retention and before >= 0 and not topic.may_be_gone(before, next_offset, now_us)

    @property
    def in_flight(self):
        return sum(len(offsets) for offsets, _ in self._frames)

    @property
    def in_flight_bytes(self):
        return sum(size for _, size in self._frames)

    def messages(self, frame, now_us):
        offsets = offsets_of(frame)
        self._pass_to(frame.base)
        self._advance(frame.base, offsets[-1] + 1, frame)
        self._pass(offset for offset in range(frame.base, offsets[-1]) if offset not in offsets)
        request, count, size = self.request, self.in_flight, self.in_flight_bytes
        if self._frames and (count >= request.credit or size >= request.credit_bytes):
            raise Anomaly(
                "CMT-1",
                f"{self.topic.name}: {count} messages, {size} bytes are in flight, and more come",
            )
        count, size = count + frame.batch.count, size + frame.batch.size
        if count > request.credit or (size > request.credit_bytes and count > 1):
            raise Anomaly(
                "CMT-1", f"{self.topic.name}: now {count} messages, {size} bytes are in flight"
            )
        self._frames.append((offsets, frame.batch.size))
        self.delivered += frame.batch.count
        if self.session is not None:
            self.session.messages(self, frame, now_us)
        elif frame.redelivered:
            raise Anomaly(
                "P2", f"{self.topic.name}: {frame.base} is marked as redelivered to who has no name"
            )
        self.topic.delivered(frame, now_us)

    def lagged(self, frame, next_offset, now_us):
        self._pass_to(frame.from_offset)
        self._advance(frame.from_offset, frame.to_offset, frame)
        self.skipped += frame.to_offset - frame.from_offset
        last = frame.to_offset - 1
        was_kept_for_it = last >= (self.live if self.session is None else self.session.live)
        if was_kept_for_it and self.topic.settings.overflow == Overflow.REJECT:
            raise Anomaly(
                "P3",
                f"{self.topic.name} may lose nothing, and {frame.from_offset} to {last} are lag",
            )
        # Without retention, what a reader asks for by its number may have been freed before it
        # came.
        if not was_kept_for_it and not self.topic.settings.retention_ttl_ms:
            return
        if not self.topic.may_be_lost(last, next_offset, now_us):
            raise Anomaly(
                "P3",
                f"{self.topic.name}: {frame.from_offset} to {last} are told as lag, and were not "
                "gone",
            )

    def _pass_to(self, offset):
        """In a table, what comes next may be a hole (TAB-2)."""
        if self.topic.settings.table and not self.is_over:
            self._pass(range(self.cursor, offset))
            self.cursor = max(self.cursor, offset)

    def _pass(self, holes):
        for offset in holes:
            self.passed += 1
            self.topic.passed(offset)

    def _advance(self, first, end, frame):
        if self.is_over:
            raise Anomaly(
                "P2", f"{self.topic.name}: after {self.is_over} comes {type(frame).__name__}"
            )
        if first != self.cursor or end <= first:
            raise Anomaly(
                "P2",
                f"{self.topic.name}: after {self.cursor - 1} comes {first}, up to before {end}",
            )
        if end > self.request.until:
            raise Anomaly(
                "P2", f"{self.topic.name}: {end - 1} is told to a reader until {self.request.until}"
            )
        self.cursor = end

    def ended(self, frame):
        """It reached its `until`, or another one took over its name."""
        if (
            frame.code == EndCode.TAKEN_OVER
            and self.session is not None
            and self.claim < self.session.claims
        ):
            self.is_over = "being taken over"
            return
        self._pass_to(min(frame.next, self.request.until))
        if self.is_over or frame.next != self.cursor or self.cursor < self.request.until:
            raise Anomaly(
                "P2", f"{self.topic.name}: a reader at {self.cursor} ends at {frame.next}"
            )
        self.is_over = "its end"

    def commits(self, request):
        """A commit is on its way. If nobody will answer it, it may be settled from now on."""
        if self.session is not None:
            self.session.asks(request.next)
        if not request.id:
            self._settle(request.next)

    def settled(self, next_offset, now_us):
        """A commit was answered: everything below is settled."""
        if self.session is not None:
            self.session.settled(self, next_offset, now_us)
        self._settle(next_offset)

    def _settle(self, next_offset):
        # Behind the last message, its reader may have passed holes.
        if next_offset > self.cursor and not self.topic.settings.table:
            raise Anomaly(
                "CMT-1",
                f"{self.topic.name}: {next_offset} is committed, and {self.cursor} not delivered",
            )
        self.committed = max(self.committed, next_offset)
        self._frames = [
            ([offset for offset in offsets if offset >= self.committed], size)
            for offsets, size in self._frames
            if offsets[-1] >= self.committed
        ]

    @property
    def is_endless(self):
        return self.request.until == FOREVER
