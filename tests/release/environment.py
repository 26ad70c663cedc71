"""An empty environment for one file of a release: what runs in it can't borrow anything from the
clone.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PIP_SECONDS = 900  # an extra may take half a gigabyte
COMMAND_SECONDS = 120
SHOWN_LINES = 25
OURS = (
    "PYTHON",
    "ZAICHIK_",
    "VIRTUAL_ENV",
    "COVERAGE_",
)  # variables that lead back to a clone, or to a login


class Failed(Exception):
    """A check has failed; the text is for the person at the terminal."""


def run(*command: str | Path, cwd: Path, seconds: float, **variables: str) -> str:
    """Run a program with nothing of this environment. Returns its output.

    Raises:
        Failed: it did not end with exit code 0, or not in time.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    try:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=cwd,
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{_shown(command)} did not end within {seconds:g} seconds") from error
    if done.returncode != 0:
        lines = "\n".join(f"    {line}" for line in done.stdout.splitlines()[-SHOWN_LINES:])
        raise Failed(f"{_shown(command)} ended with exit code {done.returncode}:\n{lines}")
    return done.stdout


def _shown(command: tuple[str | Path, ...]) -> str:
    first, *rest = (str(part) for part in command)
    return " ".join([Path(first).name, *(part if "\n" not in part else "..." for part in rest)])


class Environment:
    """A virtual environment in a folder of its own, in which one file is installed.

    Args:
        folder: does not exist yet; outside of the clone.
        file: the wheel.
        python: of which the environment is made; by default, the one that runs this.
    """

    def __init__(self, folder: Path, file: Path, python: Path | None = None) -> None:
        self._file = file
        self._bin = folder / "venv" / "bin"
        self.folder = folder / "empty"  # what runs here finds no source beside it
        self.folder.mkdir(parents=True)
        made = (python or Path(sys.executable), "-m", "venv", "--without-pip", folder / "venv")
        run(*made, cwd=self.folder, seconds=COMMAND_SECONDS)

    def install(self, *extras: str) -> None:
        """Install the file, with extras, from the package index."""
        self._pip("install", "--quiet", self._named(extras))
        self._pip("check")

    def resolve(self, *extras: str) -> list[str]:
        """Returns the packages that an installation with extras would bring; installs nothing."""
        report = self.folder / "report.json"
        self._pip(
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--report",
            str(report),
            self._named(extras),
        )
        packages = json.loads(report.read_text(encoding="utf-8"))["install"]
        return sorted(package["metadata"]["name"] for package in packages)

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of the environment. Returns its output."""
        config = {
            "XDG_CONFIG_HOME": str(self.folder / "config")
        }  # no login of who makes the release
        return run(
            self._bin / program, *arguments, cwd=self.folder, seconds=COMMAND_SECONDS, **config
        )

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a program of the environment."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(OURS)
        }
        return subprocess.Popen(
            [str(self._bin / program), *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self._bin / "python"

    def _named(self, extras: tuple[str, ...]) -> str:
        return f"{self._file}[{','.join(extras)}]" if extras else str(self._file)

    def _pip(self, *arguments: str) -> str:
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            self.python,
        )
        return run(*pip, *arguments, cwd=self.folder, seconds=PIP_SECONDS)
