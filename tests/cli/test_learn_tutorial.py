"""`zaichik learn` with the tutorial: goto, and exercises."""

import json
import xml.etree.ElementTree as ET

import pytest

from zaichik.learn import catch_up, files
from zaichik.learn.chapters import TUTORIAL


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_goto_brings_experiments_and_exercises_and_leaves_the_program(zaichik, folder):
    (folder / "broker.py").write_text("mine = True\n", encoding="utf-8")
    result = zaichik("learn", "goto", "02")
    assert result.code == 0
    assert (
        result.out.splitlines()[-1]
        == "You are at chapter 02, Frames: incomplete, complete, invalid."
    )
    assert (folder / "broker.py").read_text(encoding="utf-8") == "mine = True\n"
    assert {path.name for path in (folder / "experiments").iterdir()} == {
        "glued.py", "torn.py", "as_in_2020.py", "bad_ping.py",
    }  # fmt: skip
    assert (folder / "exercise_2_1.py").exists()
    assert not (folder / "exercise_1_1.py").exists()


@pytest.mark.parametrize(
    ("option", "snapshot"), [("--start", "01-tcp-has-no-messages"), ("--end", "02-frames")]
)
def test_goto_brings_the_program_and_keeps_what_is_in_its_way(zaichik, folder, option, snapshot):
    (folder / "broker.py").write_text("mine = True\n", encoding="utf-8")
    result = zaichik("learn", "goto", "2", option)
    assert "kept your broker.py as broker.py.before-1" in result.out
    assert (folder / "broker.py.before-1").read_text(encoding="utf-8") == "mine = True\n"
    there = TUTORIAL / snapshot / "end" / "broker.py"
    assert (folder / "broker.py").read_text(encoding="utf-8") == there.read_text(encoding="utf-8")
    assert json.loads((folder / "learn-progress.json").read_text(encoding="utf-8"))["stage"] == 1
    assert zaichik("learn", "check", "S0").code == 0


def test_goto_keeps_a_file_that_is_no_text(zaichik, folder):
    (folder / "broker.py").write_bytes(b"\xff\x00")
    assert zaichik("learn", "goto", "02", "--start").code == 0
    assert (folder / "broker.py.before-1").read_bytes() == b"\xff\x00"


def test_goto_a_chapter_that_stands_apart_brings_its_own_things_only(zaichik, folder):
    result = zaichik("learn", "goto", "17", "--start")
    assert result.out.splitlines()[-1] == "You are at chapter 17, What a disk changes."
    own = {path.name for path in TUTORIAL.glob("17-*/experiments/*.py")}
    assert {path.name for path in (folder / "experiments").iterdir()} == own
    assert {path.name for path in folder.iterdir()} == {"experiments", "exercise_17_1.py"}
    zaichik("learn", "goto", "17", "--end")
    assert (folder / "tiny_log.py").exists()


