"""`zaichik login`: keeps a broker's address and token, which all later commands use.

Keep the address of a broker, with the token to log in there, for all later commands. The two come
in one line, which you get from the person who runs the broker:
zaichiks://zk_...@HOST:PORT?pin=sha256:... Paste it at the prompt, which shows nothing, or have it
read from a file or from standard input. It is never an argument, because everybody on the machine
can see those. The line is kept in a file that only you can read. Only one login is kept: a new one
replaces it.

Examples:
  zaichik login                              # and paste the line
  zaichik login --from-file line.txt
  zaichik login --remove                     # forget it
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from zaichik.cli import hidden, logins, screen
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure, restated
from zaichik.client.client import connect
from zaichik.client.endpoint import Credentials, Endpoint, NotAnAddress, endpoint
from zaichik.client.errors import ConnectFailed
from zaichik.client.logins import VARIABLE, place

ARGUMENTS = (
    argument("[LINE]", argparse.SUPPRESS),
    argument("--from-file FILE", "read the line from a file", Path),
    argument("--remove", "forget the login"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Keep the login, or forget it."""
    if arguments.line is not None:
        problem = (
            "everybody on this machine can see arguments: type only `zaichik login`, and "
            "paste the line at its prompt"
        )
        raise WrongUsage(problem)
    if arguments.remove:
        path = _place()
        was_there = path.exists()
        path.unlink(missing_ok=True)
        console.print("the login is forgotten" if was_there else "there was no login")
        return
    _place()
    with restated(NotAnAddress):
        found = endpoint(hidden.secret(arguments.from_file, "line: ").strip())
    if found.credentials is None:
        raise Failure(
            f"there is no token or user in {found}; write zaichiks://zk_...@HOST:PORT or "
            "zaichiks://USER@HOST:PORT"
        )
    if not found.secret:
        if not sys.stdin.isatty():
            raise Failure("there is no password in the line; write USER:PASSWORD before the @")
        found = replace(found, credentials=Credentials(found.user, hidden.asked("password: ")))
    outcome = await _tried(found)
    path = logins.keep(found)
    screen.say(console, f"{outcome}; the login is kept in {path}, which only you can read")
    if not found.is_encrypted:
        screen.remark(
            "warning: zaichik:// is not encrypted, so this login works only with a broker on this "
            "machine"
        )


def _place() -> Path:
    """Returns the path of the file that keeps the login.

    Raises:
        Failure: there can be none.
    """
    problem = (
        f"this user has no home directory to keep a login in: set XDG_CONFIG_HOME to a folder, or "
        f"{VARIABLE} to the line"
    )
    with restated(RuntimeError, by=lambda _: Failure(problem)):
        return place()


async def _tried(found: Endpoint) -> str:
    """Returns what has become of logging in, in words.

    That nobody answers now is no reason not to keep a login.

    Raises:
        AuthFailed: the broker does not accept it.
        ConnectFailed: it is another broker, or the secret would be readable on the way.
    """
    try:
        async with connect(found, name="zaichik login", reconnect=0) as client:
            user = (await client.describe()).get("user")
    except ConnectFailed as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return f"{found} does not answer now, so this login was not tried"
    return f"logged in to {found} as {user}" if user else f"{found} asks nobody to log in"
