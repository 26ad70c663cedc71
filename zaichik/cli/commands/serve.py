"""`zaichik serve`: runs a broker until it is told to stop, or its disk fails.

Run a broker until it is told to stop. Topics live in memory and end with the broker, except for
durable ones, which are kept in the folder that --data names. By default, only this machine can
reach the broker, and every program on it may do everything. To serve other machines, --init-access
makes what is needed: a certificate, users, and rules that say who may do what; later starts use
them with --access.

SIGTERM stops the broker gracefully, with exit code 0: requests it has read are answered, and
clients are told. Ctrl-C does the same with exit code 130. A second signal stops it at once, and so
does one that comes while it reads its durable topics. SIGHUP makes the broker read the files of
--access again, and never stops it: a broker outlives the terminal it was started in. If the disk of
durable topics fails, the broker ends with exit code 74.

With uvloop (the extra "speed"), the broker takes less processor time.

Examples:
  zaichik serve                          # 127.0.0.1:8889
  zaichik serve 9000 --retention 1h      # topics keep messages for an hour
  zaichik serve --data ./topics          # for zaichik create --durable
  zaichik serve --host 0.0.0.0 --init-access ./access   # for other machines
  zaichik serve --no-auto-create --log-level warning
  zaichik serve --limit max_connections=100 --limit max_bytes=128MiB
  zaichik serve --web                    # and a page: http://127.0.0.1:8080
  zaichik serve --mqtt --kafka           # and other protocols' clients
  zaichik serve --beside 'mqtt --websocket 8083'     # with their own options
  zaichik serve --clock manual           # for lessons: zaichik clock advance 1h
  zaichik serve --record flight          # for zaichik replay flight
  zaichik serve --port 0 --json          # a free port; {"host": ..., ...}
"""

# All its output is written by threads other than the one that serves. A write to a pipe or a
# terminal waits while it is not read, and fails once its reader is gone; the broker continues in
# both cases.

import asyncio
import importlib.util
import logging
import os
import signal
import sys
import threading
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup
from rich.console import Console

from zaichik.base.clock import ManualClock, SystemClock
from zaichik.cli import (
    address,
    limits,
    log,
    process_memory,
    screen,
    serve_access,
    serve_beside,
    serve_log,
    serve_record,
    service_manager,
    topic_settings,
    until_stdin_closes,
)
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, listening
from zaichik.cli.signals import ending_at_once, stopping
from zaichik.client.endpoint import Endpoint
from zaichik.client.messages import milliseconds
from zaichik.core.settings import BrokerSettings, TopicSettings
from zaichik.server.gate import OPEN
from zaichik.server.server import Server
from zaichik.storage.disk import StorageFailed
from zaichik.storage.store import CannotOpen
from zaichik_protocol import DEFAULT_PORT, Setting

logger = logging.getLogger("zaichik.console.serve")

LOOP_OPTIONS = {"use_uvloop": importlib.util.find_spec("uvloop") is not None}

HELP_END = f"\n{limits.listing()}"

ARGUMENTS = (
    argument("[PORT]", f"default: {DEFAULT_PORT}; 0 takes a free one", address.port),
    argument("--port PORT", "the port, as an option", address.port, dest="port_option"),
    argument("--host HOST", "address to listen on", default="127.0.0.1"),
    *serve_log.OPTIONS,
    argument("--no-auto-create", "publishing and subscribing make no topics, only `create` does"),
    argument(
        "--json",
        "when ready, print one JSON object: host, port, pid, loop, pin, logins, limits, "
        "topic_defaults",
    ),
    argument(
        "--data DIR",
        "a folder for durable topics, made if it is missing; without it, all topics are in memory",
        Path,
    ),
    argument(
        "--clock",
        "manual: time stands still until `zaichik clock advance` moves it",
        choices=("system", "manual"),
        default="system",
    ),
    *serve_beside.OPTIONS,
    serve_access.OPTIONS,
    serve_record.OPTIONS,
    limits.LIMIT,
    topic_settings.options(),
    until_stdin_closes.OPTION,
)


