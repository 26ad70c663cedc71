"""Files that decide who gets in: opened, checked, read.

The checked file is the file that is read: it is opened first, and then owner and permissions are
taken from its descriptor. Taking them from the path would leave a moment in which another file
could be put there. A symbolic link is followed, because certificates are often installed as links,
and its target is checked.
"""

# Not compiled: it runs when files are loaded, so there is nothing to gain.

import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

MOST_BYTES = 1024 * 1024  # about 3,000 users, or 10,000 rules: a larger file is not ours

# Permissions that a file must not have: of a secret; of any other file; and of a secret that is
# root's, who may let a group read it (PostgreSQL's rule).
OTHERS = 0o077
OTHERS_WRITE = 0o022
OTHERS_OF_ROOTS = 0o037

Parsed = TypeVar("Parsed")


class Unusable(Exception):
    """A file cannot be used. The text names it, and says why, and what to type."""


def wrong(text: str, at: int, problem: str) -> Unusable:
    """Returns the exception for a mistake at an index of a text.

    It says LINE:COLUMN, both counted from 1, and the problem.
    """
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return Unusable(f"{line}:{column}: {problem}")


def decoded(data: bytes) -> str:
    """Returns a file's text.

    Raises:
        Unusable: it is not UTF-8.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise wrong(before, len(before), "this is not UTF-8") from None


def parsed(path: Path, parse: Callable[[bytes], Parsed], *, is_secret: bool) -> Parsed:
    """Returns what `parse` makes of a file.

    Raises:
        Unusable, OSError: see `read`; FILE:LINE:COLUMN, if `parse` does not understand it.
    """
    data = read(path, is_secret=is_secret)
    try:
        return parse(data)
    except Unusable as error:
        raise Unusable(f"{path}:{error}") from None


def read(path: Path, *, is_secret: bool) -> bytes:
    """Returns what a file holds, at most `MOST_BYTES`.

    Args:
        path: the file.
        is_secret: whether others must not be able to read it; they must never be able to write it.

    Raises:
        Unusable: it is not a regular file, or its permissions are too wide.
        OSError: it cannot be opened or read.
    """
    # Without O_NONBLOCK, opening a FIFO would wait for somebody to write there.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        before = os.fstat(descriptor)
        check_permissions(path, before, is_secret=is_secret)
        data = os.read(descriptor, MOST_BYTES + 1)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise Unusable(
            f"{path} is longer than 1 MiB, the limit for such a file; is it the right file?"
        )
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, len(data)):
        raise Unusable(f"{path} was written to while it was read; try again")
    return data


def check_folder_permissions(folder: Path) -> None:
    """Check that nobody else can put files into a folder.

    Raises:
        Unusable: others may change what is in it.
    """
    check_permissions(folder, folder.stat(), is_secret=False, is_folder=True)


def check_permissions(
    path: Path, found: os.stat_result, *, is_secret: bool, is_folder: bool = False
) -> None:
    """Check the type, owner and permissions of a file or folder.

    Raises:
        Unusable: it is of another type, belongs to another user, or its permissions are too wide.
    """
    name = shlex.quote(str(path))
    if is_folder and not stat.S_ISDIR(found.st_mode):
        raise Unusable(f"{path} is not a folder")
    if not is_folder and not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is not a regular file")
    if found.st_uid not in {0, os.geteuid()}:
        raise Unusable(f"{path} belongs to another user; type: chown {os.geteuid()} {name}")
    forbidden = OTHERS_WRITE
    if is_secret:
        forbidden = OTHERS
        if found.st_uid == 0:
            forbidden = OTHERS_OF_ROOTS
    mode = stat.S_IMODE(found.st_mode)
    if mode & forbidden:
        verb = "change"
        fix = f"chmod go-w {name}"
        if is_secret:
            verb = "read"
            fix = f"chmod go= {name}"
        raise Unusable(f"others may {verb} {path} (mode {mode:04o}); type: {fix}")
