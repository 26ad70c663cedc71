"""Values as they are shown."""

import io
import logging
import re
import sys

import anyio
import pytest
from rich.console import Console
from rich.text import Text

from zaichik.cli import screen
from zaichik_protocol import Ping, encode


def test_bytes_are_text_in_json_if_they_can_be():
    assert screen.json_bytes("naïve".encode()) == "naïve"
    assert screen.json_bytes(b"\xff") == {"base64": "/w=="}


def test_limits_are_shown_in_their_units():
    shown = [
        screen.setting("max_frame", 2048),
        screen.setting("retention_ttl_ms", 5000),
        screen.setting("write_timeout", 2.5),
        screen.setting("session_ttl", 30 * 86_400.0),
        screen.setting("frame_rate", 2048),
        screen.setting("auto_create", False),
        screen.setting("max_topics", 10000),
    ]
    assert shown == ["2 KiB", "5s", "2.5s", "30d", "2 KiB/s", "no", "10,000"]
    assert screen.number(None) == "-"


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    "variable", [("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1"), ("TTY_INTERACTIVE", "1")]
)
@pytest.mark.parametrize(
    "words",
    [["subscribe", "TOPIC", "--count", "1"], ["topics", "TOPIC"],
     ["explain", "TOPIC", "--key", "k"], ["describe", "TOPIC"],
     ["dissect", "capture"], ["watch", "TOPIC"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_what_a_pipe_gets_depends_on_no_variable(
    zaichik, topic, tmp_path, monkeypatch, words, variable
):
    """But for the colours, which FORCE_COLOR asks for."""
    zaichik("publish", topic, "two apples " * 30, "--key", "k")
    (tmp_path / "capture").write_bytes(encode(Ping(7)))
    monkeypatch.chdir(tmp_path)
    words = [topic if word == "TOPIC" else word for word in words]
    plain = zaichik(*words)
    monkeypatch.setenv(*variable)
    forced = zaichik(*words)
    assert (plain.code, forced.code) == (0, 0)
    assert len(forced.out.splitlines()) == len(plain.out.splitlines()) > 0
    if words[0] == "subscribe":
        assert forced.out == plain.out
    text = re.sub("\x1b\\[[0-9;]*m", "", forced.out)
    digits = re.compile("[0-9]+(s|ms)?")  # ages go on
    assert digits.sub("0", text) == digits.sub("0", plain.out)


def test_colours_in_a_pipe_are_a_choice(monkeypatch):
    def shown():
        file = io.StringIO()
        screen.on(file).print(Text("word", "bold red"))
        return file.getvalue()

    assert shown() == "word\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown() == "\x1b[1;31mword\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown() == "word\n"


def test_a_table_in_a_pipe_is_not_cut(monkeypatch):
    file = io.StringIO()
    screen.print_table(Console(file=file, width=20), screen.rows([("name", "x" * 100)]))
    assert file.getvalue() == f"name  {'x' * 100}\n"


def test_json_for_a_screen_without_unicode_is_escaped(monkeypatch):
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", file)
    screen.print_json("é")
    assert file.buffer.getvalue() == b'"\\u00e9"\n'


def test_logging_is_as_it_was_afterwards():
    logger = logging.getLogger("zaichik")
    before = logger.handlers, logger.level
    with screen.logging_to_stderr(logging.DEBUG):
        assert logger.level == logging.DEBUG
    assert (logger.handlers, logger.level) == before


def test_a_closed_pipe_is_left_to_main():
    with pytest.raises(BrokenPipeError):
        screen.on(sys.stdout).on_broken_pipe()


@pytest.mark.anyio
async def test_without_a_pipe_the_reader_is_never_gone(monkeypatch, tmp_path):
    with (tmp_path / "out").open("wb") as file:
        monkeypatch.setattr(screen, "STDOUT", file.fileno())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(screen.reader_gone)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert tasks.cancel_scope.cancelled_caught
