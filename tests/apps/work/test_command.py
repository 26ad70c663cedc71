"""The command of a job: what a message says, in its words and its environment."""

import os

import pytest

from zaichik.apps.work.command import CannotBeAnArgument, CannotRun, Command


def words(*template, topic="orders", offset=7, key=b"alice"):
    return Command(template).on(topic, offset, key).words


def test_places_are_filled():
    assert words("convert", "-", "{topic}/{key}-{offset}.png") == [
        "convert", "-", "orders/alice-7.png",
    ]  # fmt: skip


def test_the_command_itself_may_have_places():
    assert words("./{key}", "x") == ["./alice", "x"]


def test_what_was_put_in_is_not_looked_at_again():
    assert words("{key}", "{topic}", topic="{offset}", key=b"{topic}{key}") == [
        "{topic}{key}", "{offset}",
    ]  # fmt: skip


@pytest.mark.parametrize("word", ["{}", "{payload}", "{{offset", "{OFFSET}", "{key:>5}", "${HOME}"])
def test_other_braces_mean_nothing(word):
    assert words("echo", word) == ["echo", word]


def test_a_key_stays_one_word():
    assert words("echo", "{key}", key=b"a b\n'c' $HOME") == ["echo", "a b\n'c' $HOME"]


@pytest.mark.parametrize("key", [b"-rf", b"\xff\xfe", "Зайчик".encode()])
def test_any_key_is_passed_on_as_its_bytes(key):
    invocation = Command(["echo", "{key}"]).on("orders", 7, key)
    assert os.fsencode(invocation.words[1]) == key
    assert os.fsencode(invocation.environment["ZAICHIK_KEY"]) == key


def test_a_message_without_a_key(monkeypatch):
    """A job of a job does not get the key of the other message."""
    monkeypatch.setenv("ZAICHIK_KEY", "of another one")
    invocation = Command(["echo", "{key}"]).on("orders", 7, None)
    assert invocation.words == ["echo", ""]
    assert "ZAICHIK_KEY" not in invocation.environment


def test_the_environment_has_all_variables(monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    environment = Command(["true"]).on("orders", 7, b"alice").environment
    assert environment == os.environ | {
        "ZAICHIK_TOPIC": "orders",
        "ZAICHIK_OFFSET": "7",
        "ZAICHIK_KEY": "alice",
    }


def test_a_nul_byte_has_no_place_in_an_argument():
    with pytest.raises(CannotBeAnArgument, match="NUL"):
        words("echo", "{key}", key=b"a\0b")
    invocation = Command(["echo", "{offset}"]).on("orders", 7, b"a\0b")
    assert invocation.words == ["echo", "7"]
    assert "ZAICHIK_KEY" not in invocation.environment


@pytest.mark.parametrize("word", ["sh", "/bin/sh", "{key}", "./{offset}.sh"])
def test_a_command_that_is_there_or_depends_on_the_message(word):
    Command([word]).check()


@pytest.mark.parametrize(
    ("word", "mode", "code"),
    [("missing", None, 127), ("script", 0o600, 126), ("folder", 0o700, 127)],
)
def test_a_command_that_cannot_be_run(tmp_path, word, mode, code):
    """The exit codes are those of shells."""
    path = tmp_path / word
    if word == "folder":
        path.mkdir()
    elif mode is not None:
        path.write_text("")
        path.chmod(mode)
    with pytest.raises(CannotRun) as refused:
        Command([str(path)]).check()
    assert refused.value.code == code
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("word", ["nowhere-to-be-found", ""])
def test_a_command_that_is_not_on_the_path(word):
    with pytest.raises(CannotRun) as refused:
        Command([word]).check()
    assert refused.value.code == 127


@pytest.mark.parametrize(
    ("template", "trusts"),
    [
        (["sh", "-c", "echo {key}"], True),
        (["/bin/bash", "-euo", "pipefail", "-c", "echo {key}"], True),
        (["bash", "-ec", "echo {key}"], True),
        (["sh", "-c", 'echo "$1"', "sh", "{key}"], False),
        (["sh", "-c", "echo {offset}"], False),
        (["sh", "script", "{key}"], False),
        (["python", "-c", "print()", "{key}"], False),
        (["sh"], False),
    ],
)
def test_whether_a_key_may_become_a_command(template, trusts):
    assert Command(template).trusts_keys is trusts
