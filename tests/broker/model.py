"""What a broker does, told as plainly as possible: lists of messages, each with its fate. Nothing here is fast.

Written from the text of the protocol (section 7), not from the broker. `test_model` lets both live through
the same requests and compares everything that a client can observe. The model never drops a message; it only
writes down what became of it.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count

from zaichik_protocol import (
    FOREVER,
    Batch,
    Committed,
    EndCode,
    ErrorCode,
    Lagged,
    Messages,
    Published,
    Start,
    Subscribed,
    SubscriptionEnded,
    TopicCreated,
    Unsubscribed,
)

RESIDENT, EXPIRED, EVICTED = "resident", "expired", "evicted"
DELIVERED, SKIPPED = "delivered", "skipped"
SETTINGS = [
    "retention_ttl_ms", "compaction_window_ms", "capacity", "max_bytes", "max_keys", "journal_bytes", "overflow",
]  # fmt: skip


class ModelError(Exception):
    """A request the model refuses: only what a program would look at."""

    def __init__(self, code, field=""):
        super().__init__(code, field)
        self.code = code
        self.field = field


@dataclass
class Limits:
    max_message: int
    max_batch: int
    max_key: int
    max_credit: int
    max_topics: int
    max_subscriptions: int
    max_producers: int
    producer_ttl: float
    max_sessions: int
    session_ttl: float
    defaults: dict


@dataclass
class Message:
    key: bytes
    payload: bytes
    accepted_us: int
    batch: int  # number of the stored batch it came in
    fate: str = RESIDENT

    @property
    def size(self):
        return len(self.key) + len(self.payload)


def wire_bytes(pairs):
    """Bytes of the batch of these (key, payload) pairs: a count, two rows of offsets, the strings."""
    return 4 + 2 * 4 * (len(pairs) + 1) + sum(len(key) + len(payload) for key, payload in pairs)


@dataclass(eq=False)
class ModelTopic:
    name: str
    epoch: int
    settings: dict
    explicit: bool
    messages: list = field(default_factory=list)  # all that were ever stored: the offset is the index
    batches: list = field(default_factory=list)  # wire bytes of each stored batch
    windows: list = field(default_factory=list)  # (key, when it opened), in order
    compacted: int = 0
    forgotten: int = 0
    subscriptions: list = field(default_factory=list)
    sessions: dict = field(default_factory=dict)  # the named ones, by their names

    def duration_us(self, name):
        value = self.settings[name]
        return float("inf") if value == FOREVER else value * 1000

    # -- what is there -------------------------------------------------------------------------------------

    @property
    def next_offset(self):
        return len(self.messages)

    @property
    def head(self):
        return next((o for o, m in enumerate(self.messages) if m.fate == RESIDENT), self.next_offset)

    @property
    def bytes(self):
        return sum(self.batches[number] for number in {m.batch for m in self.messages if m.fate == RESIDENT})

    def fates(self, fate):
        return sum(message.fate == fate for message in self.messages)

    @property
    def live(self):
        return [s for s in self.subscriptions if not s.ended and not s.is_taken_over]

    @property
    def needed(self):
        """The oldest offset that anybody may still have to be sent."""
        anonymous = [subscription.cursor for subscription in self.live if not subscription.session]
        named = [session.committed for session in self.sessions.values()]
        return min(anonymous + named, default=self.next_offset)

    # -- what happens --------------------------------------------------------------------------------------

    def expire(self, now):
        ttl = self.duration_us("retention_ttl_ms")
        if ttl == 0:
            return
        for message in self.messages:
            if message.fate == RESIDENT and not message.accepted_us <= now < message.accepted_us + ttl:
                message.fate = EXPIRED

    def close_windows(self, now):
        length = self.duration_us("compaction_window_ms")
        self.windows = [(key, opened) for key, opened in self.windows if now < opened + length]

    def forget(self, forgotten):
        self.sessions = {name: session for name, session in self.sessions.items() if session is not forgotten}

    def forget_sessions(self, now, ttl):
        for session in list(self.sessions.values()):
            if session.left is None and not session.reader:
                session.left = now
            elif not session.reader and now >= session.left + ttl:
                self.forget(session)

    def sweep(self, now):
        self.expire(now)
        self.close_windows(now)
        if self.settings["retention_ttl_ms"] == 0:
            for offset, message in enumerate(self.messages):
                if message.fate == RESIDENT and offset < self.needed:
                    message.fate = EXPIRED

    def publish(self, request_id, pairs, now):
        if len(pairs) > self.settings["capacity"] or wire_bytes(pairs) > self.settings["max_bytes"]:
            raise ModelError(ErrorCode.BATCH_TOO_LARGE, "batch")
        self.expire(now)
        if self.settings["overflow"] and any(offset >= self.needed for offset in self.lost_for(pairs)):
            raise ModelError(ErrorCode.TOPIC_FULL, "topic")
        first = self.next_offset
        kept, dropped = [], []
        self.close_windows(now)
        for key, payload in pairs:
            if key and self.settings["compaction_window_ms"] and key in [known for known, _ in self.windows]:
                dropped.append(True)
                continue
            dropped.append(False)
            kept.append((key, payload))
            if key and self.settings["compaction_window_ms"]:
                self.windows.append((key, now))
        while len(self.windows) > self.settings["max_keys"]:
            self.windows.pop(0)
            self.forgotten += 1
        self.compacted += sum(dropped)
        if kept:
            self.messages += [Message(key, payload, now, len(self.batches)) for key, payload in kept]
            self.batches.append(wire_bytes(kept))
            self.evict()
        bits = b""
        if any(dropped):
            number = sum(1 << position for position, gone in enumerate(dropped) if gone)
            bits = number.to_bytes((len(pairs) + 7) // 8, "little")
        return Published(request_id, first, len(kept), sum(dropped), len(self.live), bits)

    def lost_for(self, pairs):
        """The offsets that would be evicted if all of these were stored."""
        messages, batches = deepcopy((self.messages, self.batches))
        copy = ModelTopic(self.name, self.epoch, self.settings, self.explicit, messages, batches)
        copy.messages += [Message(key, payload, 0, len(copy.batches)) for key, payload in pairs]
        copy.batches.append(wire_bytes(pairs))
        copy.evict()
        return [offset for offset, message in enumerate(self.messages) if message.fate != copy.messages[offset].fate]

    def evict(self):
        while self.fates(RESIDENT) > self.settings["capacity"]:
            self.messages[self.head].fate = EVICTED
        while self.bytes > self.settings["max_bytes"]:
            oldest = self.messages[self.head].batch
            for message in self.messages:
                if message.batch == oldest and message.fate == RESIDENT:
                    message.fate = EVICTED

    def position(self, start, value, now):
        self.expire(now)
        if start == Start.EARLIEST:
            return self.head if self.settings["retention_ttl_ms"] else self.next_offset
        if start == Start.LATEST:
            return self.next_offset
        if start == Start.OFFSET:
            if value > self.next_offset:
                raise ModelError(ErrorCode.OFFSET_AHEAD, "value")
            return value
        return next(
            (o for o, m in enumerate(self.messages) if m.fate == RESIDENT and m.accepted_us >= value), self.next_offset
        )


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
    fates: dict = field(default_factory=dict)  # offset → DELIVERED or SKIPPED
    frames: list = field(default_factory=list)  # (first, end, bytes) of everything delivered
    may_be_stuck: bool = False  # it was seen waiting for room for one message, and has not committed since

    def __post_init__(self):
        self.cursor = self.committed = self.start
        if self.session:
            if other := self.session.reader:
                other.is_taken_over, other.session = True, None
            self.session.reader, self.session.left = self, None

    @property
    def in_flight(self):
        return sum(fate == DELIVERED and offset >= self.committed for offset, fate in self.fates.items())

    @property
    def in_flight_bytes(self):
        return sum(size for _, end, size in self.frames if end > self.committed)

    @property
    def has_credit(self):
        return self.in_flight == 0 or (self.in_flight < self.credit and self.in_flight_bytes < self.credit_bytes)

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
        if self.is_taken_over:
            return SubscriptionEnded(self.id, EndCode.TAKEN_OVER, self.cursor, EndCode.TAKEN_OVER.meaning)
        if self.cursor >= self.until:
            return SubscriptionEnded(self.id, EndCode.UNTIL, self.cursor, f"it reached offset {self.until}")
        if not self.has_credit:
            return None
        if self.cursor < self.topic.head:
            return Lagged(self.id, self.cursor, min(self.topic.head, self.until))
        messages = self.next_messages()
        if not messages:
            return None
        batch = Batch.of([(message.key, message.payload) for message in messages])
        return Messages(self.id, self.cursor, messages[0].accepted_us, batch, redelivered=self.comes_again)

    @property
    def is_stuck(self):
        """It has credit, but not enough for the message that comes next."""
        return not self.ended and self.has_credit and self.cursor < self.topic.next_offset and self.owed() is None

    def say(self, now):
        """The frame that is due, given."""
        self.topic.expire(now)
        frame = self.owed()
        match frame:
            case SubscriptionEnded():
                self.ended = True
            case Lagged():
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


@dataclass(eq=False)
class ModelConnection:
    subscriptions: dict = field(default_factory=dict)
    last_subscribe: int = 0
    ids: count = field(default_factory=lambda: count(2))

    def subscription(self, number):
        if number not in self.subscriptions:
            raise ModelError(ErrorCode.NO_SUCH_SUBSCRIPTION, "subscription")
        return self.subscriptions[number]


class ModelProducer:
    """All it was ever answered for good, by number."""

    def __init__(self):
        self.answers = []
        self.used = 0


class ModelBroker:
    """Every request as a method; its reply, or a `ModelError`."""

    def __init__(self, limits):
        self.limits = limits
        self.topics = {}
        self.producers = {}

    def _add(self, name, settings, now, *, explicit):
        if not 1 <= len(name.encode()) <= 200 or name.startswith("$"):
            raise ModelError(ErrorCode.INVALID_FIELD, "topic")
        if len(self.topics) == self.limits.max_topics:
            raise ModelError(ErrorCode.TOO_MANY_TOPICS, "topic")
        self.topics[name] = ModelTopic(name, max(now, 1), {**self.limits.defaults, **settings}, explicit)
        return self.topics[name]

    def get_or_create(self, name, now):
        return self.topics.get(name) or self._add(name, {}, now, explicit=False)

    def create(self, request_id, name, settings, now):
        topic = self.topics.get(name)
        created = topic is None
        if topic is None:
            topic = self._add(name, settings, now, explicit=True)
        elif not topic.explicit and not topic.messages:
            topic.settings.update(settings)
            topic.explicit = True
        elif any(topic.settings[key] != value for key, value in settings.items()):
            raise ModelError(ErrorCode.TOPIC_EXISTS, "settings")
        pairs = tuple((number, topic.settings[key]) for number, key in enumerate(SETTINGS, start=1))
        return TopicCreated(request_id, int(created), topic.epoch, pairs)

    def publish_numbered(self, request, pairs, now):
        known = self.producers.get(request.producer)
        if known is None:
            if request.sequence:
                raise ModelError(ErrorCode.PRODUCER_UNKNOWN, "producer")
            if len(self.producers) == self.limits.max_producers:
                raise ModelError(ErrorCode.NO_MEMORY, "producer")
            known = self.producers[request.producer] = ModelProducer()
        known.used = now
        if request.sequence > len(known.answers):
            raise ModelError(ErrorCode.SEQUENCE_GAP, "sequence")
        if request.sequence == len(known.answers):
            try:
                known.answers.append(self.publish(request.id, request.topic, pairs, now))
            except ModelError as error:
                if not error.code.retryable:
                    known.answers.append(error)
                raise
            return known.answers[-1]
        answer = known.answers[request.sequence]
        if isinstance(answer, ModelError):
            raise answer
        return replace(answer, id=request.id, duplicate=True)

    def publish(self, request_id, name, pairs, now):
        size = sum(len(key) + len(payload) for key, payload in pairs)
        if size > self.limits.max_message:
            one = len(pairs) == 1
            raise ModelError(ErrorCode.MESSAGE_TOO_LARGE if one else ErrorCode.BATCH_TOO_LARGE, "batch")
        if len(pairs) > self.limits.max_batch:
            raise ModelError(ErrorCode.BATCH_TOO_LARGE, "batch")
        if any(len(key) > self.limits.max_key for key, _ in pairs):
            raise ModelError(ErrorCode.INVALID_FIELD, "batch")
        return self.get_or_create(name, now).publish(request_id, pairs, now)

    def subscribe(self, connection, request, now):
        if request.id <= connection.last_subscribe:
            raise ModelError(ErrorCode.INVALID_FIELD, "id")
        if request.name and (len(request.name.encode()) > 200 or not request.name.isprintable()):
            raise ModelError(ErrorCode.INVALID_FIELD, "name")
        if not 1 <= request.credit <= self.limits.max_credit:
            raise ModelError(ErrorCode.INVALID_FIELD, "credit")
        if not request.credit_bytes:
            raise ModelError(ErrorCode.INVALID_FIELD, "credit_bytes")
        if len(connection.subscriptions) == self.limits.max_subscriptions:
            raise ModelError(ErrorCode.TOO_MANY_SUBSCRIPTIONS)
        if request.epoch and request.topic not in self.topics:
            raise ModelError(ErrorCode.EPOCH_CHANGED, "epoch")
        topic = self.get_or_create(request.topic, now)
        if request.epoch not in (0, topic.epoch):
            raise ModelError(ErrorCode.EPOCH_CHANGED, "epoch")
        session = topic.sessions.get(request.name)
        is_resumed = session is not None
        start = session.committed if session else topic.position(request.start, request.value, now)
        if request.name and not session:
            if sum(len(known.sessions) for known in self.topics.values()) == self.limits.max_sessions:
                raise ModelError(ErrorCode.TOO_MANY_SUBSCRIPTIONS, "name")
            session = topic.sessions[request.name] = ModelSession(start, start)
        subscription = ModelSubscription(
            request.id, topic, start, request.until, request.credit, request.credit_bytes, session
        )
        connection.subscriptions[request.id] = subscription
        connection.last_subscribe = request.id
        topic.subscriptions.append(subscription)
        named = bool(session)
        return Subscribed(request.id, topic.epoch, start, topic.next_offset, start, named=named, resumed=is_resumed)

    def unsubscribe(self, connection, request_id, number, *, forget=False):
        subscription = connection.subscription(number)
        del connection.subscriptions[number]
        subscription.topic.subscriptions.remove(subscription)
        if session := subscription.session:
            session.reader = None
            if forget:
                subscription.topic.forget(session)
        return Unsubscribed(request_id)

    def commit(self, connection, request_id, number, next_offset):
        return connection.subscription(number).commit(request_id, next_offset)

    def close(self, connection):
        for number in list(connection.subscriptions):
            self.unsubscribe(connection, 0, number)

    def sweep(self, now):
        ttl = self.limits.producer_ttl * 1_000_000
        self.producers = {number: known for number, known in self.producers.items() if now < known.used + ttl}
        for topic in self.topics.values():
            topic.forget_sessions(now, self.limits.session_ttl * 1_000_000)
            topic.sweep(now)
