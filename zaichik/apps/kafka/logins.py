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
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
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
        client: the broker's client; None until it is open.
        name: the user's, as the broker knows it.
        failure: why it is not open.
        opened: set when it is open, or could not be opened.
        unused: set when nobody uses it any more.
    """

    uses: int = 0
    client: Client | None = None
    name: str = ""
    failure: ZaichikError | None = None
    opened: anyio.Event = field(default_factory=anyio.Event)
    unused: anyio.Event = field(default_factory=anyio.Event)


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
        self._tasks: TaskGroup

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Hold the connections of users, until cancelled. Nobody can enter before it has begun."""
        async with anyio.create_task_group() as self._tasks:
            task_status.started()
            await anyio.sleep_forever()

    async def enter(self, credentials: Credentials, address: str) -> "Entered":
        """Returns what a connection needs, after a login.

        Raises:
            BadLogin: the address has failed too often.
            ZaichikError: the broker refused the login, or is not there.
        """
        bucket = self._bucket(address)
        if bucket.wait_us(_now_us()):
            raise BadLogin("too many logins from there have failed")
        key = hashlib.sha256(f"{credentials.user}\0{credentials.secret}".encode()).digest()
        user = await self._user(key, credentials)
        if user.client is None:
            if isinstance(user.failure, AuthFailed):
                bucket.take(_now_us())
            self.leave(key, user)
            raise user.failure or BadLogin("the login was cancelled")
        return Entered(user.client, user.name, partial(self.leave, key, user))

    async def _user(self, key: bytes, credentials: Credentials) -> _User:
        """Returns the user of that key, when its connection is open, or cannot be opened."""
        user = self._users.get(key)
        if user is None:
            user = self._users[key] = _User()
            self._tasks.start_soon(self._hold, key, user, credentials)
        user.uses += 1
        try:
            await user.opened.wait()
        except BaseException:  # cancelled
            self.leave(key, user)
            raise
        return user

    async def _hold(self, key: bytes, user: _User, credentials: Credentials) -> None:
        """Hold a user's connection open for as long as it is used, or the broker is there.

        It has a task of its own, because it is opened for one client and closed after another.
        """
        try:
            async with self._opens(credentials) as client:
                user.name = str((await client.describe())["user"])
                user.client = client
                user.opened.set()
                await user.unused.wait()
        except* ZaichikError as group:
            user.failure = _first(group)
        finally:
            user.opened.set()
            # The next login opens another one.
            self._forget(key, user)

    def leave(self, key: bytes, user: _User) -> None:
        """Note that a connection has ended; after the last one, the broker's is closed."""
        user.uses -= 1
        if user.uses == 0:
            user.unused.set()
            self._forget(key, user)

    def _forget(self, key: bytes, user: _User) -> None:
        if self._users.get(key) is user:
            del self._users[key]

    def _bucket(self, address: str) -> Bucket:
        bucket = self._buckets.setdefault(address, Bucket(FAILURES, A_SECOND))
        self._buckets.move_to_end(address)
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return bucket


@dataclass(frozen=True, slots=True)
class Entered:
    """A login.

    Attributes:
        client: the broker's client of the user.
        user: the user's name.
        leave: to be called once, when the connection ends.
    """

    client: Client
    user: str
    leave: Callable[[], None]


def _first(group: BaseExceptionGroup[ZaichikError]) -> ZaichikError:
    """Returns one of the errors in a group, which may have groups in it."""
    error = group.exceptions[0]
    if isinstance(error, BaseExceptionGroup):
        return _first(error)
    return error


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
        self._entered: Entered | None = None

    def handshake(self, request: Any, version: int) -> Any:
        """Returns which mechanisms there are."""
        code = Code.NONE
        if version == RAW:
            code = Code.UNSUPPORTED_VERSION
        elif request.mechanism != PLAIN:
            code = Code.UNSUPPORTED_SASL_MECHANISM
        self._may_authenticate = code is Code.NONE
        return SaslHandshakeResponse(error_code=code, mechanisms=[PLAIN])

    async def authenticate(self, request: Any) -> tuple[Any, Entered | None]:
        """Returns the response, and what the connection has if it is a login.

        Raises:
            BadLogin: it comes out of order, or its address has failed too often.
        """
        if not self._may_authenticate or self._entered is not None:
            raise BadLogin("it sent a login out of order")
        self._may_authenticate = False
        credentials = _credentials(bytes(request.auth_bytes or b""))
        if credentials is None:
            return _response(Code.SASL_AUTHENTICATION_FAILED, "this is not a PLAIN login"), None
        try:
            entered = await self._login.enter(credentials, self._peer.rpartition(":")[0])
        except AuthFailed:
            logger.warning("login_failed user=%s from=%s", shown(credentials.user), self._peer)
            problem = "the broker does not accept these credentials"
            return _response(Code.SASL_AUTHENTICATION_FAILED, problem), None
        self._entered = entered
        logger.info("login_ok user=%s from=%s", shown(entered.user), self._peer)
        return _response(Code.NONE, None), entered

    def close(self) -> None:
        """Note that the connection has ended."""
        if self._entered is not None:
            self._entered.leave()


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
