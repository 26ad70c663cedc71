"""`zaichik user`: who may log in to a broker with access control.

Change who may log in to a broker that is started with --access DIR. The broker notices within a
second: new users can log in, and the connections of removed users are closed. Run this as the user
that the broker runs as.

A new user gets a token, which is shown once: only its hash is stored. To log in, the user pastes it
into `zaichik login` as part of a line: zaichiks://TOKEN@HOST:PORT?pin=sha256:... A user may have
four tokens, so you can hand out a new one before you remove the old one. With --password, the user
gets a password instead, which is asked for, or read from a file or from standard input. It is never
an argument, because everybody on the machine can see those.

A new user may do nothing until the file DIR/rules allows it; see: zaichik access check DIR.

Examples:
  export ZAICHIK_ACCESS=./access                # or --access ./access each time
  zaichik user add ana                          # prints the token
  zaichik user add guest --expires 90d --note "for the course in May"
  zaichik user add boris --password             # asks for it twice
  zaichik user list
  zaichik user token add ana                    # a second token
  zaichik user token remove ana ID              # and the first one goes
  zaichik user remove ana
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from zaichik.base.escapes import shown
from zaichik.cli import quantities, screen, token_line
from zaichik.cli.access_folder import edited, named, new_password, new_token, users_in, with_token
from zaichik.cli.arguments import Namespace, WrongUsage, argument
from zaichik.cli.failure import Failure
from zaichik.cli.hidden import asked, secret
from zaichik.server.access.users import Record

VARIABLE = "ZAICHIK_ACCESS"
LATEST = 2**37  # seconds since 1970: some year that every system can write
ACTIONS = ("add", "list", "remove", "token add", "token remove")

ARGUMENTS = (
    argument("WORDS...", f"{', '.join(ACTIONS)}; then a user's name", metavar="ACTION NAME"),
    argument("--access DIR", f"the folder (default: the environment variable {VARIABLE})", Path),
    argument("--password", "add: a password instead of a token"),
    argument("--password-file FILE", "add: read the password from a file", Path),
    argument(
        "--expires DUR",
        "add, token add: how long the token or password is valid",
        quantities.duration,
        default="forever",
    ),
    argument("--note TEXT", "add, token add: what the token is for", default=""),
    argument("--json", "list: print one JSON list"),
)


async def run(arguments: Namespace, console: Console) -> None:
    """Do what the words say."""
    arguments.access = arguments.access or (
        Path(folder) if (folder := os.environ.get(VARIABLE)) else None
    )
    if arguments.access is None:
        raise WrongUsage(f"which folder? Write --access DIR, or set {VARIABLE}")
    match arguments.words:
        case ["add", name]:
            _add(arguments, name, console)
        case ["list"]:
            _list(arguments, console)
        case ["remove", name]:
            with edited(arguments.access) as editing:
                editing.remove(name)
            screen.say(console, f"{name}: removed")
        case ["token", "add", name]:
            _add_token(arguments, name, console)
        case ["token", "remove", name, token]:
            _remove_token(arguments.access, name, token)
            screen.say(console, f"{name}: token {token} removed")
        case _:
            raise WrongUsage(
                "write add NAME, list, remove NAME, token add NAME or token remove NAME ID"
            )


def _add(arguments: Namespace, name: str, console: Console) -> None:
    record = named(name)
    expires = _expiry(arguments)
    text = ""
    if arguments.password or arguments.password_file:
        record = Record(name, password=new_password(_password(arguments.password_file), expires))
    else:
        token, text = new_token(expires, arguments.note)
        record = with_token(record, token)
    with edited(arguments.access) as editing:
        if name in editing.users.by_name:
            raise Failure(
                f"there is a user {name} already; for another token, type: zaichik user token add "
                f"{name}"
            )
        editing.put(record)
    if text:
        token_line.show(text, name, arguments.access, console)
    else:
        console.print(f"{name}: added")


def _add_token(arguments: Namespace, name: str, console: Console) -> None:
    token, text = new_token(_expiry(arguments), arguments.note)
    with edited(arguments.access) as editing:
        editing.put(with_token(editing.record(name), token))
    token_line.show(text, name, arguments.access, console)


def _remove_token(folder: Path, name: str, token: str) -> None:
    with edited(folder) as editing:
        record = editing.record(name)
        kept = tuple(known for known in record.tokens if known.id != token)
        if len(kept) == len(record.tokens):
            raise Failure(f"{name} has no token {shown(token)}; see: zaichik user list")
        editing.put(Record(name, kept, record.password))


def _expiry(arguments: Namespace) -> int | None:
    return None if arguments.expires == "forever" else int(time.time() + arguments.expires)


def _password(file: Path | None) -> str:
    """Returns a password from a file or standard input; on a terminal it is typed twice."""
    password = secret(file, "password: ")
    if file is None and sys.stdin.isatty() and asked("once more: ") != password:
        raise Failure("the two passwords differ; nothing was changed, so try again")
    return password


def _list(arguments: Namespace, console: Console) -> None:
    """Print users and what they log in with: never a hash."""
    users = users_in(arguments.access).users
    if arguments.json:
        screen.print_json([{"name": user.name, "logins": _logins(user)} for user in users])
        return
    nothing = {"with": "nothing", "id": "", "created": None, "expires": None, "note": ""}
    lines = []
    for user in users:
        for login in _logins(user) or [nothing]:
            created, expires = _day(login["created"]), _day(login["expires"])
            note = shown(login["note"])
            lines.append((user.name, login["with"], login["id"], created, expires, note))
    screen.print_columns(console, ("user", "with", "id", "created", "expires", "note"), lines)


def _logins(user: Record) -> list[dict[str, Any]]:
    """Returns what a user logs in with. Times are in seconds since 1970; no end is None."""
    tokens = [
        {
            "with": "token",
            "id": it.id,
            "created": it.created,
            "expires": it.expires,
            "note": it.note,
        }
        for it in user.tokens
    ]
    known = user.password
    password = {
        "with": "password",
        "id": "",
        "created": known and known.created,
        "expires": known and known.expires,
    }
    return [*tokens, password | {"note": ""}] if known else tokens


def _day(seconds: int | None) -> str:
    return "-" if seconds is None else time.strftime("%Y-%m-%d", time.gmtime(min(seconds, LATEST)))
