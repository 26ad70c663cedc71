"""The terminals of a reader: commands typed into them, and what they write compared with what the
text shows.

Each is 80 columns wide and a real terminal to the programs in it (a pty), so that they write what
they would write for a reader: pyte keeps what is then on the screen. In the text, a line that
begins with `$ ` is typed; the lines below it are what comes. `...` stands for any text on a line,
and alone on a line for any lines. The port 8889 stands for one that is free here, and how long a
check took is not compared. A block whose caption says "leave it running" belongs to a terminal of
its own, and one that says "now shows" is what has come there since.
"""

import errno
import fcntl
import io
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pyte
from fences import SHOWS, STARTS, Fence

from zaichik.cli.main import main
from zaichik.learn.server import HOST, free_port

ROOT = Path(__file__).parents[2]
PORT = "8889"
COLUMNS, ROWS, LINES = (
    80,
    24,
    600,
)  # how wide and high programs think it is, and how many lines are kept
# after which a program that hangs has failed: one that counts for a second takes ten beside others
GUARD_S = 120
SLOW_GUARD_S = (
    500  # the same, of those that the text calls slow: all checks of a broker take a minute or two
)
# a program that has written what is shown, and then nothing for so long, has no more to say
QUIET_S = 0.3
SIMPLE = re.compile(
    r'zaichik( [\w./-]+| "[^"$]*")*'
)  # nothing in it that a shell would have to read
TOOK = re.compile(
    r"\s+\d+\.\d\s+s$", re.MULTILINE
)  # on a line of its own where the line before is full
TYPED = re.compile(
    r"^\$ .*\n(?:> .*\n)*", re.MULTILINE
)  # a command; its further lines begin with `> `
COMMAND = re.compile(r"^[$>] ", re.MULTILINE)
STAGE = re.compile(
    r"\$ zaichik learn check S(?:[5-9]|1\d)(?:-S\d+)?"
)  # all of one that takes long: see test_claims
SLOW = "Slow, "  # a caption that begins so is left out where time is short


class Screen:
    """What is on a terminal's screen, and above it."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)

    def feed(self, data: bytes) -> None:
        """Show what a program writes."""
        self._stream.feed(data)

    def lines(self) -> list[str]:
        """The lines up to the cursor's."""
        buffer, last = self._screen.buffer, self._screen.cursor.y
        rows = [
            "".join(buffer[y][x].data for x in range(COLUMNS)).rstrip() for y in range(last + 1)
        ]
        return rows if rows[-1] else rows[:-1]


