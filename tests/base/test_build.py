"""Which version runs, and which build; and that it is the same one everywhere."""

import importlib
import importlib.machinery
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest
from hatch_build_file import CompiledFiles, settings
from offenders import each

from zaichik.base import build

ROOT = Path(__file__).parents[2]


def test_it_is_the_version_that_is_packed():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert pyproject["project"]["version"] == build.VERSION


def modules():
    """The names of those that the hook compiles."""
    sources = [Path(source) for source in CompiledFiles.sources(ROOT, settings())]
    return [".".join(path.with_suffix("").parts).removeprefix("protocol.") for path in sources]


@each("name", modules())
def test_all_hot_files_are_compiled_or_none_is(name):
    loader = importlib.import_module(name).__spec__.loader
    assert isinstance(loader, importlib.machinery.ExtensionFileLoader) == build.is_compiled()


def test_programs_run_the_same_build_whatever_their_folder(tmp_path):
    """A source tree in the working folder must not hide a compiled installation, nor the other way
    round.
    """
    for folder in (ROOT, tmp_path):
        done = subprocess.run(
            [sys.executable, "-m", "zaichik", "--version"],
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
        assert done.stdout.endswith(f"({build.build()})\n")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("'--enable-shared' '--enable-optimizations' '--with-lto=full'", "PGO, LTO"),
        ("'--enable-optimizations'", "PGO, no LTO"),
        ("'--enable-shared'", "no PGO, no LTO"),
        (None, "PGO and LTO not known"),
    ],
)
def test_an_interpreter_tells_how_it_was_built(options, told, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: {"CONFIG_ARGS": options}[name])
    assert build.interpreter() == told
