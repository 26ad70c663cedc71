"""Programs that watch a broker, for `benchmarks/views.py`.

A signal stops them and another lets them go on: so one broker is watched and left alone in turns,
and nothing else about it differs.
"""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.busy import TOPIC
from benchmarks.processes import process

SIZE = struct.pack("HHHH", 50, 200, 0, 0)  # of a terminal: lines, columns and two unused

Looker = Callable[
    [int], AbstractContextManager[int]
]  # for a broker at that port; returns the processes' group


@contextmanager
def web(broker: int) -> Iterator[tuple[int, int]]:
    """Returns port and process id of a `zaichik web` that runs as long as the block lasts."""
    address = f"127.0.0.1:{broker}"
    command = [
        sys.executable,
        "-m",
        "zaichik",
        "web",
        "--connect",
        address,
        "--port",
        "0",
        "--json",
        "--metrics",
    ]
    with tempfile.TemporaryDirectory() as name:
        log = Path(name, "log")
        with process(command, log, {}, stdout=subprocess.PIPE, text=True) as child:
            line = child.stdout.readline()
            if not line:
                raise RuntimeError(f"zaichik web did not start: {log.read_text(encoding='utf-8')}")
            told = json.loads(line)
            yield int(told["url"].rpartition(":")[2].strip("/")), child.pid


class Stream(threading.Thread):
    """An open page without a browser: it reads a stream of events until it is closed.

    Args:
        port: of `zaichik web`.
        query: says what is looked at.
        heed: called with each state and the time when it came, by `time.perf_counter`; None: no
            state is parsed.

    Attributes:
        sizes: bytes of each event, by its kind.
    """

    def __init__(
        self, port: int, query: str, heed: Callable[[Any, float], None] | None = None
    ) -> None:
        super().__init__(daemon=True)
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.connect()
        self._socket = connection.sock
        connection.request("GET", f"/events?{query}")
        self._answer = connection.getresponse()
        if self._answer.status != 200:
            raise RuntimeError(f"no stream: {self._answer.read().decode()}")
        self._heed = heed
        self._has_begun = threading.Event()
        self.sizes: defaultdict[str, list[int]] = defaultdict(list)
        self.start()
        self._has_begun.wait(30)

    def run(self) -> None:
        """Read."""
        kind, size, state = "", 0, None
        with suppress(OSError, ValueError):  # it is closed
            while line := self._answer.readline():
                size += len(line)
                if line.startswith(b"event: "):
                    kind = line[7:-1].decode()
                elif (
                    line.startswith(b"data: ")
                    and self._heed is not None
                    and kind in {"state", "delta"}
                ):
                    came = time.perf_counter()
                    state = patched(state if kind == "delta" else {}, json.loads(line[6:]))
                    self._heed(state, came)
                elif line == b"\n":
                    self.sizes[kind].append(size)
                    size = 0
                    if kind in {"state", "rows"}:
                        self._has_begun.set()

    def close(self) -> None:
        """Leave the page."""
        with suppress(OSError):
            self._socket.shutdown(2)
        self.join()


def patched(value: Any, patch: Any) -> Any:
    """Returns what a JSON merge patch makes of a value."""
    if not isinstance(patch, dict):
        return patch
    result = dict(value) if isinstance(value, dict) else {}
    for name, part in patch.items():
        if part is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), part)
    return result


def pages(query: str, count: int) -> Looker:
    """Returns a looker with this many open pages."""

    @contextmanager
    def looking(broker: int) -> Iterator[int]:
        with web(broker) as (port, group), ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(closing(Stream(port, query)))
            yield group

    return looking


@contextmanager
def scrapes(broker: int) -> Iterator[int]:
    """A scraper that reads the metrics at the beginning of every second."""
    with web(broker) as (port, group):
        ended = threading.Event()

        def scrape() -> None:
            while not ended.wait(1 - time.monotonic() % 1):
                fetch(port, "/metrics")

        thread = threading.Thread(target=scrape, daemon=True)
        thread.start()
        yield group
        ended.set()


@contextmanager
def watch(broker: int) -> Iterator[int]:
    """A `zaichik watch` on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, SIZE)
    command = [sys.executable, "-m", "zaichik", "watch", TOPIC, "--connect", f"127.0.0.1:{broker}"]
    with tempfile.TemporaryDirectory() as name:
        log, pipes = Path(name, "log"), {"stdin": theirs, "stdout": theirs}
        with process(command, log, {"TERM": "xterm-256color"}, **pipes) as child:
            os.close(theirs)
            if not has_drawn(ours):
                raise RuntimeError(
                    f"zaichik watch draws nothing: {log.read_text(encoding='utf-8')}"
                )
            # Not a thread that reads what is drawn: it would hold the lock of the interpreter,
            # which our publisher and our readers need.
            with process(["cat"], Path(os.devnull), {}, stdin=ours, stdout=subprocess.DEVNULL):
                yield child.pid
                child.terminate()
                os.waitid(
                    os.P_PID, child.pid, os.WEXITED | os.WNOWAIT
                )  # as long as it draws, somebody must read
    os.close(ours)


def has_drawn(terminal: int) -> bool:
    """Returns whether the picture of a live topic appears on that terminal within half a minute."""
    seen, end = b"", time.monotonic() + 30
    with suppress(OSError):  # the program has ended
        while (
            b"live" not in seen
            and select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0]
        ):
            seen += os.read(terminal, 1 << 16)
    return b"live" in seen


def beside(part: str) -> Looker:
    """Returns a looker that does only a part of what `zaichik watch` does: see
    `benchmarks/beside.py`.
    """

    @contextmanager
    def looking(broker: int) -> Iterator[int]:
        command = [sys.executable, "-m", "benchmarks.beside", part, str(broker)]
        with tempfile.TemporaryDirectory() as name:
            log = Path(name, "log")
            with process(command, log, {}, stdout=subprocess.PIPE, text=True) as child:
                if not child.stdout.readline():
                    raise RuntimeError(
                        f"benchmarks.beside {part} did not begin: {log.read_text(encoding='utf-8')}"
                    )
                yield child.pid
                if child.poll() is not None:
                    raise RuntimeError(
                        f"benchmarks.beside {part} has ended: {log.read_text(encoding='utf-8')}"
                    )

    return looking


@contextmanager
def nobody(broker: int) -> Iterator[int]:
    """A process that does nothing: what is measured with this is the noise."""
    with process(["sleep", "600"], Path(os.devnull), {"BROKER": str(broker)}) as child:
        yield child.pid


def fetch(port: int, path: str) -> bytes:
    """Returns what is at that path."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}, {body[:200]!r}")
        return body
