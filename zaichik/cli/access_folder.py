"""A folder of access, as commands write it. A broker only reads it.

Every writer of a file holds the folder's lock from reading to writing, so that of two changes at
once both are there in the end. The file is replaced as a whole: a reader sees the old one or the
new one, and so does a reader after a power failure.
"""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from zaichik.base.private_files import Unusable, check_folder_permissions, parsed
from zaichik.cli.failure import Failure, restated
from zaichik.server.access.access_gate import USERS
from zaichik.server.access.users import (
    LONGEST_PASSWORD,
    Password,
    Record,
    Token,
    Users,
    hash_of,
    normalized,
    scrypt_of,
)

MOST_TOKENS = 4  # of a user: enough to hand out a new one before the old one ends
SHORTEST_PASSWORD = 12  # letters


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Returns a descriptor of the folder, which nobody else has locked until the block ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)  # which unlocks it


def write(folder: int, name: str, data: bytes) -> None:
    """Make a file of a locked folder hold this data, readable by its owner alone.

    Whatever happens meanwhile, the file is the old one or the new one, never a part of either.

    Raises:
        Failure: it is a link. The file that it leads to, which others may use, has another folder's
            lock; and without the link, they would no longer see what changes here.
    """
    with suppress(OSError):  # it is not there, or no link
        target = os.readlink(name, dir_fd=folder)
        raise Failure(
            f"{name} is a link to {target}, and was not changed: use the folder that has the file, "
            "or put the file in place of the link"
        )
    fresh = (
        f".{name}.new"  # one name, not a random one: a file left by a killed process is overwritten
    )
    with suppress(FileNotFoundError):
        os.unlink(fresh, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    os.fsync(folder)


class Editing:
    """The users of a folder while they are changed.

    Attributes:
        users: those in the file; what is assigned to it will be there.
    """

    def __init__(self, users: Users) -> None:
        self.users = users

    def put(self, record: Record) -> None:
        """Add a user, or replace the one of that name."""
        self.users = replace(
            self.users, users=tuple({**self.users.by_name, record.name: record}.values())
        )

    def remove(self, name: str) -> None:
        """Remove a user.

        Raises:
            Failure: there is none of that name.
        """
        self.record(name)
        self.users = replace(
            self.users, users=tuple(user for user in self.users.users if user.name != name)
        )

    def record(self, name: str) -> Record:
        """Returns a user.

        Raises:
            Failure: there is none of that name.
        """
        if name not in self.users.by_name:
            raise Failure(f"there is no user {name!r}; see: zaichik user list")
        return self.users.by_name[name]


@contextmanager
def edited(folder: Path) -> Iterator[Editing]:
    """Returns the users of a folder, to be changed.

    They are written when the block ends without an exception.

    Raises:
        Failure: the file cannot be used.
    """
    with locked(folder) as descriptor:
        editing = Editing(users_in(folder))
        before = editing.users
        yield editing
        if editing.users != before:
            write(descriptor, USERS, dump(editing.users))


def users_in(folder: Path) -> Users:
    """Returns the users of a folder.

    Raises:
        Failure: the file cannot be used.
    """
    with restated(Unusable):
        check_folder_permissions(folder)
        return parsed(folder / USERS, Users.parse, is_secret=True)


def dump(users: Users) -> bytes:
    """Returns what the file of these users holds."""
    return (json.dumps(users, default=_written, indent=1, ensure_ascii=False) + "\n").encode()


def _written(entry: Any) -> dict[str, Any]:
    return {item.name: getattr(entry, item.name) for item in fields(entry)}


def named(name: str) -> Record:
    """Returns a user with nothing to log in with.

    Raises:
        Failure: that is no name.
    """
    try:
        return Record(name)
    except ValueError:
        raise Failure(
            "a user's name has 1 to 64 letters from a-z, 0-9, dot, _ and -, and begins with one of "
            "a-z and 0-9"
        ) from None


def new_token(expires: int | None = None, note: str = "") -> tuple[Token, str]:
    """Returns a token as the file has it, and as its user must have it.

    It begins so that programs find leaked ones.

    Raises:
        Failure: the note is not one short line.
    """
    text = f"zk_{secrets.token_urlsafe(32)}"
    try:
        return Token(secrets.token_hex(4), hash_of(text), int(time.time()), expires, note), text
    except ValueError:
        raise Failure("a note is one line of at most 100 letters") from None


def with_token(record: Record, token: Token) -> Record:
    """Returns the user with one more token, and without those that have expired.

    Raises:
        Failure: there are too many.
    """
    valid = tuple(
        old for old in record.tokens if old.expires is None or old.expires > token.created
    )
    if len(valid) >= MOST_TOKENS:
        raise Failure(
            f"{record.name} has {len(valid)} tokens; remove one: zaichik user token remove "
            f"{record.name} ID"
        )
    return replace(record, tokens=(*valid, token))


def new_password(text: str, expires: int | None = None) -> Password:
    """Returns a password as the file has it. That takes a moment.

    Raises:
        Failure: it is too short or too long.
    """
    if len(text) < SHORTEST_PASSWORD or len(normalized(text)) > LONGEST_PASSWORD:
        raise Failure(
            f"a password has at least {SHORTEST_PASSWORD} letters and at most {LONGEST_PASSWORD} "
            "bytes"
        )
    salt = secrets.token_hex(16)
    return Password(salt, scrypt_of(text, salt), int(time.time()), expires)
