"""A `zaichik serve` in a process of its own, and what the system tells of it.

The other tests of the broker run it inside their own process, where they can look at everything and
move its clock. Here it is what its users have: a program that is started, signalled and killed, and
known by its process id, its log and its sockets.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

import zaichik
from zaichik.apps.audit import audit
from zaichik.client import blocking

MIB = 1024 * 1024
GUARD = 60.0  # seconds after which a test that waits in vain fails
_LOOK_SECONDS = 0.02
_END_SECONDS = 2.0  # until a broker is asked again, less kindly
_TICKS = os.sysconf("SC_CLK_TCK")


class Served:
    """A broker that runs.

    Attributes:
        process: its handle; nothing else is ever signalled.
        pid, port: its numbers.
    """

    def __init__(self, process: "subprocess.Popen[str]", port: int, log: Path) -> None:
        self.process = process
        self.pid = process.pid
        self.port = port
        self._log = log

    @property
    def log(self) -> str:
        """All it has said so far."""
        return self._log.read_text(encoding="utf-8")

    @property
    def resident(self) -> int:
        """Bytes of memory it has now."""
        return self._status("VmRSS")

    @property
    def peak(self) -> int:
        """Bytes of memory it had when it had most."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024

    @property
    def processor_seconds(self) -> float:
        """What it has used of the processor."""
        fields = (
            Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        )
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def limit_descriptors(self, most: int) -> None:
        """From now on it gets none with this number or a greater one, as if it had been started
        with that limit.
        """
        resource.prlimit(
            self.pid, resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        )

    async def ended(self) -> int:
        """Its exit code, when it has ended."""
        return await anyio.to_thread.run_sync(self.process.wait, GUARD)

    def audit(self) -> None:
        """Every message is accounted for, whatever has happened: from outside, as `zaichik audit`
        sees it.
        """
        with blocking.connect(port=self.port, reconnect=0) as client:
            assert [
                str(law) for law in audit(client.topics(), client.subscriptions()) if law.difference
            ] == []

    async def describe(self) -> dict[str, Any]:
        """What it tells of itself; the connection that asks is one of those it counts."""
        async with zaichik.connect(port=self.port) as client:
            return await client.describe()


@contextmanager
def served(
    *options: str, descriptors: int | None = None, through: Sequence[str] = ()
) -> Iterator[Served]:
    """A broker on a free port, in a directory of its own, as long as the block lasts.

    Args:
        options: of `zaichik serve`.
        descriptors: as many may be open, as `ulimit -n` would have it.
        through: a command that becomes the one behind it, such as `env`.

    Raises:
        AssertionError: its log tells of a bug; or it still runs in the end, and its sums are wrong.
    """
    command = [
        *through,
        sys.executable,
        "-m",
        "zaichik",
        "serve",
        "--port",
        "0",
        "--json",
        *options,
    ]
    if descriptors is not None:
        command = [
            "sh",
            "-c",
            f'ulimit -n {descriptors}; exec "$@"',
            "sh",
            *command,
        ]  # exec: the pid stays the same
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        log = Path(name) / "broker.log"
        with (
            log.open("w", encoding="utf-8") as errors,
            subprocess.Popen(
                command, cwd=name, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process,
        ):
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, f"the broker did not start: {log.read_text(encoding='utf-8')}"
                broker = Served(process, json.loads(line)["port"], log)
                yield broker
                if process.poll() is None and not any("access" in option for option in options):
                    broker.audit()
            finally:
                _end(process)
        assert "Traceback" not in broker.log, broker.log[-4000:]


def _end(process: "subprocess.Popen[str]") -> None:
    """Ask it to end; make it, if it takes long."""
    process.send_signal(signal.SIGCONT)  # a stopped process hears nothing else
    for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        return


async def eventually(holds: Callable[[], Any], *, seconds: float = GUARD) -> None:
    """Returns when it holds.

    It is looked at again and again: another process's state tells nobody that it changes.
    """
    with anyio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - see above
            await anyio.sleep(_LOOK_SECONDS)
