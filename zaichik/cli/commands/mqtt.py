"""`zaichik mqtt`: a gateway for clients of MQTT 3.1.1 and 5.

Let clients of MQTT use the broker: sensors, Node-RED, Home Assistant, anything that speaks MQTT
3.1.1 or 5. Their messages are in the topic `mqtt`, each with its MQTT topic as the key. Sessions,
retained messages and wills are topics, too, so the gateway may be stopped and started at any time.

If this command has logged in to the broker, its clients must log in as well, with a user and a
password, or a token in the place of the password. Otherwise it listens on this machine only, unless
you insist. If the connection to the broker is lost, the gateway tries to reconnect, and its clients
wait. SIGTERM stops it with exit code 0, Ctrl-C with 130.

Examples:
  zaichik mqtt                               # at 127.0.0.1:1883
  mosquitto_sub -t 'home/#' -v               # in another terminal
  mosquitto_pub -t home/kitchen/temp -m 21.5
  zaichik subscribe mqtt                     # the same message
  zaichik mqtt --tree orders                 # MQTT's orders/... is the topic
                                             # `orders`
  zaichik mqtt --port 8883 --tls-cert cert.pem --tls-key key.pem
  zaichik mqtt --port 0 --json               # a free port; {"host": ..., ...}
"""

from functools import partial

from rich.console import Console

from zaichik.apps.mqtt.gateway import Gateway
from zaichik.apps.mqtt.spaces import MAIN
from zaichik.apps.mqtt.state import Options
from zaichik.apps.mqtt.topics import MAX_RETAINED, NotATable
from zaichik.base.clock import SystemClock
from zaichik.cli import address, connecting, default_ports, front_end
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening, restated


def _tree(text: str) -> str:
    if text == MAIN or text.startswith((f"{MAIN}/", "$")):
        raise WrongUsage(f"{text!r} cannot be a tree: the gateway or the broker has it already")
    if not text or text.startswith("/") or text.endswith("/") or set(text) & set("+#\0"):
        raise WrongUsage(f"{text!r} cannot be a tree: no MQTT topic begins like that")
    return text


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise WrongUsage(f"{text!r} is not a number of messages from 1 on")
    return int(text)


ARGUMENTS = (
    front_end.HOST,
    argument(
        "--port PORT",
        "port to listen on; 0 takes a free one",
        address.port,
        default=default_ports.MQTT,
    ),
    argument(
        "--tree TOPIC",
        "a topic of the broker that is a tree of MQTT topics: MQTT's TOPIC/... is the topic TOPIC "
        "with ... as the key; may be repeated",
        _tree,
        action="append",
        default=[],
    ),
    argument(
        "--max-retained N",
        "the most retained messages, if there are none yet",
        _count,
        default=MAX_RETAINED,
    ),
    argument("--insecure", "serve other machines without a login, or without TLS"),
    *front_end.OPTIONS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Serve until a signal comes, or the broker is gone. Returns the exit code."""
    return await front_end.run("MQTT", _serve, arguments, console)


async def _serve(arguments: Namespace, console: Console) -> None:
    tls = front_end.tls(arguments)
    async with connecting.connected(arguments, "mqtt") as client:
        with listening(
            arguments.port, "zaichik mqtt --port PORT", "another MQTT broker", arguments.host
        ):
            gateway = await Gateway.listening(
                client,
                arguments.connect,
                arguments.host,
                arguments.port,
                SystemClock(),
                Options(tuple(arguments.tree), arguments.max_retained),
                tls,
                arguments.reconnect,
            )
        async with gateway:
            _check_reach(gateway, arguments, is_encrypted=tls is not None)
            announce = partial(
                front_end.announce, "MQTT", gateway.host, gateway.port, arguments, console
            )
            with restated(NotATable):
                async with front_end.until_stopped(arguments) as tasks:
                    tasks.start_soon(gateway.run, announce)


def _check_reach(gateway: Gateway, arguments: Namespace, *, is_encrypted: bool) -> None:
    """Refuse to serve other machines without a login, or without TLS (G-8)."""
    here = address.Address(gateway.host, gateway.port)
    has_logins = arguments.connect.credentials is not None
    if here.is_loopback or arguments.insecure or (has_logins and is_encrypted):
        return
    lack = "its clients' logins could be read on the way: add --tls-cert and --tls-key"
    if not has_logins:
        lack = "it has no login for the broker, so its clients need none: log in (zaichik login)"
    raise Failure(
        f"other machines can reach {here.host}, and {lack}, or leave out --host (this machine "
        "only), or add --insecure"
    )
