"""Which broker a program talks to, and as which user.

The address and the secret come from the same place.

    an argument or an option     which others can see: a secret in it is refused
    ZAICHIK_CONNECT              may be a whole line with a token
    ~/.config/zaichik/login.json what `zaichik login` has kept
    127.0.0.1:8889

The first of these that is there decides.

A login that was kept, or one in the line of ZAICHIK_CONNECT, is sent only to the address that it
was given for, and, if the line has a pin, only to a broker with that pin: never to an address from
an argument, however similar. An address without a secret, from an argument or the environment, is
completed by ZAICHIK_TOKEN, ZAICHIK_TOKEN_FILE, or, if it names a user, by ZAICHIK_PASSWORD_FILE.
"""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from zaichik.base.private_files import Unusable, read
from zaichik.client.endpoint import TOKEN, Credentials, Endpoint, NotAnAddress, endpoint
from zaichik.client.errors import ZaichikError
from zaichik_protocol import DEFAULT_PORT

logger = logging.getLogger(__name__)

VARIABLE = "ZAICHIK_CONNECT"
DEFAULT = f"127.0.0.1:{DEFAULT_PORT}"
NAME = "login.json"
KEY = "connect"
TOKEN_VARIABLE = "ZAICHIK_TOKEN"  # noqa: S105 (a variable is named)
TOKEN_FILE = "ZAICHIK_TOKEN_FILE"  # noqa: S105 (a variable is named)
PASSWORD_FILE = "ZAICHIK_PASSWORD_FILE"  # noqa: S105 (a variable is named)


class UnusableLogin(ZaichikError):
    """A file with a secret cannot be used.

    The text says which and why, and repeats none of its contents.
    """


def chosen(given: str | None, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Returns the address to connect to, with credentials if there are any.

    Args:
        given: an address that others can see; None if there is none.
        environment: the variables.

    Raises:
        NotAnAddress: what was given is not an address, or has a secret in it.
        UnusableLogin: a file cannot be used.
    """
    if given is not None:
        found = endpoint(given)
        if found.secret:
            raise NotAnAddress(
                "everybody on this machine can see arguments, so they must not hold a secret; type "
                "`zaichik login` and "
                f"paste the address there, or set {VARIABLE}"
            )
    else:
        found = default_endpoint(environment)
        if not environment.get(VARIABLE):
            return found
    if found.secret:
        return found
    return completed(found, environment)


def default_endpoint(environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Returns the address to use if none was given, with the credentials that belong to it.

    Raises:
        NotAnAddress: the environment's is not an address.
        UnusableLogin: the login that is kept cannot be used.
    """
    if line := environment.get(VARIABLE):
        # A file or a secret that it comes from has a line end.
        return endpoint(line.strip())
    return kept(environment) or endpoint(DEFAULT)


def completed(found: Endpoint, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Returns an address with the secret of ZAICHIK_TOKEN or its like; unchanged if there is none.

    Raises:
        NotAnAddress: what was found cannot be a token.
        UnusableLogin: a file cannot be used.
    """
    if found.user:
        path = environment.get(PASSWORD_FILE)
        if not path:
            return found
        return with_password(found, found.user, Path(path))
    if path := environment.get(TOKEN_FILE):
        return with_token(found, secret_in(Path(path)), TOKEN_FILE)
    token = environment.get(TOKEN_VARIABLE)
    if not token:
        return found
    return with_token(found, token, TOKEN_VARIABLE)


def known_for(address: Endpoint, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """Returns an address that came from elsewhere, with this machine's secret for it.

    It is unchanged if there is none.

    The secret comes from ZAICHIK_CONNECT, if that is for exactly this address (and user, if one is
    named); or else from ZAICHIK_TOKEN or its like; or else from the login that is kept, if it is
    for exactly this address.

    Raises:
        NotAnAddress, UnusableLogin: see `completed`.
    """
    # Nobody has asked for what the variable holds.
    with suppress(NotAnAddress):
        line = endpoint(environment.get(VARIABLE, ""))
        if _is_for(line, address):
            return line
    found = completed(address, environment)
    if found.secret:
        return found
    try:
        login = kept(environment)
    except UnusableLogin as error:
        # Nobody has asked for this one either, and many brokers need no login.
        logger.warning("without the login that is kept: %s", error)
        return address
    if login is not None and _is_for(login, address):
        return login
    return address


def _is_for(known: Endpoint, address: Endpoint) -> bool:
    """Returns whether there is a secret that may be sent to that address."""
    is_same = replace(known, credentials=None) == replace(address, credentials=None)
    return is_same and address.user in {"", known.user} and bool(known.secret)


def with_token(found: Endpoint, token: str, place: str) -> Endpoint:
    """Returns an address with a token.

    Raises:
        NotAnAddress: what was found there cannot be a token.
    """
    if not TOKEN.fullmatch(token.strip()):
        raise NotAnAddress(
            f"{place} holds no token, which is zk_ and 43 letters more; copy all of it"
        )
    return replace(found, credentials=Credentials(secret=token.strip()))


def with_password(found: Endpoint, user: str, file: Path) -> Endpoint:
    """Returns an address with a user's password.

    Raises:
        UnusableLogin: the file cannot be used.
    """
    return replace(found, credentials=Credentials(user, secret_in(file)))


def secret_in(file: Path) -> str:
    """Returns the first line of a file that nobody else may read.

    Raises:
        UnusableLogin: others may read it, or it cannot be used.
    """
    try:
        return read(file, is_secret=True).decode().partition("\n")[0].removesuffix("\r")
    except Unusable as error:
        raise UnusableLogin(str(error)) from None
    except UnicodeDecodeError:
        raise UnusableLogin(f"{file} is not UTF-8; write it again as plain text") from None
    except OSError as error:
        raise UnusableLogin(f"{file} cannot be read: {error.strerror}") from None


def place(environment: Mapping[str, str] = os.environ) -> Path:
    """Returns the path of the file that keeps the login.

    Raises:
        RuntimeError: the user has no home directory.
    """
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "zaichik" / NAME


def kept(environment: Mapping[str, str] = os.environ) -> Endpoint | None:
    """Returns the address that is kept; None if there is none.

    Raises:
        UnusableLogin: the file cannot be used.
    """
    try:
        path = place(environment)
    except RuntimeError:
        # A container's user may have no home directory.
        return None
    try:
        found = json.loads(read(path, is_secret=True))
        return endpoint(str(found[KEY]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnusableLogin(f"{path} cannot be read: {error.strerror}") from None
    except Unusable as error:
        raise UnusableLogin(str(error)) from None
    except (ValueError, TypeError, KeyError, RecursionError):
        # Without what it says, which may be a part of a token.
        raise UnusableLogin(f"{path} is damaged; type: zaichik login") from None
