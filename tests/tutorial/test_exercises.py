"""Exercises: the stub fails, the solution is right, a plausible wrong answer fails with the hint meant for it (I7)."""

import re

import pytest
from chapter import TUTORIAL, all_chapters

from zaichik.learn import exercise

SOLUTIONS = TUTORIAL / "solutions"
WRONG = sorted((SOLUTIONS / "wrong").glob("*.py"))  # exercise_2_1.py, and more for some: exercise_2_1_late.py
NUMBERS = [path.stem[6:].replace("_", ".") for path in sorted(TUTORIAL.glob("*/exercises/check_*.py"))]
HAVE_SOLUTIONS = pytest.mark.skipif(not SOLUTIONS.exists(), reason="the solutions have been removed")


@pytest.mark.parametrize("number", NUMBERS)
def test_the_stub_fails_and_every_question_has_three_hints(number):
    checks = exercise.checks(number)
    verdict = exercise.judge(checks, checks.parent / exercise.file_name(number))
    assert verdict.failed
    assert len(verdict.hints) == 3
    assert all(len(hint) > 20 for hint in verdict.hints)


@HAVE_SOLUTIONS
@pytest.mark.parametrize("number", NUMBERS)
def test_the_solution_is_right(number):
    verdict = exercise.judge(exercise.checks(number), SOLUTIONS / exercise.file_name(number))
    assert (verdict.failed, verdict.reason) == ("", "")
    assert verdict.passed


@HAVE_SOLUTIONS
@pytest.mark.parametrize("answer", WRONG, ids=lambda answer: answer.stem)
def test_a_plausible_wrong_answer_fails_where_it_should(answer):
    number = ".".join(answer.stem.split("_")[1:3])
    meant = re.search(r"^Fails at: (.+)$", answer.read_text(encoding="utf-8"), re.MULTILINE)
    verdict = exercise.judge(exercise.checks(number), answer)
    assert verdict.failed == meant[1]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_exercise_is_told_in_its_chapter(number):
    text = exercise.checks(number).parents[1] / "README.md"
    assert f"**{number} " in text.read_text(encoding="utf-8")
    assert exercise.file_name(number) in text.read_text(encoding="utf-8")


def test_every_chapter_has_exercises_and_every_answer_an_exercise():
    for chapter in all_chapters():
        assert [number for number in NUMBERS if number.startswith(f"{chapter.number}.")]
    known = {exercise.file_name(number) for number in NUMBERS}
    if SOLUTIONS.exists():
        assert {path.name for path in SOLUTIONS.glob("*.py")} == known
        assert known <= {path.name for path in WRONG}
