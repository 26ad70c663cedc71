"""A copy for a class: nothing in it gives an answer away."""

import handout
import pytest

from zaichik.learn import catch_up


@pytest.mark.skipif(not (handout.ROOT / ".git").exists(), reason="only of a clone a copy is made")
def test_it_has_the_texts_and_neither_solutions_nor_programs(tmp_path):
    assert handout.hand_out(tmp_path / "copy") > 50
    tutorial = tmp_path / "copy" / "tutorial"
    assert (tutorial / "06-somebody-elses-news" / "README.md").exists()
    assert (tutorial / "06-somebody-elses-news" / "experiments" / "stuck.py").exists()
    assert not (tutorial / "solutions").exists()
    assert not list(tutorial.glob("*/end"))
    assert (tmp_path / "copy" / "zaichik" / "learn" / "chapters.py").exists()


def test_it_overwrites_nothing(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    with pytest.raises(FileExistsError):
        handout.hand_out(tmp_path)


def test_of_what_is_no_clone_no_copy_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(handout, "ROOT", tmp_path)
    with pytest.raises(handout.NotAClone, match="not a clone"):
        handout.hand_out(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_going_to_a_program_that_was_left_out_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(catch_up.snapshots, "before", lambda _chapter: {})
    with pytest.raises(catch_up.NoSuchChapter, match="has no programs"):
        catch_up.go(catch_up.chapter("06"), tmp_path, catch_up.START)