async def run(arguments: Namespace, console: Console) -> None:
    """Serve until a signal comes; the exit code depends on the signal."""
    serve_beside.check(arguments)
    serve_record.check(arguments)
    with serve_log.written(arguments):
        await _serve(arguments)


async def _serve(arguments: Namespace) -> None:
    clock = _clock(arguments)
    port = _port(arguments)
    settings = _settings(arguments)
    # A start reads the durable topics, which may take minutes, and a signal means this process, not
    # the broker that there will be. From then on it means that: also before the announcement, for a
    # program that waits for it may send one right away.
    with ending_at_once():
        server = await _listening(port, arguments.host, settings, arguments, clock)
        beside, stop = serve_beside.Beside(), anyio.Event()
        hear = partial(_stop, server, beside, stop)
        async with stopping(hear, partial(_hang_up, server)) as tasks:
            tasks.start_soon(_stop_in_order, server, beside, stop)
            lines, recording = await _prepared(server, arguments)
            if arguments.until_stdin_closes:
                tasks.start_soon(_stop_when_orphaned, server, beside, stop)
            with recording, beside.running(server, arguments):
                await _run(server, lines, arguments, tasks)


async def _prepared(
    server: Server, arguments: Namespace
) -> tuple[list[tuple[str, Endpoint]], AbstractContextManager[None]]:
    """Returns the server's login lines if they are new, and its recording."""
    try:
        lines = serve_access.prepare(server, arguments)
        if isinstance(server.broker.clock, ManualClock):
            _check_advancing(server)
        recording = serve_record.recording(server, arguments)
    except BaseException:
        await server.aclose()
        raise
    process_memory.spare_collector()
    return lines, recording


async def _run(
    server: Server, lines: list[tuple[str, Endpoint]], arguments: Namespace, tasks: TaskGroup
) -> None:
    """Announce the broker, and serve until it is stopped."""
    if arguments.log_format == "json" and serve_access.is_exposed(server):
        logger.warning("%s may be reached from other machines, and is not encrypted", _here(server))
    announcement = threading.Thread(
        target=_announce,
        args=(server, _loop(), lines, arguments),
        name="announcement",
        daemon=True,
    )
    announcement.start()
    service_manager.tell(service_manager.READY)
    tasks.start_soon(process_memory.give_back_forever)
    try:
        await server.run()
    except StorageFailed as failure:
        raise Failure(f"{failure}; what was answered is on the disk", os.EX_IOERR) from failure
    announcement.join(log.FLUSH_SECONDS)


def _port(arguments: Namespace) -> int:
    given = {port for port in (arguments.port, arguments.port_option) if port is not None}
    if len(given) > 1:
        raise WrongUsage(
            f"PORT is {arguments.port}, but --port is {arguments.port_option}; give only one"
        )
    return given.pop() if given else DEFAULT_PORT


def _settings(arguments: Namespace) -> BrokerSettings:
    """Returns the broker's settings; those of topics are checked as a client's are."""
    chosen = topic_settings.chosen(arguments)
    for name in ("retention_ttl", "compaction_window"):
        if name in chosen:
            chosen[f"{name}_ms"] = milliseconds(chosen.pop(name))
    if chosen.get("durable") and arguments.data is None:
        raise WrongUsage("--durable needs --data DIR, the folder of durable topics")
    topic = TopicSettings().merged(
        tuple((Setting[name.upper()], value) for name, value in chosen.items())
    )
    return BrokerSettings(topic=topic, **limits.chosen(arguments))


def _clock(arguments: Namespace) -> ManualClock | None:
    """Returns a clock that clients move, if that was asked for (TIM-4)."""
    if arguments.clock == "system":
        return None
    if arguments.data is not None:
        raise WrongUsage(
            "--clock manual is for topics in memory: what expires on a disk is gone for good, and "
            "a restart could set "
            "the clock back; leave out --data"
        )
    return ManualClock(SystemClock().now_us())


