"""users.json: the users, and what proves their logins.

Nobody who steals the file can log in with its tokens.

A token has 256 random bits. Nobody can guess that many, so a plain hash of it is enough, and a
token is found by looking up its hash: how long the lookup takes reveals something about the hash
only, which nobody can choose. A password is what a person can remember, and that is much less. So
each guess is made expensive, for us and for a thief, with scrypt.

Each object of the file is a class here, recognized by its keys. An unknown, missing or repeated key
is an error: a file that says something we do not understand may be meant to grant less than we
think. A broker only reads the file; commands write it.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import count
from typing import Any, get_args, get_origin
from unicodedata import normalize

from zaichik.base.private_files import decoded, wrong
from zaichik.server.access.rules import USER_NAME

PATTERNS = {  # numbers have none of their own
    "name": USER_NAME.pattern,
    "id": "[0-9a-f]{8}",
    "salt": "[0-9a-f]{32}",
    "sha256": "[0-9a-f]{64}",
    "scrypt": "[0-9a-f]{64}",
    "note": r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{0,100}",
}
# A row of OWASP's table: 16 MiB, about 0.3 s. It is the same for all users, or else the time of a
# check would tell them apart.
SCRYPT = {"n": 2**14, "r": 8, "p": 5, "maxmem": 64 * 1024 * 1024, "dklen": 32}
LONGEST_PASSWORD = 1024  # bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """An object of the file. Its fields are checked, so a wrong one cannot exist."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            types = get_args(item.type) or (item.type,)
            is_list = get_origin(item.type) is tuple
            values = (value,)
            if is_list and isinstance(value, tuple):
                values = value
            # The very type, because a bool is not an integer here.
            is_of_type = all(type(one) in types for one in values)
            if is_list != isinstance(value, tuple) or not is_of_type:
                names = " or ".join(one.__name__ for one in types if one is not ...)
                names = names.replace("NoneType", "null")
                raise ValueError(f"{item.name} must be {'a list of ' * is_list}{names}")
            pattern = PATTERNS.get(item.name, r"\d+")
            if isinstance(value, str | int) and not re.fullmatch(pattern, str(value)):
                raise ValueError(f"{item.name} must match {pattern}")


@dataclass(frozen=True, slots=True)
class Token(Entry):
    """Proof that a client has a token. Times are in seconds since 1970."""

    id: str
    sha256: str
    created: int
    expires: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Password(Entry):
    """Proof that a client knows a password. Times are in seconds since 1970."""

    salt: str
    scrypt: str
    created: int
    expires: int | None


# What is checked for users without a password, and for unknown ones: that takes as long.
NO_PASSWORD = Password("0" * 32, "0" * 64, 0, 0)


@dataclass(frozen=True, slots=True)
class Record(Entry):
    """A user."""

    name: str
    tokens: tuple[Token, ...] = ()
    password: Password | None = None


@dataclass(frozen=True)
class Users(Entry):
    """The whole file."""

    version: int = 1
    users: tuple[Record, ...] = ()

    @classmethod
    def parse(cls, data: bytes) -> "Users":
        """Returns what a file holds.

        Raises:
            Unusable: LINE:COLUMN (for most mistakes, of the object that has it), and what must be
                there.
        """
        text = decoded(data)
        ended = count()  # objects, so that a mistake can be found in the text

        def made(pairs: list[tuple[str, Any]]) -> Any:
            next(ended)
            return _made(pairs)

        try:
            found = json.loads(text, object_pairs_hook=made)
        except json.JSONDecodeError as error:
            raise wrong(text, error.pos, error.msg) from None
        except (RecursionError, ValueError) as error:
            raise wrong(text, _beginning(text, next(ended)), str(error)) from None
        if not isinstance(found, cls) or found.version != 1 or found.has_doubles:
            problem = 'there must be {"version": 1, "users": [...]}, and each user only once'
            raise wrong(text, 0, problem)
        return found

    @property
    def has_doubles(self) -> bool:
        """Whether two users have the same name."""
        return len(self.by_name) < len(self.users)

    @cached_property
    def by_name(self) -> Mapping[str, Record]:
        """The users by their names."""
        return {user.name: user for user in self.users}

    @cached_property
    def by_token(self) -> Mapping[str, tuple[Record, Token]]:
        """The tokens by their hashes, each with its user."""
        return {token.sha256: (user, token) for user in self.users for token in user.tokens}


# The first one is named if an object is empty.
KINDS: tuple[type[Any], ...] = (Users, Record, Token, Password)


def hash_of(token: str) -> str:
    """Returns what is kept of a token."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def scrypt_of(password: str, salt: str) -> str:
    """Returns what is kept of a password. This is slow on purpose."""
    return hashlib.scrypt(
        normalized(password)[:LONGEST_PASSWORD], salt=bytes.fromhex(salt), **SCRYPT
    ).hex()


def normalized(password: str) -> bytes:
    """Returns a password as bytes, the same ones however a keyboard composes its letters."""
    return normalize("NFKC", password).encode(errors="replace")


def knows(text: str, password: Password | None) -> bool:
    """Returns whether this is the password.

    This is slow on purpose, and takes as long if there is none.
    """
    stored = password or NO_PASSWORD
    is_same = hmac.compare_digest(scrypt_of(text, stored.salt), stored.scrypt)
    return is_same and password is not None and len(normalized(text)) <= LONGEST_PASSWORD


def _made(pairs: list[tuple[str, Any]]) -> Any:
    """Returns a JSON object as an instance of the class that has most of its keys."""
    given: dict[str, Any] = {}
    for name, value in pairs:
        given[name] = value
        if isinstance(value, list):
            given[name] = tuple(value)
    kind = max(KINDS, key=lambda kind: len(given.keys() & kind.__match_args__))
    names = set(kind.__match_args__)
    if len(given) < len(pairs) or given.keys() ^ names:
        raise ValueError(f"the keys must be {', '.join(kind.__match_args__)}, each of them once")
    return kind(**given)


def _beginning(text: str, number: int) -> int:
    """Returns where the object begins that is the `number`th to end.

    It is counted from 1. If there are fewer objects, that is 0.
    """
    begun: list[int] = []
    for found in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}]', text):
        if found[0] == "{":
            begun.append(found.start())
        elif found[0] == "}":
            at = begun.pop()
            number -= 1
            if number == 0:
                return at
    return 0
