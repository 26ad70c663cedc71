"""The benchmarks run and count; how fast anything is, no test says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from code_lines import code_lines, functions

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "protocol")])}


def benchmarks(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_every_message_is_counted(tmp_path):
    """Keeping first messages is the scenario with the most to count: stored, compacted, delivered."""
    done = benchmarks("--quick", "--peers", "zaichik", "--only", "roundtrip", "keepfirst", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout + done.stderr
    found = json.loads((tmp_path / "results.json").read_text())
    outcomes = [outcome for scenario in found["scenarios"] for outcome in scenario["outcomes"]]
    assert [outcome["cell"] for outcome in outcomes] == ["1,000/s", "10,000/s", "plain", "keep-first"]
    assert all(outcome["figures"] and not outcome["failures"] for outcome in outcomes)
    assert "keep-first" in (tmp_path / "results.md").read_text()


def test_an_unknown_scenario_is_refused():
    done = benchmarks("--only", "everything")
    assert done.returncode == 2
    assert "throughput" in done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.name)
def test_files_and_functions_stay_small(path):
    assert len(code_lines(path)) <= 250
    assert [name for name, lines in functions(path) if lines > 50] == []
