"""The learner's server as a process: started, watched and stopped by us, and only if we started it.

It gets its own session, so that everything a wrapper such as `sh -c` or `npm` starts ends with it,
and so that Ctrl-C in the terminal reaches only us. It has no standard input: typed keys are for
`watch`. Both its outputs go to one file, so that it never waits for us to read a pipe.
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
from zaichik.learn.failure import Failure, Skipped
from zaichik.learn.runner import ServerError
from zaichik.learn.trial import Target

HOST = "127.0.0.1"
# Linux assigns ports from 32,768 on itself, other systems from 49,152 on.
PORTS = range(20_000, 30_000)
ATTEMPTS = 100
POLL_INTERVAL_S = 0.02
FALLING_S = 0.2  # from an exception to the end of its process; a client notices earlier
# Of a server's output, its first and last lines are shown, and the first lines of a crash: in Go
# and Rust, these come before a long list of frames, and after a long log.
FIRST_LINES, CRASH_LINES, LAST_LINES = 4, 6, 12
_HEAD_BYTES, _TAIL_BYTES = 2048, 65_536
_CRASHES = re.compile(
    r"^(panic: |fatal error: |thread '.*' (\(\d+\) )?panicked at |Traceback \(|Exception in thread "
    r")"
)


class Server:
    """One running process of the learner's server, listening.

    Attributes:
        target: where it listens.
    """

    def __init__(
        self, process: Process, config: Config, port: int, output: IO[bytes], lent: ExitStack
    ) -> None:
        self.target = Target(HOST, port)
        self._process = process
        self._config = config
        self._output = output
        self._lent = lent

    @classmethod
    async def start(cls, config: Config, port: int = 0, data: str = "") -> "Server":
        """Start it and wait until it listens.

        Args:
            config: how to start it.
            port: where it is to listen; by default a free port.
            data: where it keeps durable topics, if it is given a folder; by default one that is
                removed when it is closed.

        Raises:
            ServerError: it does not listen in time.
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
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=config.folder,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                problem = (
                    f"the command in {config.name} cannot be started: {why_not(command, error)}"
                )
                raise ServerError(problem) from None
            server = cls(process, config, port, output, lent.pop_all())
        try:
            await server._listening(began)
        except BaseException:
            await server.stop()
            raise
        return server

    async def _listening(self, began: float) -> None:
        with anyio.move_on_after(self._config.start_s):
            while not self.exit_status():
                if await _listens(self.target):
                    return
                await anyio.sleep(POLL_INTERVAL_S)
        if exit_status := self.exit_status():
            ended = exit_status.removeprefix("the server ")
            raise ServerError(
                f"the command in {self._config.name} {ended}, {time.monotonic() - began:.1f} s "
                "after it was started "
                "and before anything listened at port "
                f"{self.target.port}.{_meaning(self._process.returncode)} "
                f"{self._describe_output()}"
            )
        source = f"the environment variable {self._config.port_variable}"
        if any(PORT in word for word in self._config.command):
            source += f", and {PORT} in its command"
        raise ServerError(
            f"the command in {self._config.name} was started and still runs, but did not listen at "
            f"{HOST}:{self.target.port} within {self._config.start_s:g} s: does it take its port "
            "from "
            f"{source}? "
            f"{self._describe_output()}"
        )

    def _describe_output(self) -> str:
        output = self.output()
        return f"It wrote:\n{output}" if output else "It wrote nothing."

    def exit_status(self) -> str:
        """How it ended; "" if it has not."""
        code = self._process.returncode
        if code is None:
            return ""
        if code < 0:
            return f"the server was terminated by {signal.Signals(-code).name}"
        return f"the server ended by itself with exit code {code}"

    def output(self) -> str:
        """The relevant lines of its output, standard output and standard error together."""
        # Read with pread: the server shares the file's position, and seeking would move its writes.
        file = self._output.fileno()
        size = os.fstat(file).st_size
        if size <= _HEAD_BYTES + _TAIL_BYTES:
            lines = _lines(os.pread(file, size, 0))
        else:
            head, tail = (
                os.pread(file, _HEAD_BYTES, 0),
                os.pread(file, _TAIL_BYTES, size - _TAIL_BYTES),
            )
            # The first line after the cut is incomplete.
            lines = [*_lines(head)[:FIRST_LINES], *_lines(tail)[1:]]
        return "\n".join(shortened(lines))

    async def terminate(self) -> str:
        """Ask it to stop, and kill it if it does not. Returns what went wrong, or ""."""
        self._signal(signal.SIGTERM)
        with anyio.move_on_after(self._config.stop_s) as patience:
            await self._process.wait()
        self._signal(signal.SIGKILL)  # also to what it has started and left behind
        await self._process.wait()
        if patience.cancelled_caught:
            late = f"{self._config.stop_s:g} s after SIGTERM the server still ran, and was killed"
            return f"{late}; if it needs longer, set stop_seconds in {self._config.name}"
        return ""

    async def kill(self) -> None:
        """Kill it (SIGKILL), and wait until nothing listens at its port any more."""
        self._signal(signal.SIGKILL)
        await self._process.wait()
        with anyio.move_on_after(self._config.stop_s):  # a wrapper's children take a moment longer
            while await _listens(self.target):  # noqa: ASYNC110 (nothing notifies us)
                await anyio.sleep(POLL_INTERVAL_S)

    def _signal(self, number: signal.Signals) -> None:
        """Signal its whole session. macOS answers EPERM if only zombies are left."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def stop(self) -> str:
        """Stop it, even under cancellation, and release its output and its own folder."""
        with anyio.CancelScope(shield=True):
            complaint = await self.terminate()
        self.close()
        return complaint

    def close(self) -> None:
        """Release its output, and its folder if that is its own."""
        self._lent.close()

    async def post_mortem(self) -> tuple[str, str]:
        """How it ended, if it has, and its output. A crash gets a moment to be reported."""
        with anyio.move_on_after(FALLING_S):
            await self._process.wait()
        return self.exit_status(), self.output()


class Restartable:
    """A server that can be killed and started again, at the same port and with the same folder.

    Args:
        server: the first process.
        config: how to start it.
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
        except ServerError as error:
            came, _, wrote = str(error).partition(" It wrote:\n")
            late = f"did not come back within {self._config.start_s:g} s"
            problem = f"it was killed (SIGKILL) and restarted, but {late}"
            expected = "it listens again, at the same port and with the same folder"
            raise Failure(
                problem, expected=expected, came=came, excerpt=tuple(wrote.splitlines())
            ) from None

    async def post_mortem(self) -> tuple[str, str]:
        """See `Server.post_mortem`."""
        return await self._server.post_mortem() if self._server else ("", "")

    async def stop(self) -> None:
        """Stop it, if it is running."""
        if self._server is not None:
            await self._server.stop()
            self._server = None


