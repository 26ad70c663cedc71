"""A terminal as a full-screen program needs it: keys as they are typed, lines in place, everything restored after."""

import os
import re
import sys
import termios
import tty
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import anyio

# The alternate screen, without a cursor; and between the others, what a terminal shows at once (DEC mode 2026).
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO.|.", re.DOTALL)
_NAMES = {
    "\t": "tab", "\n": "enter", "\r": "enter", " ": "space", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape",
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[Z": "backtab",
}  # fmt: skip


@contextmanager
def at_once() -> Iterator[None]:
    """Keys are read when they are typed, and not shown; afterwards the terminal is as before."""
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # what was typed already is not thrown away
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


async def typed() -> list[str]:
    """Returns the next keys: letters, or names such as "enter" and "up". There are none if the terminal was closed."""
    while True:
        await anyio.wait_readable(sys.stdin)
        text = os.read(sys.stdin.fileno(), 1024).decode(errors="replace")
        keys = [_NAMES.get(key, key) for key in _KEY.findall(text) if key in _NAMES or key.isprintable()]
        if keys or not text:  # others, such as Page Up, do nothing
            return keys


class FullScreen:
    """The whole of a terminal, for as long as the `with` block lasts.

    Args:
        file: the terminal.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._shown: list[str] = []
        self._size = (0, 0)

    def __enter__(self) -> "FullScreen":
        """Switch to the alternate screen; the other one stays as it is."""
        self._shown, self._size = [], (0, 0)
        self._write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        """Switch back."""
        self._write(_LEAVE)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        columns, lines = os.get_terminal_size(self._file.fileno())
        return columns, lines

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, from the top. Only those that have changed are written, so that this is fast over ssh."""
        if self.size != self._size:
            self._shown, self._size = [], self.size
            self._write("\x1b[2J")
        shown = [*lines[: self._size[1]], *[""] * (self._size[1] - len(lines))]
        before = [*self._shown, *[""] * (len(shown) - len(self._shown))]
        changed = [row for row, text in enumerate(shown) if text != before[row]]
        if changed:  # cleared first: after the last column, it would be the last letter that is cleared
            self._write(_BEGIN + "".join(f"\x1b[{row + 1};1H\x1b[K{shown[row]}" for row in changed) + _END)
        self._shown = shown

    def copy(self, text: str) -> None:
        """Put text on the clipboard of the terminal, wherever that runs, if it allows that (OSC 52)."""
        self._write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
