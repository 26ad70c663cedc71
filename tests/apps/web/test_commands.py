"""What a page offers to copy does the same as the page, whatever strangers called their topics."""

import shlex
import subprocess

import pytest
from embedded import embedded_broker

from zaichik.apps.web.commands import Commands
from zaichik.cli.main import main
from zaichik.client.endpoint import Credentials, Endpoint

HARD = [
    "orders",
    "-x",
    "a b'c\"d",
    "x$(touch x); `id` | & > \\",
    "{0}%s",
    "ä\u202eb",
    "--connect=evil:1",
    "x${topic!r}",
]
ENDPOINT = Endpoint(
    "broker.example", 1, True, (f"sha256:{'0' * 64}",), Credentials("ana", "canary")
)


@pytest.fixture(scope="module")
def broker():
    with embedded_broker() as broker:
        for topic in HARD:
            broker.create(topic)
        yield broker


@pytest.fixture
def commands(broker):
    return Commands(Endpoint("127.0.0.1", broker.port), needs_login=False)


def run_line(line, capsys):
    """Run a command line as bash reads it."""
    words = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True
    ).stdout
    words = words.split("\0")[:-1]
    assert words == shlex.split(line)
    assert words[0] == "zaichik"
    capsys.readouterr()
    assert main(words[1:]) == 0
    return capsys.readouterr().out


def run_program(text, capsys):
    capsys.readouterr()
    exec(compile(text, "copied", "exec"), {})  # noqa: S102 (that is what a program is for)
    return capsys.readouterr().out


@pytest.mark.parametrize("topic", HARD)
def test_a_topic_is_described_and_published_to(topic, broker, commands, capsys):
    offered = [
        commands.of("topic", topic),
        *(commands.publishing(topic, text, key=topic) for text in ("--json", topic)),
    ]
    for both in offered:
        run_line(both["shell"], capsys)
    (described, *published) = [run_program(both["python"], capsys) for both in offered]
    assert repr(topic) in described
    assert all("PublishResult(offset=" in text for text in published)
    (state,) = [state for state in broker.topics() if state["name"] == topic]
    assert state["published"] == 4


def test_a_topic_that_looks_like_an_option_comes_after_two_dashes(commands):
    assert shlex.split(commands.of("topic", "-x")["shell_messages"])[-2:] == ["--", "-x"]
    assert shlex.split(commands.publishing("-x", "-y", "")["shell"])[-3:] == ["--", "-x", "-y"]
    assert "--" not in shlex.split(commands.of("topic", "x-")["shell"])


def test_other_views_have_commands_too(commands, capsys):
    assert "orders" in run_line(commands.of("topics")["shell"], capsys)
    assert "orders" in run_program(commands.of("topics")["python"], capsys)
    assert "zaichik describe" in run_line(commands.of("connections")["shell"], capsys)
    assert "peer" in run_program(commands.of("connections")["python"], capsys)


def test_messages_are_read_by_the_commands_of_a_topic(commands):
    words = shlex.split(commands.of("topic", "a b")["shell_messages"])
    assert (words[1], words[-1]) == ("subscribe", "a b")
    compile(commands.of("topic", HARD[3])["python_messages"], "copied", "exec")


def test_no_command_has_a_secret():
    open_, closed = (
        Commands(ENDPOINT, needs_login=needs).of("topic", "t") for needs in (False, True)
    )
    assert ENDPOINT.pins[0] in open_["shell"]
    assert ENDPOINT.pins[0] in open_["python"]
    assert "--connect" not in closed["shell"]
    assert 'os.environ["ZAICHIK_CONNECT"]' in closed["python"]
    assert "canary" not in str([open_, closed])
    assert "ana" not in str([open_, closed])


def test_a_login_is_found_where_commands_look_for_it(broker, capsys, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", f"zaichik://127.0.0.1:{broker.port}")
    commands = Commands(ENDPOINT, needs_login=True).of("topics")
    assert "orders" in run_line(commands["shell"], capsys)
    assert "orders" in run_program(commands["python"], capsys)
