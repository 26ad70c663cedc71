"""Logins: whose call it is, by its metadata, and what it may use for that.

A call says who makes it in its metadata, and the broker decides whether that is true. Calls with
the same login share a connection, see `zaichik.apps.users`. Calls without a login share one, too,
if the broker asks nobody.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from urllib.parse import unquote

from zaichik import BrokerError, Credentials
from zaichik.apps.users.connections import User, UserConnections
from zaichik.apps.users.credentials import NotALogin
from zaichik_protocol import Error, ErrorCode

MOST_USERS = 64  # with a connection at the same time
MAPPED = "::ffff:"  # before an IPv4 address, where a socket serves both versions

Metadata = Iterable[tuple[str, str | bytes]]


def credentials_of(metadata: Metadata) -> Credentials | None:
    """Returns what a call logs in with; None if it does not.

    Raises:
        AuthFailed: `authorization` is there, and neither `Bearer TOKEN` nor `Basic BASE64`.
    """
    for name, value in metadata:
        if name == "authorization":
            kind, _, secret = str(value).partition(" ")
            if kind.lower() == "bearer":
                return Credentials(secret=secret.strip())
            if kind.lower() == "basic":
                return _user_and_password(secret.strip())
            raise _refused("authorization must be `Bearer TOKEN` or `Basic BASE64(USER:PASSWORD)`")
    return None


def _user_and_password(text: str) -> Credentials:
    try:
        user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon or not user:
        raise _refused("authorization: Basic needs USER:PASSWORD in base64")
    return Credentials(user, password)


def _refused(text: str) -> BrokerError:
    return BrokerError.of(Error(0, ErrorCode.AUTH_FAILED, 0, "", 0, text))


def address_of(peer: str) -> str:
    """Returns the address and port of a caller; "" if they are not known.

    Args:
        peer: as gRPC has it: `ipv4:127.0.0.1:5000`, or `ipv6:%5B::1%5D:5000`.
    """
    kind, _, address = unquote(peer).partition(":")
    if kind not in {"ipv4", "ipv6"}:
        return ""
    return address.replace("[", "").replace("]", "").removeprefix(MAPPED)


class Logins:
    """What calls use, each with the rights of its user.

    Args:
        users: the connections.
        asks: whether the broker asks for a login. Then a call without one never gets to it, where
            it would count as a failure.
    """

    def __init__(self, users: UserConnections, *, asks: bool) -> None:
        self._users = users
        self._asks = asks

    @asynccontextmanager
    async def user(self, metadata: Metadata, peer: str) -> AsyncIterator[User]:
        """Returns the connection of the user who makes a call.

        Args:
            metadata: the call's.
            peer: its caller, as gRPC has it.

        Raises:
            ZaichikError: see `UserConnections.acquire`.
        """
        credentials = credentials_of(metadata)
        if credentials is None and self._asks:
            raise _refused("the broker asks for a login: send the metadata `authorization`")
        try:
            user = await self._users.acquire(credentials, address_of(peer))
        except NotALogin as error:
            raise _refused(f"authorization: {error}") from None
        try:
            yield user
        finally:
            self._users.release(user)
