"""A Kafka of one topic in memory, with transactions, whose every call can be made to fail.

It has the few calls of confluent-kafka that a bridge makes. A call is told to `before` by its name,
which may raise: as a Kafka that is away, as one that refuses, or as a `kill -9` at that call.
"""

from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import IsolationLevel, KafkaError, KafkaException

TOPIC = "orders"
CLUSTER = "cluster-1"
SETTINGS = {
    "cleanup.policy": "delete",
    "max.message.bytes": "2000000",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "unclean.leader.election.enable": "false",
}


class Killed(BaseException):
    """The bridge's process has ended at this call."""


def refusal(code, **flags):
    """The exception for an error of Kafka's."""
    return KafkaException(KafkaError(code, None, **flags))


class Transaction:
    """Of one producer: open, committed or aborted."""

    def __init__(self):
        self.state = "open"


class Record:
    """A record, or what has ended a transaction."""

    def __init__(self, offset, transaction, value=None, key=None, timestamp=0, headers=None):
        self.transaction = transaction
        self._offset, self._value, self._key = offset, value, key
        self._timestamp, self._headers = timestamp, headers

    def error(self):
        return None

    def offset(self):
        return self._offset

    def key(self):
        return self._key

    def value(self):
        return self._value

    def timestamp(self):
        return 1, self._timestamp

    def headers(self):
        return self._headers


class End:
    """What a consumer is given at the end."""

    def error(self):
        return KafkaError(KafkaError._PARTITION_EOF)


class FakeKafka:
    """In place of `Servers`.

    Attributes:
        log: all records, and the ends of transactions; None: there is no such topic.
        settings: of the topic.
        before: called with the name of each call.
        on_commit: called after each commit.
        calls: the names of all calls.
    """

    addresses = "fake:9092"

    def __init__(self):
        self.log = []
        self.settings = dict(SETTINGS)
        self.partitions = 1
        self.replicas = 3
        self.topic_id = 1
        self.before = lambda _call: None
        self.on_commit = lambda: None
        self.calls = []
        self.created = None
        # By transactional id: the producer that may write, and what it has open.
        self.owners = {}

    def called(self, name):
        self.calls.append(name)
        self.before(name)

    def append(self, transaction, *fields):
        self.log.append(Record(len(self.log), transaction, *fields))

    def stable_end(self):
        """The offset of the first record of an open transaction, or the end."""
        for record in self.log:
            if record.transaction.state == "open":
                return record.offset()
        return len(self.log)

    def committed(self):
        """The records that a reader of committed ones is given."""
        return [
            record
            for record in self.log[: self.stable_end()]
            if record.transaction.state == "committed" and record.value() is not None
        ]

    def end(self, transaction, state):
        transaction.state = state
        if self.log is not None:
            self.append(transaction)

    # -- as `Servers` ------------------------------------------------------------------------------

    def producer(self, settings):
        return FakeProducer(self, settings)

    def consumer(self):
        return FakeConsumer(self)

    def admin(self):
        return FakeAdmin(self)


class FakeProducer:
    def __init__(self, kafka, settings):
        self._kafka = kafka
        self.settings = settings
        self._name = settings["transactional.id"]
        self._transaction = None

    def _check_owner(self):
        if self._kafka.owners.get(self._name) is not self:
            raise refusal(KafkaError._FENCED, fatal=True)

    def init_transactions(self, _timeout):
        self._kafka.called("init")
        before = self._kafka.owners.get(self._name)
        if before is not None and before._transaction is not None:
            self._kafka.end(before._transaction, "aborted")
            before._transaction = None
        self._kafka.owners[self._name] = self

    def begin_transaction(self):
        self._kafka.called("begin")
        self._transaction = Transaction()

    def produce(self, _topic, value, key, _partition, _callback, _delivered, timestamp, headers):
        self._kafka.called("produce")
        self._check_owner()
        # As the library does, which copies them.
        self._kafka.append(self._transaction, bytes(value), key, timestamp, list(headers))

    def poll(self, _timeout):
        self._kafka.called("poll")

    def flush(self, _timeout):
        self._kafka.called("flush")
        return 0

    def commit_transaction(self, _timeout):
        self._kafka.called("commit")
        self._check_owner()
        self._kafka.end(self._transaction, "committed")
        self._transaction = None
        self._kafka.called("committed")
        self._kafka.on_commit()

    def abort_transaction(self, _timeout):
        self._kafka.called("abort")
        self._check_owner()
        if self._transaction is not None:
            self._kafka.end(self._transaction, "aborted")
            self._transaction = None


class FakeConsumer:
    def __init__(self, kafka):
        self._kafka = kafka
        self._at = 0

    def get_watermark_offsets(self, _partition, timeout):
        self._kafka.called("watermarks")
        return 0, self._kafka.stable_end()

    def assign(self, partitions):
        self._at = partitions[0].offset

    def poll(self, timeout):
        self._kafka.called("consume")
        (found,) = self._next(1) or [End()]
        return found

    def consume(self, count, timeout):
        # What comes beside the first: perhaps the end.
        return self._next(count) or [End()][:count]

    def _next(self, count):
        found = [one for one in self._kafka.committed() if one.offset() >= self._at][:count]
        if found:
            self._at = found[-1].offset() + 1
        return found

    def close(self):
        self._kafka.called("close")


class FakeAdmin:
    def __init__(self, kafka):
        self._kafka = kafka

    def poll(self, _timeout):
        """It has nothing to say."""

    def _answer(self, name, answer):
        future = Future()
        try:
            self._kafka.called(name)
            if self._kafka.log is None:
                raise refusal(KafkaError.UNKNOWN_TOPIC_OR_PART)
            future.set_result(answer)
        except KafkaException as error:
            future.set_exception(error)
        return future

    def create_topics(self, new, request_timeout):
        future = Future()
        self._kafka.created = new[0]
        try:
            self._kafka.called("create")
            if self._kafka.log is not None:
                raise refusal(KafkaError.TOPIC_ALREADY_EXISTS)
            self._kafka.log = []
            self._kafka.settings = dict(new[0].config)
            future.set_result(None)
        except KafkaException as error:
            future.set_exception(error)
        return {new[0].topic: future}

    def describe_topics(self, topics, request_timeout):
        partition = SimpleNamespace(replicas=[None] * self._kafka.replicas)
        partitions = [partition] * self._kafka.partitions
        found = SimpleNamespace(partitions=partitions, topic_id=self._kafka.topic_id)
        return {TOPIC: self._answer("describe", found)}

    def describe_cluster(self, request_timeout):
        return self._answer("cluster", SimpleNamespace(cluster_id=CLUSTER))

    def describe_configs(self, resources, request_timeout):
        found = {name: SimpleNamespace(value=it) for name, it in self._kafka.settings.items()}
        return {resources[0]: self._answer("configs", found)}

    def list_offsets(self, request, isolation_level, request_timeout):
        end = len(self._kafka.log or ())
        if isolation_level is IsolationLevel.READ_COMMITTED:
            end = self._kafka.stable_end()
        (partition,) = request
        return {partition: self._answer("offsets", SimpleNamespace(offset=end))}