class Program:
    """A program in a terminal of its own."""

    def __init__(self, command: str, folder: Path, variables: dict[str, str]) -> None:
        self._here, there = pty.openpty()
        fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
        os.set_blocking(self._here, False)
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=folder,
            env=variables,
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
        )
        os.close(there)
        self._screen = Screen()
        self._looked_at = 0

    def wait(self, guard_s: float = GUARD_S) -> list[str]:
        """Wait for its end. Returns all it has written."""
        until = time.monotonic() + guard_s
        while self._process.poll() is None:
            if time.monotonic() > until:
                self.interrupt()
                raise TimeoutError(f"no end after {guard_s} s: {self._screen.lines()}")
            self._read()
            time.sleep(0.002)
        self._read()
        os.close(self._here)
        return self._screen.lines()

    def look(self, expected: int) -> list[str]:
        """The lines that have come since we looked, once there are as many as expected, or no more
        come.
        """
        until, came, quiet = time.monotonic() + GUARD_S, 0, time.monotonic() + QUIET_S
        while time.monotonic() < until and self._process.poll() is None:
            if self._read():
                quiet = time.monotonic() + QUIET_S
            came = len(self._screen.lines()) - self._looked_at
            if came >= expected and time.monotonic() > quiet:
                break
            time.sleep(0.005)
        self._read()
        lines = self._screen.lines()[self._looked_at :]
        self._looked_at += len(lines)
        return lines

    def _read(self) -> bool:
        came = False
        while True:
            try:
                data = os.read(self._here, 1 << 16)
            except BlockingIOError:
                return came
            except OSError as error:
                if error.errno == errno.EIO:  # nobody has the other side any more
                    return came
                raise
            if not data:
                return came
            self._screen.feed(data)
            came = True

    def has_ended(self) -> bool:
        """Whether it is gone. After a kill, that may take a moment."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GUARD_S)
        return self._process.returncode is not None

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)
        self._process.wait(GUARD_S)
        with suppress(OSError):
            os.close(self._here)


class Terminals:
    """One reader's terminals.

    Args:
        folder: where they stand.
        slow: whether to type what takes long.
    """

    def __init__(self, folder: Path, *, slow: bool = True) -> None:
        self.folder = folder
        self._slow = slow
        self._port = str(free_port())
        self._environment = environment() | {"ZAICHIK_CONNECT": f"{HOST}:{self._port}"}
        self._running: dict[str, Program] = {}

    def type(self, fence: Fence) -> str | None:
        """Type the block's commands; what a reader would then see, in place of the block; None if
        it is left out.
        """
        if not self._slow and (
            fence.caption.startswith(SLOW) or STAGE.fullmatch(fence.text.partition("\n")[0])
        ):
            return None
        if started := STARTS.fullmatch(fence.caption):
            return self._start(started["terminal"], fence.text)
        if shows := SHOWS.fullmatch(fence.caption):
            return self._shown(self._running[shows["terminal"]].look(len(fence.text.splitlines())))
        guard_s = SLOW_GUARD_S if fence.caption.startswith(SLOW) else GUARD_S
        commands = TYPED.findall(fence.text)
        return "".join(
            f"{typed}{self._run(COMMAND.sub('', typed)[:-1], guard_s)}" for typed in commands
        )

    def _run(self, command: str, guard_s: int) -> str:
        if command.startswith("cd "):
            self.folder = (self.folder / command[3:]).resolve()
            return ""
        if SIMPLE.fullmatch(command):
            return self._shown(
                run_here(
                    shlex.split(self._masked(command))[1:], self.folder, self._environment, guard_s
                )
            )
        return self._shown(
            Program(self._masked(command), self.folder, self._environment).wait(guard_s)
        )

    def _start(self, terminal: str, text: str) -> str:
        """Start a program and wait until it has written as much as the text shows."""
        before = self._running.get(terminal)
        assert before is None or before.has_ended(), (
            f"something runs in the {terminal} terminal already"
        )
        if before is not None:
            self.interrupt(terminal)
        command, *expected = text.splitlines()
        program = Program(f"exec env {self._masked(command[2:])}", self.folder, self._environment)
        self._running[terminal] = program
        return f"{command}\n{self._shown(program.look(len(expected)))}"

    def _masked(self, command: str) -> str:
        return command.replace(PORT, self._port)

    def _shown(self, lines: Sequence[str]) -> str:
        return "".join(f"{line.replace(self._port, PORT)}\n" for line in lines)

    def interrupt(self, terminal: str) -> None:
        """Press Ctrl-C in one of them."""
        self._running.pop(terminal).interrupt()

    def close(self) -> None:
        """Press Ctrl-C wherever something is left running."""
        for terminal in list(self._running):
            self.interrupt(terminal)


class _Tty(io.TextIOWrapper):
    """Says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def run_here(
    words: list[str], folder: Path, variables: dict[str, str], guard_s: int = GUARD_S
) -> list[str]:
    """What `zaichik` shows, run in this process: half a second less for each of the many commands
    of a chapter.
    """
    output = _Tty(io.BytesIO(), encoding="utf-8", write_through=True)
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(guard_s)
    try:
        with chdir(folder), redirect_stdout(output), redirect_stderr(output), suppress(SystemExit):
            main(words)
    finally:
        signal.alarm(0)
        os.environ.clear()
        os.environ.update(before)
    screen = Screen()
    screen.feed(output.buffer.getvalue().replace(b"\n", b"\r\n"))  # as a terminal does
    return screen.lines()


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError("no end: it may take two minutes, or eight if the text calls it slow")


def environment() -> dict[str, str]:
    """A reader's: this project's programs first, no colours, a terminal of the usual width."""
    removed = {"ZAICHIK_CONNECT", "FORCE_COLOR", "PORT", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    here = os.pathsep.join(map(str, (ROOT, ROOT / "protocol")))
    screen = {
        "ZAICHIK": str(ROOT),
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
        "TERM": "xterm",
        "NO_COLOR": "1",
    }
    return kept | screen | {"PATH": path, "PYTHONPATH": here}


def is_as_shown(expected: str, came: str) -> bool:
    """Whether what came is what the text shows."""
    pattern = []
    for line in TOOK.sub("", expected).splitlines():
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*".join(map(re.escape, line.rstrip().split("..."))) + "\n")
    return re.fullmatch("".join(pattern), TOOK.sub("", came)) is not None
