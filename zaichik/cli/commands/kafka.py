"""`zaichik kafka`: a gateway for clients of Kafka. Experimental.

Let clients of Kafka use the broker: kcat, librdkafka's and Java's clients, Spark. To them, the
gateway is a cluster of one broker, in which each topic has one partition. It is experimental, and
it is not Kafka: docs/use/kafka.md lists what is different.

Without --sasl it listens on this machine only, and everyone who reaches it acts as one user, the
one whose login the gateway has. With --sasl, each client logs in as a user of the broker, with
SASL/PLAIN. For other machines, that needs TLS as well.

With --acked-by kafka, acks=all waits until the Kafka behind the broker has the records, too. That
takes a bridge for each topic (`zaichik bridge`).

If the connection to the broker is lost, the gateway tries to reconnect, and its clients wait.
SIGTERM stops it with exit code 0, Ctrl-C with 130.

Examples:
  zaichik kafka                              # at 127.0.0.1:9092
  kcat -b 127.0.0.1:9092 -t orders -P -K:    # write; -C to read
  zaichik kafka --port 0 --json              # a free port; {"host": ..., ...}
  zaichik kafka --advertise kafka.example:9092      # what clients are told
  zaichik kafka --host 0.0.0.0 --sasl --tls-cert cert.pem --tls-key key.pem
  zaichik kafka --log-level warning          # only what was lost or refused
"""

from typing import TYPE_CHECKING

from rich.console import Console

from zaichik.base.extras import getting
from zaichik.cli import acked_by, address, connecting, default_ports, front_end, quantities
from zaichik.cli.arguments import Namespace, argument
from zaichik.cli.failure import Failure, listening

if TYPE_CHECKING:
    from zaichik.apps.kafka.gateway import Gateway

PROTOCOL = "Kafka's protocol"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_CAPACITY = 1_000_000
MISSING = f"zaichik kafka needs kafka-python and crc32c; get them with {getting('kafka')}"

ARGUMENTS = (
    argument(
        "--port PORT",
        "where to listen; 0 takes a free port",
        address.port,
        default=default_ports.KAFKA,
    ),
    argument(
        "--host HOST",
        "address to listen on; for other machines, --sasl and TLS are needed",
        default=DEFAULT_HOST,
    ),
    argument(
        "--advertise HOST:PORT",
        "what clients are told to connect to (default: where it listens)",
        address.address,
    ),
    argument(
        "--capacity N",
        "most messages in a topic that a client makes, if the broker has no folder for durable "
        "topics",
        quantities.positive,
        default=DEFAULT_CAPACITY,
    ),
    front_end.ACKED_BY,
    argument("--sasl", "have each client log in as a user of the broker"),
    *front_end.OPTIONS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Serve until a signal comes, or the broker is gone. Returns the exit code."""
    return await front_end.run(PROTOCOL, _serve, arguments, console)


async def _serve(arguments: Namespace, console: Console) -> None:
    try:
        from zaichik.apps.kafka.gateway import Gateway
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    tls = front_end.tls(arguments)
    login = None
    if arguments.sasl:
        login = arguments.connect
    async with connecting.connected(arguments, "kafka") as client:
        with listening(arguments.port, "zaichik kafka --port PORT", "Kafka", arguments.host):
            gateway = await Gateway.listening(
                client,
                arguments.port,
                host=arguments.host,
                advertise=arguments.advertise,
                capacity=arguments.capacity,
                login=login,
                tls=tls,
                reconnect_s=arguments.reconnect,
                acked_by=acked_by.chosen(arguments),
            )
        await _check_reachable(gateway, arguments)
        with front_end.metrics("kafka", gateway.figures, arguments) as metrics_port:
            async with front_end.until_stopped(arguments) as tasks:
                tasks.start_soon(gateway.run)
                front_end.announce(
                    PROTOCOL,
                    gateway.host,
                    gateway.port,
                    arguments,
                    console,
                    metrics_port=metrics_port,
                )


async def _check_reachable(gateway: "Gateway", arguments: Namespace) -> None:
    """Refuse to serve other machines without a login, or without TLS."""
    here = address.Address(gateway.host, gateway.port)
    if here.is_loopback or (arguments.sasl and arguments.tls_cert is not None):
        return
    await gateway.aclose()
    raise Failure(
        f"other machines can reach {here.host}, and anyone there could read and write every topic: "
        "add --sasl, --tls-cert and --tls-key, or leave out --host (this machine only)"
    )
