"""`zaichik mqtt`: a gateway for clients of MQTT 3.1.1 and 5.

Let clients of MQTT use the broker: sensors, Node-RED, Home Assistant, anything that speaks MQTT
3.1.1 or 5. Their messages are in the topic `mqtt`, each with its MQTT topic as the key. Sessions,
retained messages and wills are topics, too, so the gateway may be stopped and started at any time.

If this command has logged in to the broker, its clients must log in as well, with a user and a
password, or a token in the place of the password. Otherwise it listens on this machine only, unless
you insist. If the connection to the broker is lost, the gateway tries to reconnect, and its clients
wait. SIGTERM stops it with exit code 0, Ctrl-C with 130.

With --acked-by kafka, PUBACK and PUBREC wait until Kafka has the message, too. That takes a bridge
for the topic `mqtt` (`zaichik bridge`), which the gateway makes so that it loses nothing.

With --websocket, pages of this machine may connect as well, and those that --allow-origin names.

Examples:
  zaichik mqtt                               # at 127.0.0.1:1883
  mosquitto_sub -t 'home/#' -v               # in another terminal
  mosquitto_pub -t home/kitchen/temp -m 21.5
  zaichik subscribe mqtt                     # the same message
  zaichik mqtt --tree orders                 # MQTT's orders/... is the topic
                                             # `orders`
  zaichik mqtt --port 8883 --tls-cert cert.pem --tls-key key.pem
  zaichik mqtt --websocket 8083              # browsers, too: at
                                             # ws://127.0.0.1:8083/mqtt
  zaichik mqtt --metrics 9101                # for Prometheus, at this machine
  zaichik mqtt --port 0 --json               # a free port; {"host": ..., ...}
"""

import ssl
from contextlib import AsyncExitStack
from functools import partial

from rich.console import Console

from zaichik.apps.mqtt.gateway import Gateway, WebSockets
from zaichik.apps.mqtt.origins import Origins, page
from zaichik.apps.mqtt.spaces import MAIN
from zaichik.apps.mqtt.state import Options
from zaichik.apps.mqtt.topics import MAX_RETAINED, NotATable
from zaichik.apps.web.names import NotAName, PageName
from zaichik.base.clock import SystemClock
from zaichik.base.extras import getting
from zaichik.cli import acked_by, address, connecting, default_ports, front_end
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening, restated
from zaichik.net.listener import Listener

MISSING = f"zaichik mqtt --websocket needs wsproto; get it with {getting('mqtt')}"


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


def _host(text: str) -> str:
    try:
        PageName.of(text)
    except NotAName:
        raise WrongUsage(f"{text!r} is not a name of a server; write HOST or HOST:PORT") from None
    return text


def _page(text: str) -> str:
    with restated(NotAName, by=WrongUsage):
        return page(text)


ARGUMENTS = (
    front_end.HOST,
    front_end.port(default_ports.MQTT),
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
    argument(
        "--websocket PORT",
        "serve browsers as well, with MQTT over WebSocket at this port and the path /mqtt; 0 takes "
        "a free one",
        address.port,
    ),
    argument(
        "--allow-origin ORIGIN",
        "pages that may connect over WebSocket, besides those of this machine: http[s]://HOST or "
        "http[s]://HOST:PORT; may be repeated",
        _page,
        action="append",
        default=[],
    ),
    argument(
        "--allow-host NAME",
        "another name under which browsers reach this gateway, also through a proxy: HOST or "
        "HOST:PORT; may be repeated",
        _host,
        action="append",
        default=[],
    ),
    front_end.ACKED_BY,
    argument("--insecure", "serve other machines without a login, or without TLS"),
    *front_end.OPTIONS,
)


async def run(arguments: Namespace, console: Console) -> int:
    """Serve until a signal comes, or the broker is gone. Returns the exit code."""
    return await front_end.run("MQTT", _serve, arguments, console, NotATable)


async def _serve(arguments: Namespace, console: Console) -> None:
    tls = front_end.tls(arguments)
    if arguments.websocket is None and (arguments.allow_origin or arguments.allow_host):
        raise WrongUsage("--allow-origin and --allow-host belong to --websocket")
    async with connecting.connected(arguments, "mqtt") as client, AsyncExitStack() as stack:
        websockets = None
        if arguments.websocket is not None:
            websockets = await _websockets(arguments, tls)
            await stack.enter_async_context(websockets.listener)
        with listening(
            arguments.port, "zaichik mqtt --port PORT", "another MQTT broker", arguments.host
        ):
            gateway = await Gateway.listening(
                client,
                arguments.connect,
                arguments.host,
                arguments.port,
                SystemClock(),
                Options(tuple(arguments.tree), arguments.max_retained, acked_by.chosen(arguments)),
                tls,
                arguments.reconnect,
                websockets,
            )
        async with gateway:
            _check_reach(gateway, arguments, is_encrypted=tls is not None)
            metrics = front_end.metrics("mqtt", gateway.figures, arguments)
            metrics_port = stack.enter_context(metrics)
            announce = partial(
                front_end.announce,
                "MQTT",
                gateway.host,
                gateway.port,
                arguments,
                console,
                gateway.websocket_port,
                metrics_port,
            )
            async with front_end.until_stopped(arguments) as tasks:
                tasks.start_soon(gateway.run, announce)


async def _websockets(arguments: Namespace, tls: ssl.SSLContext | None) -> WebSockets:
    """Returns a listener for browsers, and who may connect there.

    Raises:
        Failure: a package is missing, or the port cannot be had.
    """
    try:
        from zaichik.apps.mqtt.upgrade import Upgrade
    except ModuleNotFoundError as error:
        raise Failure(MISSING) from error
    with listening(
        arguments.websocket, "zaichik mqtt --websocket PORT", "another broker", arguments.host
    ):
        listener = await Listener.open(arguments.host, arguments.websocket)
    scheme = "http"
    if tls is not None:
        scheme = "https"
    origins = Origins(listener.port, scheme, arguments.allow_host, arguments.allow_origin)
    return WebSockets(listener, Upgrade(origins))


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
