"""`make release` refuses a clone that isn't ready, before it builds anything."""

import importlib
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.unmeasured

ROOT = Path(__file__).parent.parent.parent
PROJECT = SimpleNamespace(
    version="0.2.0", name="zaichik", repository="https://forge.invalid/zaichik"
)


@pytest.fixture
def command(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("tests.release.__main__")


@pytest.fixture
def clone(tmp_path):
    """A clone without changes, whose changelog has a date."""
    (tmp_path / "CHANGELOG.md").write_text("## [0.2.0] - 2026-12-24\n", encoding="utf-8")
    author = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    for words in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "--message", "all"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, timeout=60)
    return tmp_path


def test_a_clone_without_changes_and_with_a_date_is_ready(command, clone):
    command.check_clone(clone, PROJECT)


def test_a_clone_that_does_not_say_where_its_repository_is_is_not_ready(command, clone):
    nowhere = SimpleNamespace(**{**vars(PROJECT), "repository": "https://example.org/zaichik"})
    with pytest.raises(command.Failed, match="no address of the repository"):
        command.check_clone(clone, nowhere)


def test_all_that_a_clone_lacks_is_told_at_once(command, clone):
    (clone / "CHANGELOG.md").write_text("## [0.2.0] - not released yet\n", encoding="utf-8")
    (clone / "new.py").touch()
    with pytest.raises(Exception, match=r"no date for 0\.2\.0") as caught:
        command.check_clone(clone, PROJECT)
    assert str(caught.value).splitlines() == [
        "CHANGELOG.md has no date for 0.2.0, but 'not released yet'",
        "the clone has 2 changes that are in no commit, as git status says",
        "To try it all the same: python -m tests.release --trial --out FOLDER",
    ]


@pytest.fixture
def steps(command, monkeypatch):
    """What is done with a release whose steps do nothing; one of them may fail."""
    done = []

    def step(name, result=None):
        def record(*arguments, **_):
            done.append(name)
            if name == failing[0]:
                raise command.Failed("out of order")
            return result

        return record

    failing = [""]
    monkeypatch.setattr(command.Project, "read", lambda _: PROJECT)
    monkeypatch.setattr(command, "targets", lambda _: ["Python 3.11"])
    monkeypatch.setattr(command, "absent", lambda _: [])
    for name in ("check_clone", "check_description", "check", "write_sbom", "deliver"):
        monkeypatch.setattr(command, name, step(name))
    monkeypatch.setattr(command, "build", step("build", [Path("zaichik-0.2.0.tar.gz")]))

    def run(*arguments, fails=""):
        done.clear()
        failing[0] = fails
        return command.main(arguments), list(done)

    return run


def test_files_are_delivered_after_all_checks(steps):
    done = ["build", "check_description", "check", "write_sbom", "deliver"]
    assert steps() == (0, ["check_clone", *done])
    assert steps("--trial") == (0, done)


@pytest.mark.parametrize(
    "name", ["check_clone", "build", "check_description", "check", "write_sbom"]
)
def test_a_step_that_fails_is_the_last_and_nothing_is_delivered(name, steps, capsys):
    code, done = steps(fails=name)
    assert (code, done[-1]) == (1, name)
    assert capsys.readouterr().err == "\nout of order\n\nNothing was released.\n"


def test_checking_builds_and_delivers_nothing(steps, tmp_path):
    wheel = tmp_path / "zaichik-0.2.0-py3-none-any.whl"
    wheel.touch()
    assert steps("--check", str(wheel)) == (0, ["check_description", "check"])


def test_a_python_that_is_missing_is_named(command, steps, monkeypatch, capsys):
    monkeypatch.setattr(command, "absent", lambda _: ["3.13", "3.14"])
    assert steps()[0] == 0
    assert "nothing is compiled for Python 3.13, 3.14" in capsys.readouterr().out


def test_without_any_python_only_the_pure_wheel_can_be_asked_for(
    command, steps, monkeypatch, capsys
):
    monkeypatch.setattr(command, "targets", lambda _: [])
    assert steps() == (1, ["check_clone"])
    assert "compiled wheels need a Python; without them: " in capsys.readouterr().err
    assert steps("--pure")[0] == 0


def test_delivered_files_take_the_place_of_earlier_ones(command, tmp_path, capsys):
    out, built = tmp_path / "dist", tmp_path / "built"
    for folder, name in (
        (out, "zaichik-0.1.0.tar.gz"),
        (out, "zaichik-0.1.0.cdx.json"),
        (out, "other.txt"),
        (built, "zaichik-0.2.0.tar.gz"),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x")
    command.deliver([built / "zaichik-0.2.0.tar.gz"], out, PROJECT)
    assert {path.name for path in out.iterdir()} == {
        "SHA256SUMS",
        "other.txt",
        "zaichik-0.2.0.tar.gz",
    }
    line = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  zaichik-0.2.0.tar.gz"
    assert (out / "SHA256SUMS").read_text(encoding="utf-8") == f"{line}\n"
    assert line in capsys.readouterr().out
