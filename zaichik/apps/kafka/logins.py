"""Logins: SASL/PLAIN, which the broker itself judges.

Each user has one connection to the broker, whose rights and limits are the user's; all Kafka
connections of the user share it, see `zaichik.apps.users`. It is opened with what the client has
sent, so a login that the broker does not know fails here as it fails there. A password may be a
token: the name beside it is then not needed.
"""

import logging
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from zaichik import AuthFailed, Client, Credentials
from zaichik.apps.kafka.codes import Code
from zaichik.apps.users.connections import TooManyFailures, User, UserConnections
from zaichik.apps.users.credentials import NotALogin, credentials_of
from zaichik.base.escapes import shown

logger = logging.getLogger("zaichik.kafka.logins")

PLAIN = "PLAIN"
RAW = 0  # the version of SaslHandshake after which logins come without headers


class BadLogin(Exception):
    """A login that ends the connection; a sentence says why."""


class SaslConversation:
    """One connection's login.

    Args:
        users: the connections to the broker.
        peer: the client's address.
    """

    def __init__(self, users: UserConnections, peer: str) -> None:
        self._users = users
        self._peer = peer
        self._may_authenticate = False
        self._user: User | None = None

    def handshake(self, request: Any, version: int) -> Any:
        """Returns which mechanisms there are."""
        code = Code.NONE
        if version == RAW:
            code = Code.UNSUPPORTED_VERSION
        elif request.mechanism != PLAIN:
            code = Code.UNSUPPORTED_SASL_MECHANISM
        self._may_authenticate = code is Code.NONE
        return SaslHandshakeResponse(error_code=code, mechanisms=[PLAIN])

    async def authenticate(self, request: Any) -> tuple[Any, tuple[Client, str] | None]:
        """Returns the response, and the broker's client and the user's name if it is a login.

        Raises:
            BadLogin: it comes out of order, or too many have failed.
            ZaichikError: see `UserConnections.acquire`.
        """
        if not self._may_authenticate or self._user is not None:
            raise BadLogin("it sent a login out of order")
        self._may_authenticate = False
        try:
            credentials = _credentials(bytes(request.auth_bytes or b""))
        except NotALogin:
            return _response(Code.SASL_AUTHENTICATION_FAILED, "this is not a PLAIN login"), None
        try:
            user = await self._users.acquire(credentials, self._peer)
        except AuthFailed:
            logger.warning("login_failed user=%s from=%s", shown(credentials.user), self._peer)
            problem = "the broker does not accept these credentials"
            return _response(Code.SASL_AUTHENTICATION_FAILED, problem), None
        except TooManyFailures as error:
            raise BadLogin(error.message) from None
        self._user = user
        logger.info("login_ok user=%s from=%s", shown(user.name), self._peer)
        return _response(Code.NONE, None), (user.client, user.name)

    def close(self) -> None:
        """Note that the connection has ended."""
        if self._user is not None:
            self._users.release(self._user)


def _credentials(data: bytes) -> Credentials:
    """Returns what a PLAIN login says.

    Raises:
        NotALogin: it is none.
    """
    parts = data.split(b"\0")
    if len(parts) != 3:
        raise NotALogin("it is not PLAIN")
    _, name, password = parts
    try:
        return credentials_of(name.decode(), password)
    except UnicodeDecodeError:
        raise NotALogin("its name is not UTF-8") from None


def _response(code: Code, problem: str | None) -> Any:
    return SaslAuthenticateResponse(
        error_code=code, error_message=problem, auth_bytes=b"", session_lifetime_ms=0
    )
