"""The three standard streams, some of which may have been closed by the program that started us.

A closed one is dangerous: the next file or socket to be opened gets its number, and with it our output. So /dev/null
takes the free numbers; as standard input it is opened for writing, so that reading it still fails.
"""

import fcntl
import os
import sys

STDIN, STDOUT, STDERR = 0, 1, 2


class Closed(Exception):
    """A standard stream that is needed is closed; the text is the sentence to show."""


def occupy(*, needs_output: bool = True) -> None:
    """Replace missing standard streams.

    Raises:
        Closed: standard output is missing and needed, so no result could be shown.
    """
    missing = [descriptor for descriptor in (STDIN, STDOUT, STDERR) if not _is_open(descriptor)]
    for descriptor in missing:  # the lowest free number is used, so each gets its own
        os.open(os.devnull, os.O_WRONLY if descriptor == STDIN else os.O_RDWR)
    if STDIN in missing:
        sys.stdin = open(STDIN, closefd=False)  # noqa: SIM115 (there is no path, and it stays open)
    if STDERR in missing:
        sys.stderr = open(STDERR, "w", closefd=False)  # noqa: SIM115
    if STDOUT in missing:
        if not needs_output:
            sys.stdout = open(STDOUT, "w", closefd=False)  # noqa: SIM115
            return
        raise Closed("standard output is closed; to discard it: >/dev/null")


def check_readable() -> None:
    """Check that standard input can be read.

    Raises:
        Closed: it is closed, or open for writing only.
    """
    if fcntl.fcntl(STDIN, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        raise Closed("standard input is closed, or open for writing only; name a file, or give it nothing: </dev/null")


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
