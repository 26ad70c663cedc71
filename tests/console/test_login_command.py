"""`zaichik login`, and which address and secret a command takes."""

import json

import pytest

from zaichik.client.endpoint import Credentials, Endpoint, NotAnAddress, endpoint
from zaichik.console import logins
from zaichik.console.failure import Failure

TOKEN, OTHER = "zk_" + "Canary-" * 6 + "x", "zk_" + "b" * 43
PIN = "sha256:" + "0a" * 32
LINE = f"zaichiks://{TOKEN}@192.0.2.1:8889?pin={PIN}"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("ZAICHIK_TOKEN", "ZAICHIK_TOKEN_FILE", "ZAICHIK_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def file(tmp_path):
    def make(text, mode=0o600):
        path = tmp_path / "secret"
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    return make


def test_a_pasted_line_is_kept_where_only_its_owner_can_read_it(zaichik, file):
    result = zaichik("login", "--from-file", file(f"  {LINE}\n"))
    assert result.code == 0
    assert result.out == f"zaichiks://192.0.2.1:8889: the login is kept in {logins.place()}, which only you can read\n"
    assert logins.place().stat().st_mode & 0o777 == 0o600
    assert logins.place().parent.stat().st_mode & 0o777 == 0o700
    assert logins.kept() == endpoint(LINE)


def test_standard_input_and_a_hidden_prompt(start, answering):
    process = start("login")
    assert "is kept in" in process.communicate(LINE)[0]
    assert logins.kept() == endpoint(LINE)
    code, text = answering("login", prompts=["line: "], answers=[LINE.replace("192.0.2.1", "192.0.2.2")])
    assert (code, "Canary" in text) == (0, False)
    assert logins.kept().host == "192.0.2.2"
    code, text = answering("login", prompts=["line: ", "password: "], answers=["zaichiks://ana@h:1", "my password"])
    assert (code, "my password" in text) == (0, False)
    assert logins.kept().credentials == Credentials("ana", "my password")


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
        "zaichiks://ana@h:1",
    ],
)
def test_what_is_no_line_is_not_kept_and_not_repeated(start, line):
    out, err = start("login").communicate(line + "\n")
    assert (out, err.count("\n")) == ("", 1)
    assert "Canary" not in err
    assert not logins.place().exists()


@pytest.mark.parametrize("words", [[LINE], [LINE, "x"], ["--from-file"], ["--remove", LINE, "x"], [f"--line={LINE}"]])
def test_a_line_as_an_argument_is_refused_and_not_repeated(zaichik, words):
    result = zaichik("login", *words)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert "Canary" not in result.err
    assert not logins.place().exists()


def test_a_login_is_forgotten(zaichik, file):
    assert zaichik("login", "--remove").out == "there was no login\n"
    zaichik("login", "--from-file", file(LINE))
    assert zaichik("login", "--remove").out == "the login is forgotten\n"
    assert logins.kept() is None


def test_a_login_without_tls_is_warned_about(zaichik, file):
    assert "not encrypted" in zaichik("login", "--from-file", file(f"zaichik://{TOKEN}@127.0.0.1:1")).err


@pytest.mark.parametrize("where", ["topics", "publish"])
def test_an_address_with_a_secret_as_an_argument_is_refused_and_not_repeated(zaichik, where):
    words = [where, "t", "m", "--connect", LINE] if where == "publish" else [where, "--connect", LINE]
    result = zaichik(*words)
    assert (result.code, result.out) == (2, "")
    assert "Canary" not in result.err


# -- which address ---------------------------------------------------------------------------------------------------


def test_an_argument_comes_first_then_the_environment_then_what_is_kept(home):
    logins.keep(endpoint(LINE), env := {"XDG_CONFIG_HOME": str(home)})
    assert logins.chosen(None, env) == endpoint(LINE)
    assert logins.chosen(None, env | {"ZAICHIK_CONNECT": "zaichiks://e:1"}) == endpoint("zaichiks://e:1")
    assert logins.chosen("a:1", env | {"ZAICHIK_CONNECT": "e:1"}) == Endpoint("a", 1)
    assert logins.chosen(None, {"XDG_CONFIG_HOME": str(home / "none")}) == Endpoint("127.0.0.1", 8889)


@pytest.mark.parametrize("argument", ["192.0.2.1:8889", "zaichiks://192.0.2.1:8889", "zaichik://192.0.2.1:8889", "x:1"])
def test_what_is_kept_goes_to_no_address_from_elsewhere(home, argument):
    env = {"XDG_CONFIG_HOME": str(home)}
    logins.keep(endpoint(LINE), env)
    assert logins.chosen(argument, env).credentials is None
    assert logins.chosen(None, env | {"ZAICHIK_CONNECT": argument}).credentials is None


def test_the_environment_completes_an_address_without_a_secret(home, file):
    env = {"XDG_CONFIG_HOME": str(home)}
    token = {"ZAICHIK_TOKEN": TOKEN}
    assert logins.chosen("zaichiks://a:1", env | token).credentials == Credentials("", TOKEN)
    assert logins.chosen(None, env | token | {"ZAICHIK_CONNECT": "e:1"}).credentials == Credentials("", TOKEN)
    whole = {"ZAICHIK_CONNECT": f"zaichiks://{OTHER}@e:1"}
    assert logins.chosen(None, env | token | whole).credentials == Credentials("", OTHER)
    path = {"ZAICHIK_TOKEN_FILE": file(TOKEN + "\n")}
    assert logins.chosen("zaichiks://a:1", env | path).credentials == Credentials("", TOKEN)
    path = {"ZAICHIK_PASSWORD_FILE": file("my password\n")}
    assert logins.chosen("zaichiks://ana@a:1", env | path | token).credentials == Credentials("ana", "my password")
    assert logins.chosen("zaichiks://a:1", env | path).credentials is None
    logins.keep(endpoint(LINE), env)
    assert logins.chosen(None, env | {"ZAICHIK_TOKEN": OTHER}) == endpoint(LINE)


def test_a_secret_in_an_argument_is_refused(home):
    with pytest.raises(NotAnAddress) as caught:
        logins.chosen(LINE, {})
    assert "Canary" not in str(caught.value)


def test_what_cannot_be_a_token_is_refused_and_not_repeated(file):
    with pytest.raises(NotAnAddress, match="ZAICHIK_TOKEN holds no token") as caught:
        logins.chosen("a:1", {"ZAICHIK_TOKEN": TOKEN + "Canary"})
    assert "Canary" not in str(caught.value)
    with pytest.raises(NotAnAddress, match="ZAICHIK_TOKEN_FILE holds no token"):
        logins.chosen("a:1", {"ZAICHIK_TOKEN_FILE": file("Canary")})
    with pytest.raises(Failure, match="others may read"):
        logins.chosen("a:1", {"ZAICHIK_TOKEN_FILE": file(TOKEN, 0o644)})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '"Canary"', "{}", '{"connect": 1}', '{"connect": "zaichiks://zk_Canary@h:1"}', "[" * 99_999]
)
def test_a_damaged_login_is_one_sentence_without_what_it_says(text):
    logins.keep(endpoint(LINE))
    logins.place().write_text(text)
    with pytest.raises(Failure, match="is damaged; type: zaichik login") as caught:
        logins.kept()
    assert "Canary" not in str(caught.value)


def test_a_login_that_others_can_read_is_refused():
    logins.keep(endpoint(LINE))
    logins.place().chmod(0o644)
    with pytest.raises(Failure, match=r"others may read .*type: chmod go= "):
        logins.kept()
    assert json.loads(logins.place().read_text())["version"] == 1