def test_goto_again_changes_nothing_and_keeps_a_begun_exercise(zaichik, folder):
    zaichik("learn", "goto", "01", "--end")
    (folder / "exercise_1_1.py").write_text("begun = True\n", encoding="utf-8")
    result = zaichik("learn", "goto", "01", "--end")
    assert result.out.splitlines() == ["You are at chapter 01, TCP has no messages."]
    assert (folder / "exercise_1_1.py").read_text(encoding="utf-8") == "begun = True\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["goto"], 2, "goto needs a chapter, such as: zaichik learn goto 02 --start"),
        (["goto", "99"], 1, "there is no chapter 99; there are 00, 01, 02"),
        (["goto", "two"], 1, "there is no chapter two"),
        (["goto", "02", "--start", "--end"], 2, "not allowed with"),
        (["check", "2.9"], 1, "there is no exercise 2.9; there are 0.1"),
        (
            ["check", "2.1"],
            1,
            "there is no exercise_2_1.py in this folder; get it with: zaichik learn goto 02",
        ),
    ],
)
def test_wrong_usage_is_one_line(zaichik, folder, words, code, said):
    result = zaichik("learn", *words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert result.err.count("\n") == 1


def test_without_a_clone_goto_says_where_the_tutorial_is(zaichik, folder, monkeypatch):
    monkeypatch.setattr(catch_up, "TUTORIAL", folder / "nowhere")
    assert "the tutorial is in a clone" in zaichik("learn", "goto", "01").err


@pytest.mark.unmeasured
def test_an_exercise_from_its_stub_over_three_hints_to_its_end(zaichik, folder):
    zaichik("learn", "goto", "02")
    result = zaichik("learn", "check", "2.1")
    assert result.code == 1
    assert "FAIL a whole frame lacks nothing" in result.out
    assert "wrong            NotImplementedError: this is yours to write" in result.out
    for number in range(3):
        lines = zaichik("learn", "hint", "2.1").out.splitlines()
        assert lines[0] == "2.1  a whole frame lacks nothing"
        assert [line[:2] for line in lines[1:-1]] == [f"{n}." for n in range(1, number + 2)]
    assert lines[-1] == "that was the last hint"
    zaichik("learn", "check", "2.1", "--junit", "out.xml")
    (suite,) = ET.parse(folder / "out.xml").getroot()  # noqa: S314 (our own)
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite.find(".//failure").get("message") == "NotImplementedError: this is yours to write"
    (folder / "exercise_2_1.py").write_text("def missing(b):\n    return 0\n", encoding="utf-8")
    assert zaichik("learn", "hint", "2.1").out.splitlines()[-1] == "repeat for hint 2 of 3"
    (folder / "exercise_2_1.py").write_text(
        "def missing(b):\n    n = int.from_bytes(b[:4], 'little')\n    if len(b) < 4: return 4 - "
        "len(b)\n"
        "    if n < 8: raise ValueError\n    return max(0, n + 4 - len(b))\n",
        encoding="utf-8",
    )
    result = zaichik("learn", "check", "2.1")
    assert (result.code, result.out.splitlines()[-1]) == (0, "Right.")
    zaichik("learn", "check", "2.1", "--junit", "out.xml")
    (suite,) = ET.parse(folder / "out.xml").getroot()  # noqa: S314 (our own)
    assert (suite.get("tests"), suite.get("failures"), len(suite)) == ("5", "0", 5)
    state = zaichik("learn", "check", "2.1", "--json").json
    assert (state["exercise"], state["failed"], len(state["passed"])) == ("2.1", "", 5)
    assert "there are no hints" in zaichik("learn", "hint", "2.1").out


RIGHT = (
    "def missing(b):\n    n = int.from_bytes(b[:4], 'little')\n    if len(b) < 4: return 4 - "
    "len(b)\n"
    "    if n < 8: raise ValueError\n    return max(0, n + 4 - len(b))\n"
)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    ("answers", "code", "last"), [([RIGHT], 0, "Right."), (["x = 1\n"], 1, "for a hint: ")]
)
def test_watching_an_exercise_judges_it_with_each_change_until_it_is_right(
    zaichik, folder, monkeypatch, answers, code, last
):
    async def changes(_folder):
        for answer in answers:
            (folder / "exercise_2_1.py").write_text(answer, encoding="utf-8")
            yield

    monkeypatch.setattr(files, "changes", changes)
    zaichik("learn", "goto", "02")
    result = zaichik("learn", "watch", "2.1")
    assert result.code == code
    assert result.out.count("2.1  How much is missing") == 2
    assert result.out.splitlines()[-1].startswith(last)
    if code == 0:
        again = zaichik("learn", "watch", "2.1")
        assert (again.code, again.out.count("2.1  How much is missing")) == (0, 1), (
            "it is right already"
        )


def test_an_exercise_that_cannot_be_watched_can_be_judged_by_hand(zaichik, folder, monkeypatch):
    async def changes(_folder):
        raise files.Unwatched("no library")
        yield

    monkeypatch.setattr(files, "changes", changes)
    zaichik("learn", "goto", "02")
    assert "no library. Without it: zaichik learn check 2.1" in zaichik("learn", "watch", "2.1").err
