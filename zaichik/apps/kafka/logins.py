"""Logins: SASL/PLAIN, which the broker itself judges.

Each user has one connection to the broker, whose rights and limits are the user's; all Kafka
connections of the user share it. It is opened with what the client has sent, so a login that the
broker does not know fails here as it fails there. A password may be a token: the name beside it is
then not needed.

Failed logins of one address are limited, as the broker limits them: to the broker, all of them
would come from the gateway.
"""

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anyio
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from zaichik import AuthFailed, Client, Credentials, ZaichikError
from zaichik.apps.kafka.codes import Code
from zaichik.base.clock import SECOND_US
from zaichik.base.escapes import shown
from zaichik.client.endpoint import TOKEN
from zaichik.server.access.backoff import A_SECOND, FAILURES, Bucket

logger = logging.getLogger("zaichik.kafka.logins")

PLAIN = "PLAIN"
RAW = 0  # the version of SaslHandshake after which logins come without headers
MAX_ADDRESSES = 4096
LONGEST = 1024  # bytes of a login

# Opens a connection to the broker with these credentials, for as long as its block lasts.
Opens = Callable[[Credentials], AbstractAsyncContextManager[Client]]


class BadLogin(Exception):
    """A login that ends the connection; a sentence says why."""


@dataclass(slots=True)
class _User:
    """A user's connection to the broker.

    Attributes:
        uses: how many connections of Kafka's clients share it.
        opened: set when it is open, or could not be opened.
    """

    uses: int = 0
    client: Client | None = None
    name: str = ""
    failure: ZaichikError | None = None
    opened: anyio.Event = field(default_factory=anyio.Event)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)


class Login:
    """The broker's connections of all users who are logged in.

    Args:
        opens: see `Opens`.
    """

    def __init__(self, opens: Opens) -> None:
        self._opens = opens
        # By a hash of the login, which tells nobody anything if it is shown.
        self._users: dict[bytes, _User] = {}
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    async def enter(self, credentials: Credentials, address: str) -> tuple[bytes, Client, str]:
        """Returns a key to leave with, the broker's client of the user, and the user's name.

        Raises:
            BadLogin: the address has failed too often.
            ZaichikError: the broker refused the login, or is not there.
        """
        bucket = self._bucket(address)
        if bucket.wait_us(_now_us()):
            raise BadLogin("too many logins from there have failed")
        key = hashlib.sha256(f"{credentials.user}\0{credentials.secret}".encode()).digest()
        user = self._users.get(key)
        if user is None:
            user = self._users[key] = _User()
            user.uses += 1
            await self._open(user, credentials)
        else:
            user.uses += 1
            await user.opened.wait()
        if user.client is None:
            if isinstance(user.failure, AuthFailed):
                bucket.take(_now_us())
            await self.leave(key, user)
            raise user.failure or BadLogin("the login was cancelled")
        return key, user.client, user.name

    async def _open(self, user: _User, credentials: Credentials) -> None:
        try:
            user.client = await user.stack.enter_async_context(self._opens(credentials))
            user.name = str((await user.client.describe())["user"])
        except ZaichikError as error:
            user.client = None
            user.failure = error
        finally:
            user.opened.set()

    async def leave(self, key: bytes, user: _User | None = None) -> None:
        """Note that a connection has ended; after the last one, the broker's is closed."""
        user = user or self._users.get(key)
        if user is None:
            return
        user.uses -= 1
        if user.uses == 0:
            if self._users.get(key) is user:
                del self._users[key]
            with anyio.CancelScope(shield=True):
                await user.stack.aclose()

    def _bucket(self, address: str) -> Bucket:
        bucket = self._buckets.setdefault(address, Bucket(FAILURES, A_SECOND))
        self._buckets.move_to_end(address)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return bucket


class SaslConversation:
    """One connection's login.

    Args:
        login: see there.
        peer: the client's address.
    """

    def __init__(self, login: Login, peer: str) -> None:
        self._login = login
        self._peer = peer
        self._may_authenticate = False
        self._key: bytes | None = None

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
            BadLogin: it comes out of order, or its address has failed too often.
        """
        if not self._may_authenticate or self._key is not None:
            raise BadLogin("it sent a login out of order")
        self._may_authenticate = False
        credentials = _credentials(bytes(request.auth_bytes or b""))
        if credentials is None:
            return _response(Code.SASL_AUTHENTICATION_FAILED, "this is not a PLAIN login"), None
        try:
            self._key, client, user = await self._login.enter(
                credentials, self._peer.rpartition(":")[0]
            )
        except AuthFailed:
            logger.warning("login_failed user=%s from=%s", shown(credentials.user), self._peer)
            problem = "the broker does not accept these credentials"
            return _response(Code.SASL_AUTHENTICATION_FAILED, problem), None
        logger.info("login_ok user=%s from=%s", shown(user), self._peer)
        return _response(Code.NONE, None), (client, user)

    async def close(self) -> None:
        """Note that the connection has ended."""
        if self._key is not None:
            await self._login.leave(self._key)


def _credentials(data: bytes) -> Credentials | None:
    """Returns what a PLAIN login says; None if it is none."""
    parts = data.split(b"\0")
    if len(parts) != 3 or len(data) > LONGEST:
        return None
    try:
        _, user, secret = (part.decode() for part in parts)
    except UnicodeDecodeError:
        return None
    if TOKEN.fullmatch(secret):
        return Credentials(secret=secret)
    if not user or not secret:
        return None
    return Credentials(user, secret)


def _response(code: Code, problem: str | None) -> Any:
    return SaslAuthenticateResponse(
        error_code=code, error_message=problem, auth_bytes=b"", session_lifetime_ms=0
    )


def _now_us() -> int:
    return int(anyio.current_time() * SECOND_US)
