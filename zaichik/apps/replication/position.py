"""Where to go on: what the last committed record in Kafka says.

It is read backwards: the last 64 records, then 16 times as many, until one of a bridge is among
them. (Of Kafka's offsets, many belong to no record: to ends of transactions, and to records that
were never committed.)

The first record is read as well: a topic that does not begin with offset 0 has lost something.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from zaichik.apps.replication.acceptable import FOREIGN, POSITION
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.gaps import Gaps
from zaichik.apps.replication.record import NotOurs, header_of
from zaichik.apps.replication.servers import ASK_SECONDS, NOT_KNOWN_YET, Servers, Waiting, reason_of

BACK = 64
FURTHER = 16
RECORDS = 1000  # of one call
PARTITION = 0
# Whoever accepts one of these accepts that the first records may be gone.
_BEGINNINGS = frozenset({POSITION, "cleanup.policy", "retention.bytes", "retention.ms"})
OTHERS_SECONDS = 1.0  # between two looks at transactions of others


@dataclass(frozen=True, slots=True)
class Position:
    """How far Kafka has a topic.

    Attributes:
        epoch: the topic's.
        next: Kafka has everything below, but for the gaps.
        accepted_us: the time of the last message; of a topic without one, its epoch.
        gaps: see `Gaps`.
    """

    epoch: int
    next: int
    accepted_us: int
    gaps: Gaps

    @classmethod
    def at_the_start(cls, epoch: int) -> "Position":
        """Returns that of a topic of which Kafka has nothing."""
        return cls(epoch, 0, epoch, Gaps())

    def past(self, end: int, accepted_us: int) -> "Position":
        """Returns the position after messages that end before that offset."""
        return replace(self, next=end, accepted_us=accepted_us)

    def past_gap(self, start: int, end: int) -> "Position":
        """Returns the position after a gap."""
        return replace(self, next=end, gaps=self.gaps.with_gap(start, end))


class CommittedEnd:
    """Asks where the committed records of a topic of Kafka end, and what the last one says.

    Args:
        servers: makes the clients.
        topic: of Kafka.
        waiting: for a Kafka that is away.
        accepted: what to put up with; `FOREIGN`: records that no bridge has written.
    """

    def __init__(
        self, servers: Servers, topic: str, waiting: Waiting, accepted: frozenset[str]
    ) -> None:
        self._servers = servers
        self._topic = topic
        self._waiting = waiting
        self._accepted = accepted

    def position(self) -> Position | None:
        """Returns the position that the last committed record says; None if there is none.

        Raises:
            CannotReplicate: there are records of others in the topic, or the first ones are gone,
                or Kafka refuses.
            Stopped: the bridge is to stop.
        """
        # Closed in any case: it has threads of its own.
        consumer = self._servers.consumer()
        try:
            return self._waiting.until_answered(lambda: self._last(consumer), NOT_KNOWN_YET)
        except KafkaException as error:
            raise CannotReplicate(
                f"Kafka does not let its topic {self._topic} be read: {reason_of(error)}"
            ) from error
        finally:
            consumer.close()

    def wait_for_others(self) -> None:
        """Return when no transaction is open in the topic.

        What comes after the first record of an open one is not readable, so the last committed
        record may not be seen. A bridge's own have ended when another one takes over; one of
        somebody else ends when it takes too long.

        Raises:
            CannotReplicate, Stopped: see `position`.
        """
        admin = self._servers.admin()
        while True:
            committed = self._end(admin, IsolationLevel.READ_COMMITTED)
            if committed >= self._end(admin, IsolationLevel.READ_UNCOMMITTED):
                self._waiting.answered()
                return
            self._waiting.unanswered(f"another program has a transaction open in {self._topic}")
            self._waiting.stop.wait(OTHERS_SECONDS)
            self._waiting.check()

    def _end(self, admin: AdminClient, level: IsolationLevel) -> int:
        partition = TopicPartition(self._topic, PARTITION)

        def ask() -> int:
            request = {partition: OffsetSpec.latest()}  # type: ignore[no-untyped-call]
            answers = admin.list_offsets(
                request, isolation_level=level, request_timeout=ASK_SECONDS
            )
            return int(self._waiting.result_of(answers[partition]).offset)

        try:
            return self._waiting.until_answered(ask, NOT_KNOWN_YET)
        except KafkaException as error:
            raise CannotReplicate(
                f"Kafka does not tell where its topic {self._topic} ends: {reason_of(error)}"
            ) from error

    def _last(self, consumer: Consumer) -> Position | None:
        here = TopicPartition(self._topic, PARTITION)
        low, high = consumer.get_watermark_offsets(here, timeout=ASK_SECONDS)
        if high > low:
            self._check_first(consumer, low)
        back = BACK
        while high > low:
            start = max(low, high - back)
            found = self._read(consumer, start)
            if found is not None or start == low:
                return found
            back *= FURTHER
        return None

    def _check_first(self, consumer: Consumer, low: int) -> None:
        """Refuse to go on behind a beginning that is gone: the topic cannot be made again."""
        if self._accepted & _BEGINNINGS:
            return
        consumer.assign([TopicPartition(self._topic, PARTITION, low)])
        for record in _committed_records(consumer, self._waiting.check):
            with suppress(NotOurs):
                first = header_of(record.headers()).offset
                if first == 0:
                    return
                raise CannotReplicate(
                    f"Kafka's topic {self._topic} begins with offset {first}: what came before is "
                    "gone, because it expired there, or the topic was deleted and made again. "
                    "Bridge to another topic of Kafka, which gets what the broker still has; or, "
                    f"to go on with this one, --accept {POSITION}"
                )

    def _read(self, consumer: Consumer, start: int) -> Position | None:
        """Returns the position that the last record from this one on says."""
        consumer.assign([TopicPartition(self._topic, PARTITION, start)])
        found = None
        for record in _committed_records(consumer, self._waiting.check):
            try:
                header = header_of(record.headers())
                gaps = Gaps()
                if header.gaps:
                    gaps = Gaps.decoded(header.gaps)
            except ValueError as error:
                self._check_foreign(record, error)
                continue
            found = Position(header.epoch, header.next, header.accepted_us, gaps)
        return found

    def _check_foreign(self, record: Message, error: ValueError) -> None:
        if FOREIGN not in self._accepted:
            raise CannotReplicate(
                f"Kafka's topic {self._topic} has records that no bridge has written (the one at "
                f"{record.offset()}: {error}): choose a topic that only the bridge writes to, or, "
                f"if you know why they are there, --accept {FOREIGN}"
            )


def _committed_records(consumer: Consumer, check: Callable[[], None]) -> Iterator[Message]:
    """Yields the committed records from the assigned place to the end.

    Raises:
        KafkaException: Kafka does not answer, or refuses.
    """
    while True:
        # For one only: `consume` waits until there are as many as it may return.
        first = consumer.poll(ASK_SECONDS)
        check()
        if first is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        for record in (first, *consumer.consume(RECORDS, timeout=0)):
            error = record.error()
            if error is None:
                yield record
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                return
            else:
                raise KafkaException(error)
