"""Processes that are stopped at random: none but the command's, each for its time, and none for
ever.
"""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import stalls

pytestmark = [
    pytest.mark.unmeasured,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="processes are found in Linux's /proc"
    ),
]

PROGRAM = Path(stalls.__file__)
GUARD = 60  # seconds after which what hangs has failed
# Starts another one like itself, and says both numbers; both wait until nobody has their input any
# more.
FAMILY = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
print(os.getpid(), child.pid, flush=True)
sys.stdin.read()
child.wait()
"""


class Told:
    """A guard that only remembers what it hears."""

    def __init__(self):
        self.processes = []

    def knows(self, process):
        self.processes.append(process)


class Clock:
    """Seconds, which a test lets pass."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@contextmanager
def family():
    """A process and its child, as numbers."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FAMILY], **pipes) as parent:
        numbers = [int(word) for word in parent.stdout.readline().split()]
        try:
            yield numbers
        finally:
            for pid in numbers:
                os.kill(pid, signal.SIGCONT)


def until_state(pid, states):
    """Wait until the kernel has done it: a signal is on its way for a moment."""
    while stalls.stat(pid).state not in states:
        time.sleep(0.01)


def test_what_is_chosen_from_is_a_process_and_all_below_it():
    with family() as (parent, child):
        assert {process.pid for process in stalls.family(parent)} == {parent, child}
        assert {process.pid for process in stalls.family(child)} == {child}
        assert {process.pid for process in stalls.family(os.getpid())} >= {
            os.getpid(),
            parent,
            child,
        }


def test_what_stands_still_already_is_not_chosen():
    with family() as (parent, child):
        os.kill(child, signal.SIGSTOP)
        until_state(child, "T")
        assert [process.pid for process in stalls.family(parent)] == [parent]


def test_a_process_is_stopped_for_its_time_and_the_guard_hears_of_it_first():
    with family() as (_, child):
        guard, clock = Told(), Clock()
        stopping = stalls.Stalls(child, guard, random.Random(0), clock)
        while not stopping.count:
            stopping.step()
            clock.now += 0.1
        (process,) = guard.processes
        assert process.pid == child
        until_state(child, "T")
        clock.now += stalls.SHORTEST_S - 0.2
        stopping.step()
        assert stalls.stat(child).state == "T"
        clock.now += stalls.LONGEST_S
        stopping._next_at = float("inf")
        stopping.step()
        until_state(child, "SR")


def test_whoever_else_has_stopped_it_continues_it():
    with family() as (_, child):
        clock = Clock()
        stopping = stalls.Stalls(child, Told(), random.Random(0), clock)
        while not stopping.count:
            stopping.step()
            clock.now += 0.1
        until_state(child, "T")
        os.kill(child, signal.SIGSTOP)
        clock.now += stalls.LONGEST_S
        stopping._next_at = float("inf")
        stopping.step()
        assert stalls.stat(child).state == "T"
        os.kill(child, signal.SIGCONT)
        until_state(child, "SR")


def test_what_is_stopped_already_is_not_stopped_again_even_if_it_does_not_show_yet(monkeypatch):
    """Or the second stop would be taken for somebody else's, and nobody would continue it."""
    with family() as (_, child):
        (process,) = stalls.family(child)
        monkeypatch.setattr(stalls, "family", lambda _: [process])
        clock = Clock()
        stopping = stalls.Stalls(child, Told(), random.Random(0), clock)
        for _ in range(3):
            stopping._next_at = clock.now
            stopping.step()
        assert stopping.count == 1
        until_state(child, "T")
        assert not stalls.is_stopped_twice(process)


def test_a_number_that_another_process_has_now_is_sent_nothing():
    with family() as (_, child):
        stalls.send(stalls.Process(child, started=1), signal.SIGSTOP)
        assert stalls.stat(child).state != "T"


def run(*command, seed=0):
    """Run a command with stalls; see `subprocess.run`."""
    words = [sys.executable, PROGRAM, "--seed", str(seed), *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=GUARD, check=False)


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_commands_and_the_stalls_are_counted(code):
    done = run(sys.executable, "-c", f"print('done'); raise SystemExit({code})", seed=7)
    assert (done.returncode, done.stdout) == (code, "done\n")
    assert done.stderr.endswith(" stalls; to repeat their choices: --seed 7\n")


def test_a_command_that_died_of_a_signal_is_told_as_a_shell_tells_it():
    done = run(sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + signal.SIGKILL


def test_without_a_command_nothing_is_run():
    done = run()
    assert done.returncode == 2
    assert "name the command to run" in done.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_nothing_stays_stopped_when_the_program_is_ended(number, code):
    """Whether it can hear of it and pass it on, or not."""
    pipes = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
        "text": True,
    }
    with subprocess.Popen(
        [sys.executable, PROGRAM, sys.executable, "-c", FAMILY], **pipes
    ) as stopping:
        pids = [int(word) for word in stopping.stdout.readline().split()]
        while not any(stalls.stat(pid).state == "T" for pid in pids):
            time.sleep(0.01)
        stopping.send_signal(number)
        for pid in pids:
            while (known := stalls.stat(pid)) and known.state == "T":
                time.sleep(0.01)
        assert stopping.wait(GUARD) == code
        stopping.stdin.close()  # and what is left of the family ends