class Launcher:
    """Keeps one server running for all checks, and starts separate ones for those that need it.

    Attributes:
        complaints: what went wrong when servers were stopped.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._server: Server | None = None
        self._lock = anyio.Lock()
        # The post-mortem of another server, if that is the one that failed.
        self._apart: tuple[str, str] | None = None
        self.complaints: list[str] = []

    async def ready(self) -> Target:
        """Where the server listens; it is started if there is none or if it has ended."""
        async with self._lock:
            self._apart = None
            if self._server is not None and self._server.exit_status():
                await self.stop()
            if self._server is None:
                self._server = await Server.start(self._config)
            return self._server.target

    async def post_mortem(self) -> tuple[str, str]:
        """See `Server.post_mortem`: of the server that failed, which may be a separate one."""
        return self._apart or (await self._server.post_mortem() if self._server else ("", ""))

    @asynccontextmanager
    async def start_fresh(self) -> AsyncIterator[Server]:
        """Another server, which is stopped with the block."""
        server = await Server.start(self._config)
        try:
            yield server
        finally:
            await server.stop()

    @asynccontextmanager
    async def start_restartable(self) -> AsyncIterator[Restartable]:
        """Another server, with its own folder, which can be killed; it is stopped with the block.

        Raises:
            Skipped: there is no way to give it the folder.
        """
        if not self._config.names_a_folder:
            how = f"put {DATA} into the command in {self._config.name}"
            raise Skipped(f"this needs a server that gets a folder: {how}")
        with private_folder() as data:
            server = Restartable(await Server.start(self._config, data=data), self._config, data)
            try:
                yield server
            except BaseException:
                with anyio.CancelScope(shield=True):
                    self._apart = await server.post_mortem()
                raise
            finally:
                await server.stop()

    async def stop(self) -> None:
        """Stop the server, if there is one."""
        if self._server is not None:
            if complaint := await self._server.stop():
                self.complaints.append(complaint)
            self._server = None


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", "backslashreplace").splitlines()


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines and the last ones, and in between the first lines of the last crash."""
    crash = max((number for number, line in enumerate(lines) if _CRASHES.match(line)), default=0)
    parts = (
        (0, FIRST_LINES),
        (crash, crash + CRASH_LINES if crash else 0),
        (len(lines) - LAST_LINES, len(lines)),
    )
    shown = sorted(
        {number for first, end in parts for number in range(max(0, first), min(end, len(lines)))}
    )
    kept: list[str] = []
    for before, number in zip([-1, *shown], shown, strict=False):
        kept += ["…"] if number != before + 1 else []
        kept.append(lines[number])
    return kept


def why_not(command: Sequence[str], error: OSError) -> str:
    """Why a command could not be started."""
    hints = {
        errno.ENOENT: "; is the name right, and is it installed or built?",
        errno.EACCES: "; a file must be executable (chmod +x)",
        errno.ENOEXEC: "; a script must begin with a line such as #!/bin/sh",
    }
    return f"{command[0]}: {error.strerror}{hints.get(error.errno or 0, '')}"


def _meaning(code: int | None) -> str:
    """What some exit codes mean."""
    meanings: dict[int | None, str] = {
        0: " It must stay in the foreground until it gets SIGTERM.",
        126: " A shell exits with this code if it cannot run its command.",
        127: " A shell exits with this code if it cannot find its command.",
    }
    return meanings.get(code, "")


def private_folder() -> "tempfile.TemporaryDirectory[str]":
    """A context manager with the path of an empty folder, which is removed in the end."""
    return tempfile.TemporaryDirectory(prefix="zaichik-learn-", ignore_cleanup_errors=True)


async def _listens(target: Target) -> bool:
    try:
        async with await anyio.connect_tcp(target.host, target.port):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A port that was free a moment ago.

    It is not from the system's own range, or the system might assign it to another program before
    the server listens there.
    """
    for port in random.sample(PORTS, ATTEMPTS):
        with socket.socket() as probe, suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise OSError(errno.EADDRINUSE, f"none of {ATTEMPTS} ports was free")
