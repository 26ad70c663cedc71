"""A line at the bottom of a terminal that says how far a command is; all else goes above it.

A terminal that is stopped with Ctrl-S, and a pager that waits, would block the event loop with a
plain write: the broker would take the connection for lost. So nothing here blocks: a write waits
for room as everything else in the loop does. Where there is no terminal that can move its cursor,
there is no line.
"""

import errno
import io
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TextIO, cast

import anyio
import anyio.lowlevel
from rich.text import Text

from zaichik.base.escapes import harmless
from zaichik.cli import screen, streams
from zaichik.net.background import BackgroundTasks

DRAWING_SECONDS = 0.1  # between two drawings at least
_ERASE = b"\r\x1b[K"  # the cursor goes to the start, and what follows it goes


class AsyncOutput:
    """Writes to a standard stream as soon as it has room, without blocking the event loop.

    Args:
        stream: standard output or standard error.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self.is_terminal = stream.isatty()
        self._stream = stream
        self._whole = streams.whole_of(stream)

    async def write(self, data: bytes) -> None:
        """Write all of it. Two writes must not overlap.

        Raises:
            OSError: it cannot be written.
        """
        if self._whole is None:
            self._stream.buffer.write(data)
            self._stream.flush()
            return
        await anyio.lowlevel.checkpoint()
        rest = memoryview(data)
        while rest:
            written = self._whole.write_some(rest)
            # There is no room.
            if written is None:
                await anyio.wait_writable(self._whole)
            else:
                rest = rest[written:]


class StatusLine:
    """The line, and what is written above it. Made by `status_line`.

    Args:
        out: standard output.
        err: standard error; the line is there.

    Attributes:
        is_drawn: whether there is a line.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = AsyncOutput(out)
        self._err = AsyncOutput(err)
        self._log = err
        # One for both: they may be the same terminal.
        self._lock = anyio.Lock()
        self._console = screen.on(err)
        self.is_drawn = self._console.is_terminal and not self._console.is_dumb_terminal
        self._text = Text()
        self._changed = anyio.Event()

    def show(self, text: Text) -> None:
        """Show another text in the line, soon."""
        if text != self._text:
            self._text = text
            self._changed.set()

    async def write(self, data: bytes) -> None:
        """Write to standard output. If nobody can read it any more, it is dropped."""
        await self._write_above(self._out, data)

    async def write_errors(self, data: bytes) -> None:
        """The same, to standard error."""
        await self._write_above(self._err, data)

    async def say(self, sentence: str, style: str = "") -> None:
        """Write a remark to standard error."""
        with self._console.capture() as captured:
            self._console.print(
                Text(harmless(sentence), style), soft_wrap=not self._console.is_terminal
            )
        await self.write_errors(captured.get().encode(errors="backslashreplace"))

    async def _write_above(self, output: AsyncOutput, data: bytes) -> None:
        if self.is_drawn and output.is_terminal:
            end = b""
            if not data.endswith(b"\n"):
                end = b"\n"
            data = b"".join((_ERASE, data, end, self._drawn()))
        await self._write(output, data)

    async def _write(self, output: AsyncOutput, data: bytes) -> None:
        async with self._lock:
            try:
                await output.write(data)
            except BrokenPipeError:
                pass
            except OSError as error:
                # That is how a terminal says that it was closed.
                if error.errno != errno.EIO or not output.is_terminal:
                    raise

    def _drawn(self) -> bytes:
        """The line, cut to the terminal's width."""
        text = self._text.copy()
        # A terminal breaks a line that is as wide as itself.
        text.truncate(self._console.width - 1, overflow="ellipsis")
        with self._console.capture() as captured:
            self._console.print(text, end="", soft_wrap=True)
        return captured.get().encode(errors="backslashreplace")

    async def draw(self) -> None:
        """Draw the line whenever it has changed, until this is cancelled."""
        if not self.is_drawn:
            return
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._write(self._err, _ERASE + self._drawn())
            await anyio.sleep(DRAWING_SECONDS)

    async def erase(self) -> None:
        """Erase the line."""
        self._text = Text()
        if self.is_drawn:
            await self._write(self._err, _ERASE)

    @contextmanager
    def logging_above(self) -> Iterator[None]:
        """Write zaichik's log above the line for the duration of the block."""
        file = self._log
        if self.is_drawn:
            file = cast("TextIO", _LogFile(self))
        with screen.logging_to(screen.log_handler(logging.WARNING, file), logging.WARNING):
            yield

    def write_log(self, text: str) -> None:
        """Write a line of the log, which does not wait; the line below it is drawn again soon."""
        self._log.write(_ERASE.decode() + text)
        self._log.flush()
        self._changed.set()


class _LogFile(io.TextIOBase):
    """What a log handler writes to."""

    def __init__(self, line: StatusLine) -> None:
        self._line = line

    def write(self, text: str, /) -> int:
        self._line.write_log(text)
        return len(text)


@asynccontextmanager
async def status_line(out: TextIO, err: TextIO) -> AsyncIterator[StatusLine]:
    """Returns a line, which is drawn for the duration of the block.

    Args:
        out: standard output.
        err: standard error.
    """
    line = StatusLine(out, err)
    with line.logging_above():
        async with BackgroundTasks() as background:
            background.group.start_soon(line.draw)
            try:
                yield line
            finally:
                with anyio.move_on_after(streams.LAST_WORDS_MS / 1000, shield=True):
                    await line.erase()
