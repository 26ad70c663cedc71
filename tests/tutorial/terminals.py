"""The terminals of a reader: commands typed into them, and what they write compared with what the text shows.

In the text, a line that begins with `$ ` is typed; the lines below it are what comes. `...` stands for any text on a
line, and alone on a line for any lines. The port 8889 stands for one that is free here, and how long a check took
is not compared. A block whose caption ends in "leave it running" belongs to a terminal of its own.
"""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from fences import Fence

from zaichik.console.main import main
from zaichik.learn.server import HOST, free_port

ROOT = Path(__file__).parents[2]
PORT = "8889"
STAYS = "leave it running"
GUARD_S = 60
SIMPLE = re.compile(r'zaichik( [\w./-]+| "[^"$]*")*')  # nothing in it that a shell would have to read
TOOK = re.compile(r"  \d+\.\d s$", re.MULTILINE)


class Terminals:
    """One reader's terminals.

    Args:
        folder: where the first of them stands.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = str(free_port())
        self._environment = environment() | {"ZAICHIK_CONNECT": f"{HOST}:{self._port}"}
        self._running: list[subprocess.Popen[bytes]] = []

    def type(self, fence: Fence) -> str:
        """Type the block's commands; what a reader would then see, in place of the block."""
        if fence.caption.endswith(STAYS):
            return self._start(fence.text)
        commands = [line[2:] for line in fence.text.splitlines() if line.startswith("$ ")]
        return "".join(f"$ {command}\n{self._run(command)}" for command in commands)

    def _run(self, command: str) -> str:
        if command.startswith("cd "):
            self.folder = (self.folder / command[3:]).resolve()
            return ""
        if SIMPLE.fullmatch(command):
            return self._shown(run_here(shlex.split(self._masked(command))[1:], self.folder, self._environment))
        result = subprocess.run(
            ["bash", "-c", self._masked(command)],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=GUARD_S,
            check=False,
        )
        return self._shown(result.stdout)

    def _start(self, text: str) -> str:
        """Start a program and wait until it has written as much as the text shows."""
        command, *expected = text.splitlines()
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {self._masked(command[2:])}"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.append(process)
            until = time.monotonic() + GUARD_S
            while time.monotonic() < until and process.poll() is None:
                said = os.pread(output.fileno(), 1 << 16, 0)
                if said.count(b"\n") >= len(expected):
                    break
                time.sleep(0.01)
            return f"{command}\n{self._shown(os.pread(output.fileno(), 1 << 16, 0))}"

    def _masked(self, command: str) -> str:
        return command.replace(PORT, self._port)

    def _shown(self, output: bytes) -> str:
        lines = output.decode().replace(self._port, PORT).splitlines()
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def interrupt(self) -> None:
        """Press Ctrl-C wherever something is left running."""
        for process in self._running:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(GUARD_S)
        self._running.clear()


def run_here(words: list[str], folder: Path, variables: dict[str, str]) -> bytes:
    """What `zaichik` writes, run in this process: half a second less for each of the many commands of a chapter."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        with chdir(folder), redirect_stdout(output), redirect_stderr(output), suppress(SystemExit):
            main(words)
    finally:
        os.environ.clear()
        os.environ.update(before)
    return output.buffer.getvalue()


def environment() -> dict[str, str]:
    """A reader's: this project's programs first, no colours, a terminal of the usual width."""
    removed = {"ZAICHIK_CONNECT", "FORCE_COLOR", "PORT", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in removed}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    here = os.pathsep.join(map(str, (ROOT, ROOT / "protocol")))
    return kept | {"PATH": path, "PYTHONPATH": here, "COLUMNS": "80", "NO_COLOR": "1"}


def is_as_shown(expected: str, came: str) -> bool:
    """Whether what came is what the text shows."""
    pattern = []
    for line in TOOK.sub("", expected).splitlines():
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append(".*".join(map(re.escape, line.rstrip().split("..."))) + "\n")
    return re.fullmatch("".join(pattern), TOOK.sub("", came)) is not None
