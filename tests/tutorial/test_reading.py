"""The reader robot: it works through every chapter with nothing but the text.

It types what is shown where it says (I3), runs every command and compares what comes (I2), and so
sees each experiment end as the text tells (I8). What it has typed is all that a chapter may change
(I4).
"""

import pytest
import robot
from chapter import Chapter, all_chapters
from terminals import is_as_shown

from zaichik.learn import chapters, snapshots

pytestmark = pytest.mark.unmeasured  # what the tester and the command line do has tests of its own

CHAPTERS = all_chapters()


@pytest.mark.parametrize("which", CHAPTERS, ids=lambda which: which.folder.name)
def test_what_the_text_shows_is_what_happens_and_makes_every_step(which, tmp_path):
    """Without the commands that take long; those are typed by `make tutorial-full`."""
    reading = robot.read(which, tmp_path, slow=False)
    assert reading.failures == []
    assert reading.missed == []


@pytest.mark.full
@pytest.mark.parametrize("which", CHAPTERS, ids=lambda which: which.folder.name)
def test_all_that_the_text_shows_is_what_happens(which, tmp_path):
    assert robot.read(which, tmp_path).failures == []


TEXT = """\
<!-- [[[cog ]]] -->
**New file `hello.py`:**

```python
def hello():
    print("hello")


def main():
    hello()
```
<!-- [[[end]]] -->

<!-- [[[cog ]]] -->
**In `hello.py`, after `main`, add:**

```python
if __name__ == "__main__":
    main()
```
<!-- [[[end]]] -->

```console
$ python3 hello.py
hello
```
"""
PROGRAM = """\
def hello():
    print("hello")


def main():
    hello()


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A chapter of one page, with its one step."""
    monkeypatch.setattr(chapters, "TUTORIAL", tmp_path)
    monkeypatch.setattr(snapshots, "CHAPTERS", {})
    (tmp_path / "chapter" / "end").mkdir(parents=True)
    (tmp_path / "chapter" / "end" / "hello.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "chapter" / "chapter.toml").write_text('steps = ["end"]\n', encoding="utf-8")
    return Chapter(chapters.Chapter(0, "Small", "chapter"), steps=["end"], stages={})


def complaints(small, tmp_path, text):
    """What the robot has to say of a text."""
    small.text.write_text(text, encoding="utf-8")
    (tmp_path / "reader").mkdir()
    reading = robot.read(small, tmp_path / "reader", stop_at_failures=False)
    return "\n".join([*reading.failures, *(f"never as in {name}" for name in reading.missed)])


def test_a_text_that_is_true_is_not_complained_about(small, tmp_path):
    assert complaints(small, tmp_path, TEXT) == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("    hello()\n", "    pass\n", "never as in end"),
        ("    hello()\n", "    pass\n", "and this came"),
        ("$ python3 hello.py\nhello\n", "$ python3 hello.py\nhallo\n", "and this came"),
        ("after `main`, add", "after `start`, add", "there is no part 'start'"),
        ("**New file `hello.py`:**", "A new file:", "No such file"),
    ],
    ids=[
        "another line",
        "another line, run",
        "another output",
        "a part that is not there",
        "no word where it goes",
    ],
)
def test_a_text_that_is_not_true_would_be_noticed(small, tmp_path, old, new, complaint):
    assert old in TEXT
    assert complaint in complaints(small, tmp_path, TEXT.replace(old, new))


def test_an_ellipsis_stands_for_a_piece_of_a_line_or_for_any_lines():
    assert is_as_shown("one ... three\n", "one two three\n")
    assert is_as_shown("one\n...\n", "one\ntwo\nthree\n")
    assert is_as_shown("one\n...\n", "one\n")
    assert not is_as_shown("one ... three\n", "one two four\n")
    assert not is_as_shown("one\n", "one\ntwo\n")


@pytest.mark.parametrize("took", ["  0.6 s", "\n           0.6 s", "  0.6\n           s"])
def test_how_long_a_check_took_is_not_compared_wherever_the_line_breaks(took):
    shown = "  ok S9.1  with credit 1 the second waits{}\n\n1 passed\n"
    assert is_as_shown(shown.format(""), shown.format(took))
    assert is_as_shown(shown.format(took), shown.format(""))
    assert not is_as_shown(shown.format(""), shown.format(f" in vain{took}"))