def _check_advancing(server: Server) -> None:
    """Refuse a clock that anyone could move: it takes a right, or being on this machine."""
    if server.gate is OPEN and not _here(server).is_loopback:
        raise Failure(
            f"other machines can reach {server.host}, and anyone there could move the clock: leave "
            "out --host, or add "
            "--access DIR, with users of whom some have the right to delete $broker"
        )


async def _listening(
    port: int, host: str, settings: BrokerSettings, arguments: Namespace, clock: ManualClock | None
) -> Server:
    """Returns a server at the address.

    If its clock is manual, connections and logins have a clock of their own.

    Raises:
        Failure: there is none; the sentence says why, and what to do.
    """
    listen = Server.listening if arguments.record is None else serve_record.listening
    try:
        with listening(port, "zaichik serve PORT", "another broker", host):
            server = await listen(host, port, settings, clock, arguments.data)
    except CannotOpen as error:
        raise Failure(str(error), error.code) from error
    if clock is not None:
        server.broker.connection_clock = SystemClock()
    return server


def _loop() -> str:
    """Returns the name of the library whose event loop runs."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def _here(server: Server) -> address.Address:
    return address.Address(server.host, server.port)


def _announce(
    server: Server, loop: str, lines: list[tuple[str, Endpoint]], arguments: Namespace
) -> None:
    """Print the broker's address, event loop, limits and login lines, and if asked, no TLS."""
    here = _here(server)
    settings = server.broker.settings
    out = log.unbuffered(sys.stdout)
    if arguments.json:
        announcement = {
            "host": server.host,
            "port": server.port,
            "pid": os.getpid(),
            "loop": loop,
            "pin": serve_access.pin(server),
            "logins": {name: endpoint.line for name, endpoint in lines},
            "limits": settings.limits(),
            "topic_defaults": settings.topic.by_name(),
        }
        screen.print_json(announcement, out)
    else:
        console = screen.on(out)
        # An IPv6 address has brackets, which rich would take for a style.
        at = str(here).replace("[", r"\[")
        console.print(f"{server.broker.name} serves at [bold]{at}[/], pid {os.getpid()}, on {loop}")
        if isinstance(server.broker.clock, ManualClock):
            console.print("its clock stands still; to move it: zaichik clock advance 1h")
        screen.print_table(console, limits.table(settings.limits(), settings.topic.by_name()))
        serve_access.print_lines(console, lines)
    if arguments.log_format == "text" and serve_access.is_exposed(server):
        warning = (
            f"warning: {here} may be reached from other machines, and is not encrypted: anyone on "
            "the way can read everything"
        )
        if server.gate is OPEN:
            warning += ", and anyone who reaches it can write, too"
        screen.remark(warning, "bold yellow", log.unbuffered(sys.stderr))


def _stop(
    server: Server, beside: serve_beside.Beside, stop: anyio.Event, received: signal.Signals
) -> None:
    service_manager.tell(service_manager.STOPPING)
    logger.info(
        "%s: stopping, which may take %g s; a second signal stops at once",
        received.name,
        beside.longest_stop_s + server.longest_stop_s,
    )
    stop.set()


async def _stop_in_order(server: Server, beside: serve_beside.Beside, stop: anyio.Event) -> None:
    """Stop the programs beside the broker when the event is set, then the broker."""
    await stop.wait()
    await beside.stop()
    server.stop()


async def _stop_when_orphaned(
    server: Server, beside: serve_beside.Beside, stop: anyio.Event
) -> None:
    """Stop when the program that has started this one has ended, however it did."""
    closed = anyio.Event()
    await until_stdin_closes.stop_when_closed(closed)
    logger.info(
        "standard input has closed: stopping, which may take %g s",
        beside.longest_stop_s + server.longest_stop_s,
    )
    stop.set()


def _hang_up(server: Server) -> None:
    """A reload is asked for; or the terminal is gone, or a session has ended."""
    if not serve_access.reload(server):
        logger.info("SIGHUP is ignored; SIGTERM stops the broker")
