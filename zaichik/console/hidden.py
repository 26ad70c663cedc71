"""Secrets typed or pasted into a command: from a file, from standard input, or at a prompt that shows nothing.

They are never arguments: everybody on the machine can see those, and the shell remembers them.
"""

import getpass
import signal
import sys
from pathlib import Path

from zaichik.client.logins import secret_in
from zaichik.console import streams
from zaichik.console.failure import Failure


def secret(file: Path | None, prompt: str) -> str:
    """Returns a line, without its end: of the file, or else of standard input; on a terminal it asks for it.

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
        text = sys.stdin.readline()
    if not text.strip():
        raise Failure(f"nothing was given as the {prompt.rstrip(': ')}")
    return text.removesuffix("\n").removesuffix("\r")


def asked(prompt: str) -> str:
    """Returns what is typed at a prompt.

    Raises:
        Failure: the input has ended.
    """
    # An event loop's own handler would only note the interrupt, while this waits.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return getpass.getpass(prompt)
    except EOFError:
        raise Failure("nothing was typed") from None
    finally:
        signal.signal(signal.SIGINT, before)
