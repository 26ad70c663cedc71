"""Starting and ending what somebody else has written."""

import json
import os
import signal
import socket
import sys

import anyio
import pytest
from learn_mutant import TINY
from processes import write

from zaichik.learn import config
from zaichik.learn.runner import ServerError, run_check
from zaichik.learn.server import CRASH_LINES, FIRST_LINES, LAST_LINES, Launcher, Server, shortened
from zaichik.learn.stages import CHECKS
from zaichik.learn.trial import Pace

pytestmark = pytest.mark.anyio

IGNORED = (
    "0.3 s after SIGTERM the server still ran, and was killed; if it needs longer, set "
    "stop_seconds in "
)
# The broker of the tutorial, deaf to one signal.
IGNORING = """
import runpy, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def listens(target):
    try:
        with socket.create_connection((target.host, target.port)):
            return True
    except ConnectionRefusedError:
        return False


async def test_a_server_is_told_its_port_by_the_environment(tmp_path):
    server = await Server.start(config.read(write(tmp_path, "listens")))
    with socket.create_connection((server.target.host, server.target.port)):
        pass
    assert server.output() == f"listening {server.target.port}"
    assert server.exit_status() == ""
    assert await server.terminate() == ""
    assert server.exit_status() == "the server was terminated by SIGTERM"
    server.close()


async def test_a_server_is_told_its_port_in_its_command(tmp_path):
    server = await Server.start(
        config.read(write(tmp_path, "listens", argument="{port}", variable="UNUSED"))
    )
    assert server.output() == f"listening {server.target.port}"
    assert await server.terminate() == ""
    server.close()


GO = [
    "panic: assignment to a nil map",
    "",
    "goroutine 1 [running]:",
    "main.store(...)",
    "\tmain.go:7",
    "main.main()",
]
RUST = [
    "thread 'main' panicked at src/main.rs:7:5:",
    "out of bounds",
    "note: run with",
    "",
    "stack backtrace:",
    "0:",
]
NEWER_RUST = ["thread 'main' (4711) panicked at src/main.rs:7:5:", *RUST[1:]]
PYTHON = [
    "Traceback (most recent call last):",
    '  File "broker.py", line 3',
    "    x",
    "    ~^",
    "  y",
    "KeyError: 3",
]
MANY = [f"line {number}" for number in range(100)]


@pytest.mark.parametrize(
    "crash", [GO, RUST, NEWER_RUST, PYTHON], ids=["Go", "Rust", "newer Rust", "Python"]
)
def test_of_a_long_output_the_beginning_the_end_and_the_beginning_of_the_crash_are_shown(crash):
    assert len(crash) == CRASH_LINES
    shown = shortened([*MANY, *crash, *MANY])
    assert shown == [*MANY[:FIRST_LINES], "…", *crash, "…", *MANY[-LAST_LINES:]]
    assert shortened([*MANY, *crash]) == [*MANY[:FIRST_LINES], "…", *[*MANY, *crash][-LAST_LINES:]]
    assert shortened(crash) == crash
    assert shortened(MANY) == [*MANY[:FIRST_LINES], "…", *MANY[-LAST_LINES:]]
    assert shortened([]) == []


async def test_of_megabytes_of_output_only_both_ends_are_read(tmp_path):
    server = await Server.start(config.read(write(tmp_path, "writes_much")))
    lines = server.output().splitlines()
    await server.terminate()
    server.close()
    assert lines[0].startswith("first ")
    assert lines[-3:-1] == ["x" * 99, "last"]
    assert len(lines) == FIRST_LINES + 1 + LAST_LINES


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "exits_early",
            (
                r"ended by itself with exit code 3, \d\.\d s after .* listened at port \d+. It "
                r"wrote:\nno config"
            ),
        ),
        ("crashes", "learn.toml was terminated by SIGSEGV, .* before anything listened"),
        (
            "leaves_the_foreground",
            "ended by itself with exit code 0, .* It must stay in the foreground",
        ),
        (
            "never_listens",
            (
                "still runs, but did not listen at 127.0.0.1:.* within 0.3 s: does it take its "
                "port from the environment"
            ),
        ),
    ],
)
async def test_a_server_that_does_not_start_is_told_apart(tmp_path, program, said):
    with pytest.raises(ServerError, match=said):
        await Server.start(
            config.read(write(tmp_path, program, start=0.3 if program == "never_listens" else 20))
        )


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "no-such-program --fast",
            r"go\.toml cannot be started: no-such-program: No such file .* is the name right",
        ),
        (
            "./go.toml",
            (
                r"go\.toml cannot be started: \./go\.toml: Permission denied; a file must be "
                r"executable"
            ),
        ),
        (
            "sh -c no-such-program",
            r"exit code 127, .* A shell exits with this code if it cannot find",
        ),
        ("sh -c ./go.toml", r"exit code 126, .* A shell exits with this code if it cannot run"),
    ],
)
async def test_a_command_that_is_wrong_is_told_from_a_server_that_does_not_listen(
    tmp_path, command, said
):
    """By the name of the file that the command is in."""
    (tmp_path / "go.toml").write_text(
        f"[server]\ncommand = {json.dumps(command)}\n", encoding="utf-8"
    )
    with pytest.raises(ServerError, match=said):
        await Server.start(config.read(tmp_path / "go.toml"))


async def test_a_server_that_ignores_sigterm_is_killed_and_told(tmp_path):
    server = await Server.start(config.read(write(tmp_path, "ignores_sigterm", stop=0.3)))
    assert (await server.terminate()).startswith(IGNORED)
    assert server.exit_status() == "the server was terminated by SIGKILL"
    server.close()


async def test_what_a_server_has_started_ends_with_it(tmp_path):
    """A wrapper ends at once; what it has wrapped is deaf, and still must not go on listening for
    ever.
    """
    server = await Server.start(config.read(write(tmp_path, "leaves_a_child")))
    assert await server.terminate() == ""
    server.close()
    with anyio.fail_after(20):
        while listens(server.target):  # noqa: ASYNC110 (a killed process takes a moment to be gone)
            await anyio.sleep(0.01)


async def test_a_launcher_keeps_one_server_and_starts_it_again_when_it_has_ended(tmp_path):
    launcher = Launcher(config.read(write(tmp_path, "listens")))
    first = await launcher.ready()
    assert await launcher.ready() == first
    pid = launcher._server._process.pid
    os.kill(pid, signal.SIGKILL)
    with anyio.fail_after(20):
        await launcher._server._process.wait()
    assert (await launcher.post_mortem())[0] == "the server was terminated by SIGKILL"
    assert await launcher.ready() != first
    assert (await launcher.post_mortem())[0] == ""
    pid = launcher._server._process.pid
    await launcher.stop()
    assert not is_alive(pid)
    assert launcher.complaints == []
    assert await launcher.post_mortem() == ("", "")


async def test_a_cancelled_start_leaves_no_process_behind(tmp_path):
    settings = config.read(write(tmp_path, "never_listens", start=30))
    pid = tmp_path / "pid"

    async def cancel_when_started(scope):
        while not (  # noqa: ASYNC110 (another process writes it)
            pid.exists() and pid.read_text(encoding="utf-8")
        ):
            await anyio.sleep(0.01)
        scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel_when_started, tasks.cancel_scope)
        await Server.start(settings)
    assert not is_alive(int(pid.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("words", "outcome", "said"), [
    ((), "passed", ""),
    (("-c", IGNORING, str(TINY)), "failed", IGNORED),
])  # fmt: skip
async def test_the_check_of_sigterm_starts_a_server_of_its_own(tmp_path, words, outcome, said):
    path = tmp_path / "learn.toml"
    command = [sys.executable, *(words or (str(TINY),)), "{port}"]
    path.write_text(
        f"[server]\ncommand = {json.dumps(command)}\nstop_seconds = {0.3 if said else 10}\n"
    )
    launcher = Launcher(config.read(path))
    result = await run_check(CHECKS["S14.5"], launcher, [0], Pace(patience=20))
    await launcher.stop()
    summary = result.failure.summary if result.failure else ""
    assert (result.outcome, summary.removesuffix(str(path))) == (outcome, said)


@pytest.mark.parametrize(("command", "outcome"), [
    ([sys.executable, "-m", "zaichik", "serve", "--port", "{port}",
      "--limit", "drain_timeout=60s"], "passed"),
    ([sys.executable, str(TINY), "{port}"], "failed"),
])  # fmt: skip
async def test_the_check_of_goaway_finds_a_server_that_says_none(tmp_path, command, outcome):
    path = tmp_path / "learn.toml"
    path.write_text(f"[server]\ncommand = {json.dumps(command)}\nstop_seconds = 60\n")
    launcher = Launcher(config.read(path))
    result = await run_check(CHECKS["S14.10"], launcher, [0], Pace(patience=20))
    await launcher.stop()
    assert result.outcome == outcome, result.failure


async def test_a_server_that_ends_by_itself_has_an_obituary_in_the_result(tmp_path):
    launcher = Launcher(config.read(write(tmp_path, "exits_after_a_client")))
    result = await run_check(CHECKS["S0.3"], launcher, [0], Pace(patience=1))
    again = await run_check(CHECKS["S1.1"], launcher, [0], Pace(patience=1))
    await launcher.stop()
    assert "failed" in {result.outcome, again.outcome}
    bad = result if result.outcome == "failed" else again
    assert bad.output.splitlines()[0].startswith("listening")
