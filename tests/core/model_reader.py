"""A reader of the model: a subscription, and the position of a named one. See `model`."""

from dataclasses import dataclass, field

from model_topic import ModelError, ModelTopic

from zaichik_protocol import (
    Batch,
    Committed,
    EndCode,
    ErrorCode,
    Lagged,
    Messages,
    SubscriptionEnded,
)

DELIVERED, SKIPPED = "delivered", "skipped"


@dataclass(eq=False)
class ModelSession:
    """A named subscription's position."""

    committed: int
    delivered: int  # everything below was delivered once
    reader: object = None
    left: int | None = None  # when a sweep first found it without a reader


@dataclass(eq=False)
class ModelSubscription:
    id: int
    topic: ModelTopic
    start: int
    until: int
    credit: int
    credit_bytes: int
    session: ModelSession | None = None
    cursor: int = 0
    committed: int = 0
    ended: bool = False
    is_taken_over: bool = False
    is_deleted: bool = False  # its topic was
    fates: dict = field(default_factory=dict)  # offset → DELIVERED or SKIPPED
    frames: list = field(default_factory=list)  # (first, end, bytes) of everything delivered
    lags: list = field(default_factory=list)  # (from, to) of every report
    may_be_stuck: bool = (
        False  # it was seen waiting for room for one message, and has not committed since
    )

    def __post_init__(self):
        self.cursor = self.committed = self.start
        if self.session:
            if other := self.session.reader:
                other.is_taken_over, other.session = True, None
            self.session.reader, self.session.left = self, None

    @property
    def is_cut_off(self):
        return self.is_taken_over or self.is_deleted

    @property
    def in_flight(self):
        return sum(
            fate == DELIVERED and offset >= self.committed for offset, fate in self.fates.items()
        )

    @property
    def in_flight_bytes(self):
        return sum(size for _, end, size in self.frames if end > self.committed)

    @property
    def has_credit(self):
        return self.in_flight == 0 or (
            self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes
        )

    @property
    def comes_again(self):
        """Whether what is next was delivered before."""
        return self.session is not None and self.cursor < self.session.delivered

    def next_messages(self):
        """What fits of the batch that comes next."""
        taken, size = [], 0
        end = min(self.until, self.session.delivered) if self.comes_again else self.until
        for message in self.topic.messages[self.cursor : end]:
            if taken and message.batch != taken[0].batch:
                break
            fits = (
                self.in_flight + len(taken) < self.credit
                and self.in_flight_bytes + size + message.size <= self.credit_bytes
            )
            if not fits and (taken or self.in_flight):
                break
            taken.append(message)
            size += message.size
        return taken

    def owed(self):
        """The frame that is due, without giving it; None if there is none."""
        if self.ended:
            return None
        if self.is_cut_off:
            code = EndCode.TAKEN_OVER if self.is_taken_over else EndCode.DELETED
            return SubscriptionEnded(self.id, code, self.cursor, code.meaning)
        if self.cursor >= self.until:
            return SubscriptionEnded(
                self.id, EndCode.UNTIL, self.cursor, f"it reached offset {self.until}"
            )
        if not self.has_credit:
            return None
        if self.cursor < self.topic.head:
            return Lagged(self.id, self.cursor, min(self.topic.head, self.until))
        messages = self.next_messages()
        if not messages:
            return None
        batch = Batch.of([(message.key, message.payload) for message in messages])
        return Messages(
            self.id, self.cursor, messages[0].accepted_us, batch, redelivered=self.comes_again
        )

    @property
    def is_stuck(self):
        """It has credit, but not enough for the message that comes next."""
        return (
            not self.ended
            and self.has_credit
            and self.cursor < self.topic.next_offset
            and self.owed() is None
        )

    def say(self, now):
        """The frame that is due, given."""
        self.topic.expire(now)
        frame = self.owed()
        match frame:
            case SubscriptionEnded():
                self.ended = True
            case Lagged():
                self.lags.append((frame.from_offset, frame.to_offset))
                self._pass(frame.to_offset, SKIPPED)
            case Messages():
                self.frames.append((self.cursor, self.cursor + frame.batch.count, frame.batch.size))
                self._pass(self.cursor + frame.batch.count, DELIVERED)
                if self.session:
                    self.session.delivered = max(self.session.delivered, self.cursor)
        return frame

    def _pass(self, to, fate):
        for offset in range(self.cursor, to):
            assert offset not in self.fates
            self.fates[offset] = fate
        self.cursor = to

    def commit(self, request_id, next_offset):
        if next_offset > self.cursor:
            raise ModelError(ErrorCode.NOT_IN_FLIGHT, "next")
        self.committed = max(self.committed, next_offset)
        if self.session:
            self.session.committed = self.committed
        self.may_be_stuck = False
        return Committed(request_id, self.committed)
