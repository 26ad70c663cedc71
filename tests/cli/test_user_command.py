"""`zaichik user` and `zaichik access check`."""

import json
import os
import subprocess
import sys

import pytest

from zaichik.cli.access_folder import dump, locked, write
from zaichik.server.access.users import Users, hash_of, knows

PROMPTS = ["password: ", "once more: "]
TOKEN = r"zk_[A-Za-z0-9_-]{43}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "access"
    path.mkdir(mode=0o700)
    with locked(path) as descriptor:
        write(descriptor, "users.json", dump(Users()))
        write(descriptor, "rules", b"user ana\nallow all a*\nuser *\ndeny publish b\n")
    monkeypatch.setenv("ZAICHIK_ACCESS", str(path))
    return path


def users(folder):
    return Users.parse((folder / "users.json").read_bytes())


def test_a_user_gets_a_token_and_only_its_hash_is_kept(zaichik, folder):
    result = zaichik("user", "add", "ana")
    assert result.code == 0
    token = result.out.strip()
    assert hash_of(token) in users(folder).by_token
    assert token[3:] not in (folder / "users.json").read_text()
    assert token[3:] not in result.err
    assert "shown once" in result.err


def test_there_is_one_user_of_a_name(zaichik, folder):
    zaichik("user", "add", "ana")
    result = zaichik("user", "add", "ana")
    assert (result.code, result.out) == (1, "")
    assert "there is a user ana already" in result.err
    assert len(users(folder).users) == 1


@pytest.mark.parametrize(
    "name", ["Ana", "", "a b", "a\nb", 'a"', "é", "x" * 65, "x" * 10_000, ".x", "*", "\udcff"]
)
def test_names_that_are_none(zaichik, folder, name):
    result = zaichik("user", "add", name)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "a user's name has 1 to 64 letters" in result.err
    assert users(folder) == Users()


def test_tokens_come_and_go(zaichik, folder):
    zaichik("user", "add", "ana")
    (old,) = users(folder).by_name["ana"].tokens
    fresh = zaichik(
        "user", "token", "add", "ana", "--note", "laptop", "--expires", "90d"
    ).out.strip()
    token = users(folder).by_token[hash_of(fresh)][1]
    assert (token.note, token.expires - token.created) == ("laptop", 90 * 86_400)
    assert zaichik("user", "token", "remove", "ana", old.id).code == 0
    assert users(folder).by_name["ana"].tokens == (token,)
    assert "has no token" in zaichik("user", "token", "remove", "ana", old.id).err
    assert "no user" in zaichik("user", "token", "add", "boris").err
    assert "no user" in zaichik("user", "remove", "boris").err
    assert zaichik("user", "remove", "ana").out == "ana: removed\n"
    assert users(folder) == Users()


@pytest.mark.unmeasured
def test_a_password_comes_from_a_file_or_standard_input(zaichik, folder, tmp_path, start):
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    assert "type: chmod go=" in zaichik("user", "add", "ana", "--password-file", str(secret)).err
    secret.chmod(0o600)
    assert zaichik("user", "add", "ana", "--password-file", str(secret)).out == "ana: added\n"
    assert knows("correct horse battery", users(folder).by_name["ana"].password)
    out, err = start("user", "add", "boris", "--password").communicate("correct horse battery\n")
    assert (out, err) == ("boris: added\n", "")
    assert knows("correct horse battery", users(folder).by_name["boris"].password)
    assert (
        "at least 12 letters"
        in start("user", "add", "carol", "--password").communicate("short\n")[1]
    )
    assert (
        "nothing was given as the password"
        in start("user", "add", "carol", "--password").communicate("")[1]
    )


@pytest.mark.unmeasured
def test_a_password_is_typed_twice_and_not_shown(answering, folder):
    code, text = answering(
        "user", "add", "ana", "--password", prompts=PROMPTS, answers=["correct horse battery"] * 2
    )
    assert (code, users(folder).by_name["ana"].password is not None) == (0, True)
    assert "ana: added" in text
    assert "horse" not in text
    code, text = answering(
        "user", "add", "boris", "--password", prompts=PROMPTS, answers=["correct horse", "battery"]
    )
    assert (code, "boris" in users(folder).by_name) == (1, False)
    assert "the two passwords differ" in text


def test_ctrl_c_at_the_prompt(on_terminal, folder):
    assert on_terminal("user", "add", "ana", "--password", interrupt_at=b"password:")[0] == 130
    assert users(folder) == Users()


