"""A learner's program, started for an experiment."""

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


def test_a_program_that_does_not_listen_is_shown_with_its_last_lines(program):
    program.write_text("raise SystemExit('not today')\n", encoding="utf-8")
    with pytest.raises(lab.NoBroker, match=r"does not listen at the port it was told\. It wrote: not today"):
        lab.running(program).__enter__()


def test_limits_are_the_shell_s(program):
    program.write_text(
        f"import resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n{ECHO}", encoding="utf-8"
    )
    with lab.running(program, limits=["-n", "32"]) as broker:
        broker.connect().sendall(b"end")
        broker.wait_for_its_end()
        assert broker.output()[0] == "32"
