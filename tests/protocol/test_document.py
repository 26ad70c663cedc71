import re
import subprocess
import sys

import pytest
from offenders import each
from wire_examples import ALL_FRAMES, ROOT

README = ROOT / "protocol" / "README.md"


def cog_check(path):
    """Whether cog, run on this file from the project's root, would leave it as it is."""
    command = [sys.executable, "-m", "cogapp", "--check", "--diff", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.unmeasured
def test_what_is_generated_is_current():
    result = cog_check(README)
    assert result.returncode == 0, f"run `make docs`\n{result.stdout}{result.stderr}"


@pytest.mark.unmeasured
def test_a_stale_drawing_would_be_noticed(tmp_path):
    stale = tmp_path / "README.md"
    stale.write_text(
        README.read_text(encoding="utf-8").replace("length = 33", "length = 34"), encoding="utf-8"
    )
    result = cog_check(stale)
    assert result.returncode != 0
    assert "length = 33" in result.stdout


@each("cls", ALL_FRAMES)
def test_every_frame_has_its_heading(cls):
    number = rf"\((?:{cls.TYPE}|0x{cls.TYPE:02x})\)"
    heading = re.compile(rf"^###? .*\b{cls.__name__} {number}|^## 6 {cls.__name__}s$", re.MULTILINE)
    assert heading.search(README.read_text(encoding="utf-8"))
