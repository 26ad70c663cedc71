"""Run a command while processes of its are stopped at random, as a busy machine does; `make
test-stalls` runs it.

About twice a second a process is chosen among the command's own and those below it, stopped
(SIGSTOP) for 0.3 to 3 seconds, and continued (SIGCONT). A test that passes here waits for what must
happen, and not for a time in which it usually does.

No other process is ever stopped, and none stays stopped when this program ends, however it ends: a
guard, which is a process of its own, hears of each stop before it is made, and continues what is
left when this program is gone. A process that somebody else has stopped as well is left to them.

The same seed makes the same choices, but the processes that there are to choose from are the
machine's.
"""

import argparse
import heapq
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

PROC = Path("/proc")
PER_SECOND = 2.0
SHORTEST_S, LONGEST_S = 0.3, 3.0
LOOK_EVERY_S = 0.05  # how late a command's end, or a signal, may be noticed
STANDING = "TtXZ"  # the states of processes that are stopped, traced or dead
PENDING_STOP = 1 << (signal.SIGSTOP - 1)  # of a signal mask in /proc/PID/status
SIGNALLED = 128  # is added to the number of the signal that a command has died of, as a shell does
EXAMPLES = """
examples:
  make test-stalls                                                     # the whole suite
  make test-stalls STALLED=tests/net                                   # a part of it
  .venv/bin/python tests/stalls.py --seed 7 .venv/bin/python -m pytest -n 2 tests/net

exit code: the command's
"""


@dataclass(frozen=True, slots=True)
class Process:
    """One process, and no other that gets its number later.

    Attributes:
        pid: its number.
        started: when it was started, in the kernel's ticks.
    """

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/PID/stat says of a process: its parent's number, its state, and when it was
    started.
    """

    parent: int
    state: str
    started: int


def stat(pid: int) -> Stat | None:
    """Returns what is known of a process, or nothing if there is none with this number."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name before it is in parentheses, and may hold anything, more of them included.
    fields = text.rpartition(")")[2].split()
    return Stat(parent=int(fields[1]), state=fields[0], started=int(fields[19]))


def is_alive(process: Process) -> bool:
    """Returns whether it is still there."""
    now = stat(process.pid)
    return now is not None and now.started == process.started


def family(root: int) -> list[Process]:
    """Returns the process with this number and all below it that could run, in the order of their
    numbers.
    """
    stats: dict[int, Stat] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (known := stat(int(entry.name))):
            stats[int(entry.name)] = known
    return [
        Process(pid, stats[pid].started)
        for pid in sorted(below(root, stats))
        if stats[pid].state not in STANDING
    ]


def below(root: int, stats: dict[int, Stat]) -> Iterator[int]:
    """Yield the numbers of a process and of its descendants."""
    children: dict[int, list[int]] = {}
    for pid, known in stats.items():
        children.setdefault(known.parent, []).append(pid)
    found = [root] if root in stats else []
    while found:
        pid = found.pop()
        yield pid
        found += children.get(pid, [])


def is_stopped_twice(process: Process) -> bool:
    """Returns whether a stopped process was sent another SIGSTOP: by somebody who counts on it."""
    try:
        lines = (
            (PROC / str(process.pid) / "status")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()
        )
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in lines)
    if (
        fields["State"].split()[0] != "T"
    ):  # the first one may still be pending: of a process that waits for a disk
        return False
    return any(int(fields[name], 16) & PENDING_STOP for name in ("SigPnd", "ShdPnd"))


def send(process: Process, number: signal.Signals) -> None:
    """Send it a signal, if it is still there."""
    if not is_alive(process):
        return
    with suppress(ProcessLookupError):  # it has ended since
        os.kill(process.pid, number)


class Guard:
    """A process of its own that continues what is stopped when this one is gone, even if that was
    killed.
    """

    def __init__(self) -> None:
        # A session of its own, so that a Ctrl-C in the terminal does not end it.
        command = [sys.executable, "-I", __file__, "--guard"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def knows(self, process: Process) -> None:
        """Tell it of a process that will be stopped."""
        assert self._process.stdin is not None
        print(process.pid, process.started, file=self._process.stdin, flush=True)

    def close(self) -> None:
        """Let it continue what is left, and end."""
        self._process.communicate()


def watch_over(lines: IO[str]) -> None:
    """What the guard does: once nobody can write another line, continue the processes that the
    lines name.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for process in [Process(*map(int, line.split())) for line in lines]:
        send(process, signal.SIGCONT)


class Stalls:
    """Stops processes at random, and continues them.

    Args:
        root: the number of the process that is stopped, or one below it.
        guard: hears of each stop before it is made.
        chance: decides when, for how long, and which.
        now: tells the time, in seconds.

    Attributes:
        count: how many stalls there were.
    """

    def __init__(
        self, root: int, guard: Guard, chance: random.Random, now: Callable[[], float]
    ) -> None:
        self.count = 0
        self._root = root
        self._guard = guard
        self._chance = chance
        self._now = now
        self._stopped: list[
            tuple[float, int, Process]
        ] = []  # a heap, by the time at which each is continued
        self._next_at = now() + chance.expovariate(PER_SECOND)

    def step(self) -> None:
        """Continue those whose time has come, and stop another if it is time for that."""
        now = self._now()
        while self._stopped and self._stopped[0][0] <= now:
            process = heapq.heappop(self._stopped)[2]
            # Somebody's test may need it stopped, and continues it later. Until then SIGCONT would
            # be a lie.
            if not is_stopped_twice(process):
                send(process, signal.SIGCONT)
        if now >= self._next_at:
            self._stop_one(now)
            self._next_at = now + self._chance.expovariate(PER_SECOND)

    def _stop_one(self, now: float) -> None:
        seconds = self._chance.uniform(SHORTEST_S, LONGEST_S)
        place = self._chance.random()
        # It may be a moment until one of those has its new state. A second SIGSTOP would look like
        # somebody else's.
        stopped = {process for _, _, process in self._stopped}
        candidates = [process for process in family(self._root) if process not in stopped]
        if not candidates:
            return
        process = candidates[int(place * len(candidates))]
        self._guard.knows(process)
        self.count += 1
        heapq.heappush(self._stopped, (now + seconds, self.count, process))
        send(process, signal.SIGSTOP)


def run(command: Sequence[str], seed: int) -> int:
    """Run a command with stalls. Returns its exit code."""
    signals: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, remember)
    guard = Guard()
    try:
        process = subprocess.Popen(command)
        stalls = Stalls(process.pid, guard, random.Random(seed), time.monotonic)
        while process.poll() is None and not signals:
            stalls.step()
            time.sleep(LOOK_EVERY_S)
    finally:
        guard.close()
    # Now all run, and can hear a signal. Ctrl-C has reached the command as well: a terminal sends
    # it to both.
    if signals and not (signals[0] == signal.SIGINT and sys.stdin.isatty()):
        process.send_signal(signals[0])
    code = process.wait()
    print(
        f"{stalls.count} stalls; to repeat their choices: --seed {seed}",
        file=sys.stderr,
        flush=True,
    )
    return SIGNALLED - code if code < 0 else code


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests/stalls.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--guard", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--seed", type=int, help="of all choices; another one each time if left out"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a program and its arguments")
    options = parser.parse_args(arguments)
    if options.guard:
        watch_over(sys.stdin)
        return 0
    if not (PROC / "self" / "stat").exists():
        parser.error("this needs Linux, which lists processes in /proc")
    if not options.command:
        parser.error("name the command to run")
    seed = random.SystemRandom().randrange(10_000) if options.seed is None else options.seed
    return run(options.command, seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
