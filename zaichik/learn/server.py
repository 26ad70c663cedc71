"""The learner's server as a process: started, watched, and ended, by us and only if we started it.

It gets a session of its own, so that what a wrapper such as `sh -c` or `npm` starts ends with it, and so that Ctrl-C
at the terminal reaches us alone. It has no standard input: the keys that somebody types are for `watch`. Both its
outputs go to one file: nobody has to read a pipe for it to go on.
"""

import errno
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import anyio
from anyio.abc import Process

from zaichik.learn.config import PORT, Config
from zaichik.learn.runner import ServerTrouble
from zaichik.learn.trial import Target

HOST = "127.0.0.1"
LOOK_EVERY_S = 0.02
FALLING_S = 0.2  # from an exception to the end of its process; a client hears of it earlier
# Of what a server wrote, its first and its last lines are shown, and what a crash says first: of a Go program or a Rust
# one that is before a long list of frames, and after a long log.
FIRST_LINES, CRASH_LINES, LAST_LINES = 4, 6, 12
_HEAD_BYTES, _TAIL_BYTES = 2048, 65_536
_CRASHES = re.compile(r"^(panic: |fatal error: |thread '.*' (\(\d+\) )?panicked at |Traceback \(|Exception in thread )")


class Server:
    """One process of the learner's, that listens.

    Attributes:
        target: where.
    """

    def __init__(self, process: Process, config: Config, port: int, output: IO[bytes]) -> None:
        self.target = Target(HOST, port)
        self._process = process
        self._config = config
        self._output = output

    @classmethod
    async def start(cls, config: Config) -> "Server":
        """Start it and wait until it listens.

        Raises:
            ServerTrouble: it does not.
        """
        port = free_port()
        command = config.command_at(port)
        output = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        began = time.monotonic()
        environment = {**os.environ, config.port_variable: str(port), "PYTHONUNBUFFERED": "1"}
        try:
            process = await anyio.open_process(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=config.folder, env=environment,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            output.close()
            raise ServerTrouble(f"the command in {config.name} cannot be started: {_why_not(command, error)}") from None
        server = cls(process, config, port, output)
        try:
            await server._listening(began)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await server.terminate()
            server.close()
            raise
        return server

    async def _listening(self, began: float) -> None:
        with anyio.move_on_after(self._config.start_s):
            while not self.obituary():
                try:
                    async with await anyio.connect_tcp(*_address(self.target)):
                        return
                except OSError:
                    await anyio.sleep(LOOK_EVERY_S)
        if obituary := self.obituary():
            ended = obituary.removeprefix("the server ")
            raise ServerTrouble(
                f"the command in {self._config.name} {ended}, {time.monotonic() - began:.1f} s after it was started "
                f"and before anything listened at port {self.target.port}.{_meaning(self._process.returncode)} "
                f"{self._said()}"
            )
        taught = f"the environment variable {self._config.port_variable}"
        if any(PORT in word for word in self._config.command):
            taught += f", and {PORT} in its command"
        raise ServerTrouble(
            f"the command in {self._config.name} was started and still runs, but did not listen at "
            f"{HOST}:{self.target.port} within {self._config.start_s:g} s: does it take its port from {taught}? "
            f"{self._said()}"
        )

    def _said(self) -> str:
        said = self.output()
        return f"It wrote:\n{said}" if said else "It wrote nothing."

    def obituary(self) -> str:
        """How it ended, if it has."""
        code = self._process.returncode
        if code is None:
            return ""
        if code < 0:
            return f"the server was ended by {signal.Signals(-code).name}"
        return f"the server ended by itself with exit code {code}"

    async def ended(self, seconds: float) -> None:
        """Wait for its end, at most that long."""
        with anyio.move_on_after(seconds):
            await self._process.wait()

    def output(self) -> str:
        """The lines of it that matter, standard output and standard error together."""
        # Reading at a place of our own: moving the file's would move the server's writing, which shares it.
        file = self._output.fileno()
        size = os.fstat(file).st_size
        if size <= _HEAD_BYTES + _TAIL_BYTES:
            lines = _lines(os.pread(file, size, 0))
        else:
            head, tail = os.pread(file, _HEAD_BYTES, 0), os.pread(file, _TAIL_BYTES, size - _TAIL_BYTES)
            lines = [*_lines(head)[:FIRST_LINES], *_lines(tail)[1:]]  # at the cut, a line is a part of one
        return "\n".join(shortened(lines))

    async def terminate(self) -> str:
        """Ask it to end, and end it if it does not. Returns "" or what went wrong."""
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(self._config.stop_s) as patience:
            await self._process.wait()
        self._signal(signal.SIGKILL)  # also to what it has started, and left behind
        await self._process.wait()
        if patience.cancelled_caught:
            return f"the server ignored SIGTERM: {self._config.stop_s:g} s later it was still there, and was killed"
        return ""

    def _signal(self, number: signal.Signals) -> None:
        """To all of its session. macOS answers EPERM where only ended ones are left."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def close(self) -> None:
        """Let go of its output."""
        self._output.close()


class Launcher:
    """Keeps one server running for all checks, and starts others for those that want one for themselves.

    Attributes:
        complaints: what went wrong when servers were ended.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._server: Server | None = None
        self._lock = anyio.Lock()
        self.complaints: list[str] = []

    async def ready(self) -> Target:
        """Where the server listens; it is started if there is none, or if it has ended."""
        async with self._lock:
            if self._server is not None and self._server.obituary():
                await self.stop()
            if self._server is None:
                self._server = await Server.start(self._config)
            return self._server.target

    async def aftermath(self) -> tuple[str, str]:
        """How the server ended, if it has, and what it wrote. One that is just falling gets a moment to say why."""
        if self._server is None:
            return "", ""
        await self._server.ended(FALLING_S)
        return self._server.obituary(), self._server.output()

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Server]:
        """Another server, which ends with the block."""
        server = await Server.start(self._config)
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await server.terminate()
            server.close()

    async def stop(self) -> None:
        """End the server, if there is one."""
        if self._server is not None:
            with anyio.CancelScope(shield=True):
                if complaint := await self._server.terminate():
                    self.complaints.append(complaint)
            self._server.close()
            self._server = None


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "backslashreplace").splitlines()


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines and the last ones, and between them what the last crash said first."""
    crash = max((number for number, line in enumerate(lines) if _CRASHES.match(line)), default=0)
    parts = ((0, FIRST_LINES), (crash, crash + CRASH_LINES if crash else 0), (len(lines) - LAST_LINES, len(lines)))
    shown = sorted({number for first, end in parts for number in range(max(0, first), min(end, len(lines)))})
    told: list[str] = []
    for before, number in zip([-1, *shown], shown, strict=False):
        told += ["…"] if number != before + 1 else []
        told.append(lines[number])
    return told


def _why_not(command: Sequence[str], error: OSError) -> str:
    """Why a command could not be started."""
    hints = {
        errno.ENOENT: "; is the name right, and is it installed, or built?",
        errno.EACCES: "; a file must be executable (chmod +x)",
        errno.ENOEXEC: "; a script must begin with a line such as #!/bin/sh",
    }
    return f"{command[0]}: {error.strerror}{hints.get(error.errno or 0, '')}"


def _meaning(code: int | None) -> str:
    """What some exit codes mean."""
    meanings = {
        0: " It must stay in the foreground until it gets SIGTERM.",
        126: " A shell answers so if it cannot run what it was told to.",
        127: " A shell answers so if it cannot find what it was told to run.",
    }
    return meanings.get(code, "") if code is not None else ""


def free_port() -> int:
    """A port that nobody listened at a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _address(target: Target) -> tuple[str, int]:
    return target.host, target.port
