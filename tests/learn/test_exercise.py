"""Answers to exercises, as they are graded."""

import anyio
import pytest

from zaichik.learn import exercise
from zaichik.learn.lab import NoBroker

CHECKS = """
import anyio
from zaichik.learn.exercise import Exercise, Wrong, must
EXERCISE = Exercise("Double", hints=("second", "third"))

@EXERCISE.asks("two becomes four", hint="first of the first")
def two(answer):
    must(answer.double(2), 4, "the double of 2")

@EXERCISE.asks("it may wait", hint="first of the second")
def waits(answer):
    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asked)
    async def asked():
        raise Wrong("told from a task") if answer.double(3) != 6 else SystemExit
    try:
        anyio.run(main)
    except* SystemExit:
        pass
"""


def grade_in_subprocess(checks, answer):
    return anyio.run(exercise.grade_in_subprocess, checks, answer)


@pytest.fixture
def grade(tmp_path):
    """The verdict on the text of an answer."""

    def verdict(text, grade=exercise.grade):
        (tmp_path / "check_9_1.py").write_text(CHECKS, encoding="utf-8")
        (tmp_path / "exercise_9_1.py").write_text(text, encoding="utf-8")
        return grade(tmp_path / "check_9_1.py", tmp_path / "exercise_9_1.py")

    return verdict


@pytest.mark.parametrize("how", [exercise.grade, grade_in_subprocess])
def test_a_right_answer_passes_every_question(grade, how):
    verdict = grade("print('hello')\ndef double(n): return 2 * n\n", how)
    assert (verdict.title, verdict.failed, verdict.passed) == (
        "Double",
        "",
        ("two becomes four", "it may wait"),
    )


@pytest.mark.parametrize("how", [exercise.grade, grade_in_subprocess])
def test_a_wrong_answer_is_told_what_was_asked_and_gets_its_hints(grade, how):
    verdict = grade("def double(n): return n\n", how)
    assert verdict.failed == "two becomes four"
    assert verdict.reason == "the double of 2: expected 4, got 2"
    assert list(verdict.hints) == ["first of the first", "second", "third"]


def test_what_a_task_of_a_question_raises_is_the_reason(grade):
    verdict = grade("def double(n): return 4\n")
    assert (verdict.failed, verdict.reason) == ("it may wait", "told from a task")


def test_an_answer_that_cannot_be_read_is_a_verdict(grade):
    verdict = grade("def double(n) return n\n")
    assert verdict.failed == "the file can be read"
    assert verdict.reason.startswith("SyntaxError: ")


def test_a_broker_that_does_not_start_is_the_reason(grade, monkeypatch):
    def must(*_):
        raise NoBroker("it does not listen")

    monkeypatch.setattr(exercise, "must", must)
    verdict = grade("def double(n): return 2 * n\n")
    assert (verdict.failed, verdict.reason) == ("two becomes four", "it does not listen")


def test_what_an_answer_prints_need_not_be_text(grade):
    text = (
        r"import sys; sys.stdout.buffer.write(b'\xff'); sys.stdout.flush()"
        "\ndef double(n): return 2 * n\n"
    )
    assert grade(text, grade_in_subprocess).failed == ""


def test_an_answer_may_use_the_files_beside_it(grade, tmp_path):
    (tmp_path / "beside_it.py").write_text("def double(n): return n + n\n", encoding="utf-8")
    assert grade("from beside_it import double\n").failed == ""


def test_an_endless_loop_is_a_verdict(grade, monkeypatch):
    monkeypatch.setattr(exercise, "LONGEST_S", 0.5)
    verdict = grade("while True: pass\n", grade_in_subprocess)
    assert verdict.failed == "the answer comes to an end"
    assert verdict.reason.startswith("not done after 0.5 s")


def test_an_answer_that_ends_the_program_is_a_verdict(grade):
    verdict = grade("import sys\nsys.exit('enough')\n", grade_in_subprocess)
    assert verdict.reason == "it ended, saying: enough"


@pytest.mark.parametrize("number", ["0.99", "77.1"])
def test_an_exercise_that_is_not_there_is_answered_with_those_that_are(number):
    with pytest.raises(
        exercise.NoSuchExercise,
        match=f"there is no exercise {number}; there are 0.1, 0.2, 0.3, 1.1",
    ):
        exercise.checks(number)


def test_without_a_clone_it_says_where_exercises_are(monkeypatch, tmp_path):
    monkeypatch.setattr(exercise, "TUTORIAL", tmp_path / "nowhere")
    with pytest.raises(exercise.NoSuchExercise, match="in a clone"):
        exercise.checks("1.1")
