"""Kafka's clients: how they are made, and waiting for a Kafka that is away.

librdkafka connects again by itself, after pauses that grow to ten seconds, so whoever waits costs
nothing. What it says about each attempt is for `--log-level debug`; people are told once that Kafka
is away, and once that it is back.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from zaichik.apps.replication.errors import CannotReplicate, Stopped
from zaichik.client.backoff import backoff

logger = logging.getLogger("zaichik.replication.servers")
# What librdkafka says: its sentences are not ours.
_library = logging.getLogger("zaichik.replication.librdkafka")

# A question that has no answer by then is asked again; between two, the bridge can be stopped.
ASK_SECONDS = 5.0
STOP_SECONDS = 0.25  # how long it takes to notice that the bridge is to stop
# Between two questions to a Kafka that is away.
FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 5.0
# A Kafka that has not answered for so long is said to be away.
PATIENCE_SECONDS = 5.0
# TLS or the login has failed, which librdkafka tries again for ever.
_NOT_LET_IN = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001
# What a bridge decides itself.
OURS = frozenset(
    {
        "acks",
        "bootstrap.servers",
        "enable.idempotence",
        "isolation.level",
        "message.max.bytes",
        "metadata.broker.list",
        "transactional.id",
    }
)

T = TypeVar("T")


class _Whisper:
    """Has librdkafka's own log only where somebody looks for faults."""

    def log(self, _level: int, text: str, *values: object) -> None:
        _library.debug(text, *values)


class Servers:
    """Makes clients of one Kafka. Tests have one that makes others.

    Whatever makes one raises `CannotReplicate` if Kafka's client cannot work with the options.

    Args:
        addresses: HOST:PORT, with commas between them.
        options: more of librdkafka's settings, such as those of TLS and of a login.

    Raises:
        CannotReplicate: one of the options is the bridge's own business.
    """

    def __init__(self, addresses: str, options: Mapping[str, str] | None = None) -> None:
        options = options or {}
        if refused := sorted(OURS & options.keys()):
            raise CannotReplicate(
                f"{', '.join(refused)} cannot be set with --kafka-config: a bridge would lose "
                "messages, or write them twice, with other values than its own"
            )
        self.addresses = addresses
        self._settings: dict[str, Any] = {
            **options,
            "bootstrap.servers": addresses,
            "logger": _Whisper(),
            "error_cb": self._warn,
        }
        # Of the errors that have been told.
        self._told: set[int] = set()

    def _warn(self, error: KafkaError) -> None:
        """Say, once, why no server talks to us: to whoever asks, Kafka only seems to be away.

        It is called when a client is polled.
        """
        if error.code() in _NOT_LET_IN and error.code() not in self._told:
            self._told.add(error.code())
            logger.warning("Kafka does not let us in: %s; look at --kafka-config", error.str())

    def producer(self, settings: Mapping[str, Any]) -> Producer:
        """Returns a producer with these settings as well."""
        with _settings_checked():
            return Producer({**self._settings, **settings})

    def consumer(self) -> Consumer:
        """Returns a consumer that reads what is committed, and says where that ends."""
        settings = {
            "group.id": "zaichik-bridge",  # it joins none, but has to have one
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
        with _settings_checked():
            return Consumer({**self._settings, **settings})

    def admin(self) -> AdminClient:
        """Returns a client that asks about topics, and makes them."""
        with _settings_checked():
            return AdminClient(dict(self._settings))


@contextmanager
def _settings_checked() -> Iterator[None]:
    """Says whose settings they are that a client of Kafka's cannot be made with.

    Raises:
        CannotReplicate: it cannot.
    """
    try:
        yield
    except KafkaException as error:
        raise CannotReplicate(
            f"a client of Kafka's cannot be made with the settings in --kafka-config: "
            f"{error_of(error).str()}"
        ) from error


class Waiting:
    """Waits for a Kafka that is away, until it is there or the bridge is to stop.

    Args:
        stop: set when the bridge is to stop.
        patience: seconds after which a Kafka that does not answer is said to be away.
    """

    def __init__(self, stop: threading.Event, patience: float = PATIENCE_SECONDS) -> None:
        self.stop = stop
        self._patience = patience
        self._is_away = False
        self._since: float | None = None

    def check(self) -> None:
        """Raise `Stopped` if the bridge is to stop."""
        if self.stop.is_set():
            raise Stopped

    def unanswered(self, reason: object) -> None:
        """Note that Kafka has not answered; say so if that has been so for a while."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if not self._is_away and now - self._since >= self._patience:
            self._is_away = True
            logger.warning("Kafka does not answer, and is waited for: %s", reason)

    def answered(self) -> None:
        """Note that Kafka has answered."""
        self._since = None
        if self._is_away:
            self._is_away = False
            logger.warning("Kafka answers again")

    def result_of(self, answer: Future[T]) -> T:
        """Returns what Kafka's client answers in another thread.

        Raises:
            Stopped: the bridge is to stop.
            KafkaException: Kafka refuses, or does not answer.
        """
        while not wait([answer], STOP_SECONDS).done:
            self.check()
        return answer.result()

    def until_answered(self, ask: Callable[[], T], passing: frozenset[int] = frozenset()) -> T:
        """Returns what a question to Kafka returns, asked as often as it takes.

        Args:
            ask: the question.
            passing: codes of further errors that pass if one waits.

        Raises:
            Stopped: the bridge is to stop.
            KafkaException: Kafka has answered, and refuses.
        """
        pauses = backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            self.check()
            try:
                answer = ask()
            except KafkaException as error:
                if not is_away(error) and error_of(error).code() not in passing:
                    raise
                self.unanswered(reason_of(error))
                self.stop.wait(next(pauses))
            else:
                self.answered()
                return answer


def error_of(error: KafkaException) -> KafkaError:
    """Returns what an exception of Kafka's client is about."""
    found = error.args[0]
    if isinstance(found, KafkaError):
        return found
    return KafkaError(KafkaError._FAIL, str(found))  # noqa: SLF001 (so are librdkafka's own errors called)


def reason_of(error: KafkaException | KafkaError) -> str:
    """Returns the same as a text for people."""
    if isinstance(error, KafkaException):
        error = error_of(error)
    return f"{error.str()} ({error.name()})"


# Of a topic that was just made: not all of Kafka's servers know it yet.
NOT_KNOWN_YET = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
# Nobody has answered, or the one who has does not know yet: asking again helps.
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._DESTROY,  # noqa: SLF001
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)


def is_away(error: KafkaException) -> bool:
    """Returns whether the error is one of a Kafka that is away, or has not quite started yet."""
    found = error_of(error)
    return found.code() in _AWAY or (found.retriable() and not found.fatal())
