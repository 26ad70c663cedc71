"""What the commands of front ends for other protocols share: options, TLS, and how they begin."""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.cli import address, connecting, screen, serve_log, until_stdin_closes
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, restated
from zaichik.cli.signals import stopping
from zaichik.net.tls_settings import UnusableCertificate, server_tls

logger = logging.getLogger("zaichik.console.front_end")

HOST = argument("--host HOST", "address to listen on", default="127.0.0.1")


def port(default: int) -> Argument:
    """The option of where it listens."""
    text = "port to listen on; 0 takes a free one"
    return argument("--port PORT", text, address.port, default=default)


OPTIONS = (
    argument("--tls-cert FILE", "serve over TLS: the certificate, PEM", Path),
    argument("--tls-key FILE", "the certificate's private key, PEM", Path),
    *serve_log.OPTIONS,
    argument("--json", "when ready, print one JSON object: host, port, pid, broker"),
    until_stdin_closes.OPTION,
    connecting.ADDRESS,
    connecting.RECONNECT,
)


async def run(
    protocol: str,
    serve: Callable[[Namespace, Console], Awaitable[None]],
    arguments: Namespace,
    console: Console,
) -> int:
    """Run a front end until a signal comes, or the broker is gone. Returns the exit code.

    Args:
        protocol: what it speaks, for people.
        serve: the front end; it returns when it has been stopped.
        arguments: of the command.
        console: where the command prints.

    Raises:
        Failure: it cannot be served, and the log is for people.
    """
    with serve_log.written(arguments):
        try:
            await serve(arguments, console)
        except Failure as failure:
            if arguments.log_format == "text":
                raise
            logger.error("%s cannot be served: %s", protocol, failure)  # noqa: TRY400 (it is no bug)
            return failure.code
    return 0


def tls(arguments: Namespace) -> SSLContext | None:
    """Returns what clients are shown; None without TLS.

    Raises:
        WrongUsage: there is a certificate without a key, or a key without a certificate.
        Failure: they cannot be used.
    """
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise WrongUsage("--tls-cert and --tls-key belong together")
    if arguments.tls_cert is None:
        return None
    with restated(UnusableCertificate):
        return server_tls(arguments.tls_cert, arguments.tls_key).context


@asynccontextmanager
async def until_stopped(
    arguments: Namespace, hang_up: Callable[[], None] | None = None
) -> AsyncIterator[anyio.abc.TaskGroup]:
    """Waits at the end of the block for a signal, or for the program that has started this one.

    Signals are caught before the block: a program that waits for what it prints may send one right
    away.

    Args:
        arguments: of the command.
        hang_up: is called at SIGHUP, which then ends nothing.

    Returns:
        Tasks that are cancelled when the wait is over.
    """
    stop = anyio.Event()
    async with stopping(lambda _: stop.set(), hang_up) as tasks:
        if arguments.until_stdin_closes:
            tasks.start_soon(until_stdin_closes.stop_when_closed, stop)
        yield tasks
        await stop.wait()


def announce(
    protocol: str,
    host: str,
    port: int,
    arguments: Namespace,
    console: Console,
    websocket: int | None = None,
) -> None:
    """Say that clients can connect, and where.

    Args:
        protocol: what they speak, for people.
        host: where.
        port: where.
        arguments: of the command.
        console: where the command prints.
        websocket: another port, for those that connect over WebSocket.
    """
    here = address.Address(host, port)
    if arguments.json:
        told = {"host": here.host, "port": here.port, "pid": os.getpid()}
        if websocket is not None:
            told["websocket"] = websocket
        screen.print_json(told | {"broker": str(arguments.connect)})
        return
    _announce_one(protocol, here, arguments, console)
    if websocket is not None:
        there = address.Address(host, websocket)
        _announce_one(f"{protocol} over WebSocket", there, arguments, console)


def _announce_one(
    protocol: str, here: address.Address, arguments: Namespace, console: Console
) -> None:
    broker = str(arguments.connect)
    if arguments.log_format == "json":
        logger.info("serving %s at %s, for the broker at %s", protocol, here, broker)
    else:
        text = Text.assemble(
            f"serving {protocol} at ", (str(here), "bold"), f", for the broker at {broker}"
        )
        console.print(text, soft_wrap=True)
