"""The texts of the stages, and the table of chapters."""

import re
from pathlib import Path

import pytest
from offenders import each

from zaichik.learn import chapters, examination, layouts
from zaichik.learn.chapters import CHAPTERS
from zaichik.learn.examination import NoSuchCheck
from zaichik.learn.progress import Progress
from zaichik.learn.stages import CHECKS, STAGES


def test_there_are_nineteen_stages_in_order():
    assert [stage.number for stage in STAGES] == list(range(19))
    assert [stage.id for stage in STAGES][-1] == "S18"


@each("stage", STAGES, shown=lambda stage: stage.id)
def test_a_stage_says_what_it_wants_and_why(stage):
    assert stage.checks
    for text in (stage.goal, stage.tested, stage.real, *stage.hints):
        assert text.endswith(".")
        assert 60 < len(text) < 700
    assert len({stage.title, stage.goal, stage.tested, stage.real, *stage.hints}) == 6
    for number, check in enumerate(stage.checks, 1):
        assert check.id == f"{stage.id}.{number}"
        assert check.function.__doc__
        assert 15 < len(check.hints[0]) < 240
        assert all(60 < len(hint) < 400 and hint.endswith(".") for hint in check.hints[1:])
        assert check.title[0].islower() or check.title.startswith(
            ("Hello", "Ping", "Subscribe", "Create", "SIGTERM")
        )


def test_titles_and_hints_are_not_repeated():
    assert len({check.title for check in CHECKS.values()}) == len(CHECKS)
    assert len({check.hints[0] for check in CHECKS.values()}) == len(CHECKS)


def test_a_check_s_own_hints_replace_those_of_its_stage():
    own = {hint for check in CHECKS.values() for hint in check.hints[1:]} - {
        hint for s in STAGES for hint in s.hints
    }
    shared = [check for check in CHECKS.values() if check.hints[1:] == STAGES[check.stage].hints]
    assert len(own) == 2 * (len(CHECKS) - len(shared))


@each("check", CHECKS.values(), shown=lambda check: check.id)
def test_what_a_hint_says_can_be_read_is_there(check):
    """Files, and names in the broker of the tutorial."""
    root = Path(__file__).parents[2]
    for path in re.findall(r"[a-z_/]+\.py", check.hints[2]):
        assert (root / path).is_file()
    text = (root / "tutorial" / "tiny_broker.py").read_text(encoding="utf-8")
    if check.hints[2].startswith("tutorial/tiny_broker.py") and "zaichik/" not in check.hints[2]:
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", check.hints[2]):
            assert re.search(rf"\b{name}\b", text), name


def test_every_frame_comes_into_play_once():
    """So that `list` shows a learner each layout where it is first needed.

    GoAway is nobody's to ask for.
    """
    frames = [name for stage in STAGES for name in stage.frames]
    assert sorted(frames) == sorted(layouts.TYPES.keys() - {"GoAway"})


def test_a_frame_is_explained_with_its_kinds_of_fields():
    assert layouts.describe(("Ping", "Close", "CreateTopic")) == [
        "Ping (0x07): value u64",
        "Close (0x08): no body",
        "CreateTopic (0x02): topic str, settings settings",
        "str is u16, the number of bytes, then the bytes, in UTF-8",
        "settings is u8, their number, then for each a u8 (which one) and a u64 (its value)",
    ]


def test_every_stage_has_its_chapter():
    assert {stage.chapter for stage in STAGES} <= CHAPTERS.keys()
    assert all(
        number == chapter.number and chapter.folder.startswith(f"{number:02}-")
        for number, chapter in CHAPTERS.items()
    )


def test_chapters_that_exist_are_linked_and_the_others_named(tmp_path, monkeypatch):
    """A folder of the tutorial that begins like a chapter is one of the table."""
    there = (
        {path.name for path in chapters.TUTORIAL.glob("[0-9][0-9]-*")}
        if chapters.TUTORIAL.exists()
        else set()
    )
    assert there <= {chapter.folder for chapter in CHAPTERS.values()}
    monkeypatch.setattr(chapters, "TUTORIAL", tmp_path)
    chapter = CHAPTERS[2]
    assert chapter.show() == f"chapter 02, {chapter.title}"
    chapter.text.parent.mkdir()
    chapter.text.write_text("# 2", encoding="utf-8")
    assert chapter.show().endswith(f"{chapter.folder}/README.md")


@pytest.mark.parametrize(
    ("what", "first", "count"),
    [
        ("all", "S0.1", len(CHECKS)),
        ("S5", "S5.1", len(STAGES[5].checks)),
        ("s5.2", "S5.2", 1),
        (None, "S3.1", len(STAGES[3].checks)),
        ("7", "S7.1", len(STAGES[7].checks)),
        ("S0-S2", "S0.1", sum(len(stage.checks) for stage in STAGES[:3])),
        ("15-s16", "S15.1", sum(len(stage.checks) for stage in STAGES[15:17])),
    ],
)
def test_checks_are_selected_by_stage_or_name(what, first, count):
    selected = examination.select(what, Progress(stage=3))
    assert (selected[0].id, len(selected)) == (first, count)


@pytest.mark.parametrize("what", ["S19", "S5.99", "19", "S7-S5", "S15-S19", "S5-", "everything"])
def test_what_is_neither_is_told(what):
    with pytest.raises(NoSuchCheck, match="S0 to S18"):
        examination.select(what, Progress())


ALL = list(range(len(STAGES)))


@pytest.mark.parametrize(
    ("passed", "stage", "said"),
    [
        ([], 0, ""),
        ([0], 0, "S0 has passed; for the next stage: zaichik learn next --config x.toml"),
        (ALL[:-1], ALL[-1], ""),
        ([ALL[-1]], ALL[-1], "S18, the last stage, has passed; not passed yet: S0, S1, S2"),
        (ALL, ALL[-1], "all 19 stages passed: you have built a broker"),
        (ALL, 3, "all 19 stages passed: you have built a broker"),
    ],
)
def test_what_follows_a_stage_is_the_next_or_the_end(passed, stage, said):
    told = examination.next_step(Progress(passed=passed, stage=stage), " --config x.toml")
    assert told.startswith(said)
    assert bool(told) == bool(said)
