"""Where Kafka is, and which of its topics: `kafka://HOST:PORT,HOST:PORT/TOPIC`."""

import re
from dataclasses import dataclass

SCHEME = "kafka://"
DEFAULT_PORT = 9092
FORM = f"{SCHEME}HOST:PORT,HOST:PORT/TOPIC"
# As Kafka has it, which refuses . and .. as well.
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HOST = re.compile(r"\[[0-9A-Fa-f:.%a-z]+\]|[^\s:@/\[\]]+")
_MOST_PORTS = 65535


class NotAKafkaAddress(ValueError):
    """It is not an address of a topic of Kafka; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """A topic of a Kafka.

    Attributes:
        servers: some servers of it, as its clients are told: HOST:PORT, with commas between them.
        topic: the topic's name there.
    """

    servers: str
    topic: str

    def __str__(self) -> str:
        """Returns the form that `kafka_address` parses."""
        return f"{SCHEME}{self.servers}/{self.topic}"


def kafka_address(text: str) -> KafkaAddress:
    """Parses an address such as kafka://kafka-1:9092,kafka-2:9092/orders.

    A port that is left out is 9092.

    Raises:
        NotAKafkaAddress: it is not one.
    """
    if not text.startswith(SCHEME):
        raise NotAKafkaAddress(f"{text!r} is not an address of Kafka's: {FORM}")
    places, slash, topic = text.removeprefix(SCHEME).partition("/")
    if "@" in places:
        raise NotAKafkaAddress(
            "a login to Kafka does not belong into the address, where others can see it: write "
            "sasl.username and sasl.password into a file, and name it with --kafka-config"
        )
    if not slash or not topic:
        raise NotAKafkaAddress(f"{text!r} does not say which topic of Kafka: {FORM}")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise NotAKafkaAddress(
            f"{topic!r} cannot be a topic of Kafka: those have 1 to 249 letters, digits, dots, "
            "underscores and hyphens"
        )
    servers = [_server(place.strip(), text) for place in places.split(",")]
    return KafkaAddress(",".join(servers), topic)


def _server(place: str, text: str) -> str:
    found = re.fullmatch(rf"({_HOST.pattern})(?::(\d+))?", place)
    if found is None:
        raise NotAKafkaAddress(f"{place!r} in {text!r} is not HOST:PORT")
    host, port = found.group(1), int(found.group(2) or DEFAULT_PORT)
    if not 1 <= port <= _MOST_PORTS:
        raise NotAKafkaAddress(f"port {port} in {text!r} is not from 1 to {_MOST_PORTS}")
    return f"{host}:{port}"
