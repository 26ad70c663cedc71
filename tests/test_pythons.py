"""Which Pythons `make test-pythons` finds, and that a missing or failing one is told.

The tests are not run here.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import pythons
from hatch_build_file import PYPROJECT

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent


def put(folder, version, script):
    """A program that takes itself for that Python."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"python{version}"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Two folders on PATH, and pyenv's."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def test_a_python_that_does_not_run_or_is_another_one_is_passed_over(places):
    put(places / "first", "3.12", "exit 127")  # a shim of pyenv
    put(places / "second", "3.12", "echo 3.11")
    kept = put(places / "pyenv" / "versions" / "3.12.1" / "bin", "3.12", "echo 3.12")
    assert pythons.find("3.12") == kept
    assert pythons.find("3.13") is None


def test_the_path_comes_before_pyenv(places):
    put(places / "pyenv" / "versions" / "3.12.1" / "bin", "3.12", "echo 3.12")
    on_path = put(places / "second", "3.12", "echo 3.12")
    assert pythons.find("3.12") == on_path


@pytest.fixture
def run(monkeypatch):
    """Run the command with Pythons that are there and those that fail; returns the exit code, and
    what was tested.
    """

    def command(*arguments, found, faults=()):
        tested = []

        def test(version, _, arguments, *, quick):
            tested.append((version, arguments, quick))
            return "failed, with exit code 1" if version in faults else ""

        monkeypatch.setattr(
            pythons, "find", lambda version: Path("python") if version in found else None
        )
        monkeypatch.setattr(pythons, "test", test)
        return pythons.main(arguments), tested

    return command


def test_all_that_are_there_are_tested_and_the_others_named(run, capsys):
    code, tested = run("tests/core", "-x", found={"3.11", "3.13"})
    assert (code, tested) == (
        0,
        [(version, ["tests/core", "-x"], False) for version in ("3.11", "3.13")],
    )
    assert (
        "Python 3.12 is missing: nothing was tested there\nPython 3.14 is missing"
        in capsys.readouterr().out
    )


def test_some_of_them_can_be_asked_for_and_all_else_is_for_pytest(run):
    arguments = ["--only", "3.12", "tests/net", "--only", "3.14", "-q", "--qui"]
    code, tested = run(*arguments, found=pythons.VERSIONS)
    assert (code, tested) == (
        0,
        [(version, ["tests/net", "-q", "--qui"], False) for version in ("3.12", "3.14")],
    )


def test_one_that_fails_fails_the_command_and_the_others_are_tested_all_the_same(run, capsys):
    code, tested = run(found={"3.11", "3.12"}, faults={"3.11"})
    assert (code, [version for version, *_ in tested]) == (1, ["3.11", "3.12"])
    said = capsys.readouterr().out
    assert "Python 3.11: failed, with exit code 1, after" in said
    assert "Python 3.12: all tests passed, after" in said


def test_quick_takes_the_newest_but_this_one(run, monkeypatch):
    monkeypatch.setattr(pythons, "THIS", "3.13")
    code, tested = run("--quick", found={"3.11", "3.12", "3.13"})
    assert (code, tested) == (0, [("3.12", list(pythons.QUICK), True)])


def test_nothing_found_is_a_failure_but_not_of_quick(run, capsys):
    assert run(found=()) == (1, [])
    assert run("--quick", found={pythons.THIS}) == (0, [])
    assert "No other Python was found: nothing was tested" in capsys.readouterr().out


def test_every_python_that_is_promised_can_be_tested_and_this_one_is_found():
    promised = {
        name.rpartition(" ")[2]
        for name in PYPROJECT["project"]["classifiers"]
        if "Python :: 3." in name
    }
    assert promised <= set(pythons.VERSIONS)
    assert min(pythons.VERSIONS) == PYPROJECT["project"]["requires-python"].removeprefix(">=")


def test_what_quick_runs_is_there():
    assert all((ROOT / folder).is_dir() for folder in pythons.QUICK)
    assert subprocess.run(
        [sys.executable, ROOT / "tests/pythons.py", "--help"], check=True, capture_output=True
    ).stdout
