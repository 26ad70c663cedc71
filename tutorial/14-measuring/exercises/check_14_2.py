"""Questions for exercise 14.2."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from zaichik.learn.exercise import Exercise, Wrong

EXERCISE = Exercise(
    "A reader that ends",
    hints=(
        (
            "`CREDIT` says which readers there are. Give them a third one, and a second table that says who has an "
            "`until`. `World.reader` passes it on; `understood` translates one more kind of frame; `Naive.read` says "
            "when it's due. A step for its reads makes it part of the stories."
        ),
        (
            "Somebody has to remember that the end has been told, and that's the naive one: once told, there's "
            "nothing more. Keep that in a list, since `state` doesn't know sets. And a gap that goes on beyond the "
            "`until` is told up to there."
        ),
    ),
    program="stories.py",
)
RIGHT = "no story goes wrong"


def explored(program, steps, right="", wrong=""):
    """What stories.py says last, in a copy of the program; with a slip in its readers.py, if one is given."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in program.resolve().parent.glob("*.py"):
            shutil.copy(path, folder)
        readers = folder / "readers.py"
        text = readers.read_text(encoding="utf-8")
        if right not in text:
            raise Wrong(f"your readers.py has no `{right}`, where a slip is to be planted: goto brings the book's")
        readers.write_text(text.replace(right, wrong) if right else text, encoding="utf-8")
        came = subprocess.run(
            [sys.executable, "stories.py", str(steps)], cwd=folder, capture_output=True, text=True, check=False
        )
    if "Traceback" in came.stderr:
        raise Wrong(f"stories.py: {came.stderr.strip().splitlines()[-1]}")
    return (came.stdout.strip().splitlines() or ["nothing"])[-1]


def must_be_found(program, slip, steps, right, wrong):
    """Raise Wrong if no story of so many steps shows that slip: as many as it takes, and no more."""
    said = explored(program, steps, right, wrong)
    if said == RIGHT:
        raise Wrong(f"{slip}, and in {steps} steps {said}")


@EXERCISE.asks(
    "a reader that doesn't stop at its `until` is found",
    hint="No reader of the book's stories has an `until`. Let one want the first message only: publish, read, read.",
)
def stops(program):
    must_be_found(program, "a reader goes on at its until", 3, "self.cursor >= self.until", "self.cursor > self.until")


@EXERCISE.asks(
    "an end that is told again and again is found",
    hint="After the end, nothing is told. Does your reader read once more, and does the naive one say None then?",
)
def ends_once(program):
    must_be_found(program, "an end is told each time", 4, "        self.leave()\n        end =", "        end =")


@EXERCISE.asks(
    "a gap that goes on beyond the `until` is found",
    hint="Four messages in a row that keeps two: what's told to a reader whose `until` is 1?",
)
def gap_ends(program):
    must_be_found(program, "a gap is told beyond until", 5, "min(self.topic.head, self.until)", "self.topic.head")


@EXERCISE.asks(
    "and a broker without a slip is right",
    hint="The story that it tells now is one that your naive topic gets wrong. Take it step by step: what's due?",
)
def cries_no_wolf(program):
    said = explored(program, 4)
    if said != RIGHT:
        raise Wrong(f"the broker has no slip, and stories.py says: {said}")
