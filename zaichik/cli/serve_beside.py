"""What `zaichik serve` starts beside the broker: the page, and front ends for other protocols.

Each is a program of its own, so what its clients do, and whatever becomes of it, never takes time
from the broker. It ends when its standard input closes, which it does however the broker ends. A
broker that is stopped in order has them end first, and serves them so long. They have no secret of
anybody: if the broker asks for a login, each client logs in for itself.

`--mqtt PORT` is short for `--beside "mqtt --port PORT"`: what a command can, it can here, too.
"""

import argparse
import logging
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

import anyio
import anyio.to_thread

from zaichik.cli import address, default_ports, serve_access
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, add, argument
from zaichik.client.endpoint import Endpoint
from zaichik.server.server import Server

logger = logging.getLogger("zaichik.console.serve_beside")

LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
STDERR = 2
STOP_S = 8.0  # in which a program has ended in order; the one for MQTT takes five at most
END_S = 2.0  # in which it has ended if the broker is gone already


@dataclass(frozen=True, slots=True)
class Program:
    """A command that can run beside the broker.

    Attributes:
        command: the command's name, which is the option's, too.
        name: how the log calls it.
        port: where it listens if the option has no value.
        serves: what the option's help says after "also serve".
        needs_login: whether it must log in itself where the broker asks for logins, because what
            it remembers for its clients is in topics of its own.
    """

    command: str
    name: str
    port: int
    serves: str
    needs_login: bool = True

    @property
    def option(self) -> Argument:
        """The option of `zaichik serve` that asks for it."""
        text = f"also serve {self.serves}, on this port (default: %(const)s)"
        return argument(f"--{self.command} [PORT]", text, address.port, const=self.port)


PROGRAMS = (
    Program(
        command="web",
        name="the page",
        port=default_ports.WEB,
        serves="a page for browsers on this machine, as `zaichik web` does",
        needs_login=False,
    ),
    Program(
        command="mqtt",
        name="MQTT",
        port=default_ports.MQTT,
        serves="clients of MQTT on this machine, as `zaichik mqtt` does",
    ),
    Program(
        command="kafka",
        name="Kafka's protocol",
        port=default_ports.KAFKA,
        serves="clients of Kafka on this machine, as `zaichik kafka` does",
    ),
    Program(
        command="grpc",
        name="gRPC",
        port=default_ports.GRPC,
        serves="clients of gRPC on this machine, as `zaichik grpc` does",
    ),
)
# What `zaichik serve` tells each of them.
TOLD = ("--connect", "--log-format", "--log-level", "--json", "--until-stdin-closes")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A program that was asked for, and the words after its command."""

    program: Program
    words: tuple[str, ...]


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise what the parser of `zaichik serve` says in its own words."""
        raise WrongUsage(message)


def _wanted(text: str) -> Wanted:
    """Returns what a command line asks for, which is wrong now or never."""
    try:
        name, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise WrongUsage(f"{text!r} is no command line: {error}") from None
    known = {program.command: program for program in PROGRAMS}
    if name not in known:
        raise WrongUsage(f"{name!r} cannot run beside a broker; {', '.join(known)} can")
    told = [word for word in words if word.partition("=")[0] in TOLD]
    if told:
        raise WrongUsage(f"leave out {told[0]}: `zaichik serve` tells it")
    parser = _Parser(f"zaichik {name}", add_help=False, allow_abbrev=False)
    add(parser, import_module(f"zaichik.cli.commands.{name}").ARGUMENTS)
    try:
        parser.parse_args(words)
    except WrongUsage as error:
        raise WrongUsage(f"{text!r}: {error}") from None
    return Wanted(known[name], tuple(words))


BESIDE = argument(
    "--beside COMMAND",
    "also serve what this command line does, with options of its own, such as 'mqtt --websocket "
    "8083'; may be repeated",
    _wanted,
    action="append",
    default=[],
)
OPTIONS = (*(program.option for program in PROGRAMS), BESIDE)


def _all_wanted(arguments: Namespace) -> list[Wanted]:
    """Returns all programs that were asked for, in one way or the other."""
    found: list[Wanted] = []
    for program in PROGRAMS:
        port = getattr(arguments, program.command)
        if port is not None:
            found.append(Wanted(program, ("--port", str(port))))
    found.extend(arguments.beside)
    return found


