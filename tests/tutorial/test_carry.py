"""A changed part goes into all later steps that still have the old one."""

import subprocess

import carry
import pytest

FIRST = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def test_a_part_that_a_later_step_still_has_is_carried():
    later = FIRST + "\n\ndef three():\n    return 3\n"
    after = FIRST.replace("return 1", "return 11")
    assert carry.carry(FIRST, after, later) == (later.replace("return 1\n", "return 11\n"), [])


@pytest.mark.parametrize(
    ("after", "later", "left"),
    [
        (FIRST.replace("return 1", "return 11"), FIRST.replace("return 1", "return 111"), ["one"]),
        (FIRST + "\n\ndef three():\n    return 3\n", FIRST, ["three"]),
        ("def one():\n    return 1\n", FIRST, ["two"]),
        (FIRST.replace("return 1", "return 11"), FIRST.replace("return 1", "return 11"), []),
    ],
    ids=["another form", "a new part", "a part that went", "done already"],
)
def test_what_only_a_person_can_decide_is_reported_and_left_alone(after, later, left):
    assert carry.carry(FIRST, after, later) == (later, left)


def test_from_one_step_to_all_later_ones_since_the_last_commit(tmp_path):
    steps = [(name, tmp_path / name) for name in ("a", "b", "c")]
    for _, folder in steps:
        folder.mkdir()
        (folder / "x.py").write_text(FIRST, encoding="utf-8")
    (tmp_path / "c" / "x.py").write_text(FIRST.replace("return 2", "return 22"), encoding="utf-8")
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    (tmp_path / "a" / "x.py").write_text(FIRST.replace("return 2", "return 222"), encoding="utf-8")
    assert list(carry.carry_all(steps, "HEAD")) == [
        "x.py: carried from a to b",
        "x.py: look at two in c, which has its own",
    ]
    assert "return 222" in (tmp_path / "b" / "x.py").read_text(encoding="utf-8")
    assert "return 22\n" in (tmp_path / "c" / "x.py").read_text(encoding="utf-8")


def test_from_an_optional_chapter_nothing_is_carried_into_others(tmp_path, monkeypatch):
    steps = [(name, tmp_path / name) for name in ("aside/a", "aside/b", "next/a")]
    for _, folder in steps:
        folder.mkdir(parents=True)
        (folder / "x.py").write_text(FIRST, encoding="utf-8")
    (tmp_path / "aside" / "chapter.toml").write_text("optional = true\n", encoding="utf-8")
    monkeypatch.setattr(carry, "_committed", lambda _path, _revision: FIRST)
    after = FIRST.replace("return 2", "return 222")
    (steps[0][1] / "x.py").write_text(after, encoding="utf-8")
    done = list(carry.carry_all(steps, "HEAD"))
    assert done == ["x.py: carried from aside/a to aside/b"]
    assert (steps[2][1] / "x.py").read_text(encoding="utf-8") == FIRST


def test_all_steps_that_build_on_one_another_are_known():
    names = [name for name, _ in carry.all_steps()]
    assert names[0] == "01-tcp-has-no-messages/end"
    assert "13-the-client-library/numbered" in names
