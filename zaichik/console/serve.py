"""`zaichik serve`: a broker that runs until it is told to stop."""

import argparse
import errno
import logging
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import asdict

import anyio
from rich.console import Console

from zaichik.broker.server import Server
from zaichik.broker.settings import BrokerSettings, TopicSettings
from zaichik.client.messages import milliseconds
from zaichik.console import address, limits, screen, topic_settings
from zaichik.console.failure import Failure
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import DEFAULT_PORT, Setting

logger = logging.getLogger(__name__)

DESCRIPTION = """\
Run a broker until it is told to stop. Everything is kept in memory, and gone when it ends. There is no
authentication: whoever can reach the address can read and write everything, so by default that is only this
machine. SIGTERM ends it in order: clients are told, what they have sent is answered; the exit code is then 0.
Ctrl-C does the same with exit code 130. A second signal ends it at once.
"""

EPILOG = """\
examples:
  zaichik serve                                      # 127.0.0.1:8889
  zaichik serve 9000 --retention 1h                  # topics keep messages for an hour, unless told otherwise
  zaichik serve --no-auto-create --log-level warning
  zaichik serve --limit max_connections=100 --limit max_bytes=128MiB --limit idle_timeout=5m
  zaichik serve --port 0 --json                      # a free port, told as {"host": ..., "port": ..., ...}

"""

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `zaichik serve`."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG + limits.listing()
    parser.add_argument(
        "port", metavar="PORT", nargs="?", type=address.port, help=f"default: {DEFAULT_PORT}; 0 takes a free one"
    )
    parser.add_argument("--port", dest="port_option", metavar="PORT", type=address.port, help="the same as an option")
    parser.add_argument(
        "--host", metavar="HOST", default="127.0.0.1", help="address to listen at (default: %(default)s)"
    )
    parser.add_argument(
        "--log-level", metavar="LEVEL", choices=LEVELS, default="info", help=f"{', '.join(LEVELS)} (default: info)"
    )
    parser.add_argument(
        "--no-auto-create", action="store_true", help="publishing and subscribing do not make topics; `create` does"
    )
    parser.add_argument(
        "--json", action="store_true", help="when ready, print one JSON object: host, port, pid, limits, topic_defaults"
    )
    limits.add_option(parser)
    topic_settings.add_options(parser)


async def run(arguments: argparse.Namespace, console: Console) -> int:
    """Serve; the exit code tells which signal ended it."""
    server = await _listening(_port(arguments), arguments.host, _settings(arguments))
    # Signals are caught before anybody is told that we are ready, since that may be what they wait for.
    with (
        screen.logging_to_stderr(LEVELS[arguments.log_level]),
        anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
    ):
        _announce(server, console, as_json=arguments.json)
        ending = _Ending(server)
        async with BackgroundTasks() as background:
            background.group.start_soon(ending.watch, signals)
            await server.run()
    if ending.cause == signal.SIGINT:
        raise KeyboardInterrupt
    return 0


def _port(arguments: argparse.Namespace) -> int:
    given = {port for port in (arguments.port, arguments.port_option) if port is not None}
    if len(given) > 1:
        raise argparse.ArgumentTypeError(
            f"PORT is {arguments.port} and --port {arguments.port_option}; give one of them"
        )
    return given.pop() if given else DEFAULT_PORT


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    """The broker's settings; those of topics pass the same check as a client's."""
    chosen = topic_settings.chosen(arguments)
    for name in ("retention_ttl", "compaction_window"):
        if name in chosen:
            chosen[f"{name}_ms"] = milliseconds(chosen.pop(name))
    topic = TopicSettings().merged(tuple((Setting[name.upper()], value) for name, value in chosen.items()))
    return BrokerSettings(topic=topic, **limits.chosen(arguments))


async def _listening(port: int, host: str, settings: BrokerSettings) -> Server:
    """A server at the address, or a sentence that tells why there is none and what to do."""
    try:
        return await Server.listening(host, port, settings)
    except OSError as error:
        match error.errno:
            case errno.EADDRINUSE:
                reason = (
                    f"port {port} at {host} is taken, perhaps by another broker; name a free one: zaichik serve PORT"
                )
            case errno.EACCES:
                reason = f"port {port} is not for everyone; name one from 1024 on: zaichik serve PORT"
            case _:
                reason = f"cannot listen at {host}: {error.strerror or error}"
        raise Failure(reason) from error


def _announce(server: Server, console: Console, *, as_json: bool) -> None:
    here, settings = address.Address(server.host, server.port), server.broker.settings
    if as_json:
        screen.print_json(
            {
                "host": server.host,
                "port": server.port,
                "pid": os.getpid(),
                "limits": settings.limits(),
                "topic_defaults": asdict(settings.topic),
            }
        )
    else:
        console.print(
            f"{server.broker.name} serves at [bold]{str(here).replace('[', chr(92) + '[')}[/], pid {os.getpid()}"
        )
        screen.print_table(console, limits.table(settings.limits(), asdict(settings.topic)))
    if not here.is_loopback:
        screen.remark(
            f"warning: there is no authentication, and {here} may be reached from other machines: "
            "whoever does can read and write everything",
            "bold yellow",
        )


class _Ending:
    """The way from a signal to the end.

    Attributes:
        cause: the signal that began it.
    """

    cause: signal.Signals | None = None

    def __init__(self, server: Server) -> None:
        self._server = server

    async def watch(self, signals: AsyncIterator[signal.Signals]) -> None:
        """The first signal begins the orderly end, the second one does not wait for it."""
        async for received in signals:
            if self.cause is not None:
                os._exit(128 + received)
            self.cause = received
            logger.info(
                "%s: stopping, at most %g s; again: at once", received.name, self._server.broker.settings.drain_timeout
            )
            self._server.stop()
