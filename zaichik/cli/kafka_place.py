"""A topic of Kafka as an argument, and settings of Kafka's client in a file."""

from pathlib import Path

from zaichik.apps.replication.address import FORM, KafkaAddress, NotAKafkaAddress, kafka_address
from zaichik.apps.replication.options import NotOptions, options_in
from zaichik.cli.arguments import WrongUsage, argument
from zaichik.cli.failure import restated


def _address(text: str) -> KafkaAddress:
    with restated(NotAKafkaAddress, by=WrongUsage):
        return kafka_address(text)


def _options(path: str) -> dict[str, str]:
    try:
        return options_in(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path} cannot be read: {error}") from error
    except NotOptions as error:
        raise WrongUsage(f"{path}: {error}") from error


KAFKA = argument("KAFKA", f"a topic of Kafka: {FORM}", _address)
CONFIG = argument(
    "--kafka-config FILE", "more settings of Kafka's client, for TLS and a login", _options
)
