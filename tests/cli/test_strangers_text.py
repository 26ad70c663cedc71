"""Names, keys and payloads of strangers, through all commands: nothing unsafe comes out."""

import json
import logging
import sys
import unicodedata

import pytest
from embedded import embedded_broker

from zaichik.base.escapes import harmless
from zaichik.cli import learn_screen, screen
from zaichik.learn.story import Section

# Legal in a name, which has no control characters: ends of lines, bidirectional controls, invisible
# ones, a mark.
NAME = "\u0338a\u2028b\u2029c\u202ed\u200be\ufefff\u2066g\U000e0041h\\n[red]\u3164"
NASTY = NAME + "\x1b[2J\x07\r\n\t\x7f\x9b\x85\0"
HELD = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co", "Cn"}


@pytest.fixture
def broker():
    with embedded_broker() as broker:
        broker.create(NAME)
        broker.publish(NAME, [(NASTY, NASTY.encode()), (NASTY, b"\xff\x1b\xfe")])
        yield broker


def check_safe(text, *, lines=None):
    """Only what may be there is there; each character stands for itself, or an escape for it."""
    unsafe = {
        f"{ord(char):x}" for char in text if char != "\n" and unicodedata.category(char) in HELD
    }
    assert unsafe == set()
    assert all(harmless(line) == line for line in text.split("\n"))
    if lines is not None:
        assert len(text.splitlines()) == lines


COMMANDS = {
    "topics": ["topics"],
    "topics --json": ["topics", "--json"],
    "topics, none": ["topics", f"x{NAME}"],
    "describe": ["describe"],
    "describe topic": ["describe", NAME],
    "describe topic --json": ["describe", NAME, "--json"],
    "describe nothing": ["describe", f"x{NAME}"],
    "create": ["create", f"new{NAME}"],
    "create --json": ["create", f"new{NAME}", "--json"],
    "create again": ["create", NAME, "--retention", "1s"],
    "create a name with controls": ["create", "a\x1b\nb"],
    "publish": ["publish", NAME, NASTY.replace("\0", ""), "--key", "k\x1b"],
    "publish --json": ["publish", NAME, "x", "--json"],
    "publish to nobody": ["publish", f"new{NAME}", "x"],
    "publish no JSON": ["publish", NAME, NASTY.replace("\0", ""), "--key-json", "k"],
    "publish no file": ["publish", NAME, "--file", f"/nowhere/{NAME}"],
    "publish no regex": ["publish", NAME, "x", "--key-regex", f"({NAME}"],
    "subscribe -v": ["subscribe", NAME, "--count", "2", "-v"],
    "subscribe --json": ["subscribe", NAME, "--count", "2", "--json"],
    "subscribe, bad start": ["subscribe", NAME, "--from", NASTY.replace("\0", "")],
    "subscribe, ahead": ["subscribe", NAME, "--from", "99"],
    "subscribe --forget": ["subscribe", NAME, "--name", f"n{NAME}", "--forget"],
    "record": ["record", NAME, "--into", "{folder}/into"],
    "record --json": ["record", NAME, "--into", "{folder}/into", "--json"],
    "record nothing": ["record", f"x{NAME}", "--into", "{folder}/into"],
    "dissect": ["dissect", "{folder}/bytes"],
    "dissect --json": ["dissect", "{folder}/bytes", "--json"],
    "dissect, bad": ["dissect", "{folder}/bad"],
    "stats nothing": ["stats", f"x{NAME}"],
    "no command": [NAME],
    "no option": ["topics", f"--{NAME}"],
    "no choice": ["learn", NAME],
    "no check": ["learn", "list", NAME],
    "no address": ["topics", "--connect", NAME],
    "no host": ["topics", "--connect", f"{NAME}:1"],
    "no limit": ["serve", "--limit", f"{NAME}=1"],
    "no number": ["subscribe", "t", "--count", NAME],
    "learn init": ["learn", "init", "{folder}/" + NAME],
    "learn goto": ["learn", "goto", NAME],
}


@pytest.fixture
def words(broker, tmp_path, request, monkeypatch):
    """The command's, on this machine."""
    from zaichik_protocol import Batch, Publish, encode

    frame = encode(Publish(1, NAME, Batch.of([(NASTY.encode(), NASTY.encode())])))
    (tmp_path / "bytes").write_bytes(frame)
    (tmp_path / "bad").write_bytes(frame.replace("\u2028".encode(), b"\xff\x1b\x9b"))
    monkeypatch.setenv("ZAICHIK_CONNECT", broker.address)
    monkeypatch.chdir(tmp_path)
    return [word.replace("{folder}", str(tmp_path)) for word in COMMANDS[request.param]]


@pytest.mark.parametrize("words", COMMANDS, indirect=True)
def test_no_command_prints_what_is_unsafe(zaichik, words):
    result = zaichik(*words)
    assert result.out + result.err
    check_safe(result.out + result.err)
    for line in result.out.splitlines() if "--json" in words else []:
        assert json.loads(line)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "words", ["topics", "describe topic", "subscribe -v", "record", "create"], indirect=True
)
def test_no_output_moves_the_terminals_cursor(on_terminal, broker, words):
    import re

    _, text = on_terminal(*words, ZAICHIK_CONNECT=broker.address, COLUMNS="200")
    check_safe(re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text).replace("\r", ""))
    assert "[2J" not in text.replace("\\x1b[2J", "")
    assert "\\n[red]" in text.replace("\n", "")


def test_on_a_terminal_a_message_is_one_line(on_terminal, broker):
    broker.create("lines")
    broker.publish(
        "lines",
        [
            ("a\nb", b"one\n       1  2026-01-31 08:00:00.000  forged"),
            (None, "e\u0301 👩\u200d🚀".encode()),
        ],
    )
    _, text = on_terminal(
        "subscribe", "lines", "--count", "2", ZAICHIK_CONNECT=broker.address, COLUMNS="200"
    )
    _head, first, second = text.splitlines()
    assert "0x610a62" in first
    assert "one\\n       1" in first
    assert second.endswith("e\u0301 👩\u200d🚀")


def test_a_pipe_gets_the_payload_as_it_is(zaichik, broker, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", broker.address)
    assert zaichik("subscribe", NAME, "--count", "1").out == NASTY + "\n"


def test_topics_in_a_pipe_have_a_line_each(zaichik, broker, monkeypatch):
    monkeypatch.setenv("ZAICHIK_CONNECT", broker.address)
    assert len(zaichik("topics").out.splitlines()) == 2


def test_the_log_has_no_lines_of_clients(capsys):
    with screen.logging_to_stderr(logging.INFO):
        logging.getLogger("zaichik.broker").info("client %s came", NASTY)
    check_safe(capsys.readouterr().err, lines=1)


def test_what_a_learners_server_says_is_safe(capsys):
    console = screen.on(sys.stdout)
    learn_screen.print_sections(
        console, [Section("server's output", (NASTY,)), Section("wrong", (NASTY,))]
    )
    learn_screen.print_problem(console, f"{NASTY}")
    check_safe(capsys.readouterr().out)


def test_json_of_a_learners_run_is_safe(capsys):
    screen.print_json({"trouble": [NASTY]})
    out = capsys.readouterr().out
    check_safe(out, lines=1)
    assert json.loads(out) == {"trouble": [NASTY]}
