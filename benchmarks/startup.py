"""Start-up time of the broker, the library and the command line, beside a bare interpreter's."""

import json
import statistics
import subprocess
import sys
import time

from benchmarks.peers.peer import Job

COMMANDS: dict[str, list[str]] = {
    "zaichik serve, until it accepts connections": [
        "-m",
        "zaichik",
        "serve",
        "0",
        "--json",
        "--log-level",
        "warning",
    ],
    "import zaichik": ["-c", "import zaichik"],
    "zaichik --help": ["-m", "zaichik", "--help"],
    "a bare interpreter": ["-c", "pass"],
}


def started(words: list[str]) -> float:
    """Returns seconds until the program has ended, or, if it is a broker, until it prints the port
    it listens on.
    """
    begin = time.monotonic()
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        if "serve" in words:
            json.loads(child.stdout.readline())["port"]
            seconds = time.monotonic() - begin
            child.terminate()
        else:
            child.stdout.read()
            child.wait()
            seconds = time.monotonic() - begin
    if child.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}")
    return seconds


async def play(job: Job) -> dict[str, float]:
    """Returns the median of some starts in milliseconds, after one uncounted start that fills the
    page cache.
    """
    words = COMMANDS[job.axis]
    started(words)
    return {"ms": statistics.median(started(words) for _ in range(job.rounds)) * 1000}
