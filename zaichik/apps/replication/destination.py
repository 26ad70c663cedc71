"""The topic of Kafka: is made with settings that lose and stop nothing, or checked for them.

| setting | must be | or else |
| --- | --- | --- |
| partitions | 1 | there is no order |
| `min.insync.replicas` | 2 of 3 | what is acknowledged may be on one machine |
| `cleanup.policy` | `delete` | a record goes when a later one has its key |
| `retention.ms`, `retention.bytes` | -1 | records go after a week, or when there are many |
| `unclean.leader.election.enable` | `false` | a server that lacks some of it may be the leader |
| `max.message.bytes` | as the broker | its largest message would stop the bridge |

What differs is refused by name, and can be accepted by name; several partitions cannot.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from zaichik.apps.replication.acceptable import SETTINGS
from zaichik.apps.replication.errors import CannotReplicate
from zaichik.apps.replication.record import MOST_OVERHEAD
from zaichik.apps.replication.servers import (
    ASK_SECONDS,
    NOT_KNOWN_YET,
    Servers,
    Waiting,
    error_of,
    is_away,
    reason_of,
)

DEFAULT_REPLICATION = 3
_FOR_EVER = "-1"
KNOWN_SECONDS = 60.0  # in which all of Kafka's servers know a topic that was made


@dataclass(frozen=True, slots=True)
class Place:
    """What identifies a topic of Kafka.

    Attributes:
        cluster: Kafka's own id.
        topic_id: of the topic: another one of that name has another.
        most_bytes: of a record, or several that were compressed together.
    """

    cluster: str
    topic_id: str
    most_bytes: int


class Destination:
    """A topic of Kafka, to be made or checked.

    Args:
        servers: makes the clients.
        topic: its name.
        waiting: for a Kafka that is away.
        max_message: bytes of the largest message that the broker takes.
        replication: on how many of Kafka's servers it is, or will be.
        accepted: names of settings that may differ.
    """

    def __init__(
        self,
        servers: Servers,
        topic: str,
        waiting: Waiting,
        *,
        max_message: int,
        replication: int = DEFAULT_REPLICATION,
        accepted: frozenset[str] = frozenset(),
    ) -> None:
        self._topic = topic
        self._waiting = waiting
        self._replication = replication
        self._accepted = accepted
        self._needed = max_message + MOST_OVERHEAD
        self._servers = servers
        # It outlives the questions: without it they would be given up.
        self._admin: AdminClient = servers.admin()
        # Until then, a server of Kafka that does not know the topic may only be slow.
        self._known_by = 0.0

    def create(self) -> bool:
        """Returns whether the topic was made; it may be there. In the next minute it is waited for.

        Raises:
            CannotReplicate: Kafka refuses to make it.
            Stopped: the bridge is to stop.
        """
        new = NewTopic(
            self._topic,
            num_partitions=1,
            replication_factor=self._replication,
            config=self._wanted(),
        )
        try:
            self._ask(lambda: self._admin.create_topics([new], request_timeout=ASK_SECONDS))
            self._known_by = time.monotonic() + KNOWN_SECONDS
        except KafkaException as error:
            if error_of(error).code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            raise CannotReplicate(self._not_made(error)) from error
        return True

    def _not_made(self, error: KafkaException) -> str:
        text = f"Kafka does not make the topic {self._topic}: {reason_of(error)}"
        if error_of(error).code() == KafkaError.INVALID_REPLICATION_FACTOR:
            text += (
                f"; it was to be on {self._replication} of its servers: say how many with "
                "--replication. With 1, to try it out, what Kafka acknowledges is on one machine"
            )
        return text

    def _wanted(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "max.message.bytes": str(self._needed),
            "min.insync.replicas": str(self._least_synced),
            "retention.bytes": _FOR_EVER,
            "retention.ms": _FOR_EVER,
            "unclean.leader.election.enable": "false",
        }

    @property
    def _least_synced(self) -> int:
        return max(1, self._replication - 1)

    def checked(self) -> Place:
        """Returns what identifies the topic, once it is known to be as it must be.

        Raises:
            CannotReplicate: it is not there, or has partitions or settings that lose messages.
            Stopped: the bridge is to stop.
        """
        found = self._described()
        settings = self._settings()
        differences = [
            difference
            for name in SETTINGS
            if name not in self._accepted and (difference := self._difference(name, settings))
        ]
        if differences:
            names = " ".join(f"--accept {difference.split()[0]}" for difference in differences)
            text = (
                f"Kafka's topic {self._topic} may lose messages, or stop the bridge: "
                f"{'; '.join(differences)}. Change that with Kafka's kafka-configs.sh, or let "
                f"--create make another topic; or, if you know why it is so, {names}"
            )
            replicas = len(found.partitions[0].replicas)
            if "min.insync.replicas" in names and replicas < self._replication:
                text += f". If the topic is to have no more replicas, --replication {replicas}"
            raise CannotReplicate(text)
        most_bytes = self._needed
        if settings.get("max.message.bytes", "").isdigit():
            most_bytes = int(settings["max.message.bytes"])
        return Place(self._cluster_id(), str(found.topic_id), most_bytes)

    def topic_id(self) -> str:
        """Returns the id of the topic: another one of its name has another.

        Raises:
            CannotReplicate: it is not there, or has other than one partition.
            Stopped: the bridge is to stop.
        """
        return str(self._described().topic_id)

    def _described(self) -> TopicDescription:
        topics = TopicCollection([self._topic])
        try:
            found: TopicDescription = self._ask(
                lambda: self._admin.describe_topics(topics, request_timeout=ASK_SECONDS)
            )
        except KafkaException as error:
            if error_of(error).code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise CannotReplicate(
                    f"Kafka has no topic {self._topic}; --create makes it, on three of Kafka's "
                    "servers, or on as many as --replication says"
                ) from error
            raise CannotReplicate(
                f"Kafka does not describe its topic {self._topic}: {reason_of(error)}"
            ) from error
        if len(found.partitions) != 1:
            raise CannotReplicate(
                f"Kafka's topic {self._topic} has {len(found.partitions)} partitions, and only one "
                "keeps the order of messages: choose another topic, which --create makes"
            )
        return found

    def _cluster_id(self) -> str:
        try:
            found = self._ask(lambda: self._admin.describe_cluster(request_timeout=ASK_SECONDS))
        except KafkaException as error:
            raise CannotReplicate(
                f"Kafka does not tell its cluster's id: {reason_of(error)}"
            ) from error
        return found.cluster_id or ""

    def _settings(self) -> Mapping[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        try:
            found = self._ask(
                lambda: self._admin.describe_configs([resource], request_timeout=ASK_SECONDS)
            )
        except KafkaException as error:
            raise CannotReplicate(
                f"Kafka does not tell the settings of its topic {self._topic}: {reason_of(error)}; "
                "the bridge's user needs the right DescribeConfigs"
            ) from error
        return {name: entry.value for name, entry in found.items() if entry.value is not None}

    def _difference(self, name: str, settings: Mapping[str, str]) -> str:
        """Returns what is wrong with a setting; "" if it is right, or Kafka has none such."""
        value = settings.get(name)
        wanted = self._wanted()[name]
        if value is None or value == wanted:
            return ""
        if name in {"max.message.bytes", "min.insync.replicas"}:
            if value.isdigit() and int(value) >= int(wanted):
                return ""
            return f"{name} is {value}, and must be at least {wanted}"
        return f"{name} is {value}, and must be {wanted}"

    def _ask(self, begin: Callable[[], Any]) -> Any:
        """Returns the answer to a question about one thing, asked as often as it takes."""
        passing: frozenset[int] = frozenset()
        if time.monotonic() < self._known_by:
            passing = NOT_KNOWN_YET
        return self._waiting.until_answered(lambda: self._answer(begin), passing)

    def _answer(self, begin: Callable[[], Any]) -> Any:
        # Has it say what it has to say, which it would keep for ever.
        self._admin.poll(0)
        try:
            return self._waiting.result_of(_only(begin()))
        except KafkaException as error:
            if is_away(error):
                # It waits for the server that was the controller, also if another one is by now.
                self._admin = self._servers.admin()
            raise


def _only(answers: Future[Any] | Mapping[Any, Future[Any]]) -> Future[Any]:
    """Returns the answer to the only question of a call."""
    if isinstance(answers, Future):
        return answers
    (answer,) = answers.values()
    return answer
