"""The three standard streams, some of which may have been closed by the program that started us.

A closed one is dangerous: the next file or socket to be opened gets its number, and with it our
output. So /dev/null takes the free numbers; as standard input it is opened for writing, so that
reading it still fails.

And a pipe may have been made non-blocking by another program that has it, at any time. What is
written then fits, or is lost, or comes in part. So we wait until there is room.
"""

import fcntl
import io
import os
import select
import socket
import stat
import sys
from typing import Any, TextIO

from zaichik.cli import interrupts

STDIN, STDOUT, STDERR = 0, 1, 2
TICK_MS = 1000  # after which a signal is noticed that came just before a wait
LAST_WORDS_MS = 1000  # for which a command that was told to end still waits for a slow reader


class Closed(Exception):
    """A standard stream that is needed is closed; the text is the sentence to show."""


def occupy(*, needs_output: bool = True) -> None:
    """Replace missing standard streams.

    Raises:
        Closed: standard output is missing and needed, so no result could be shown.
    """
    missing = [descriptor for descriptor in (STDIN, STDOUT, STDERR) if not _is_open(descriptor)]
    for descriptor in missing:  # the lowest free number is used, so each gets its own
        os.open(os.devnull, os.O_WRONLY if descriptor == STDIN else os.O_RDWR)
    if STDIN in missing:
        sys.stdin = open(STDIN, closefd=False)  # noqa: SIM115 (there is no path, and it stays open)
    if STDERR in missing:
        sys.stderr = open(STDERR, "w", closefd=False)  # noqa: SIM115
    if STDOUT in missing:
        if not needs_output:
            sys.stdout = open(STDOUT, "w", closefd=False)  # noqa: SIM115
            return
        raise Closed("standard output is closed; to discard it: >/dev/null")


class Whole(io.FileIO):
    """An output that takes all of what is written, and raises if it cannot.

    While a pipe, a socket or a terminal is full, or stopped with Ctrl-S, one Ctrl-C ends the
    program, and no unwritten rest keeps it from ending. (A blocking write would wait for a reader
    that is stuck, and a signal would not end it: the system call is repeated.)

    After an error, the next write is tried anew: a disk may have room again, and a FIFO another
    reader.

    Args:
        descriptor: stays open.
        error_is_final: after an error, nothing more is written. A buffer keeps what it could not
            write, and the interpreter would try that again when it exits.
    """

    def __init__(self, descriptor: int, *, error_is_final: bool = False) -> None:
        super().__init__(descriptor, "w", closefd=False)
        mode = os.fstat(descriptor).st_mode
        self._is_pipe = stat.S_ISFIFO(mode)
        self._is_socket = stat.S_ISSOCK(mode)
        self._is_terminal = os.isatty(descriptor)
        self._terminal = _opened_again(descriptor) if self._is_terminal else None
        self._error_is_final = error_is_final
        self._is_over = False

    def write(self, data: Any) -> int:
        """Returns the number of bytes, which is that of all of them.

        Raises:
            OSError: they cannot be written.
        """
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and not self._is_over:
                written = self.write_some(rest)
                if written is None:
                    self._wait()
                else:
                    rest = rest[written:]
        except OSError:
            self._is_over = self._error_is_final
            raise
        except BaseException:
            # The program is to end, and must not wait again for the same reader.
            self._is_over = True
            raise
        return size

    def close(self) -> None:
        """Close what was opened here."""
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None
        super().close()

    def write_some(self, data: memoryview) -> int | None:
        """Returns how many bytes were written, without waiting; None: there is no room.

        Raises:
            OSError: they cannot be written.
        """
        if self._is_socket:
            return _sent(self.fileno(), data)
        if self._terminal is not None:
            return _written(self._terminal, data)
        if self._is_pipe or self._is_terminal:
            if not self._has_room(0):
                return None
            # As many bytes as these never wait once a pipe has room; a terminal rarely does.
            data = data[: select.PIPE_BUF]
        # None: the descriptor is non-blocking.
        return super().write(data)

    def _wait(self) -> None:
        """Wait until there is room, or the reader is gone."""
        # Ctrl-C may have come before this wait, and a summary may be written after it.
        if interrupts.came() and self._has_room(LAST_WORDS_MS):
            return
        with interrupts.at_once():
            while not self._has_room(TICK_MS):
                pass

    def _has_room(self, milliseconds: int) -> bool:
        """Whether there is room, or the reader is gone, after so long at the latest."""
        room = select.poll()
        room.register(self, select.POLLOUT)
        return bool(room.poll(milliseconds))


def _sent(descriptor: int, data: memoryview) -> int | None:
    """Returns how many bytes a socket took at once; None: it has no room."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        return borrowed.send(data, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    finally:
        borrowed.detach()  # it would close the descriptor


def _opened_again(terminal: int) -> int | None:
    """Returns a descriptor of the same terminal that does not block; None: we may not open it.

    The one we were started with is shared with other programs, which may rely on its blocking.
    """
    try:
        return os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return None


def _written(descriptor: int, data: memoryview) -> int | None:
    try:
        return os.write(descriptor, data)
    except BlockingIOError:
        return None


def write_all() -> None:
    """Have standard output and error take all of what is written."""
    sys.stdout = _whole(sys.stdout, STDOUT)
    sys.stderr = _whole(sys.stderr, STDERR)


def whole_of(stream: TextIO) -> Whole | None:
    """Returns what a standard stream writes to; None if that is not ours, as in a test."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    if isinstance(raw, Whole):
        return raw
    return None


def _whole(stream: TextIO, descriptor: int) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if type(raw) is not io.FileIO or raw.fileno() != descriptor:  # such as memory, in a test
        return stream
    stream.flush()
    out: io.BufferedWriter | Whole
    if descriptor == STDERR:
        # Without a buffer of bytes: it would keep a line that cannot be written, and put it before
        # the next one. Lines are put together by the layer above.
        out = Whole(descriptor)
    else:
        # A result with a hole is worse than one that is cut.
        out = Whole(descriptor, error_is_final=True)
        if raw is not stream.buffer:  # PYTHONUNBUFFERED leaves out the buffer
            out = io.BufferedWriter(out)
    return io.TextIOWrapper(
        out,
        stream.encoding,
        stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def check_readable() -> None:
    """Check that standard input can be read.

    Raises:
        Closed: it is closed, or open for writing only.
    """
    if fcntl.fcntl(STDIN, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        raise Closed(
            "standard input is closed, or open for writing only; name a file, or give it nothing: "
            "</dev/null"
        )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