def check(arguments: Namespace) -> None:
    """Check that what was asked for can run beside the broker that was asked for.

    Raises:
        WrongUsage: it cannot.
    """
    has_users = arguments.access is not None or arguments.init_access is not None
    for wanted in _all_wanted(arguments):
        command = wanted.program.command
        if has_users and wanted.program.needs_login:
            raise WrongUsage(
                f"--{command} has no login, and this broker will ask for one: log a user "
                f"in with `zaichik login`, and start `zaichik {command}` by itself"
            )


class Beside:
    """The programs that run beside the broker, each until it is asked to end."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @property
    def longest_stop_s(self) -> float:
        """How long `stop` may take."""
        return STOP_S if self._running else 0.0

    @contextmanager
    def running(self, server: Server, arguments: Namespace) -> Iterator[None]:
        """Runs what was asked for beside a listening broker, during the block."""
        try:
            for wanted in _all_wanted(arguments):
                self._start(wanted, server, arguments)
            yield
        finally:
            # Those that were not stopped before, because the broker has ended by itself.
            self._ask()
            self._wait(END_S)
            for one in self._running:
                one.kill()

    def _start(self, wanted: Wanted, server: Server, arguments: Namespace) -> None:
        program = wanted.program
        try:
            self._running.append(_Running(program, _command(wanted, server, arguments)))
        except OSError as error:
            logger.warning("%s cannot be started: %s", program.name, error)

    async def stop(self) -> None:
        """Returns when all have ended, while the broker still serves them.

        What they have to say to it last, such as the wills of their clients, is stored so. Those
        that take too long end with the broker.
        """
        self._ask()
        if self._running:
            await anyio.to_thread.run_sync(self._wait, STOP_S, abandon_on_cancel=True)

    def _ask(self) -> None:
        for one in self._running:
            one.ask()

    def _wait(self, seconds: float) -> None:
        """Wait until all have ended, for so long at most."""
        deadline = time.monotonic() + seconds
        for one in self._running:
            one.watch.join(max(0.0, deadline - time.monotonic()))


class _Running:
    """One of them.

    Args:
        program: what it is.
        command: its words.

    Attributes:
        watch: ends when it has ended.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, program: Program, command: list[str]) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("ZAICHIK_")
        }
        self._program = program
        self._process = subprocess.Popen(  # noqa: S603 (our own program)
            command,
            stdin=subprocess.PIPE,
            stdout=STDERR,  # the broker's own standard output may be read by a program
            env=environment,
            start_new_session=True,  # Ctrl-C is for the broker, which ends it when it is done
        )
        self._is_ending = threading.Event()
        self.watch = threading.Thread(target=self._watch, name=program.command, daemon=True)
        self.watch.start()

    def ask(self) -> None:
        """Have it end: its standard input closes."""
        self._is_ending.set()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def kill(self) -> None:
        """End it, if it has not ended."""
        if self.watch.is_alive():
            self._process.kill()
        self._process.wait()

    def _watch(self) -> None:
        """Say it when the program ends before it is to.

        It is not started again: it would end again.
        """
        code = self._process.wait()
        if self._is_ending.is_set():
            return
        name = self._program.name
        # The page's event had a name before there were others, and names of events stay.
        if self._program.command == "web":
            logger.error(
                "the page has ended with exit code %d; the broker goes on without it", code
            )
        else:
            logger.error(
                "%s has ended with exit code %d; the broker goes on without it", name, code
            )


def _command(wanted: Wanted, server: Server, arguments: Namespace) -> list[str]:
    pin = serve_access.pin(server)
    pins = () if pin is None else (pin,)
    host = LOCAL.get(server.host, server.host)
    broker = Endpoint(host, server.port, pin is not None, pins)
    return [
        *(sys.executable, "-m", "zaichik", wanted.program.command, *wanted.words),
        *("--connect", broker.line),
        *("--log-format", arguments.log_format),
        *("--log-level", arguments.log_level),
        "--until-stdin-closes",
    ]
