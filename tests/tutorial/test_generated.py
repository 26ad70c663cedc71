"""What is generated is as its sources are: every block of code its part of a snapshot (I1), every
picture (I9).
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pictures
import pytest
from chapter import TUTORIAL, all_chapters
from offenders import each

ROOT = TUTORIAL.parent
PROLOGUE = (TUTORIAL / "tools" / "prologue").read_text(encoding="utf-8").strip()
TEXTS = [TUTORIAL / "README.md", *(chapter.text for chapter in all_chapters())]


def cog_check(*paths: Path) -> subprocess.CompletedProcess[str]:
    """Whether cog would leave these files as they are."""
    command = [
        sys.executable,
        "-m",
        "cogapp",
        "--check",
        "--diff",
        "-U",
        "-p",
        PROLOGUE,
        *map(str, paths),
    ]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.unmeasured
def test_every_block_equals_its_part_of_a_snapshot():
    result = cog_check(*TEXTS)
    assert result.returncode == 0, f"run `make docs`\n{result.stdout}{result.stderr}"


@pytest.mark.unmeasured
def test_a_block_that_was_changed_by_hand_would_be_noticed(tmp_path):
    chapter = all_chapters()[2]
    text = chapter.text.read_text(encoding="utf-8")
    assert "self._bytes += data" in text
    copy = shutil.copytree(chapter.folder, tmp_path / chapter.folder.name) / "README.md"
    copy.write_text(text.replace("self._bytes += data", "self._bytes = data"), encoding="utf-8")
    result = cog_check(copy)
    assert result.returncode != 0
    assert "+        self._bytes += data" in result.stdout


@each("name", pictures.PICTURES)
def test_a_picture_comes_out_the_same(name):
    assert (TUTORIAL / name).read_text(encoding="utf-8") == pictures.PICTURES[name]


def test_every_picture_is_drawn_here_and_shown_in_its_chapter():
    drawn = {str(path.relative_to(TUTORIAL)) for path in TUTORIAL.rglob("*.svg")}
    assert drawn == set(pictures.PICTURES)
    for name in drawn:
        folder, _, file = name.partition("/")
        assert f"]({file})" in (TUTORIAL / folder / "README.md").read_text(encoding="utf-8")
