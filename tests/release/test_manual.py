"""The manual page that wheels have is what the help pages say now."""

import shutil
import subprocess
from pathlib import Path

import pytest

from release.manual import manual
from zaichik.cli.main import COMMANDS

pytestmark = pytest.mark.unmeasured

PAGE = Path(__file__).parent.parent.parent / "docs" / "man" / "zaichik.1"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == manual(), "make docs"


def test_it_has_every_command():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(".SS")] == [
        f".SS zaichik {name}" for name in COMMANDS
    ]


def test_no_line_of_a_help_page_is_taken_for_a_request():
    """A line that begins with a dot is one of the page's own."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    requests = {line.split()[0] for line in lines if line.startswith((".", "'"))}
    assert requests == {'.\\"', ".TH", ".SH", ".SS", ".B", ".PP", ".TP", ".nf", ".fi"}


def test_man_shows_it_without_a_warning():
    if shutil.which("groff") is None:
        pytest.skip("this machine has no groff")
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-c", "-P-b", "-P-u", str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert "--compaction-window" in done.stdout
