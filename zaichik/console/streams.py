"""The three standard streams, also where whoever started us has closed some of them.

A closed descriptor is dangerous: the next file or socket that is opened gets its number, and is printed into. So
/dev/null takes the free places, opened so that to read from it, or to write to it, fails as it does on a closed one.
"""

import fcntl
import os
import sys

STDIN, STDOUT, STDERR = 0, 1, 2


class Closed(Exception):
    """A standard stream that is needed is closed; the text is the sentence to show."""


def occupy() -> None:
    """Let no standard stream be missing.

    Raises:
        Closed: standard output is, so nothing could be shown.
    """
    missing = [descriptor for descriptor in (STDIN, STDOUT, STDERR) if not _is_open(descriptor)]
    for descriptor in missing:  # the lowest free number is taken, so each gets its own
        os.open(os.devnull, os.O_WRONLY if descriptor == STDIN else os.O_RDWR)
    if STDIN in missing:
        sys.stdin = open(STDIN, closefd=False)  # noqa: SIM115 (there is no path, and it stays open)
    if STDERR in missing:
        sys.stderr = open(STDERR, "w", closefd=False)  # noqa: SIM115
    if STDOUT in missing:
        raise Closed("standard output is closed; to throw it away: >/dev/null")


def check_readable() -> None:
    """Returns if standard input can be read.

    Raises:
        Closed: it is closed, or was opened for writing.
    """
    if fcntl.fcntl(STDIN, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        raise Closed(
            "standard input is closed, or only to be written to; name a file, or for nothing at all: </dev/null"
        )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
