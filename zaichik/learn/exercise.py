"""The tutorial's exercises: a small file to complete, and the questions it must answer.

An answer is graded in a process of its own, so that an endless loop in it is a verdict and not the
end of ours. As with stages, each question has a hint, and two more that reveal more.
"""

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio

from zaichik.learn.chapters import CHAPTERS, TUTORIAL
from zaichik.learn.lab import NoBroker

LONGEST_S = 20.0
NUMBER = re.compile(r"(\d{1,2})\.(\d{1,2})")


class Wrong(Exception):
    """The answer is wrong; the text says what was asked, what was expected, and what came."""


class NoSuchExercise(Exception):
    """There is no such exercise, or no answer to it; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """One thing an answer must do.

    Attributes:
        title: the sentence that must hold.
        hint: where to look first if it does not hold.
        function: gets the answer as a module; returns, or raises Wrong.
    """

    title: str
    hint: str
    function: Callable[[Any], None]


class Exercise:
    """What the file with an exercise's checks declares.

    Args:
        title: what the answer is about.
        hints: two more after each question's own: how it is usually built, and where to read about
            it.
        program: the learner's program to improve, if the answer is not a file of its own. Questions
            then get its path instead of a module.
    """

    def __init__(self, title: str, *, hints: tuple[str, str], program: str = "") -> None:
        self.title = title
        self.hints = hints
        self.program = program
        self.questions: list[Question] = []

    def asks(
        self, title: str, *, hint: str
    ) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Declare a function as the next question."""

        def declare(function: Callable[[Any], None]) -> Callable[[Any], None]:
            self.questions.append(Question(title, hint, function))
            return function

        return declare


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for an answer.

    Attributes:
        title: the exercise's title.
        passed: the titles of the questions that it answered.
        failed: the title of the first one that it did not; "" if it answered all.
        reason: why not.
        hints: three, each revealing more than the one before.
    """

    title: str
    passed: tuple[str, ...]
    failed: str = ""
    reason: str = ""
    hints: tuple[str, ...] = ()


def must(came: object, expected: object, asked: str) -> None:
    """Raise Wrong unless an answer is what was expected."""
    if came != expected:
        raise Wrong(f"{asked}: expected {expected!r}, got {came!r}")


def checks(number: str) -> Path:
    """The file with the questions of an exercise.

    Raises:
        NoSuchExercise: there is none.
    """
    found = NUMBER.fullmatch(number)
    chapter = CHAPTERS.get(int(found[1])) if found else None
    if not TUTORIAL.is_dir():
        raise NoSuchExercise("exercises are in a clone of the project; this is an installed copy")
    path = (
        TUTORIAL
        / (chapter.folder if chapter else "")
        / "exercises"
        / f"check_{number.replace('.', '_')}.py"
    )
    if not path.is_file():
        there = ", ".join(
            each.stem[6:].replace("_", ".")
            for each in sorted(TUTORIAL.glob("*/exercises/check_*.py"))
        )
        raise NoSuchExercise(f"there is no exercise {number}; there are {there}")
    return path


def answer_name(checks: Path) -> str:
    """The name of the file with the answer, in the learner's folder."""
    exercise: Exercise = _load(checks).EXERCISE
    return exercise.program or checks.name.replace("check_", "exercise_")


def grade(checks: Path, answer: Path) -> Verdict:
    """Ask an answer all questions, until one fails. Runs in this process."""
    exercise: Exercise = _load(checks).EXERCISE
    passed: list[str] = []
    title, hint = "the file can be read", ""
    try:
        module = answer if exercise.program else _load(answer)
        for question in exercise.questions:
            title, hint = question.title, question.hint
            question.function(module)
            passed.append(title)
    except (Exception, NoBroker) as error:
        return Verdict(
            exercise.title, tuple(passed), title, _describe(error), (hint, *exercise.hints)
        )
    return Verdict(exercise.title, tuple(passed))


async def grade_in_subprocess(checks: Path, answer: Path) -> Verdict:
    """The same in a separate process, which is killed if it takes too long."""
    command = [
        sys.executable,
        "-c",
        f"import {__name__} as it; it.main()",
        str(checks),
        str(answer),
    ]
    with anyio.move_on_after(LONGEST_S) as patience:
        result = await anyio.run_process(command, check=False)
    if patience.cancelled_caught:
        exercise: Exercise = _load(checks).EXERCISE
        reason = f"not done after {LONGEST_S:g} s: does a loop wait for something that never comes?"
        return Verdict(
            exercise.title, (), "the answer comes to an end", reason, ("", *exercise.hints)
        )
    try:
        fields = json.loads(result.stdout.decode("utf-8", "replace").rpartition("\n")[2])
        passed, hints = tuple(fields["passed"]), tuple(fields["hints"])
        return Verdict(fields["title"], passed, fields["failed"], fields["reason"], hints)
    except (json.JSONDecodeError, TypeError, KeyError):
        last = (result.stderr.decode("utf-8", "replace").strip() or "nothing").splitlines()[-1]
        reason = f"it ended, saying: {last}"
        return Verdict(answer.name, (), "the answer does not end the program", reason)


def main() -> None:
    """Grade the files that the arguments name. The last line of output is the verdict.

    It is plain ASCII, as JSON is here, so that no locale can garble it.
    """
    sys.stdout.write("\n" + json.dumps(asdict(grade(Path(sys.argv[1]), Path(sys.argv[2])))))


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # a task group wraps an exception in one
        error = error.exceptions[0]
    return (
        str(error) if isinstance(error, (Wrong, NoBroker)) else f"{type(error).__name__}: {error}"
    )


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoSuchExercise(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # an answer may use the learner's other files
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module
