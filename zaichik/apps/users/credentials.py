"""A login as most protocols have it, a name and a password; a token may stand in either place.

Programs that can only be told a name and a password can use a token that way. What stands in the
other place does not matter then.
"""

from contextlib import suppress

from zaichik import Credentials
from zaichik.client.endpoint import TOKEN

# Of name and secret together. More can be no login, and a broker reads no more than 4 KiB of one.
MOST_BYTES = 1024


class NotALogin(Exception):
    """There is no name, no password and no token, or they are too long."""


def credentials_of(name: str | None, password: bytes | None) -> Credentials:
    """Returns what a client has sent, as the broker takes it.

    Raises:
        NotALogin: it is nothing that could be a login.
    """
    name = name or ""
    secret = ""
    if password is not None:
        with suppress(UnicodeDecodeError):
            secret = password.decode()
    if TOKEN.fullmatch(secret):
        return Credentials(secret=secret)
    if TOKEN.fullmatch(name):
        return Credentials(secret=name)
    if not name or not secret:
        raise NotALogin("it sent no login")
    found = Credentials(name, secret)
    check_size(found)
    return found


def check_size(credentials: Credentials) -> None:
    """Check that a login is not too long to be one.

    Raises:
        NotALogin: it is.
    """
    # Of text that has no bytes in UTF-8, each letter counts as one.
    size = len(credentials.user.encode(errors="replace"))
    size += len(credentials.secret.encode(errors="replace"))
    if size > MOST_BYTES:
        raise NotALogin(f"its login is longer than {MOST_BYTES} bytes")
