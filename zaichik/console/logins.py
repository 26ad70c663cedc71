"""Which broker a command talks to, and as whom. The address and the secret come from the same place.

    --connect ADDRESS            an argument, which everybody on the machine can see: a secret in it is refused
    ZAICHIK_CONNECT              may be a whole line with a token
    ~/.config/zaichik/login.json what `zaichik login` has kept
    127.0.0.1:8889

A token that is kept goes to the host and port that it was given for, and only over TLS with its pin if that was in the
line: never to an address from an argument, however similar. An address without a secret, from an argument or the
environment, is completed by ZAICHIK_TOKEN, ZAICHIK_TOKEN_FILE, or with a user's name ZAICHIK_PASSWORD_FILE.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from zaichik.access.files import Unusable, read
from zaichik.client.endpoint import TOKEN, Credentials, Endpoint, NotAnAddress, endpoint
from zaichik.console.access_folder import locked, write
from zaichik.console.failure import Failure
from zaichik.console.hidden import from_file
from zaichik_protocol import DEFAULT_PORT

VARIABLE, DEFAULT = "ZAICHIK_CONNECT", f"127.0.0.1:{DEFAULT_PORT}"
NAME, KEY = "login.json", "connect"
TOKEN_VARIABLE, TOKEN_FILE, PASSWORD_FILE = "ZAICHIK_TOKEN", "ZAICHIK_TOKEN_FILE", "ZAICHIK_PASSWORD_FILE"


def chosen(argument: str | None, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Returns the address to connect to, with credentials if there are any.

    Raises:
        NotAnAddress: what was given is none, or is an argument with a secret in it.
        Failure: a file cannot be used.
    """
    if argument is not None:
        found = endpoint(argument)
        if found.credentials and found.credentials.secret:
            raise NotAnAddress(
                "everybody on this machine can see arguments, so an address with a secret is none; type `zaichik login`"
                f" and paste it, or set {VARIABLE}"
            )
    elif given := environment.get(VARIABLE):
        found = endpoint(given)
    else:
        return kept(environment) or endpoint(DEFAULT)
    return found if found.credentials and found.credentials.secret else _completed(found, environment)


def _completed(found: Endpoint, environment: Mapping[str, str]) -> Endpoint:
    user = found.credentials.user if found.credentials else ""
    if user:
        secret = from_file(Path(path)) if (path := environment.get(PASSWORD_FILE)) else ""
    elif path := environment.get(TOKEN_FILE):
        secret = from_file(Path(path)).strip()
    else:
        secret = environment.get(TOKEN_VARIABLE, "")
    if secret and not user and not TOKEN.fullmatch(secret):
        raise NotAnAddress(f"{TOKEN_FILE if path else TOKEN_VARIABLE} holds no token; that is zk_ and 43 letters more")
    return replace(found, credentials=Credentials(user, secret)) if user or secret else found


def place(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns where the login is kept."""
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "zaichik" / NAME


def kept(environment: Mapping[str, str] = os.environ) -> Endpoint | None:
    """Returns the address that is kept; None if there is none.

    Raises:
        Failure: the file cannot be used.
    """
    path = place(environment)
    try:
        found = json.loads(read(path, is_secret=True))
        return endpoint(str(found[KEY]))
    except FileNotFoundError:
        return None
    except Unusable as error:
        raise Failure(str(error)) from None
    except (ValueError, TypeError, KeyError, RecursionError):  # without what it says, which may be a part of a token
        raise Failure(f"{path} is damaged; type: zaichik login") from None


def keep(found: Endpoint, environment: Mapping[str, str] = os.environ) -> Path:
    """Keep an address with its secret, instead of the one before. Returns where."""
    path = place(environment)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path.parent) as folder:
        write(folder, NAME, json.dumps({"version": 1, KEY: found.line}).encode() + b"\n")
    return path
