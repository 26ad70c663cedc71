"""Starts processes, each in a session of its own, and ends exactly these."""

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.peer import Job, Peer, executable
from benchmarks.roles import peer_of

ROOT = Path(__file__).parent.parent
PORTS = range(20_000, 32_000)
START_SECONDS = 60.0  # RabbitMQ on a busy machine
END_SECONDS = 2.0
PATIENCE = 20.0  # seconds beyond a job's own deadline, for interpreters to start and links to stand

Server = tuple[int, int]  # its port, and its process id, which is also its group's


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr, flush=True)


class Failed(Exception):
    """A process did not do its job."""


@contextmanager
def process(
    command: Sequence[str], log: Path, environment: dict[str, str], **pipes: Any
) -> Iterator[Any]:
    """Returns a process that runs as long as the block.

    Ctrl-C does not reach it: it ends with the block.

    Processes that it has started end with it, because it has a session, and so a process group, of
    its own.
    """
    path = executable(command[0]) or command[0]
    with log.open("a", encoding="utf-8") as output:
        streams: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": output,
            "stderr": output,
            **pipes,
        }
        child = subprocess.Popen(
            [path, *command[1:]],
            cwd=ROOT,
            env={**os.environ, **environment},
            start_new_session=True,
            **streams,
        )
    try:
        yield child
    finally:
        end(child)
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                stream.close()


def end(child: "subprocess.Popen[Any]") -> None:
    """Terminate the process and those it has started; kill them after two seconds.

    It is reaped last: until then its id, which is also the group's, cannot be reused.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
            os.killpg(child.pid, number)
        limit = time.monotonic() + END_SECONDS
        while not has_ended(child) and time.monotonic() < limit:
            time.sleep(0.005)
    child.wait()


def kill(child: "subprocess.Popen[Any]") -> None:
    """End it and what it has started at once, whatever they still have to do.

    It is not reaped yet.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)


def has_ended(child: "subprocess.Popen[Any]") -> bool:
    """Whether it has, without reaping it."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


@contextmanager
def server(peer: Peer) -> Iterator[Server]:
    """Port and process id of a server of this peer, started in a private directory, as long as the
    block lasts.
    """
    port = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        directory = Path(name)
        log = directory / "server.log"
        environment = peer.environment(directory, port)
        for command in peer.commands(directory, port):
            child = stack.enter_context(process(command, log, environment))
        wait_until_listening(child, port, log)
        yield port, child.pid


@contextmanager
def paused(group: int) -> Iterator[None]:
    """Stops a process group, so that it uses no processor time; it continues at the end of the
    block.
    """
    os.killpg(group, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGCONT)


@contextmanager
def resumed(group: int) -> Iterator[None]:
    """Lets a paused process group run for as long as the block lasts."""
    os.killpg(group, signal.SIGCONT)
    try:
        yield
    finally:
        os.killpg(group, signal.SIGSTOP)


def free_port() -> int:
    """The first of three neighbouring ports that are free (RabbitMQ needs three).

    They are below the ports of outgoing connections: one of those could take a port before the
    server does.
    """
    for _ in range(100):
        first = random.choice(PORTS)  # noqa: S311 - no secret
        try:
            with ExitStack() as stack:
                for port in (first, first + 1, first + 2):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
                return first
        except OSError:
            continue
    raise Failed("no three neighbouring ports are free")


def wait_until_listening(child: "subprocess.Popen[Any]", port: int, log: Path) -> None:
    """Returns when somebody can connect.

    Raises:
        Failed: the server has ended, or takes too long.
    """
    limit = time.monotonic() + START_SECONDS
    while not has_ended(child) and time.monotonic() < limit:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise Failed(
        f"the server did not start: {log.read_text(encoding='utf-8', errors='replace')[-1000:]}"
    )


class Actor:
    """A process that plays a role of `benchmarks.roles`."""

    def __init__(self, job: Job, child: Any, log: Path) -> None:
        self.job = job
        self._child = child
        self._log = log
        self._limit = time.monotonic() + job.deadline + PATIENCE

    def line(self) -> str:
        """The next line it prints.

        Raises:
            Failed: it has none, or takes longer than its job may take.
        """
        output: IO[str] = self._child.stdout
        ready, _, _ = select.select([output], [], [], max(0.0, self._limit - time.monotonic()))
        line = output.readline().strip() if ready else ""
        if not line:
            told = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
            words = [
                text.strip(" |") for text in told if any(map(str.isalpha, text))
            ]  # without a traceback's frame
            raise Failed(f"{self.job.role}: " + (words[-1] if words else "took too long"))
        return line

    def ready(self) -> None:
        """Returns when it has prepared everything."""
        if (line := self.line()) != "ready":
            raise Failed(f"{self.job.role} said {line!r}")

    def go(self) -> None:
        """Give the word."""
        self._child.stdin.write("go\n")
        self._child.stdin.flush()

    def result(self) -> dict[str, Any]:
        """What it found."""
        result: dict[str, Any] = json.loads(self.line())
        return result


@contextmanager
def actor(job: Job) -> Iterator[Actor]:
    """A process that does the job, as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.roles", json.dumps(asdict(job))]
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        log = Path(name) / "actor.log"
        environment = peer_of(job.peer).client_environment() if job.peer else {}
        with process(
            command, log, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            yield Actor(job, child, log)
