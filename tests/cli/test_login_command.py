"""`zaichik login`."""

import pytest

from zaichik.client.endpoint import Credentials, endpoint
from zaichik.client.logins import kept, place

TOKEN = "zk_" + "Canary-" * 6 + "x"
PIN = "sha256:" + "0a" * 32
LINE = f"zaichiks://{TOKEN}@127.0.0.1:1?pin={PIN}"


def test_a_pasted_line_is_kept_where_only_its_owner_can_read_it(zaichik, secret_file):
    result = zaichik("login", "--from-file", secret_file(f"  {LINE}\n"))
    assert result.code == 0
    assert result.out == (
        "zaichiks://127.0.0.1:1 does not answer now, so this login was not tried; "
        f"the login is kept in {place()}, which only you can read\n"
    )
    assert place().stat().st_mode & 0o777 == 0o600
    assert place().parent.stat().st_mode & 0o777 == 0o700
    assert kept() == endpoint(LINE)


@pytest.mark.parametrize("words", [["login"], ["login", "--remove"]], ids=" ".join)
def test_a_user_without_a_home_is_told_before_anything_is_typed(zaichik, monkeypatch, words):
    """As in a container that runs as a number."""

    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr("pathlib.Path.home", none)
    result = zaichik(*words)
    assert result.code == 1
    assert result.err.startswith("zaichik: this user has no home directory")
    assert result.err.count("\n") == 1


def test_standard_input_and_a_hidden_prompt(start, answering):
    process = start("login")
    assert "is kept in" in process.communicate(LINE)[0]
    assert kept() == endpoint(LINE)
    code, text = answering(
        "login", prompts=["line: "], answers=[LINE.replace("127.0.0.1", "127.0.0.2")]
    )
    assert (code, "Canary" in text) == (0, False)
    assert kept().host == "127.0.0.2"
    code, text = answering(
        "login",
        prompts=["line: ", "password: "],
        answers=["zaichiks://ana@127.0.0.1:1", "my password"],
    )
    assert (code, "my password" in text) == (0, False)
    assert kept().credentials == Credentials("ana", "my password")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        TOKEN,
        LINE[:60],
        LINE[:-1],
        LINE.replace("zaichiks", "https"),
        "zaichiks://h:1",
        "zaichiks://ana@127.0.0.1:1",
    ],
)
def test_what_is_no_line_is_not_kept_and_not_repeated(start, line):
    out, err = start("login").communicate(line + "\n")
    assert (out, err.count("\n")) == ("", 1)
    assert "Canary" not in err
    assert not place().exists()


@pytest.mark.parametrize(
    "words", [[LINE], [LINE, "x"], ["--from-file"], ["--remove", LINE, "x"], [f"--line={LINE}"]]
)
def test_a_line_as_an_argument_is_refused_and_not_repeated(zaichik, words):
    result = zaichik("login", *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "Canary" not in result.err
    assert not place().exists()


def test_a_login_is_forgotten(zaichik, secret_file):
    assert zaichik("login", "--remove").out == "there was no login\n"
    zaichik("login", "--from-file", secret_file(LINE))
    assert zaichik("login", "--remove").out == "the login is forgotten\n"
    assert kept() is None


def test_a_login_without_tls_is_warned_about(zaichik, secret_file):
    assert (
        "not encrypted"
        in zaichik("login", "--from-file", secret_file(f"zaichik://{TOKEN}@127.0.0.1:1")).err
    )


@pytest.mark.parametrize("where", ["topics", "publish"])
def test_an_address_with_a_secret_as_an_argument_is_refused_and_not_repeated(zaichik, where):
    words = (
        [where, "t", "m", "--connect", LINE] if where == "publish" else [where, "--connect", LINE]
    )
    result = zaichik(*words)
    assert (result.code, result.out) == (2, "")
    assert "Canary" not in result.err
