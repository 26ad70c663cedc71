"""What a broker does, written as plainly as possible: lists of messages, each with its fate.

Nothing here is fast.

Written from the text of the protocol (section 7), not from the broker. `test_model` lets both live
through the same requests and compares everything that a client can observe. The model never drops a
message; it only writes down what became of it.
"""

from dataclasses import dataclass, field, replace
from itertools import count

from model_reader import ModelSession, ModelSubscription
from model_topic import RESIDENT, ModelError, ModelTopic

from zaichik_protocol import Deleted, ErrorCode, Subscribed, TopicCreated, Unsubscribed

SETTINGS = [
    "retention_ttl_ms",
    "compaction_window_ms",
    "capacity",
    "max_bytes",
    "max_keys",
    "journal_bytes",
    "overflow",
]


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
        self.last_deleted = 0  # the greatest epoch of any deleted topic

    def _add(self, name, settings, now, *, explicit):
        if not 1 <= len(name.encode()) <= 200 or name.startswith("$"):
            raise ModelError(ErrorCode.INVALID_FIELD, "topic")
        if len(self.topics) == self.limits.max_topics:
            raise ModelError(ErrorCode.TOO_MANY_TOPICS, "topic")
        epoch = max(now, self.last_deleted + 1)
        self.topics[name] = ModelTopic(name, epoch, {**self.limits.defaults, **settings}, explicit)
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

    def delete(self, request_id, name, now, *, if_empty):
        topic = self.topics.get(name)
        if topic is None:
            raise ModelError(ErrorCode.NO_SUCH_TOPIC, "topic")
        topic.expire(now)
        if if_empty and (topic.fates(RESIDENT) or topic.live or topic.sessions):
            raise ModelError(ErrorCode.NOT_EMPTY, "topic")
        del self.topics[name]
        self.last_deleted = max(self.last_deleted, topic.epoch)
        for subscription in topic.live:
            subscription.is_deleted, subscription.session = True, None
        return Deleted(request_id)

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
            raise ModelError(
                ErrorCode.MESSAGE_TOO_LARGE if one else ErrorCode.BATCH_TOO_LARGE, "batch"
            )
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
            if (
                sum(len(known.sessions) for known in self.topics.values())
                == self.limits.max_sessions
            ):
                raise ModelError(ErrorCode.TOO_MANY_SUBSCRIPTIONS, "name")
            session = topic.sessions[request.name] = ModelSession(start, start)
        subscription = ModelSubscription(
            request.id, topic, start, request.until, request.credit, request.credit_bytes, session
        )
        connection.subscriptions[request.id] = subscription
        connection.last_subscribe = request.id
        topic.subscriptions.append(subscription)
        named = bool(session)
        return Subscribed(
            request.id,
            topic.epoch,
            start,
            topic.next_offset,
            start,
            named=named,
            resumed=is_resumed,
        )

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
        self.producers = {
            number: known for number, known in self.producers.items() if now < known.used + ttl
        }
        for topic in self.topics.values():
            topic.forget_sessions(now, self.limits.session_ttl * 1_000_000)
            topic.sweep(now)
