"""What `zaichik serve` starts beside the broker: the page, and front ends for other protocols.

Each is a program of its own, so what its clients do, and whatever becomes of it, never takes time
from the broker. It ends when its standard input closes, which it does however the broker ends. It
has no secret of anybody: if the broker asks for a login, each client logs in for itself.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from zaichik.cli import address, default_ports, serve_access
from zaichik.cli.arguments import Argument, Namespace, WrongUsage, argument
from zaichik.client.endpoint import Endpoint
from zaichik.server.server import Server

logger = logging.getLogger("zaichik.console.serve_beside")

LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104
STDERR = 2
END_S = 2.0  # in which a program has ended


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
OPTIONS = tuple(program.option for program in PROGRAMS)


def check(arguments: Namespace) -> None:
    """Check that what was asked for can run beside the broker that was asked for.

    Raises:
        WrongUsage: it cannot.
    """
    has_users = arguments.access is not None or arguments.init_access is not None
    for program in PROGRAMS:
        is_wanted = getattr(arguments, program.command) is not None
        if is_wanted and has_users and program.needs_login:
            raise WrongUsage(
                f"--{program.command} has no login, and this broker will ask for one: log a user "
                f"in with `zaichik login`, and start `zaichik {program.command}` by itself"
            )


@contextmanager
def running(server: Server, arguments: Namespace) -> Iterator[None]:
    """Runs what was asked for beside a listening broker, during the block."""
    with ExitStack() as all_of_them:
        for program in PROGRAMS:
            port = getattr(arguments, program.command)
            if port is not None:
                all_of_them.enter_context(_running(program, port, server, arguments))
        yield


@contextmanager
def _running(program: Program, port: int, server: Server, arguments: Namespace) -> Iterator[None]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("ZAICHIK_")
    }
    try:
        process = subprocess.Popen(  # noqa: S603 (our own program)
            _command(program, port, server, arguments),
            stdin=subprocess.PIPE,
            stdout=STDERR,  # the broker's own standard output may be read by a program
            env=environment,
            start_new_session=True,  # Ctrl-C is for the broker, which ends it when it is done
        )
    except OSError as error:
        logger.warning("%s cannot be started: %s", program.name, error)
        yield
        return
    is_ending = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(program, process, is_ending), name=program.command, daemon=True
    )
    watch.start()
    with process:
        try:
            yield
        finally:
            is_ending.set()
            if process.stdin is not None:
                process.stdin.close()  # at which it ends
            watch.join(END_S)
            if watch.is_alive():
                process.kill()


def _command(program: Program, port: int, server: Server, arguments: Namespace) -> list[str]:
    pin = serve_access.pin(server)
    pins = () if pin is None else (pin,)
    host = LOCAL.get(server.host, server.host)
    broker = Endpoint(host, server.port, pin is not None, pins)
    return [
        *(sys.executable, "-m", "zaichik", program.command),
        *("--connect", broker.line),
        *("--port", str(port)),
        *("--log-format", arguments.log_format),
        *("--log-level", arguments.log_level),
        "--until-stdin-closes",
    ]


def _watch(program: Program, process: subprocess.Popen[bytes], is_ending: threading.Event) -> None:
    """Say it when the program ends before it is to.

    It is not started again: it would end again.
    """
    code = process.wait()
    if is_ending.is_set():
        return
    # The page's event had a name before there were others, and names of events stay.
    if program.command == "web":
        logger.error("the page has ended with exit code %d; the broker goes on without it", code)
    else:
        logger.error(
            "%s has ended with exit code %d; the broker goes on without it", program.name, code
        )
