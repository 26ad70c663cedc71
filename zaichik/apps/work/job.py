"""A job: one process that has a message's payload as its standard input.

              payload          ┌─────────┐  standard output   whole lines
    feed ─────────────────────▶│   job   │───────────────────▶ pass on
                               │         │───────────────────▶ pass on, and keep the last KiB
                               └─────────┘  standard error

The job has ended when its process has, not when its pipes are closed: a process that it has started
may keep those for ever. So what the job wrote is read up to its end, and no further. A job that
does not read its input is as good as any: the rest of the input is dropped.

All pipes are read and written without blocking the event loop. Output that nobody takes holds up
its own job, and no other.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from io import FileIO
from math import inf
from typing import NamedTuple, Self

import anyio
import anyio.lowlevel
from anyio.abc import Process

from zaichik.apps.work import session
from zaichik.apps.work.command import Invocation

KEPT_BYTES = 1024  # of standard error
LONGEST_LINE = 64 * 1024  # a longer one is passed on in parts
CHUNK = 64 * 1024
PIPE_BYTES = 1024 * 1024  # the most that a pipe can hold, on Linux without privileges
LAST_WORDS_SECONDS = 1.0  # in which the output of a job that was ended must be taken

# Is given whole lines of a job's output, but for a last one without a line end.
PassOn = Callable[[bytes], Awaitable[None]]


class Cause(Enum):
    """Why a job has ended.

    Attributes:
        EXIT: by itself, or by a signal from elsewhere.
        TIME_OUT: it took too long, and was ended.
        STOPPED: it was ended because somebody called `Job.stop`.
    """

    EXIT = auto()
    TIME_OUT = auto()
    STOPPED = auto()


class JobEnd(NamedTuple):
    """How a job has ended.

    Attributes:
        cause: why.
        status: its exit code; or negative, the number of the signal that ended it.
        errors: the last KiB that it wrote to standard error.
        timeout: the seconds that it had.
    """

    cause: Cause
    status: int
    errors: bytes = b""
    timeout: float = inf


class Job:
    """A job, which runs once.

    Args:
        invocation: how it is started.
        payload: its standard input.
        pass_on: takes its standard output.
        pass_on_errors: takes its standard error.
        timeout: seconds after which it is ended.
    """

    def __init__(
        self,
        invocation: Invocation,
        payload: bytes,
        pass_on: PassOn,
        pass_on_errors: PassOn,
        timeout: float = inf,
    ) -> None:
        self._invocation = invocation
        self._payload = payload
        self._timeout = timeout
        self._output = _Output(pass_on)
        self._errors = _Output(pass_on_errors)
        self._limit = anyio.CancelScope()
        self._cause = Cause.TIME_OUT
        self._process: Process | None = None

    async def run(self) -> JobEnd:
        """Run the job. If this is cancelled, the job is ended.

        Raises:
            OSError: it cannot be started.
        """
        with _Pipe() as stdin, _Pipe() as stdout, _Pipe() as stderr:
            self._process = process = await self._start(stdin, stdout, stderr)
            async with process, anyio.create_task_group() as tasks:
                tasks.start_soon(_feed, stdin.writing, self._payload)
                tasks.start_soon(self._output.pump, stdout.reading)
                tasks.start_soon(self._errors.pump, stderr.reading)
                try:
                    await self._wait(process)
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(process)
                tasks.cancel_scope.cancel()
            status = await process.wait()
        return JobEnd(self._cause, status, self._errors.kept, self._timeout)

    def stop(self) -> None:
        """End the job, with all that it has started, unless it has ended already."""
        self._cause = Cause.STOPPED
        self._limit.cancel()

    def kill(self) -> None:
        """End the job at once, so that it can put nothing in order."""
        if self._process is not None and self._process.returncode is None:
            session.send(self._process.pid, signal.SIGKILL)
        self.stop()

    async def _start(self, stdin: "_Pipe", stdout: "_Pipe", stderr: "_Pipe") -> Process:
        # A cancellation in the middle could leave a process that nobody knows.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                self._invocation.words,
                stdin=stdin.reading,
                stdout=stdout.writing,
                stderr=stderr.writing,
                env=self._invocation.environment,
                start_new_session=True,
            )
        # The job has these ends now, and we would never see that it has closed them.
        for ours in (stdin.reading, stdout.writing, stderr.writing):
            ours.close()
        for ours in (stdin.writing, stdout.reading, stderr.reading):
            os.set_blocking(ours.fileno(), False)
        return process

    async def _wait(self, process: Process) -> None:
        """Wait until the job has ended and its output was taken; or until its time is over."""
        self._limit.deadline = anyio.current_time() + self._timeout
        with self._limit:
            await process.wait()
            await self._finish()
        # Its time may be over in the moment in which it ends, or while its output waits.
        if process.returncode is not None:
            self._cause = Cause.EXIT

    async def _end(self, process: Process) -> None:
        """End the job, if it has not ended."""
        if process.returncode is None:
            await session.end(process.pid)
            await process.wait()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._finish()

    async def _finish(self) -> None:
        """Wait until what the job wrote was taken."""
        for output in (self._output, self._errors):
            output.close()
        for output in (self._output, self._errors):
            await output.taken.wait()


class _Pipe:
    """A pipe with two ends, which are closed when the block ends."""

    def __enter__(self) -> Self:
        reading, writing = os.pipe()
        self.reading = FileIO(reading)
        self.writing = FileIO(writing, "w")
        return self

    def __exit__(self, *_: object) -> None:
        self.reading.close()
        self.writing.close()


async def _feed(pipe: FileIO, payload: bytes) -> None:
    """Write the payload, as far as it is read, and then the end of the file."""
    rest = memoryview(payload)
    try:
        while rest:
            written = pipe.write(rest)
            # None: there is no room.
            if written is None:
                await anyio.wait_writable(pipe)
            else:
                rest = rest[written:]
    except BrokenPipeError:
        pass
    pipe.close()


class _Output:
    """Takes what a job writes into a pipe.

    Args:
        pass_on: is given whole lines.

    Attributes:
        kept: the last KiB.
        taken: whether all of it was passed on.
    """

    def __init__(self, pass_on: PassOn) -> None:
        self.kept = b""
        self.taken = anyio.Event()
        self._pass_on = pass_on
        self._line = b""  # that has no end yet
        self._left = inf  # bytes to be read
        self._waiting = anyio.CancelScope()

    async def pump(self, pipe: FileIO) -> None:
        """Read, and pass on, until nobody can write any more, or until it was closed."""
        try:
            while self._left > 0:
                await anyio.lowlevel.checkpoint()
                chunk = pipe.read(CHUNK)
                # There is nothing now.
                if chunk is None:
                    if self._left < inf:
                        break
                    await self._wait(pipe)
                elif chunk:
                    await self._take(chunk)
                else:
                    break
            if self._line:
                await self._pass_on(self._line)
        finally:
            self.taken.set()

    def close(self) -> None:
        """Have the pump end when it has what is in the pipe now.

        Others may write on, but the job has ended.
        """
        if self._left == inf:
            self._left = PIPE_BYTES
            self._waiting.cancel()

    async def _wait(self, pipe: FileIO) -> None:
        with anyio.CancelScope() as self._waiting:
            await anyio.wait_readable(pipe)

    async def _take(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        self.kept = (self.kept + chunk)[-KEPT_BYTES:]
        lines, end, rest = (self._line + chunk).rpartition(b"\n")
        if len(rest) > LONGEST_LINE:
            end += rest
            rest = b""
        self._line = rest
        if end:
            await self._pass_on(lines + end)
