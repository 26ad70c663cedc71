"""Reads lines from a file, a pipe or a terminal, a chunk at a time, without blocking the rest.

The usual way is a thread for each read, but a thread that waits for a terminal cannot be cancelled:
Ctrl-C would have to be pressed twice. So we wait until the descriptor is readable, which can be
cancelled, and then read what is there, which does not block.
"""

import os
import select
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress

import anyio
import anyio.lowlevel

from zaichik.cli import interrupts
from zaichik.cli.failure import Failure
from zaichik.cli.streams import STDIN, TICK_MS, check_readable

CHUNK = 64 * 1024  # a pipe's worth on Linux


class Lines:
    """Lines without their ends, in lists: one list for each read. Made by `reading`.

    Args:
        descriptor: of the open file.
        longest: most bytes a line may have.

    Attributes:
        size: bytes of the file; None if unknown (a pipe, a terminal).
        is_terminal: whether the lines are typed.
        bytes_read: so far.
        count: lines yielded so far.
    """

    def __init__(self, descriptor: int, longest: int) -> None:
        status = os.fstat(descriptor)
        self.is_terminal = os.isatty(descriptor)
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self.bytes_read = 0
        self.count = 0
        self._descriptor = descriptor
        self._longest = longest

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """Yields every line, including a last one without a line end.

        Raises:
            Failure: a line is longer than allowed.
        """
        rest = b""
        while chunk := await self._read():
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > self._longest:
                number = self.count + len(lines) + 1
                raise Failure(
                    f"line {number} has more than {self._longest:,} bytes, the broker's max_message"
                )
            self.count += len(lines)
            yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            self.count += 1
            yield [rest]

    async def _read(self) -> bytes:
        if self.size is None:
            # /dev/null and the like cannot be waited for, and need not be.
            with suppress(PermissionError):
                await anyio.wait_readable(self._descriptor)
        await anyio.lowlevel.checkpoint()
        chunk = os.read(self._descriptor, CHUNK)
        self.bytes_read += len(chunk)
        return chunk


@contextmanager
def reading(path: str, longest: int) -> Iterator[Lines]:
    """Returns the lines of a file, or of standard input if the path is "-".

    The file is open for the duration of the block. A FIFO is waited for until it has a writer.

    Raises:
        OSError: it cannot be opened.
        Closed: standard input is closed.
    """
    if path == "-":
        check_readable()
        yield Lines(STDIN, longest)
        return
    with interrupts.at_once():
        file = open(path, "rb")  # noqa: PTH123, SIM115 (the user's path; it is closed below)
    with file:
        yield Lines(file.fileno(), longest)


def everything(path: str) -> bytes:
    """Returns all bytes of a file, or of standard input if the path is "-".

    Raises:
        OSError: it cannot be read.
        Closed: standard input is closed.
    """
    if path == "-":
        check_readable()
    chunks = []
    with open(STDIN if path == "-" else path, "rb", 0, closefd=path != "-") as file:
        if file.isatty():
            sys.stderr.write("reading from the terminal; Ctrl-D ends the input\n")
        while True:
            # A signal that comes just before a read would wait for the writer as well.
            while not select.select([file], [], [], TICK_MS / 1000)[0]:
                pass
            chunk = file.read(CHUNK)
            if chunk == b"":
                break
            if chunk is not None:  # somebody else has read it, and the pipe is non-blocking
                chunks.append(chunk)
    return b"".join(chunks)
