"""`zaichik completion`: what shells complete is what commands take."""

import os
import shutil
import subprocess

import pytest

from zaichik.cli import shells
from zaichik.cli.main import COMMANDS, command_parser

pytestmark = pytest.mark.unmeasured


def bash(script, *words):
    """Returns what bash completes the last of the words to."""
    if shutil.which("bash") is None:
        pytest.skip("this machine has no bash")
    program = (
        'source /dev/stdin; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zaichik; '
        "printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    command = ["bash", "--norc", "-c", program, "bash", "zaichik", *words]
    done = subprocess.run(
        command, input=script, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture(scope="module")
def script():
    return shells.script("bash")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["pub"], ["publish"]),
        (["--v"], ["--version"]),
        (["serve", "--hos"], ["--host"]),
        (["serve", "--log-format", ""], ["text", "json"]),
        (["serve", "8890", "--log-format", "j"], ["json"]),
        (["completion", ""], ["bash", "zsh", "fish", "-h", "--help"]),
        (["access", "ch"], ["check"]),
        # A value that is not known is left to the shell, which completes names of files.
        (["serve", "--data", ""], []),
        (["nonsense", "--"], []),
    ],
)
def test_bash_completes(words, completed, script):
    assert bash(script, *words) == completed


def test_bash_knows_every_command(script):
    assert set(COMMANDS) <= set(bash(script, ""))


def test_bash_knows_every_option(script):
    for name in ("subscribe", "stats"):
        flags = {flag for option in shells.options(command_parser(name)) for flag in option.flags}
        assert set(bash(script, name, "-")) == flags


@pytest.mark.parametrize("shell", shells.SCRIPTS)
def test_the_command_prints_the_script_which_the_shell_can_read(shell, zaichik):
    printed = zaichik("completion", shell).out
    assert printed == shells.script(shell)
    if shutil.which(shell) is None:
        pytest.skip(f"this machine has no {shell}")
    done = subprocess.run(
        [shell, "-n"], input=printed, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_zsh_is_told_what_an_option_is_for_and_what_its_value_is():
    option = shells.Option(("-a", "--all"), "it's [all] of it", "WHAT", ("x", "y"))
    assert list(shells._zsh_specs([option])) == [
        r"*-a[it's \[all\] of it]:WHAT:(x y)",
        r"*--all[it's \[all\] of it]:WHAT:(x y)",
    ]


def test_only_the_last_argument_without_a_name_takes_the_rest_in_zsh():
    """It says "doubled rest argument definition" of two, and completes nothing of that command."""
    members = [
        shells.Option((), "", "ACTION", ("check", "allow")),
        shells.Option(("--json",), "as JSON", "", ()),
        shells.Option((), "", "WORDS", ()),
    ]
    assert list(shells._zsh_specs(members)) == [
        ":ACTION:(check allow)",
        "*--json[as JSON]",
        "*:WORDS:_default",
    ]


def test_fish_completes_what_is_known(tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("this machine has no fish")
    (tmp_path / "script").write_text(shells.script("fish"), encoding="utf-8")
    program = "source script; complete -C 'zaichik completion '; complete -C 'zaichik clo'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    completed = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert completed == ["bash", "fish", "zsh", "clock"]


def test_an_unknown_shell_is_wrong_usage(zaichik):
    result = zaichik("completion", "tcsh")
    assert result.code == 2
    assert "tcsh" in result.err
