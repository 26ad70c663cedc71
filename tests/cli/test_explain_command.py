"""`zaichik explain`."""

import re

import pytest

from zaichik import BrokerSettings
from zaichik.cli.errors.codes import GROUPS, SECTIONS
from zaichik.cli.main import COMMANDS


def test_a_code_is_explained_in_lines_that_fit(zaichik, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    result = zaichik("explain", "TOPIC_FULL")
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0] == "TOPIC_FULL: the topic is full of what a reader still needs"
    assert [line.split()[0] for line in lines if line[:1].islower()] == [
        "what",
        "why",
        "next",
        "rules",
        "read",
    ]
    assert "Error 77, in Python zaichik.TopicFull." in result.out
    assert "RET-9" in result.out
    assert "chapter 12, Slow consumers" in result.out
    assert all(len(line) <= 80 for line in lines if "/README.md" not in line)


def test_lines_are_shorter_on_a_narrow_terminal(zaichik, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = zaichik("explain", "OFFSET_AHEAD").out.splitlines()
    assert all(len(line) <= 50 for line in lines[1:] if "`" not in line and "/" not in line)


def test_no_terminal_is_too_narrow(zaichik, monkeypatch):
    monkeypatch.setenv("COLUMNS", "5")
    assert zaichik("explain", "OFFSET_AHEAD").code == 0


def test_a_command_to_copy_stays_on_one_line(zaichik):
    for section in SECTIONS:
        out = zaichik("explain", section.name).out
        assert all(command in out for command in re.findall("`[^`]+`", section.then))


@pytest.mark.parametrize("code", ["topic_full", "77", "[TOPIC_FULL]", "TopicFull"])
def test_a_code_may_be_written_in_many_ways(zaichik, code):
    assert zaichik("explain", code).out == zaichik("explain", "TOPIC_FULL").out


def test_a_number_that_stands_for_several_codes_has_all_of_them(zaichik):
    out = zaichik("explain", "1").out
    assert re.findall(r"^[A-Z_]+(?=:)", out, re.MULTILINE) == ["MALFORMED", "UNTIL", "STOPPING"]


def test_without_a_code_all_are_listed_a_line_each(zaichik):
    lines = zaichik("explain").out.splitlines()
    assert len(lines) == len(SECTIONS) + len(GROUPS)
    assert "  77 TOPIC_FULL              the topic is full of what a reader still needs" in lines
    assert "     CONNECT_FAILED          no broker could be reached at the address" in lines
    assert all(len(line) <= 80 for line in lines)


def test_an_unknown_code_is_one_sentence_that_proposes_the_nearest(zaichik):
    result = zaichik("explain", "TOPIC_EXIST")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("zaichik: there is no code TOPIC_EXIST; did you mean TOPIC_EXISTS")
    assert result.err.endswith("?\n")
    assert (
        zaichik("explain", "90").err
        == "zaichik: there is no code 90; did you mean NO_SUCH_NAME, TABLE_FULL or DAMAGED?\n"
    )
    assert zaichik("explain", "qq\n").err == (
        "zaichik: there is no code qq\\n; zaichik explain lists all; if it is a topic, say which "
        "message: "
        "add --offset or --key\n"
    )


def test_a_topic_without_a_message_is_told_how_to_ask_even_if_it_looks_like_a_code(zaichik):
    result = zaichik("explain", "tight")
    assert result.err.startswith("zaichik: there is no code tight; did you mean NOT_IN_FLIGHT?")
    assert "if it is a topic, say which message: add --offset or --key" in result.err


def test_a_topic_without_a_message_is_told_what_is_missing(zaichik):
    assert zaichik("explain", "news").err.endswith(
        "; if it is a topic, say which message: add --offset or --key\n"
    )


def test_every_command_that_is_advised_exists(zaichik):
    """With its options, and the limits that `zaichik serve --limit` knows."""
    helps = {name: zaichik(name, "--help").out for name in COMMANDS}
    advised = [
        command.split()[1:]
        for section in SECTIONS
        for command in re.findall(
            "`(zaichik [^`]+)`", f"{section.what} {section.why} {section.then}"
        )
    ]
    assert len(advised) > 50
    for name, *words in advised:
        if name == "--version":
            continue
        for word in words:
            if word.startswith("--"):
                assert re.search(rf"{word}\b", helps[name]), (name, word)
            elif "=" in word:
                assert hasattr(BrokerSettings(), word.partition("=")[0])


def test_an_error_on_the_screen_ends_in_the_command_that_explains_it(zaichik):
    result = zaichik("topics", "--connect", "127.0.0.1:1")
    code = re.fullmatch(r"zaichik: .* \(zaichik explain (\w+)\)\n", result.err)[1]
    assert zaichik("explain", code).code == 0
