"""A learner's program, started for an experiment."""

import subprocess
import sys

import pytest

from zaichik.learn import lab

ECHO = """
import os, socket
with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as listener:
    while True:
        with listener.accept()[0] as client:
            while data := client.recv(100):
                client.sendall(data)
                if data == b"end":
                    print("as you wish")
                    raise SystemExit(7)
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "broker.py"
    path.write_text(ECHO, encoding="utf-8")
    return path


def test_it_runs_as_long_as_the_block(program):
    with lab.running(program) as broker:
        client = broker.connect()
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        assert broker.is_running
    assert not broker.is_running
    assert client.fileno() == -1


def test_it_tells_how_a_program_has_ended(program):
    with lab.running(program) as broker:
        broker.connect().sendall(b"end")
        assert broker.wait_for_its_end() == 7
        assert broker.output() == ["as you wish"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise SystemExit('not today')", "It wrote:\nnot today"),
        (
            "def (",
            (
                'It wrote:\n  File "{program}", line 1\n    def (\n        ^\nSyntaxError: invalid '
                "syntax"
            ),
        ),
        ("", "It wrote nothing."),
    ],
)
def test_a_program_that_does_not_listen_is_shown_with_what_it_wrote(program, text, said):
    program.write_text(text, encoding="utf-8")
    with pytest.raises(lab.NoBroker) as caught:
        lab.running(program).__enter__()
    assert str(caught.value).endswith(
        f" does not listen at the port it was given. {said.format(program=program)}"
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        (None, "there is no learn.toml; create one with: zaichik learn init . --python"),
        (
            '[server]\ncommand = "./nobody"',
            "./nobody: No such file or directory; is the name right",
        ),
    ],
)
def test_an_experiment_without_a_broker_ends_with_a_sentence(tmp_path, toml, said):
    """And with no traceback, which would only show our own code."""
    if toml is not None:
        (tmp_path / "learn.toml").write_text(toml, encoding="utf-8")
    experiment = "from zaichik.learn.lab import running\nwith running(): pass\n"
    done = subprocess.run(
        [sys.executable, "-c", experiment],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"the broker cannot be started: {said}")
    assert done.stderr.count("\n") == 1


def test_limits_are_the_shell_s(program):
    program.write_text(
        f"import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n{ECHO}",
        encoding="utf-8",
    )
    with lab.running(program, limits=["-n", "32"]) as broker:
        broker.connect().sendall(b"end")
        broker.wait_for_its_end()
        assert broker.output()[0] == "32"
