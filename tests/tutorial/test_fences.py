"""Every fence is claimed by somebody who answers for it, and none is passed over (I6)."""

import pytest
from chapter import TUTORIAL, all_chapters
from fences import counted, lexed
from offenders import each

TEXTS = [chapter.text for chapter in all_chapters()]
# On the tutorial's first page: what is typed in the clone, which the robot has done already.
SETUP = "make .venv/.installed-learn\nsource .venv/bin/activate\nexport ZAICHIK=$PWD\n"


@each("path", TEXTS, shown=lambda path: path.parent.name)
def test_every_fence_is_claimed(path):
    assert [fence for fence in lexed(path) if fence.kind == "nobody"] == []


@each("path", TEXTS, shown=lambda path: path.parent.name)
def test_no_fence_is_passed_over(path):
    assert len(lexed(path)) == counted(path) > 0


def test_the_first_page_has_one_fence_and_it_is_true():
    fences = lexed(TUTORIAL / "README.md")
    assert len(fences) == counted(TUTORIAL / "README.md") == 1
    assert fences[0].text == SETUP
    makefile = (TUTORIAL.parent / "Makefile").read_text(encoding="utf-8")
    assert "$(VENV)/.installed-%:" in makefile
    assert "learn = [" in (TUTORIAL.parent / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint()\n```\n",
        "```console run\n$ ls\n```\n",
        "**New file `a.py`:**\n\n```python\nby_hand = True\n```\n",
        "```text\ndrawn by hand\n```\n",
    ],
)
def test_a_fence_that_nobody_answers_for_would_be_noticed(tmp_path, text):
    path = tmp_path / "README.md"
    path.write_text(text, encoding="utf-8")
    (fence,) = lexed(path)
    assert fence.kind == "nobody"
