"""The example, run here with the session that runs already: to start another takes longer than all
it does.
"""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "compaction_stats.py"


@pytest.mark.usefixtures("spark")
def test_the_example_says_what_each_window_would_keep(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--days", "2"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert " 6 hours: 1,631 of 1,785 kept" in out
    assert "has stored as many: 1,631" in out
