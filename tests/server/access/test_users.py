"""users.json: whatever is not understood is refused, and secrets are not in it."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zaichik.base.private_files import Unusable
from zaichik.cli.access_folder import dump, new_password, new_token
from zaichik.server.access import users as module
from zaichik.server.access.users import (
    NO_PASSWORD,
    Password,
    Record,
    Token,
    Users,
    hash_of,
    knows,
    scrypt_of,
)

TOKEN = {"id": "0a1b2c3d", "sha256": "ab" * 32, "created": 1, "expires": None, "note": "é \u201c"}
PASSWORD = {"salt": "00" * 16, "scrypt": "cd" * 32, "created": 1, "expires": 9}
ANA = {"name": "ana", "tokens": [TOKEN], "password": PASSWORD}
FILE = {"version": 1, "users": [ANA, {"name": "boris", "tokens": [], "password": None}]}
WHOLE = Users(
    1,
    (
        Record(
            "ana",
            (Token("0a1b2c3d", "ab" * 32, 1, None, "é \u201c"),),
            Password("00" * 16, "cd" * 32, 1, 9),
        ),
        Record("boris"),
    ),
)


def parse(value):
    return Users.parse(json.dumps(value, indent=1).encode())


@pytest.fixture
def cheap(patchable, monkeypatch):
    """A test that does not count how long a password takes."""
    monkeypatch.setitem(module.SCRYPT, "n", 2)
    monkeypatch.setitem(module.SCRYPT, "p", 1)


def test_a_file():
    assert parse(FILE) == WHOLE
    assert parse({"version": 1, "users": []}) == Users()


def test_a_file_is_written_as_it_is_read():
    assert json.loads(dump(WHOLE)) == FILE
    assert Users.parse(dump(WHOLE)) == WHOLE


def test_users_and_tokens_are_found():
    assert WHOLE.by_name["ana"] is WHOLE.users[0]
    assert WHOLE.by_token["ab" * 32] == (WHOLE.users[0], WHOLE.users[0].tokens[0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "1:1: Expecting value"),
        ("[]", "1:1: there must be"),
        ("null", "1:1: there must be"),
        ("{}", "1:1: the keys must be version, users"),
        ('{"version": 1}', "1:1: the keys must be version, users"),
        ('{"version": 2, "users": []}', "1:1: there must be"),
        ('{"version": true, "users": []}', "1:1: version must be int"),
        ('{"version": 1, "users": {}}', "1:25: the keys must be version, users"),
        ('{"version": 1, "users": [1]}', "1:1: users must be a list of Record"),
        (
            '{"version": 1, "users": [], "users": []}',
            "1:1: the keys must be version, users, each of them once",
        ),
        (
            '{"version": 1,\n "users": [{"name": "ana"}]}',
            "2:12: the keys must be name, tokens, password",
        ),
        ('{"version": 1, "users": [], "more": 1}', "1:1: the keys must be version, users"),
        ("[" * 200_000, "1:1: "),
        ('{"a":' * 200_000, "1:1: "),
        ('{"version": NaN, "users": []}', "1:1: version must be int"),
        ('{"version": 1e999, "users": []}', "1:1: version must be int"),
        ('{"version": ' + "9" * 5000 + ', "users": []}', "1:1: Exceeds the limit"),
        ('{"version": 1, "users": []}\n{', "2:1: Extra data"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_file_of_users_is_refused_with_its_place(text, told):
    with pytest.raises(Unusable) as caught:
        Users.parse(text.encode())
    assert told in str(caught.value)


def with_user(**changes):
    return FILE | {"users": [ANA | changes]}


def with_token(**changes):
    return with_user(tokens=[TOKEN | changes])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (with_user(name="Ana"), "4:3: name must match"),
        (with_user(name="ana\n"), "4:3: name must match"),
        (with_user(name="a" * 65), "4:3: name must match"),
        (with_user(name=""), "4:3: name must match"),
        (with_user(name=["ana"]), "4:3: name must be str"),
        (with_user(name=1), "4:3: name must be str"),
        (with_user(tokens=TOKEN), "4:3: tokens must be a list of Token"),
        (with_user(tokens=[PASSWORD]), "4:3: tokens must be a list of Token"),
        (with_user(password=TOKEN), "4:3: password must be Password or null"),
        (with_user(password=[]), "4:3: password must be Password or null"),
        (with_token(id="x"), "7:5: id must match"),
        (with_token(sha256="AB" * 32), "7:5: sha256 must match"),
        (with_token(created=-1), "7:5: created must match"),
        (with_token(created=1.5), "7:5: created must be int"),
        (with_token(expires="never"), "7:5: expires must be int or null"),
        (with_token(note="two\nlines"), "7:5: note must match"),
        (with_token(note="\x1b[31m"), "7:5: note must match"),
        (with_token(note="\u2028"), "7:5: note must match"),
        (with_token(note="\ud800"), "7:5: note must match"),
        (with_token(note="x" * 101), "7:5: note must match"),
        (with_token(more=1), "7:5: the keys must be id, sha256, created, expires, note"),
        (FILE | {"users": [ANA, ANA]}, "1:1: there must be"),
    ],
)
def test_what_is_no_user_is_refused_with_its_place(value, told):
    with pytest.raises(Unusable) as caught:
        parse(value)
    assert told in str(caught.value)


@pytest.mark.parametrize("size", range(0, len(json.dumps(FILE)), 3))
def test_a_file_that_is_cut_off_is_refused(size):
    with pytest.raises(Unusable):
        Users.parse(json.dumps(FILE).encode()[:size])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda of: (
        st.lists(of, max_size=3)
        | st.dictionaries(
            st.sampled_from([*FILE, *ANA, *TOKEN, *PASSWORD, "topics"]), of, max_size=6
        )
    ),
)


@given(JSON)
def test_whatever_is_in_a_file_it_is_parsed_or_refused(value):
    try:
        found = Users.parse(json.dumps(value).encode())
    except Unusable as error:
        told = str(error)
    else:
        assert parse(json.loads(dump(found))) == found
        told = "1:1"
    assert re.match(r"\d+:\d+", told)


def test_a_token_is_found_by_its_hash_and_is_not_in_the_file():
    token, text = new_token()
    assert re.fullmatch("zk_[A-Za-z0-9_-]{43}", text)
    assert hash_of(text) == token.sha256
    assert text[3:] not in repr(token) + dump(Users(users=(Record("ana", (token,)),))).decode()
    assert new_token()[1] != text
    assert hash_of("\ud800") == hash_of("?")  # and is nobody's


def test_a_password_is_known_however_it_is_typed(cheap):
    stored = new_password("Caf\xe9 \ufb01ve words")
    assert knows("Caf\xe9 \ufb01ve words", stored)
    assert knows("Cafe\u0301 five words", stored)
    assert not knows("cafe\u0301 five words", stored)
    assert not knows("", stored)
    assert new_password("Caf\xe9 \ufb01ve words").scrypt != stored.scrypt  # its salt is another


def test_a_long_password_is_not_cut(cheap):
    stored = new_password("x" * 1024)
    assert knows("x" * 1024, stored)
    assert not knows("x" * 1025, stored)
    assert not knows("x" * 1023, stored)


@pytest.mark.parametrize("password", [None, NO_PASSWORD, Password("00" * 16, "00" * 32, 0, None)])
def test_who_has_no_password_has_no_password_that_is_right(cheap, password):
    assert not knows("", password)
    assert not knows("correct horse battery", password)


def test_without_a_password_as_much_is_done_as_with_one(cheap, monkeypatch):
    calls = []
    real = module.hashlib.scrypt
    monkeypatch.setattr(
        module.hashlib,
        "scrypt",
        lambda text, **how: calls.append((len(text), how)) or real(text, **how),
    )
    stored = new_password("correct horse battery")
    calls.clear()
    for password in (stored, None):
        knows("wrong horse battery", password)
    (first, how), (second, how_else) = calls
    assert first == second
    assert how | {"salt": b""} == how_else | {"salt": b""}
    assert len(how["salt"]) == len(how_else["salt"])


def test_the_parameters_are_those_of_the_file(patchable):
    """Version 1 of the file means these: another choice needs another version."""
    assert module.SCRYPT == {"n": 16384, "r": 8, "p": 5, "maxmem": 67108864, "dklen": 32}
    assert scrypt_of("correct horse battery", "00" * 16)[:16] == "8cbee8bd19155c78"
