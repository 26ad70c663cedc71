"""Questions for exercise 15.1."""

import subprocess
import sys

from zaichik.learn.exercise import Exercise, Wrong, must

EXERCISE = Exercise(
    "How late?",
    hints=(
        "Where `by_walk` counts a lost change, it knows two times: when the change came, and when its window ends.",
        "Keep the greatest of all waits, beginning with 0, and return it beside the two counts.",
    ),
    program="fates.py",
)


def walk(program, events, window):
    """What the program's function says of these events; in a process of its own: it imports the reader's files."""
    asked = f"from fates import by_walk; print(*by_walk({events}, {window}))"
    came = subprocess.run(
        [sys.executable, "-c", asked], cwd=program.resolve().parent, capture_output=True, text=True, check=False
    )
    if came.returncode:
        raise Wrong(came.stderr.strip().splitlines()[-1])
    return [int(word) for word in came.stdout.split()]


@EXERCISE.asks(
    "repetitions wait for nothing",
    hint="`by_walk` returns three numbers now; without a lost change the third one is 0.",
)
def none(program):
    must(walk(program, [(0, b"k", b"1"), (4, b"k", b"1")], 10), [1, 0, 0], "the same twice, at 0 and 4, window 10")


@EXERCISE.asks("a change waits for the end of its window", hint="The end, less the time at which the change came.")
def one(program):
    must(walk(program, [(0, b"k", b"1"), (4, b"k", b"2")], 10), [1, 1, 6], "a change at 4, window 0 to 10")


@EXERCISE.asks("the longest of several waits counts", hint="Is it the last one that you keep, or the greatest?")
def several(program):
    events = [(0, b"k", b"1"), (1, b"k", b"2"), (8, b"k", b"3"), (8, b"l", b"1"), (17, b"l", b"2")]
    must(walk(program, events, 10), [3, 3, 9], "changes at 1 and 8 of one key, and at 17 of another, window 10")
