"""Where the frames that a broker must refuse are found."""

from zaichik.learn import vectors


def test_a_clone_s_frames_are_sent_and_an_installed_copy_s_if_there_is_no_clone(tmp_path):
    clone, copy = tmp_path / "clone.json", tmp_path / "copy.json"
    copy.touch()
    assert vectors.file(clone, copy) == copy
    clone.touch()
    assert vectors.file(clone, copy) == clone


def test_the_copy_is_where_the_wheel_puts_it():
    """See force-include in pyproject.toml, and the test of the wheel."""
    assert vectors.FILES[1].parts[-3:] == ("zaichik", "learn", "invalid.json")
