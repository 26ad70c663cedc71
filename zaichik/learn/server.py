"""The learner's server as a process: started, watched, and ended, by us and only if we started it.

It gets a session of its own, so that what a wrapper such as `sh -c` or `npm` starts ends with it, and so that Ctrl-C
at the terminal reaches us alone. It has no standard input: the keys that somebody types are for `watch`. Both its
outputs go to one file: nobody has to read a pipe for it to go on.
"""

import errno
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import IO

import anyio
from anyio.abc import Process

from zaichik.learn.config import DATA, PORT, Config
from zaichik.learn.environment import for_program
from zaichik.learn.failure import Failed, Skipped
from zaichik.learn.runner import ServerTrouble
from zaichik.learn.trial import Target

HOST = "127.0.0.1"
PORTS = range(20_000, 30_000)  # Linux gives out those from 32,768 by itself, other systems from 49,152
ATTEMPTS = 100
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

    def __init__(self, process: Process, config: Config, port: int, output: IO[bytes], lent: ExitStack) -> None:
        self.target = Target(HOST, port)
        self._process = process
        self._config = config
        self._output = output
        self._lent = lent

    @classmethod
    async def start(cls, config: Config, port: int = 0, data: str = "") -> "Server":
        """Start it and wait until it listens.

        Args:
            config: how.
            port: where it is to listen; by default a free one.
            data: where it keeps durable topics, if it is told; by default a folder that goes when it is closed.

        Raises:
            ServerTrouble: it does not.
        """
        port = port or free_port()
        with ExitStack() as lent:  # what lives as long as the process
            output: IO[bytes] = lent.enter_context(tempfile.TemporaryFile())
            if config.names_a_folder and not data:
                data = lent.enter_context(private_folder())
            command = config.command_at(port, data)
            began = time.monotonic()
            environment = for_program(config.port_variable, port)
            try:
                process = await anyio.open_process(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=config.folder, env=environment,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                problem = f"the command in {config.name} cannot be started: {why_not(command, error)}"
                raise ServerTrouble(problem) from None
            server = cls(process, config, port, output, lent.pop_all())
        try:
            await server._listening(began)
        except BaseException:
            await server.stop()
            raise
        return server

    async def _listening(self, began: float) -> None:
        with anyio.move_on_after(self._config.start_s):
            while not self.obituary():
                if await _listens(self.target):
                    return
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

    async def kill(self) -> None:
        """End it at once (SIGKILL), and wait until nothing of it listens any more."""
        self._signal(signal.SIGKILL)
        await self._process.wait()
        with anyio.move_on_after(self._config.stop_s):  # what a wrapper has started takes a moment longer
            while await _listens(self.target):  # noqa: ASYNC110 (nobody tells us when)
                await anyio.sleep(LOOK_EVERY_S)

    def _signal(self, number: signal.Signals) -> None:
        """To all of its session. macOS answers EPERM where only ended ones are left."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def stop(self) -> str:
        """Ask it to end, whoever is cancelled meanwhile, and let go of its output, and of a folder of its own."""
        with anyio.CancelScope(shield=True):
            complaint = await self.terminate()
        self.close()
        return complaint

    def close(self) -> None:
        """Let go of its output, and of its folder if that is its own."""
        self._lent.close()

    async def aftermath(self) -> tuple[str, str]:
        """How it ended, if it has, and what it wrote. One that is just falling gets a moment to say why."""
        with anyio.move_on_after(FALLING_S):
            await self._process.wait()
        return self.obituary(), self.output()


class Restartable:
    """A server that can be killed and started again, at the same port and with the same folder.

    Args:
        server: in its first life.
        config: how it is started.
        data: where it keeps durable topics.

    Attributes:
        target: where it listens.
    """

    def __init__(self, server: Server, config: Config, data: str) -> None:
        self.target = server.target
        self._server: Server | None = server
        self._config = config
        self._data = data

    async def kill(self) -> None:
        """See `zaichik.learn.trial.Restartable`."""
        if self._server is not None:
            await self._server.kill()
            self._server.close()
            self._server = None

    async def start(self) -> None:
        """See `zaichik.learn.trial.Restartable`."""
        try:
            self._server = await Server.start(self._config, self.target.port, self._data)
        except ServerTrouble as trouble:
            came, _, wrote = str(trouble).partition(" It wrote:\n")
            problem = (
                f"it was killed (SIGKILL) and started again, and did not come back within {self._config.start_s:g} s"
            )
            expected = "it listens again, at the same port and with the same folder"
            raise Failed(problem, expected=expected, came=came, excerpt=tuple(wrote.splitlines())) from None

    async def aftermath(self) -> tuple[str, str]:
        """See `Server.aftermath`."""
        return await self._server.aftermath() if self._server else ("", "")

    async def stop(self) -> None:
        """End it, if it runs."""
        if self._server is not None:
            await self._server.stop()
            self._server = None


class Launcher:
    """Keeps one server running for all checks, and starts others for those that want one for themselves.

    Attributes:
        complaints: what went wrong when servers were ended.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._server: Server | None = None
        self._lock = anyio.Lock()
        self._apart: tuple[str, str] | None = None  # the aftermath of another server, if that was the one that failed
        self.complaints: list[str] = []

    async def ready(self) -> Target:
        """Where the server listens; it is started if there is none, or if it has ended."""
        async with self._lock:
            self._apart = None
            if self._server is not None and self._server.obituary():
                await self.stop()
            if self._server is None:
                self._server = await Server.start(self._config)
            return self._server.target

    async def aftermath(self) -> tuple[str, str]:
        """See `Server.aftermath`: of the one that failed, which may be another than the one that is kept."""
        return self._apart or (await self._server.aftermath() if self._server else ("", ""))

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Server]:
        """Another server, which ends with the block."""
        server = await Server.start(self._config)
        try:
            yield server
        finally:
            await server.stop()

    @asynccontextmanager
    async def restartable(self) -> AsyncIterator[Restartable]:
        """Another server, with a folder of its own, which can be killed; it ends with the block.

        Raises:
            Skipped: there is no way to tell it the folder.
        """
        if not self._config.names_a_folder:
            raise Skipped(f"this needs a server that is told its folder: {DATA} in the command of {self._config.name}")
        with private_folder() as data:
            server = Restartable(await Server.start(self._config, data=data), self._config, data)
            try:
                yield server
            except BaseException:
                with anyio.CancelScope(shield=True):
                    self._apart = await server.aftermath()
                raise
            finally:
                await server.stop()

    async def stop(self) -> None:
        """End the server, if there is one."""
        if self._server is not None:
            if complaint := await self._server.stop():
                self.complaints.append(complaint)
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


