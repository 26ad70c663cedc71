"""The book of a shared name: who was handed what, and what became of it (SHR).

Written at the moments at which the broker speaks, and clients ask. What a client has asked for may
have been carried out before its answer comes, or never: so each message is open, settled, or one of
the two. A message that is settled for certain never comes again; one that is open, with a worker
that is there and has time, is nobody else's; and at the end every message is accounted for.

A name of a durable topic outlives the broker. After a power cut, what was settled in the last
seconds before it may be forgotten (SHR-9): then it is one of the two again, whatever was answered.
"""

import math
from dataclasses import dataclass

from zaichik_protocol import EndCode, Outcome

from .topic_ledger import offsets_of
from .trace import Anomaly

FINAL = (Outcome.DONE, Outcome.REJECT)


@dataclass(eq=False)
class Handed:
    """A delivery.

    Attributes:
        offset, number: which message, and which delivery of it.
        share: the subscription that has it.
        until_us: when it times out.
        asked: the outcome that its worker has asked for; None if none yet.
    """

    offset: int
    number: int
    share: object
    until_us: float
    asked: Outcome | None = None


class NameLedger:
    """One name, and all that was said about it.

    Args:
        topic: the topic's ledger.
        most: `max_deliveries`.

    Attributes:
        start: where it began; None before.
        done: what was settled as done, for certain.
        rejected: what was rejected, or has failed too often, for certain.
        perhaps: what may be one of these.
        told: what was told as lag.
        handed: all deliveries, by ticket: no start of the broker gives one again.
    """

    def __init__(self, topic, most):
        self.topic = topic
        self.most = most
        self.start = None
        self.done, self.rejected, self.perhaps, self.told = set(), set(), set(), set()
        self.handed = {}
        self._latest = {}  # deliveries, by offset
        self._next = 0
        self._begun_us = math.inf  # the broker said that it is there
        self._known_us = {}  # when what is settled for certain was, by offset
        # Below it, a broker that has started again does not know what was handed out before.
        self._found_end = 0
        # Handed out before a power cut that came so soon that the name may have begun again.
        self._perhaps_new = set()

    def begins(self, now_us):
        """The broker says that a worker has come."""
        self._begun_us = min(self._begun_us, now_us)

    def survives(self, end, written_us):
        """The broker has started again, and the topic ends there; what had become of messages by
        that time is on the disk.
        """
        for known in (self.done, self.rejected, self.told):
            forgotten = {offset for offset in known if self._known_us[offset] > written_us}
            known -= forgotten
            self.perhaps |= forgotten
        if self._begun_us > written_us:
            self._perhaps_new |= self._latest.keys()
            self._begun_us = math.inf
        else:
            self._begun_us = -math.inf
        self._found_end = end
        self._next = 0
        for handed in self.handed.values():
            handed.share.is_cut = True

    @property
    def is_written(self):
        """Whether the name is on the disk for certain; asked after a start."""
        return self._begun_us == -math.inf

    def finds(self, settled, dead):
        """A start of the broker has found these: nothing takes that back."""
        self._begun_us = -math.inf
        for offset in settled:
            self._know(self.done, offset, -math.inf)
        for offset in dead:
            self._know(self.rejected, offset, -math.inf)

    def _know(self, known, offset, now_us):
        known.add(offset)
        self._known_us[offset] = now_us

    def hand_out(self, share, frame, now_us):
        """The broker says that a worker gets these."""
        for index, offset in enumerate(offsets_of(frame)):
            ticket = frame.ticket + index
            if ticket in self.handed:
                raise Anomaly("SHR-3", f"{self.topic.name}: ticket {ticket} is given twice")
            self._check(offset, frame, now_us)
            until_us = now_us + share.request.timeout_ms * 1000 or math.inf
            self._latest[offset] = Handed(offset, frame.number, share, until_us)
            self._perhaps_new.discard(offset)
            self.handed[ticket] = self._latest[offset]

    def _check(self, offset, frame, now_us):
        name = f"{self.topic.name}: {offset}"
        if offset in self.done or offset in self.rejected or offset in self.told:
            raise Anomaly("SHR-7", f"{name} is settled, and comes again")
        before = self._latest.get(offset)
        is_certain = offset >= self._found_end
        if before is not None:
            is_certain = offset not in self._perhaps_new
        if is_certain and frame.redelivered != (before is not None):
            raise Anomaly("SHR-4c", f"{name}: redelivered is {frame.redelivered}")
        if before is None:
            if offset < self._next:
                raise Anomaly("SHR-2", f"{name} comes for the first time after {self._next - 1}")
            self._next = offset + 1
            return
        is_free = before.share.is_over or before.share.is_cut or before.asked is not None
        if not is_free and now_us < before.until_us:
            raise Anomaly("SHR-2", f"{name} is with a worker, and another one gets it")
        if frame.number > min(before.number + 1, self.most):
            raise Anomaly("SHR-5", f"{name}: delivery {frame.number} comes after {before.number}")

    def lose(self, first, end, now_us):
        """The broker tells a worker that these are gone."""
        for offset in range(first, end):
            if offset in self.told:
                raise Anomaly("SHR-7", f"{self.topic.name}: {offset} is told as lag twice")
            self._know(self.told, offset, now_us)
        self._next = max(self._next, end)

    def asks(self, request, now_us):
        """A worker asks for these to be settled."""
        for ticket in request.tickets:
            handed = self.handed.get(ticket)
            if handed is None:
                continue
            # That may be less time than it had.
            if request.outcome == Outcome.EXTEND:
                handed.until_us = min(handed.until_us, now_us + request.delay_ms * 1000)
                continue
            handed.asked = Outcome(request.outcome)
            if handed.asked in FINAL or self._is_last(handed, request.outcome):
                self.perhaps.add(handed.offset)

    def settled(self, request, reply, now_us):
        """The broker says that they are, but for those that are late."""
        for ticket in set(request.tickets) - set(reply.late):
            handed = self.handed.get(ticket)
            if handed is None:
                raise Anomaly("SHR-3", f"{self.topic.name}: {ticket} was nobody's, and is settled")
            if request.outcome == Outcome.DONE:
                self._know(self.done, handed.offset, now_us)
            elif request.outcome == Outcome.REJECT or self._is_last(handed, request.outcome):
                self._know(self.rejected, handed.offset, now_us)

    def _is_last(self, handed, outcome):
        return outcome == Outcome.RETRY and handed.number >= self.most

    def check_end(self, row, dead):
        """Whether all is accounted for: nothing is open any more.

        Args:
            row: what `describe` reports.
            dead: the offsets of the dead.
        """
        name, listed = self.topic.name, set(dead)
        every = set(range(row["start"], row["cursor"]))
        known = self.done | self.rejected | self.perhaps | self.told | listed
        lost = {offset for offset in every - known if not self.topic.settings.table}
        if lost:
            raise Anomaly("SHR-7", f"{name}: nobody knows what became of {sorted(lost)[:5]}")
        if missing := self.rejected - listed:
            raise Anomaly("SHR-5", f"{name}: {sorted(missing)[:5]} should be dead")
        for offset in listed - self.rejected - self.perhaps:
            if offset not in self._latest:
                raise Anomaly("SHR-5", f"{name}: {offset} is dead, and was never handed out")
        if both := listed & self.done:
            raise Anomaly("SHR-7", f"{name}: {sorted(both)[:5]} are done, and dead")
        if row["shared"]["done"] < len(self.done):
            raise Anomaly("SHR-7", f"{name}: {len(self.done)} are done, and {row['shared']}")


