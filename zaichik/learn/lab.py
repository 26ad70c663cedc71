"""A learner's broker, started for an experiment: a process at a free port, stopped with the block.

    with running() as broker:
        reader = broker.client()

It is for the tutorial's experiments and exercises, which talk to it through plain blocking sockets,
or one frame at a time (`caller.py`); stages have their own `Launcher`. The broker is the one in
learn.toml, whatever language it is written in.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from zaichik.learn import config, wire
from zaichik.learn.caller import Caller
from zaichik.learn.environment import for_program
from zaichik.learn.server import HOST, free_port, private_folder, shortened, why_not

START_S, STOP_S, PATIENCE_S = 10.0, 5.0, 5.0
POLL_INTERVAL_S = 0.01
HELLO = wire.encode("Hello", frame_id=1)  # what every client begins with


class NoBroker(SystemExit):
    """There is no broker, or it does not listen; the text says why. No traceback is shown."""


class Broker:
    """One running program.

    Attributes:
        port: where it listens, at 127.0.0.1.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], port: int, output: IO[bytes], stack: ExitStack
    ) -> None:
        self.port = port
        self._process = process
        self._output = output
        self._stack = stack

    def connect(self) -> socket.socket:
        """A connection, with a timeout of 5 seconds, closed with the block at the latest."""
        return self._stack.enter_context(
            socket.create_connection((HOST, self.port), timeout=PATIENCE_S)
        )

    def client(self, features: int = 0) -> Caller:
        """A client that has said Hello, and that it knows these features."""
        return Caller(self.connect(), features)

    def memory(self) -> int:
        """The bytes of memory that the program uses, as the system counts them."""
        command = ["ps", "-o", "rss=", "-p", str(self._process.pid)]
        output = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 (our own words)
        return int(output.stdout) * 1024

    def pause(self) -> None:
        """Stop the program in the middle of whatever it does, like a machine that falls asleep."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def wait_for_its_end(self) -> int:
        """Wait until it has ended by itself. Returns the exit code."""
        return self._process.wait(PATIENCE_S)

    def output(self) -> list[str]:
        """The lines it has written."""
        size = os.fstat(self._output.fileno()).st_size
        return (
            os.pread(self._output.fileno(), size, 0)
            .decode("utf-8", "backslashreplace")
            .splitlines()
        )


@contextmanager
def running(program: str | Path = "", *, limits: Sequence[str] = ()) -> Iterator[Broker]:
    """A broker, for as long as the block lasts.

    Args:
        program: a Python file; by default the command in learn.toml.
        limits: options of the shell's `ulimit`, such as ["-n", "20"].

    Raises:
        NoBroker: it cannot be started, or does not listen.
    """
    port, variable = free_port(), "PORT"
    with tempfile.TemporaryFile() as output, ExitStack() as stack:
        command = [sys.executable, str(program)]
        try:
            if not program:
                known = config.read(Path(config.FILE_NAME))
                data = stack.enter_context(private_folder()) if known.names_a_folder else ""
                command, variable = known.command_at(port, data), known.port_variable
            if limits:
                command = [
                    "bash",
                    "-c",
                    'ulimit "$1" "$2" && shift 2 && exec "$@"',
                    "limited",
                    *limits,
                    *command,
                ]
            process = subprocess.Popen(  # noqa: S603 (the learner's own program)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=for_program(variable, port),
            )
        except (config.BadConfig, OSError) as error:
            why = why_not(command, error) if isinstance(error, OSError) else str(error)
            raise NoBroker(f"the broker cannot be started: {why}") from None
        broker = Broker(process, port, output, stack)
        try:
            _wait_until_it_listens(broker, shlex.join(command))
            yield broker
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
            process.kill()
            process.wait()


def _wait_until_it_listens(broker: Broker, program: str) -> None:
    until = time.monotonic() + START_S
    while broker.is_running and time.monotonic() < until:
        try:
            socket.create_connection((HOST, broker.port), timeout=START_S).close()
        except OSError:
            time.sleep(POLL_INTERVAL_S)
        else:
            return
    wrote = (
        "\n".join(["It wrote:", *shortened(lines)])
        if (lines := broker.output())
        else "It wrote nothing."
    )
    raise NoBroker(f"{program} does not listen at the port it was given. {wrote}")
