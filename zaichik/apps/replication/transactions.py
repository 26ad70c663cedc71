"""Rounds of records that Kafka has all or none of, and one writer at a time.

A transactional id is made of the destination, Kafka's cluster and its topic: two brokers that each
have a topic of one name, bridged to two topics, do not get in each other's way, and two bridges to
one topic do. `begin` takes the id over: from then on Kafka refuses whatever an earlier bridge sends
(it is *fenced*), and has ended what that one had begun.

What becomes of a round, in the order in which it is found out:

- committed: it is in Kafka.
- Kafka does not answer: the call is made again. librdkafka goes on where it was.
- the transaction has to be aborted, because a record was not delivered in time: the round is
  written again from its first record.
- Kafka knows the producer no more. Another bridge has come, or this round has taken longer than
  Kafka gives a transaction, or the producer was idle for a week. Only what is in Kafka says which,
  so a new producer has to look there.
- a record is refused, for its size, say: the bridge ends, since it would be refused again.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from zaichik.apps.replication.errors import CannotReplicate, ProducerLost, Replaced, Stopped
from zaichik.apps.replication.servers import (
    Servers,
    Waiting,
    error_of,
    is_away,
    reason_of,
)
from zaichik.client.backoff import backoff

logger = logging.getLogger("zaichik.replication.transactions")

# Of a transaction whose bridge has gone: so long Kafka keeps readers from what comes after it, if
# no other bridge ends it. A round is sent in much less, if Kafka is there.
TIMEOUT_SECONDS = 60
CALL_SECONDS = 0.5  # of a call, between which the bridge can be stopped
# A bridge that is to stop ends its round, if Kafka answers by then.
LAST_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
LINGER_MS = 5  # a round is flushed; within it, records wait for each other
BATCH_BYTES = 1_000_000  # librdkafka's own, unless the topic allows less
# More than a round, which ends at the subscription's credit.
QUEUED_RECORDS = 1_000_000

Produce = Callable[..., None]
# Kafka has refused a record, and would again.
_REFUSED = {
    KafkaError.MSG_SIZE_TOO_LARGE: (
        "raise max.message.bytes of the topic there, or max_message here is larger than it was"
    ),
    KafkaError.INVALID_TIMESTAMP: (
        "the broker's clock is ahead of Kafka's: raise message.timestamp.after.max.ms of the topic "
        "there"
    ),
    KafkaError.INVALID_RECORD: "see Kafka's log",
    KafkaError.POLICY_VIOLATION: "see Kafka's log",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the bridge's user of Kafka needs the right Write there",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the bridge's user of Kafka needs the rights Write and Describe for its transactional id"
    ),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: (
        "the bridge's user of Kafka needs the right IdempotentWrite"
    ),
}


def identity(cluster: str, topic: str) -> str:
    """Returns the transactional id of all bridges to one topic of Kafka.

    Args:
        cluster: Kafka's own id.
        topic: the topic's name there.
    """
    return f"zaichik/{cluster}/{topic}"


class Transactions:
    """A producer of one topic of Kafka.

    Args:
        servers: makes the client.
        topic: of Kafka.
        cluster: Kafka's own id.
        most_bytes: of a record, and of what is sent together.
        waiting: for a Kafka that is away.
        timeout_s: how long Kafka gives a transaction.
    """

    def __init__(
        self,
        servers: Servers,
        topic: str,
        cluster: str,
        most_bytes: int,
        waiting: Waiting,
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> None:
        self.identity = identity(cluster, topic)
        self._topic = topic
        self._waiting = waiting
        self._timeout_s = timeout_s
        self._producer: Producer = servers.producer(
            {
                "transactional.id": self.identity,
                "transaction.timeout.ms": int(timeout_s * 1000),
                "acks": "all",
                "compression.type": "lz4",
                "linger.ms": LINGER_MS,
                "batch.size": min(BATCH_BYTES, most_bytes),
                "message.max.bytes": most_bytes,
                "queue.buffering.max.messages": QUEUED_RECORDS,
                # If a record was not delivered, the commit says so, and why. No callback is told of
                # it: with a fatal error, confluent-kafka calls it with an exception that is set.
                "delivery.report.only.error": True,
            }
        )

    def begin(self) -> None:
        """Fence earlier bridges to this topic; returns when nothing of theirs is open.

        Raises:
            CannotReplicate: Kafka refuses.
            Stopped: the bridge is to stop.
        """
        try:
            self._waiting.until_answered(lambda: self._producer.init_transactions(CALL_SECONDS))
        except KafkaException as error:
            found = error_of(error)
            if found.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                raise CannotReplicate(
                    f"Kafka gives transactions less than {self._timeout_s:g} s: raise "
                    "transaction.max.timeout.ms of its servers to "
                    f"{int(self._timeout_s * 1000)} or more"
                ) from error
            hint = _REFUSED.get(found.code(), "see Kafka's log")
            raise CannotReplicate(
                f"Kafka lets no transaction of {self.identity} begin: {reason_of(error)}; {hint}"
            ) from error

    def send(self, write: Callable[[Produce], None], check: Callable[[], None]) -> None:
        """Returns when Kafka has a round of records.

        Args:
            write: calls a function as `Producer.produce` for each record. It is called again if the
                transaction was aborted.
            check: is called after the commit, and before each repetition. It raises if that was no
                use, because the topic is another one by now.

        Raises:
            ProducerLost: a new producer has to look whether Kafka has the round.
            Replaced: another bridge is writing to the topic.
            CannotReplicate: a record was refused.
            Stopped: the bridge is to stop. Kafka has none of the round, or will abort it.
        """
        pauses = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            begun = time.monotonic()
            try:
                self._producer.begin_transaction()
                write(self._produce)
                self._flush()
                self._call(self._producer.commit_transaction)
            except KafkaException as error:
                self._raise_if_fatal(error, begun)
                self._abort(begun)
                logger.warning("a round is sent to Kafka once more: %s", reason_of(error))
                self._waiting.check()
                # Perhaps it never will be delivered.
                check()
                self._waiting.stop.wait(next(pauses))
            except BaseException:
                self._give_up()
                raise
            else:
                self._waiting.answered()
                check()
                return

    def _produce(self, *arguments: Any) -> None:
        while True:
            try:
                self._producer.produce(*arguments)
            except BufferError:
                # It is full until Kafka has taken something.
                self._poll()
            else:
                return

    def _poll(self) -> None:
        self._producer.poll(CALL_SECONDS)
        self._waiting.check()

    def _flush(self) -> None:
        began = time.monotonic()
        while self._producer.flush(CALL_SECONDS):
            self._waiting.unanswered("records are not acknowledged")
            self._check_stopped(began)

    def _call(self, call: Callable[[float], None]) -> None:
        """Call librdkafka until it has done it."""
        began = time.monotonic()
        while True:
            try:
                call(CALL_SECONDS)
            except KafkaException as error:
                if error_of(error).txn_requires_abort() or not is_away(error):
                    raise
                self._waiting.unanswered(reason_of(error))
                self._check_stopped(began)
            else:
                return

    def _check_stopped(self, began: float) -> None:
        """Raise `Stopped` if the bridge is to stop, and Kafka has had time to answer."""
        if self._waiting.stop.is_set() and time.monotonic() - began > LAST_SECONDS:
            raise Stopped

    def _abort(self, begun: float) -> None:
        try:
            self._call(self._producer.abort_transaction)
        except KafkaException as error:
            self._raise_if_fatal(error, begun)
            raise ProducerLost(reason_of(error)) from error

    def _give_up(self) -> None:
        """Abort, without waiting for a Kafka that is away: it will abort by itself."""
        try:
            self._producer.abort_transaction(CALL_SECONDS)
        except KafkaException as error:
            logger.debug("a transaction is left for Kafka to abort: %s", error)

    def _raise_if_fatal(self, error: KafkaException, begun: float) -> None:
        found = error_of(error)
        hint = _REFUSED.get(found.code())
        if hint is not None:
            self._give_up()
            raise CannotReplicate(
                f"Kafka refuses a record for its topic {self._topic}: {reason_of(error)}; {hint}"
            ) from error
        if not found.fatal():
            return
        # After a transaction that took too long, Kafka says the same.
        if found.code() == KafkaError._FENCED and time.monotonic() - begun < self._timeout_s:  # noqa: SLF001
            raise Replaced(
                f"another bridge writes to Kafka's topic {self._topic} now, and Kafka takes "
                "nothing of this one any more"
            ) from error
        raise ProducerLost(reason_of(error)) from error
