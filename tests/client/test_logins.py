"""Which address and secret a program takes."""

import json
from pathlib import Path

import pytest

from zaichik.cli.logins import keep
from zaichik.client.endpoint import Credentials, Endpoint, NotAnAddress, endpoint
from zaichik.client.logins import UnusableLogin, chosen, kept, known_for, place

TOKEN, OTHER = "zk_" + "Canary-" * 6 + "x", "zk_" + "b" * 43
PIN = "sha256:" + "0a" * 32
ADDRESS = f"zaichiks://192.0.2.1:8889?pin={PIN}"
LINE = ADDRESS.replace("//", f"//{TOKEN}@")

pytestmark = pytest.mark.usefixtures("home")


def test_an_argument_comes_first_then_the_environment_then_what_is_kept(home):
    keep(endpoint(LINE), env := {"XDG_CONFIG_HOME": str(home)})
    assert chosen(None, env) == endpoint(LINE)
    assert chosen(None, env | {"ZAICHIK_CONNECT": "zaichiks://e:1"}) == endpoint("zaichiks://e:1")
    assert chosen("a:1", env | {"ZAICHIK_CONNECT": "e:1"}) == Endpoint("a", 1)
    for end in ("\n", "\r\n", "\r", " "):  # it may come from a file
        assert chosen(None, env | {"ZAICHIK_CONNECT": LINE + end}) == endpoint(LINE)
    assert chosen(None, {"XDG_CONFIG_HOME": str(home / "none")}) == Endpoint("127.0.0.1", 8889)


@pytest.mark.parametrize(
    "argument", ["192.0.2.1:8889", "zaichiks://192.0.2.1:8889", "zaichik://192.0.2.1:8889", "x:1"]
)
def test_what_is_kept_goes_to_no_address_from_elsewhere(home, argument):
    env = {"XDG_CONFIG_HOME": str(home)}
    keep(endpoint(LINE), env)
    assert chosen(argument, env).credentials is None
    assert chosen(None, env | {"ZAICHIK_CONNECT": argument}).credentials is None


def test_the_environment_completes_an_address_without_a_secret(home, secret_file):
    env = {"XDG_CONFIG_HOME": str(home)}
    token = {"ZAICHIK_TOKEN": TOKEN}
    assert chosen("zaichiks://a:1", env | token).credentials == Credentials("", TOKEN)
    assert chosen(None, env | token | {"ZAICHIK_CONNECT": "e:1"}).credentials == Credentials(
        "", TOKEN
    )
    whole = {"ZAICHIK_CONNECT": f"zaichiks://{OTHER}@e:1"}
    assert chosen(None, env | token | whole).credentials == Credentials("", OTHER)
    path = {"ZAICHIK_TOKEN_FILE": secret_file(TOKEN + "\n")}
    assert chosen("zaichiks://a:1", env | path).credentials == Credentials("", TOKEN)
    path = {"ZAICHIK_PASSWORD_FILE": secret_file("my password\n")}
    assert chosen("zaichiks://ana@a:1", env | path | token).credentials == Credentials(
        "ana", "my password"
    )
    assert chosen("zaichiks://a:1", env | path).credentials is None
    keep(endpoint(LINE), env)
    assert chosen(None, env | {"ZAICHIK_TOKEN": OTHER}) == endpoint(LINE)


def test_a_secret_in_an_argument_is_refused(home):
    with pytest.raises(NotAnAddress) as caught:
        chosen(LINE, {})
    assert "Canary" not in str(caught.value)


def test_what_cannot_be_a_token_is_refused_and_not_repeated(secret_file):
    with pytest.raises(NotAnAddress, match="ZAICHIK_TOKEN holds no token") as caught:
        chosen("a:1", {"ZAICHIK_TOKEN": TOKEN + "Canary"})
    assert "Canary" not in str(caught.value)
    with pytest.raises(NotAnAddress, match="ZAICHIK_TOKEN_FILE holds no token"):
        chosen("a:1", {"ZAICHIK_TOKEN_FILE": secret_file("Canary")})
    with pytest.raises(UnusableLogin, match="others may read"):
        chosen("a:1", {"ZAICHIK_TOKEN_FILE": secret_file(TOKEN, 0o644)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"Canary"',
        "{}",
        '{"connect": 1}',
        '{"connect": "zaichiks://zk_Canary@h:1"}',
        "[" * 99_999,
    ],
)
def test_a_damaged_login_is_one_sentence_without_what_it_says(text):
    keep(endpoint(LINE))
    place().write_text(text)
    with pytest.raises(UnusableLogin, match="is damaged; type: zaichik login") as caught:
        kept()
    assert "Canary" not in str(caught.value)


