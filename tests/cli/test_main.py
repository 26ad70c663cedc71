"""From words to exit codes."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version

import anyio
import pytest

from zaichik.base.build import build
from zaichik.cli.commands import topics
from zaichik.cli.main import COMMANDS

PORT_WITHOUT_BROKER = "127.0.0.1:1"


def test_without_a_command_there_is_help(zaichik):
    result = zaichik()
    assert result.code == 0
    assert all(f"  {name}" in result.out for name in COMMANDS)
    assert "130  ended with Ctrl-C" in result.out
    assert zaichik("--help").out == result.out


def test_version_and_build(zaichik):
    assert zaichik("--version").out == f"zaichik {version('zaichik')} ({build()})\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(zaichik, name):
    result = zaichik(name, "--help")
    assert result.code == 0
    assert f"usage: zaichik {name}" in result.out
    assert "\nexamples:\n" in result.out
    assert f"zaichik {name}" in result.out.partition("examples:")[2]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_of_80_columns(zaichik, name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert [
        line for line in zaichik(*name.split(), "--help").out.splitlines() if len(line) > 80
    ] == []


def test_an_unknown_command_is_wrong_usage(zaichik):
    result = zaichik("pubish")
    assert (result.code, result.out) == (2, "")
    assert (
        result.err
        == "zaichik: there is no command pubish; did you mean publish? (see: zaichik --help)\n"
    )
    assert zaichik("xyzzy").err == "zaichik: there is no command xyzzy (see: zaichik --help)\n"


@pytest.mark.parametrize(
    "words", [["--nonsense"], ["topics", "--nonsense"], ["topics", "--connec", "a:1"]]
)
def test_an_unknown_option_is_wrong_usage(zaichik, words):
    result = zaichik(*words)
    assert result.code == 2
    assert result.err.startswith("zaichik: unrecognized arguments: --")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["publish", "t", "x"], ["subscribe", "t"], ["create", "t"], ["topics"], ["describe"]],
    ids=lambda w: w[0],
)
def test_no_broker_is_one_sentence(zaichik, words):
    result = zaichik(*words, "--connect", PORT_WITHOUT_BROKER)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"zaichik: no broker answers at {PORT_WITHOUT_BROKER}")
    assert result.err.endswith("Start one with `zaichik serve` (zaichik explain CONNECT_FAILED)\n")


def test_after_two_dashes_nothing_is_an_option(zaichik, connected):
    assert zaichik("publish", "--", "--connect=nowhere:1", "-x").code == 0
    assert zaichik("publish", "orders", "--key", "kim", "hello").code == 0
    assert "--connect=nowhere:1" in zaichik("topics").out


def test_a_bug_keeps_its_traceback(zaichik, monkeypatch):
    monkeypatch.setattr(topics.connecting, "connected", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        zaichik("topics")


def test_ctrl_c_before_anything_happened(zaichik, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(topics.connecting, "connected", interrupt)
    assert zaichik("topics").code == 130


@pytest.mark.parametrize("is_child", [False, True])
def test_an_interrupted_task_ends_with_130_too(zaichik, monkeypatch, is_child):
    """Such as one that waited for a pipe to have room."""

    async def interrupted(*_):
        raise KeyboardInterrupt

    async def run(*_):
        async with anyio.create_task_group() as tasks:
            if not is_child:
                await interrupted()
            tasks.start_soon(interrupted)

    monkeypatch.setattr(topics, "run", run)
    result = zaichik("topics")
    assert (result.code, result.err) == (130, "")


def test_help_imports_no_command(monkeypatch):
    code = (
        "import sys; from zaichik.cli.main import main; main([]);"
        "sys.exit(any(n in sys.modules for n in ('rich', 'zaichik.cli.commands.serve')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.usefixtures("connected")
def test_colour_is_for_terminals_that_want_it(on_terminal, topic):
    assert "\x1b[1m" in on_terminal("describe")[1]
    assert "\x1b[36m" not in on_terminal("describe", NO_COLOR="1")[1]


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "words", [["describe"], ["learn", "watch"], ["learn", "watch", "--plain"]], ids=" ".join
)
def test_a_reader_that_has_gone_is_not_a_failure(start, words, tmp_path):
    (tmp_path / "learn.toml").write_text('[server]\ncommand = "true"\n', encoding="utf-8")
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = start(*words, stdout=write_end, cwd=tmp_path)
    os.close(write_end)
    assert process.communicate() == (None, "")
    assert process.returncode == 0


@pytest.mark.usefixtures("connected")
def test_ctrl_c_is_quiet(start, topic):
    process = start("publish", topic)
    process.stdin.write("one\n")
    process.stdin.flush()
    reader = start("subscribe", topic)
    assert reader.stdout.readline() == "one\n"
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    err = process.stderr.read()
    # 1; or 0 if the broker's answer was still on its way.
    assert err.startswith(f"{topic}: published ")
    assert err.count("\n") == 1
