"""A terminal as a full-screen program needs it.

Keys come as they are typed, lines are drawn in place, and everything is restored afterwards.
"""

import os
import re
import signal
import sys
import termios
import tty
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import NoReturn, Self, TextIO

import anyio

# The alternate screen, without a cursor; and between the others, what a terminal shows at once (DEC
# mode 2026).
COLUMNS, LINES = 80, 24
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[0m\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO.|.", re.DOTALL)
_NAMES = {
    "\t": "tab",
    "\n": "enter",
    "\r": "enter",
    " ": "space",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x1b": "escape",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[Z": "backtab",
}


class Keys:
    """Keys are read when they are typed, and not shown; after the block the terminal is as before.

    So it is while the program is suspended: a shell does not always restore it, and never for us
    when we go on.
    """

    def __enter__(self) -> Self:
        """Take the terminal."""
        self._before = termios.tcgetattr(sys.stdin)
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def _take(self) -> None:
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)  # what was typed already is not thrown away

    async def heed_suspension(
        self, leave: Callable[[], object], enter: Callable[[], object]
    ) -> NoReturn:
        """Give the terminal back at Ctrl-Z, and take it again at `fg`, until cancelled.

        Args:
            leave: is called before the program stops.
            enter: is called when it goes on, also after a stop that it could not see (SIGSTOP).
        """
        with anyio.open_signal_receiver(signal.SIGTSTP, signal.SIGCONT) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    leave()
                    self.__exit__()
                    os.kill(os.getpid(), signal.SIGSTOP)
                else:
                    self._take()
                    enter()
        raise AssertionError("signals never end")


async def typed() -> list[str]:
    """Returns the next keys: letters, or names such as "enter" and "up".

    There are none if the terminal was closed.
    """
    while True:
        await anyio.wait_readable(sys.stdin)
        text = os.read(sys.stdin.fileno(), 1024).decode(errors="replace")
        keys = [
            _NAMES.get(key, key) for key in _KEY.findall(text) if key in _NAMES or key.isprintable()
        ]
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
        """Columns and lines; a usual size if the terminal does not know its own (0 by 0)."""
        columns, lines = os.get_terminal_size(self._file.fileno())
        return columns or COLUMNS, lines or LINES

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, from the top.

        Only those that have changed are written, so that this is fast over ssh.
        """
        if self.size != self._size:
            self._shown, self._size = [], self.size
            self._write("\x1b[2J")
        shown = [*lines[: self._size[1]], *[""] * (self._size[1] - len(lines))]
        before = [*self._shown, *[""] * (len(shown) - len(self._shown))]
        changed = [row for row, text in enumerate(shown) if text != before[row]]
        # Cleared first: after the last column, it would be the last letter that is cleared.
        if changed:
            self._write(
                _BEGIN + "".join(f"\x1b[{row + 1};1H\x1b[K{shown[row]}" for row in changed) + _END
            )
        self._shown = shown

    def copy(self, text: str) -> None:
        """Put text on the clipboard of the terminal, if it allows that (OSC 52)."""
        self._write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\x07")

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
