"""The command line under test: in this process where only text matters, as a program where signals
and pipes do.
"""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from zaichik.cli.main import main

GUARD = 120  # seconds after which a program that hangs is killed, and its test fails
COMMAND = [sys.executable, "-m", "zaichik"]


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch, tmp_path_factory):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    # What one test keeps is its own.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def zaichik(capsys):
    """Run a command here; what it wrote, and its exit code."""

    def run(*words: str) -> Result:
        capsys.readouterr()
        try:
            code = main(list(words))
        except SystemExit as exit_:
            code = exit_.code
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def start():
    """Start a command as a program with pipes; it is killed when the test is over."""
    processes, watchdogs = [], []

    def popen(*words: str, before: Sequence[str] = (), **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*before, *COMMAND, *words], text=True, **(pipes | options))
        watchdog = threading.Timer(GUARD, process.kill)
        watchdog.start()
        processes.append(process)
        watchdogs.append(watchdog)
        return process

    yield popen
    for process, watchdog in zip(processes, watchdogs, strict=True):
        watchdog.cancel()
        watchdog.join()
        with process:  # closes its pipes
            process.kill()


@pytest.fixture
def until():
    """Wait until something has happened, and leave the processor to the program that does it."""

    def wait(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
        while not happened():
            assert process.poll() is None
            time.sleep(0.01)

    return wait


@pytest.fixture
def on_terminal(start):
    """Run a command on a terminal; all it wrote, and its exit code.

    The keys are typed at once. If it is to be interrupted, that happens when it has shown this
    text.
    """

    def run(
        *words: str, keys: bytes = b"", interrupt_at: bytes = b"", **environment: str
    ) -> tuple[int, str]:
        master, slave = pty.openpty()
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment}
        process = start(*words, stdin=slave, stdout=slave, stderr=slave, env=env)
        os.close(slave)
        os.write(master, keys)
        output = b""
        try:
            while chunk := os.read(master, 4096):
                output += chunk
                if interrupt_at and interrupt_at in output:
                    process.send_signal(signal.SIGINT)
                    interrupt_at = b""
        except OSError:  # that is how Linux tells that the other side is closed
            pass
        os.close(master)
        return process.wait(), output.decode()

    return run


@pytest.fixture
def answering(start):
    """Run a command on a terminal, and type each answer when its prompt is shown; all it wrote, and
    its exit code.
    """

    def run(*words: str, prompts: Sequence[str], answers: Sequence[str]) -> tuple[int, str]:
        master, slave = pty.openpty()
        process = start(
            *words, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
        )
        os.close(slave)
        output, awaited = b"", list(zip(prompts, answers, strict=True))
        try:
            while chunk := os.read(master, 4096):
                output += chunk
                if awaited and output.endswith(awaited[0][0].encode()):
                    os.write(master, awaited.pop(0)[1].encode() + b"\n")
        except OSError:  # as above
            pass
        os.close(master)
        return process.wait(), output.decode()

    return run


@pytest.fixture(scope="session")
def broker():
    """HOST:PORT of a broker that lives as long as the tests; each test has topics of its own."""
    serve = [
        *COMMAND,
        "serve",
        "--port",
        "0",
        "--json",
        "--log-level",
        "error",
        "--retention",
        "forever",
    ]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        ready = json.loads(process.stdout.readline())
        yield f"{ready['host']}:{ready['port']}"
        process.terminate()
        assert process.wait() == 0


@pytest.fixture
def connected(broker, monkeypatch):
    """All commands of the test talk to the broker."""
    monkeypatch.setenv("ZAICHIK_CONNECT", broker)


_numbers = count(1)


@pytest.fixture
def topic():
    """A name no other test uses."""
    return f"topic-{next(_numbers)}"
