"""Files that decide who gets in: opened, judged, read.

The file that is judged is the file that is read: it is opened first, and then owner and permissions are taken from its
descriptor. Taking them from the path would leave a moment in which another file could be put there. A symbolic link is
followed, because certificates are often installed as links, and its target is judged.
"""

import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

MOST_BYTES = 1024 * 1024  # about 3,000 users, or 10,000 rules: a larger file is not ours
OTHERS, OTHERS_WRITE, OTHERS_OF_ROOTS = 0o077, 0o022, 0o037  # the last: root may let a group read (PostgreSQL's rule)


Parsed = TypeVar("Parsed")


class Unusable(Exception):
    """A file cannot be used. The text names it, and says why, and what to type."""


def wrong(text: str, at: int, problem: str) -> Unusable:
    """Returns the exception for a mistake at an index of a text: LINE:COLUMN, both counted from 1, and the problem."""
    return Unusable(f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}: {problem}")


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
        judge(path, before := os.fstat(descriptor), is_secret=is_secret)
        data = os.read(descriptor, MOST_BYTES + 1)
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise Unusable(f"{path} is longer than 1 MiB, the limit for such a file; is it the right file?")
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, len(data)):
        raise Unusable(f"{path} was written to while it was read; try again")
    return data


def judge_folder(folder: Path) -> None:
    """Check that nobody else can put files into a folder.

    Raises:
        Unusable: others may change what is in it.
    """
    judge(folder, folder.stat(), is_secret=False, is_folder=True)


def judge(path: Path, found: os.stat_result, *, is_secret: bool, is_folder: bool = False) -> None:
    """Check the type, owner and permissions of a file or folder.

    Raises:
        Unusable: it is of another type, belongs to another user, or its permissions are too wide.
    """
    name, mode = shlex.quote(str(path)), stat.S_IMODE(found.st_mode)
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(found.st_mode):
        raise Unusable(f"{path} is not a {'folder' if is_folder else 'regular file'}")
    if found.st_uid not in {0, os.geteuid()}:
        raise Unusable(f"{path} belongs to another user; type: chown {os.geteuid()} {name}")
    forbidden = OTHERS_WRITE if not is_secret else OTHERS if found.st_uid else OTHERS_OF_ROOTS
    if mode & forbidden:
        fix = f"chmod {'go=' if is_secret else 'go-w'} {name}"
        raise Unusable(f"others may {'read' if is_secret else 'change'} {path} (mode {mode:04o}); type: {fix}")