class ShareLedger:
    """One worker's subscription, as `SubscriptionLedger` is one reader's.

    Args:
        name: the book of its name.
        request: the Subscribe.

    Attributes:
        is_cut: its connection is; the broker may not know yet.
    """

    session = None

    def __init__(self, name, request):
        self.name = name
        self.topic = name.topic
        self.request = request
        self.delivered = self.skipped = 0
        self.is_over = ""
        self.is_cut = False

    def messages(self, frame, now_us):
        """See `SubscriptionLedger`."""
        self._must_go_on(frame)
        self.name.hand_out(self, frame, now_us)
        self.delivered += frame.batch.count
        self.topic.delivered(frame, now_us)

    def lagged(self, frame, next_offset, now_us):
        """See `SubscriptionLedger`."""
        self._must_go_on(frame)
        self.skipped += frame.to_offset - frame.from_offset
        self.name.lose(frame.from_offset, frame.to_offset, now_us)
        last = frame.to_offset - 1
        if not self.topic.may_be_lost(last, next_offset, now_us):
            raise Anomaly("P3", f"{self.topic.name}: {last} is told as lag, and was not gone")

    def _must_go_on(self, frame):
        if self.is_over:
            raise Anomaly("P2", f"after {self.is_over} comes {type(frame).__name__}")

    def ended(self, frame):
        """See `SubscriptionLedger`."""
        if frame.code != EndCode.TAKEN_OVER:
            raise Anomaly("P2", f"{self.topic.name}: a worker ends: {frame.text}")
        self.is_over = "being taken over"

    def asks(self, request, now_us):
        """It asks for something to be settled."""
        self.name.asks(request, now_us)

    def settled(self, request, reply, now_us):
        """It was."""
        self.name.settled(request, reply, now_us)
