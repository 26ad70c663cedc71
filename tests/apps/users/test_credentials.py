"""A name and a password, or a token in either place."""

import pytest

from zaichik import Credentials
from zaichik.apps.users.credentials import MOST_BYTES, NotALogin, credentials_of

TOKEN = f"zk_{'a' * 43}"


@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("ana", b"secret", Credentials("ana", "secret")),
        ("ana", "é".encode(), Credentials("ana", "é")),
        ("ana", TOKEN.encode(), Credentials(secret=TOKEN)),
        (None, TOKEN.encode(), Credentials(secret=TOKEN)),
        (TOKEN, None, Credentials(secret=TOKEN)),
        (TOKEN, b"x", Credentials(secret=TOKEN)),
        (TOKEN, b"\xff", Credentials(secret=TOKEN)),
        # It begins as a token does, and is none.
        ("ana", b"zk_secret", Credentials("ana", "zk_secret")),
        ("ana", b"x" * (MOST_BYTES - 3), Credentials("ana", "x" * (MOST_BYTES - 3))),
    ],
)
def test_a_token_may_stand_in_either_place(name, password, expected):
    assert credentials_of(name, password) == expected


@pytest.mark.parametrize(
    ("name", "password"),
    [
        (None, None),
        ("", b""),
        ("ana", None),
        ("ana", b""),
        ("ana", b"\xff"),
        (None, b"secret"),
        ("zk_short", None),
        ("ana", b"x" * (MOST_BYTES - 2)),
    ],
)
def test_anything_else_is_no_login(name, password):
    with pytest.raises(NotALogin) as caught:
        credentials_of(name, password)
    assert "xxx" not in str(caught.value)
