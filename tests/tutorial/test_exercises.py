"""Exercises: the stub fails, the solution is right, a plausible wrong answer fails with the hint
meant for it (I7).

Of the wrong answers in a chapter, the ordinary run judges one; `make tutorial-full` judges the
others.
"""

import contextlib
import functools
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from chapter import TUTORIAL, all_chapters
from offenders import each

from zaichik.learn import exercise

pytestmark = pytest.mark.unmeasured  # what judges has tests of its own, in tests/learn

SOLUTIONS = TUTORIAL / "solutions"
# exercise_2_1.py, and more for some: exercise_2_1_late.py. Where the reader's program is improved,
# a folder of files.
WRONG = sorted(
    path for path in (SOLUTIONS / "wrong").glob("exercise_*") if path.suffix in {".py", ""}
)
CHECKS = sorted(
    TUTORIAL.glob("*/exercises/check_*.py"),
    key=lambda path: [int(n) for n in path.stem.split("_")[1:]],
)
NUMBERS = [path.stem[6:].replace("_", ".") for path in CHECKS]
HAVE_SOLUTIONS = pytest.mark.skipif(
    not SOLUTIONS.exists(), reason="the solutions have been removed"
)


def stem(number):
    return f"exercise_{number.replace('.', '_')}"


def answer(number, folder, given=None):
    """An answer as it lies in the reader's folder: the one given (a file, or a folder of files),
    else the stub.
    """
    checks = exercise.checks(number)
    path = folder / exercise.answer_name(checks)
    if path.stem == stem(number):
        return given or checks.parent / path.name
    here = next(
        chapter for chapter in all_chapters() if chapter.number == int(number.partition(".")[0])
    )
    for name, text in here.program().items():
        (folder / name).write_text(text, encoding="utf-8")
    if given:
        shutil.copytree(given, folder, dirs_exist_ok=True)
    return path


def wrong_answers():
    seen = set()
    for given in WRONG:
        chapter = given.stem.split("_")[1]
        yield pytest.param(
            given, id=given.stem, marks=[pytest.mark.full] if chapter in seen else []
        )
        seen.add(chapter)


@functools.cache
def verdict_of_the_stub(number):
    with tempfile.TemporaryDirectory() as folder:
        return verdict(number, Path(folder))


def verdict(number, folder, given=None):
    with contextlib.chdir(folder):
        return exercise.grade(exercise.checks(number), answer(number, folder, given))


@pytest.mark.parametrize("number", NUMBERS)
def test_the_stub_fails_and_every_question_has_three_hints(number):
    came = verdict_of_the_stub(number)
    assert came.failed
    assert len(came.hints) == 3
    assert all(len(hint) > 20 for hint in came.hints)


@HAVE_SOLUTIONS
@pytest.mark.parametrize("number", NUMBERS)
def test_the_solution_is_right(number, tmp_path):
    given = next(path for path in SOLUTIONS.glob(f"{stem(number)}*") if path.stem == stem(number))
    came = verdict(number, tmp_path, given)
    assert (came.failed, came.reason) == ("", "")
    assert came.passed


@HAVE_SOLUTIONS
@pytest.mark.parametrize("given", [*wrong_answers()])
def test_a_plausible_wrong_answer_fails_where_it_should(given, tmp_path):
    number = ".".join(given.stem.split("_")[1:3])
    texts = [
        path.read_text(encoding="utf-8")
        for path in ([given] if given.is_file() else given.glob("*.py"))
    ]
    meant = re.search(r"Fails at: (.+)$", "\n".join(texts), re.MULTILINE)
    assert verdict(number, tmp_path, given).failed == meant[1]


@HAVE_SOLUTIONS
@pytest.mark.parametrize("number", NUMBERS)
def test_the_last_hint_is_not_the_solution(number):
    """Whoever has read all hints still has something to write."""
    given = next(path for path in SOLUTIONS.glob(f"{stem(number)}*") if path.stem == stem(number))
    texts = [
        path.read_text(encoding="utf-8")
        for path in ([given] if given.is_file() else given.glob("*.py"))
    ]
    lines = {line.strip() for line in "\n".join(texts).splitlines() if len(line.strip()) > 25}
    for hint in verdict_of_the_stub(number).hints:
        assert not [line for line in lines if line in hint]


@each("number", NUMBERS)
def test_an_exercise_is_told_in_its_chapter(number):
    text = (exercise.checks(number).parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"**{number} " in text
    assert exercise.answer_name(exercise.checks(number)) in text


def test_every_chapter_has_exercises_one_with_the_reader_s_program_and_every_answer_has_one():
    for chapter in all_chapters():
        mine = [number for number in NUMBERS if number.startswith(f"{chapter.number}.")]
        assert [
            number
            for number in mine
            if exercise.answer_name(exercise.checks(number)) != f"{stem(number)}.py"
        ]
    if SOLUTIONS.exists():
        known = {stem(number) for number in NUMBERS}
        assert {path.stem for path in SOLUTIONS.glob("exercise_*")} == known
        assert known <= {"_".join(path.stem.split("_")[:3]) for path in WRONG}