def test_a_login_that_others_can_read_is_refused():
    keep(endpoint(LINE))
    place().chmod(0o644)
    with pytest.raises(UnusableLogin, match=r"others may read .*type: chmod go= "):
        kept()
    assert json.loads(place().read_text())["version"] == 1


def test_a_file_that_is_not_there_or_not_text_is_one_sentence(tmp_path, secret_file):
    with pytest.raises(UnusableLogin, match="nowhere cannot be read: No such file"):
        chosen("a:1", {"ZAICHIK_TOKEN_FILE": str(tmp_path / "nowhere")})
    path = Path(secret_file(""))
    path.write_bytes(b"Canary\xff")
    with pytest.raises(UnusableLogin, match="is not UTF-8") as caught:
        chosen("a:1", {"ZAICHIK_TOKEN_FILE": str(path)})
    assert "Canary" not in str(caught.value)


def test_a_user_without_a_home_has_no_login(monkeypatch):
    def no_home():
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", no_home)
    assert kept({}) is None


# -- what is known for an address that came from elsewhere ---------------------------------------


@pytest.mark.parametrize("place", ["kept", "ZAICHIK_CONNECT"])
@pytest.mark.parametrize(
    ("address", "is_same"),
    [
        (ADDRESS, True),
        (ADDRESS.replace("8889", "8890"), False),
        (ADDRESS.replace("192.0.2.1", "192.0.2.2"), False),
        (ADDRESS.replace("0a", "0b"), False),
        (f"{ADDRESS}&pin={PIN.replace('0a', '0b')}", False),
        ("zaichiks://192.0.2.1:8889", False),
        ("zaichik://192.0.2.1:8889", False),
        (ADDRESS.replace("//", "//ana@"), False),
    ],
)
def test_a_login_goes_to_exactly_its_own_address(home, place, address, is_same):
    env = {"XDG_CONFIG_HOME": str(home)}
    if place == "kept":
        keep(endpoint(LINE), env)
    else:
        env[place] = LINE
    found = known_for(endpoint(address), env)
    assert found == endpoint(LINE if is_same else address)


def test_a_password_goes_to_exactly_its_own_user(home):
    line = ADDRESS.replace("//", "//ana:my-password@")
    env = {"ZAICHIK_CONNECT": line}
    assert known_for(endpoint(ADDRESS), env) == endpoint(line)
    assert known_for(endpoint(ADDRESS.replace("//", "//ana@")), env) == endpoint(line)
    boris = endpoint(ADDRESS.replace("//", "//boris@"))
    assert known_for(boris, env) == boris


def test_the_environment_completes_an_address_from_elsewhere(home, secret_file):
    env = {"XDG_CONFIG_HOME": str(home), "ZAICHIK_CONNECT": "nonsense"}
    keep(endpoint(LINE), env)
    assert known_for(endpoint(ADDRESS), env | {"ZAICHIK_TOKEN": OTHER}).credentials == Credentials(
        "", OTHER
    )
    password = {"ZAICHIK_PASSWORD_FILE": secret_file("my password")}
    ana = endpoint(ADDRESS.replace("//", "//ana@"))
    assert known_for(ana, env | password).credentials == Credentials("ana", "my password")


def test_a_login_that_cannot_be_used_is_left_out_where_nobody_asked_for_it(home, caplog):
    env = {"XDG_CONFIG_HOME": str(home)}
    keep(endpoint(LINE), env).chmod(0o644)
    assert known_for(endpoint(ADDRESS), env) == endpoint(ADDRESS)
    assert "without the login that is kept: others may read" in caplog.text
    assert "Canary" not in caplog.text
