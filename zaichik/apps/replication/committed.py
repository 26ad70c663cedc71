"""All committed records of a topic of Kafka, from the first to the last, some thousands at a time.

What a transaction has that was aborted is left out, and reading ends before the first transaction
that is still open.
"""

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from zaichik.apps.replication.position import PARTITION
from zaichik.apps.replication.servers import (
    ASK_SECONDS,
    Servers,
    Waiting,
    is_away,
    reason_of,
)

AT_ONCE = 10_000  # records that a call returns, at most
# How long a call waits at most, so that Ctrl-C is noticed.
WAIT_SECONDS = 0.25

Answer = TypeVar("Answer")


class CannotRead(Exception):
    """Kafka has no such topic, or does not let it be read; the message says which."""


class Committed:
    """See above. Every method blocks, and waits for a Kafka that is away.

    Args:
        servers: makes the consumer.
        topic: Kafka's topic, which has one partition.
        waiting: for Kafka.

    Attributes:
        cluster: Kafka's own id.

    Raises:
        CannotRead: see there.
        Stopped: the program is to stop.
    """

    def __init__(self, servers: Servers, topic: str, waiting: Waiting) -> None:
        self._topic = topic
        self._waiting = waiting
        self._partition = TopicPartition(topic, PARTITION)
        self._consumer = servers.consumer()
        try:
            self.cluster = self._look()
        except BaseException:
            self._consumer.close()
            raise

    def _look(self) -> str:
        """Returns Kafka's id, if it has the topic."""
        ask = self._consumer.list_topics
        found = self._asked(lambda: ask(self._topic, timeout=ASK_SECONDS))
        topic = found.topics[self._topic]
        if topic.error is not None or not topic.partitions:
            why = f": {reason_of(topic.error)}" if topic.error else ""
            raise CannotRead(f"Kafka has no topic {self._topic} that can be read{why}")
        if len(topic.partitions) > 1:
            raise CannotRead(
                f"Kafka's topic {self._topic} has {len(topic.partitions)} partitions, and a bridge "
                "writes to topics of one: is it the right one?"
            )
        return found.cluster_id or ""

    def range(self) -> tuple[int, int]:
        """Returns the offsets of Kafka's where the topic begins and ends.

        Some of them belong to the ends of transactions, and to no record.

        Raises:
            CannotRead, Stopped: see above.
        """
        ask = self._consumer.get_watermark_offsets
        first, end = self._asked(lambda: ask(self._partition, timeout=ASK_SECONDS))
        return first, end

    def _asked(self, ask: Callable[[], Answer]) -> Answer:

        def polled() -> Answer:
            # Nothing is assigned yet: it has the client say why no server answers, if it knows.
            self._consumer.poll(0)
            return ask()

        try:
            return self._waiting.until_answered(polled)
        except KafkaException as error:
            raise CannotRead(
                f"Kafka does not let its topic {self._topic} be read: {reason_of(error)}"
            ) from error

    def each(self) -> Iterator[list[Message]]:
        """Returns the records in lists, up to the last one that is committed.

        A list is empty if nothing has come for a while.

        Raises:
            CannotRead, Stopped: see above.
        """
        first, _ = self.range()
        self._consumer.assign([TopicPartition(self._topic, PARTITION, first)])
        while True:
            self._waiting.check()
            records = self._consumer.consume(AT_ONCE, WAIT_SECONDS)
            if records:
                self._waiting.answered()
            else:
                self._waiting.unanswered("no records come")
            yield [record for record in records if record.error() is None]
            if any(self._is_end(record.error()) for record in records):
                return

    def _is_end(self, error: KafkaError | None) -> bool:
        """Returns whether this, in the place of a record, says that there are no more."""
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (so are librdkafka's own errors called)
            return True
        if not is_away(KafkaException(error)):
            raise CannotRead(
                f"Kafka does not let its topic {self._topic} be read: {reason_of(error)}"
            )
        return False

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave Kafka."""
        self._consumer.close()
