"""The reader robot: it works through every chapter with nothing but the text.

It types what is shown where it says (I3), runs every command and compares what comes (I2), and so sees each experiment
end as the text tells (I8). What it has typed is all that a chapter may change (I4).
"""

import parts
import pytest
import robot
from chapter import Chapter, all_chapters, files
from terminals import is_as_shown

pytestmark = pytest.mark.unmeasured  # what the tester and the command line do has tests of its own

CHAPTERS = all_chapters()


@pytest.fixture(scope="module")
def readings(tmp_path_factory):
    """Each chapter's reading, made when it is first asked for."""
    done = {}

    def reading(which):
        if which.number not in done:
            done[which.number] = robot.read(which, tmp_path_factory.mktemp(f"chapter{which.number}"))
        return done[which.number]

    return reading


@pytest.mark.parametrize("which", CHAPTERS, ids=lambda which: which.folder.name)
def test_what_the_text_shows_is_what_happens(which, readings):
    assert readings(which).failures == []


@pytest.mark.parametrize("which", CHAPTERS, ids=lambda which: which.folder.name)
def test_the_text_alone_makes_every_snapshot_of_its_chapter(which, readings):
    assert readings(which).missed == []


@pytest.mark.parametrize("which", CHAPTERS, ids=lambda which: which.folder.name)
def test_between_snapshots_only_that_changes_which_the_chapter_says(which, readings):
    before, typed = files(which.start), readings(which).typed
    for name, text in which.snapshot(which.snapshots[-1]).items():
        told = {part for file, part in typed if file == name}
        changed = parts.changes(before.get(name, ""), text) if name.endswith(".py") else set()
        if "everything" not in told:
            assert changed <= told, f"{name}: changed, and the text does not say so"
        if name in before and len(which.snapshots) == 1:
            assert told - {"everything"} <= changed, f"{name}: to be typed again for nothing"


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
def small(tmp_path):
    """A chapter of one page, with its snapshot."""
    (tmp_path / "chapter" / "end").mkdir(parents=True)
    (tmp_path / "chapter" / "end" / "hello.py").write_text(PROGRAM, encoding="utf-8")
    return Chapter(tmp_path / "chapter", number=0, title="Small", minutes=1, lines=10, stages={})


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
    ids=["another line", "another line, run", "another output", "a part that is not there", "no word where it goes"],
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
