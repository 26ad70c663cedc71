"""What the commands of front ends for other protocols share: options, TLS, and how they begin."""

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from ssl import SSLContext

import anyio
from rich.console import Console
from rich.text import Text

from zaichik.apps.gateways.claim import AlreadyServed
from zaichik.apps.gateways.traffic import Figures
from zaichik.base.extras import getting
from zaichik.cli import (
    acked_by,
    address,
    connecting,
    process_memory,
    screen,
    serve_log,
    until_stdin_closes,
)
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening, restated
from zaichik.cli.signals import stopping
from zaichik.net.tls_settings import UnusableCertificate, server_tls

logger = logging.getLogger("zaichik.console.front_end")

ACKED_BY = acked_by.option("acknowledge what clients publish when WHAT has it, too; WHAT is kafka")
METRICS_HOST = "127.0.0.1"

HOST = argument("--host HOST", "address to listen on", default="127.0.0.1")


def port(default: int) -> Argument:
    """The option of where it listens."""
    text = "port to listen on; 0 takes a free one"
    return argument("--port PORT", text, address.port, default=default)


METRICS = argument(
    "--metrics PORT",
    "also serve metrics for Prometheus, at http://127.0.0.1:PORT/metrics, for this machine only; "
    "0 takes a free port",
    address.port,
)
OPTIONS = (
    argument("--tls-cert FILE", "serve over TLS: the certificate, PEM", Path),
    argument("--tls-key FILE", "the certificate's private key, PEM", Path),
    METRICS,
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
    *failures: type[Exception],
) -> int:
    """Run a front end until a signal comes, or the broker is gone. Returns the exit code.

    Args:
        protocol: what it speaks, for people.
        serve: the front end; it returns when it has been stopped.
        arguments: of the command.
        console: where the command prints.
        failures: exceptions that say in a sentence why it cannot be served.

    Raises:
        Failure: it cannot be served, and the log is for people.
    """
    with serve_log.written(arguments):
        try:
            with _ungrouped(AlreadyServed, *failures):
                await serve(arguments, console)
        except Failure as failure:
            if arguments.log_format == "text":
                raise
            logger.error("%s cannot be served: %s", protocol, failure)  # noqa: TRY400 (it is no bug)
            return failure.code
    return 0


@contextmanager
def _ungrouped(*kinds: type[Exception]) -> Iterator[None]:
    """What these exceptions say in the block is raised as a failure, also if tasks raise them."""
    try:
        yield
    except kinds as error:
        raise Failure(str(error)) from error
    except ExceptionGroup as group:
        found = group.subgroup(kinds)
        if found is None:
            raise
        first: BaseException = found
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise Failure(str(first)) from group


@contextmanager
def metrics(
    protocol: str, read: Callable[[], Figures], arguments: Namespace
) -> Iterator[int | None]:
    """Serve metrics during the block, if they are asked for; returns their port, None without.

    Args:
        protocol: the label that tells them from those of other front ends.
        read: returns the figures; another thread calls it.
        arguments: of the command.

    Raises:
        Failure: a package is missing, or the port cannot be had.
    """
    if arguments.metrics is None:
        yield None
        return
    try:
        from zaichik.apps.gateways.metrics import Metrics, served
    except ModuleNotFoundError as error:
        raise Failure(f"--metrics needs prometheus-client; get it with {getting('web')}") from error
    with ExitStack() as stack:
        command = f"zaichik {protocol} --metrics PORT"
        with listening(arguments.metrics, command, "another front end", METRICS_HOST):
            port = stack.enter_context(served(Metrics(protocol, read), arguments.metrics))
        yield port


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
    # A gateway makes several objects for each message, so the collector runs often.
    process_memory.spare_collector()
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
    metrics_port: int | None = None,
) -> None:
    """Say that clients can connect, and where.

    Args:
        protocol: what they speak, for people.
        host: where.
        port: where.
        arguments: of the command.
        console: where the command prints.
        websocket: another port, for those that connect over WebSocket.
        metrics_port: the port of metrics.
    """
    here = address.Address(host, port)
    if arguments.json:
        told = {"host": here.host, "port": here.port, "pid": os.getpid()}
        if websocket is not None:
            told["websocket"] = websocket
        if metrics_port is not None:
            told["metrics"] = metrics_port
        screen.print_json(told | {"broker": str(arguments.connect)})
        return
    _announce_one(protocol, here, arguments, console)
    if websocket is not None:
        there = address.Address(host, websocket)
        _announce_one(f"{protocol} over WebSocket", there, arguments, console)
    if metrics_port is not None:
        _announce_one("metrics", address.Address(METRICS_HOST, metrics_port), arguments, console)


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
