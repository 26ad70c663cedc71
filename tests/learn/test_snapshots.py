"""The tutorial's program, put together from its steps."""

from zaichik.learn import snapshots
from zaichik.learn.chapters import CHAPTERS, Chapter


def test_a_chapter_begins_with_what_the_one_before_ended_with():
    assert snapshots.before(CHAPTERS[6]) == snapshots.program(CHAPTERS[5])
    assert snapshots.before(CHAPTERS[1]) == {}, "the fifty lines of chapter 00 are thrown away"


def test_a_chapter_that_stands_apart_begins_with_nothing_and_ends_with_its_own():
    assert snapshots.before(CHAPTERS[17]) == {}
    assert list(snapshots.program(CHAPTERS[17])) == ["tiny_log.py"]


def test_an_optional_chapter_continues_the_others_and_none_continues_it():
    known = [chapter.number for chapter in snapshots.earlier(CHAPTERS[18])]
    assert known == list(range(1, 17))
    assert snapshots.before(CHAPTERS[18]) == snapshots.program(CHAPTERS[16])
    later = Chapter(99, "Later", "99-later")
    assert snapshots.before(later) == snapshots.program(CHAPTERS[16])
    assert "tables.py" in snapshots.program(CHAPTERS[18])


def test_a_step_stores_what_it_changes_and_nothing_else():
    for chapter in CHAPTERS.values():
        program = snapshots.before(chapter)
        for step in snapshots.steps(chapter.path):
            changed = snapshots.overlay(chapter.path, step)
            assert changed, f"{chapter.folder}/{step} is empty"
            assert not [name for name, text in changed.items() if program.get(name) == text]
            program |= changed
        assert not snapshots.steps(chapter.path) or program == snapshots.program(chapter)


def test_a_chapter_that_is_not_written_has_no_steps():
    assert snapshots.steps(Chapter(99, "Not written", "99-not-written").path) == []


def test_a_chapter_without_steps_ends_with_what_it_begins_with():
    assert snapshots.steps(CHAPTERS[16].path) == []
    assert (
        snapshots.program(CHAPTERS[16])
        == snapshots.before(CHAPTERS[16])
        == snapshots.program(CHAPTERS[15])
    )
