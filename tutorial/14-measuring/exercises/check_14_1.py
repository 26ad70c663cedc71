"""Questions for exercise 14.1."""

import subprocess
import sys

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "The tail",
    hints=(
        "Sort the times; the median is the one in the middle, as in `show`. Then count those above ten times that.",
        "A share is a count divided by how many there are, so it's between 0 and 1, and doesn't depend on the machine.",
    ),
    program="measure.py",
)


def tail(program, times):
    """What the program's function says of these times; in a process of its own, since it imports the reader's files."""
    asked = f"from measure import tail; print(tail({times}))"
    came = subprocess.run(
        [sys.executable, "-c", asked], cwd=program.resolve().parent, capture_output=True, text=True, check=False
    )
    if came.returncode:
        raise Wrong(came.stderr.strip().splitlines()[-1])
    return float(came.stdout)


@EXERCISE.asks(
    "the same time for all is no tail", hint="Write `tail(times)` in measure.py. Nothing is above ten times itself."
)
def none(program):
    must(tail(program, [0.001] * 100), 0.0, "a hundred times 1 ms")


@EXERCISE.asks("a few slow ones are their share", hint="Is it a share of all, and not a count?")
def few(program):
    must(tail(program, [0.001] * 95 + [0.5] * 5), 0.05, "95 times 1 ms and 5 times 500 ms")


@EXERCISE.asks(
    "it's measured by the median", hint="One slow request moves the average a long way, and the median hardly."
)
def median(program):
    must(tail(program, [0.001] * 90 + [0.02] * 9 + [10.0]), 0.1, "90 times 1 ms, 9 times 20 ms and once 10 s")
