"""Coverage looks away from unmeasured tests and what they start, and from nothing else."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zaichik.build import is_compiled

pytestmark = [
    pytest.mark.unmeasured,  # what runs here measures itself
    pytest.mark.skipif(sys.version_info >= (3, 14), reason="coverage costs little here, and does not look away"),
    pytest.mark.skipif(is_compiled(), reason="coverage is measured where all is Python"),
]

SETTINGS = """
[tool.pytest.ini_options]
addopts = ["--strict-markers", "-p", "no:cacheprovider"]
markers = ["unmeasured: "]

[tool.coverage.run]
source = ["."]
parallel = true
patch = ["subprocess"]
"""
TESTS = """
import subprocess, sys, threading
import hypothesis
import pytest
import lines

def reach(name):
    getattr(lines, name + "_here")()
    thread = threading.Thread(target=getattr(lines, name + "_in_a_thread"))
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-c", f"import lines; lines.{name}_in_a_program()"], check=True)

def test_before():
    reach("before")

@pytest.mark.unmeasured
def test_away():
    reach("away")

@hypothesis.given(hypothesis.strategies.just(0))
def test_by_chance(_):
    lines.by_chance()

def test_after():
    reach("after")

@pytest.mark.anyio
async def test_on_both_backends(anyio_backend_name):
    getattr(lines, anyio_backend_name)()
"""
TESTS_OF_THE_NEXT_PROCESS = """
from test_it import reach

def test_elsewhere():
    reach("elsewhere")
"""
PLACES = ("here", "in_a_thread", "in_a_program")
REACHED = {f"{name}_{place}" for name in ("before", "after", "elsewhere") for place in PLACES} | {"asyncio"}
AWAY = {f"away_{place}" for place in PLACES} | {"trio", "by_chance"}


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["in one process", "in two processes of xdist's"])
def test_what_unmeasured_tests_run_counts_as_never_run(tmp_path, processes):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_next.py").write_text(TESTS_OF_THE_NEXT_PROCESS)
    (tmp_path / "lines.py").write_text("".join(f"def {name}():\n    return 1\n" for name in sorted(REACHED | AWAY)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

    def coverage(*words):
        command = [sys.executable, "-m", "coverage", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    coverage("run", "-m", "pytest", *processes)
    coverage("combine")
    coverage("json", "-o", "report.json")
    report = json.loads((tmp_path / "report.json").read_text())["files"]["lines.py"]["functions"]
    assert {name for name, data in report.items() if name and data["executed_lines"]} == REACHED