def why_not(command: Sequence[str], error: OSError) -> str:
    """Why a command could not be started."""
    hints = {
        errno.ENOENT: "; is the name right, and is it installed, or built?",
        errno.EACCES: "; a file must be executable (chmod +x)",
        errno.ENOEXEC: "; a script must begin with a line such as #!/bin/sh",
    }
    return f"{command[0]}: {error.strerror}{hints.get(error.errno or 0, '')}"


def _meaning(code: int | None) -> str:
    """What some exit codes mean."""
    meanings: dict[int | None, str] = {
        0: " It must stay in the foreground until it gets SIGTERM.",
        126: " A shell answers so if it cannot run what it was told to.",
        127: " A shell answers so if it cannot find what it was told to run.",
    }
    return meanings.get(code, "")


def private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A context manager with the path of an empty folder, which is removed whatever is left in it."""
    return tempfile.TemporaryDirectory(prefix="zaichik-learn-", ignore_cleanup_errors=True)


async def _listens(target: Target) -> bool:
    try:
        async with await anyio.connect_tcp(target.host, target.port):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A port that nobody listened at a moment ago.

    It is not the system's to give out by itself: that may give it to somebody else before the server listens there.
    """
    for port in random.sample(PORTS, ATTEMPTS):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise OSError(errno.EADDRINUSE, f"none of {ATTEMPTS} ports was free")