def test_a_list_has_no_hashes(zaichik, folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("correct horse battery\n")
    secret.chmod(0o600)
    zaichik("user", "add", "ana", "--note", "a note", "--expires", "90d")
    zaichik("user", "add", "boris", "--password-file", str(secret))
    (token,) = users(folder).by_name["ana"].tokens
    result = zaichik("user", "list")
    assert result.out.split()[:6] == ["user", "with", "id", "created", "expires", "note"]
    assert token.id in result.out
    assert "a note" in result.out
    told = zaichik("user", "list", "--json")
    assert [(user["name"], [it["with"] for it in user["logins"]]) for user in told.json] == [
        ("ana", ["token"]),
        ("boris", ["password"]),
    ]
    password = users(folder).by_name["boris"].password
    for text in (result.out, told.out):
        assert not [part for part in (token.sha256, password.scrypt, password.salt) if part in text]


@pytest.mark.unmeasured
def test_two_at_once(folder):
    command = [sys.executable, "-m", "zaichik", "user", "add"]
    programs = [
        subprocess.Popen(
            [*command, f"user{number}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for number in range(2)
    ]
    assert [program.wait() for program in programs] == [0, 0]
    assert sorted(users(folder).by_name) == ["user0", "user1"]


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["add", "a", "b"],
        ["list", "x"],
        ["token"],
        ["token", "remove", "ana"],
        ["nonsense", "x"],
    ],
)
def test_wrong_words(zaichik, folder, words):
    result = zaichik("user", *words)
    assert result.code == 2
    assert "write add NAME, list, remove NAME" in result.err


def test_without_a_folder(zaichik, folder, monkeypatch, tmp_path):
    monkeypatch.delenv("ZAICHIK_ACCESS")
    assert "which folder?" in zaichik("user", "list").err
    assert zaichik("user", "list", "--access", str(folder)).code == 0
    result = zaichik("user", "list", "--access", str(tmp_path / "none"))
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "No such file" in result.err


def test_a_broken_file_is_not_changed(zaichik, folder):
    (folder / "users.json").write_text("{")
    for words in (["list"], ["add", "ana"], ["remove", "ana"]):
        result = zaichik("user", *words)
        assert (result.code, result.err.count("\n")) == (1, 1)
        assert f"{folder}/users.json:1:2: " in result.err
    assert (folder / "users.json").read_text() == "{"


# -- access check --------------------------------------------------------------------------------


def test_which_rule_decides(zaichik, folder):
    zaichik("user", "add", "ana")
    zaichik("user", "add", "boris")

    def check(*question):
        result = zaichik("access", "check", str(folder), *question)
        return result.code, result.out

    assert check("ana", "publish", "apples") == (0, "allowed by rules:2\n")
    assert check("ana", "publish", "b") == (1, "denied by rules:4\n")
    assert check("boris", "publish", "apples") == (1, "denied: no rule allows it\n")
    assert check("ana", "subscribe", "$journal/apples") == (0, "allowed by rules:2\n")
    assert check("ana", "describe", "$broker") == (1, "denied: no rule allows it\n")


def test_a_check_tells_what_looks_like_a_mistake(zaichik, folder):
    zaichik("user", "add", "boris")
    result = zaichik("access", "check", str(folder))
    assert (result.code, result.out) == (0, f"{folder}: 1 user, 2 rules, no certificate\n")
    assert "warning: rules:2 is about ana, but there is no user of that name" in result.err
    assert "warning: boris may do nothing" in result.err


def test_a_check_names_the_place_of_a_mistake(zaichik, folder):
    (folder / "rules").write_text("user *\nalow all *\n")
    result = zaichik("access", "check", str(folder))
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{folder}/rules:2:1: a line cannot begin with 'alow'" in result.err


@pytest.mark.parametrize(
    ("question", "code", "told"),
    [
        (["ana"], 2, "write USER ACTION TOPIC"),
        (["ana", "read", "t"], 2, "'read' is not an action"),
        (["nobody", "publish", "t"], 1, "there is no user 'nobody'"),
    ],
)
def test_wrong_questions(zaichik, folder, question, code, told):
    zaichik("user", "add", "ana")
    result = zaichik("access", "check", str(folder), *question)
    assert (result.code, told in result.err) == (code, True)


def test_the_environment_is_not_needed_for_json(zaichik, folder):
    assert json.loads(zaichik("user", "list", "--json").out) == []
    assert os.environ["ZAICHIK_ACCESS"] == str(folder)
