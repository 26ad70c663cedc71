"""Secrets typed or pasted into a command: from a file, standard input, or a silent prompt.

They are never arguments: everybody on the machine can see those, and the shell remembers them.
"""

import getpass
import sys
from pathlib import Path

from zaichik.cli import interrupts, streams
from zaichik.cli.failure import Failure
from zaichik.client.logins import secret_in


def secret(file: Path | None, prompt: str) -> str:
    """Returns a line without its end, of the file or standard input; a terminal is asked for it.

    Raises:
        UnusableLogin: the file cannot be used.
        Failure: there is nothing.
    """
    if file is not None:
        text = secret_in(file)
    elif sys.stdin.isatty():
        text = asked(prompt)
    else:
        streams.check_readable()
        with interrupts.at_once():
            text = sys.stdin.readline()
    if not text.strip():
        raise Failure(f"nothing was given as the {prompt.rstrip(': ')}")
    return text.removesuffix("\n").removesuffix("\r")


def asked(prompt: str) -> str:
    """Returns what is typed at a prompt.

    Raises:
        Failure: the input has ended.
    """
    try:
        with interrupts.at_once():
            return getpass.getpass(prompt)
    except EOFError:
        raise Failure("nothing was typed") from None
