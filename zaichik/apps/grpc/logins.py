"""Logins: one connection to the broker for each user, whose rights and share are the broker's.

A call says who makes it in its metadata, and the broker decides whether that is true. Calls with
the same login share a connection, which is kept for a while after the last of them: a broker takes
its time to check a password. Calls without a login share one, too, if the broker asks nobody.

To the broker, all of these logins come from one address, the gateway's. It delays an address from
which too many have failed, and lets few passwords of one address wait: guesses made here could keep
other programs on this machine out. So the gateway has a token bucket of its own, half as deep as
the broker's, and logs in one user at a time.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from zaichik import AuthFailed, BrokerError, Client, ConnectionLost, Credentials, Endpoint, connect
from zaichik.base.clock import Clock
from zaichik.server.access.backoff import A_SECOND, FAILURES, Bucket
from zaichik_protocol import Error, ErrorCode

MOST_USERS = 64  # with a connection at the same time
# A connection that no call has used for as long as this, or twice as long, is closed.
IDLE_SECONDS = 60.0

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


def _refused(text: str, code: ErrorCode = ErrorCode.AUTH_FAILED) -> BrokerError:
    return BrokerError.of(Error(0, code, 0, "", 0, text))


@dataclass(eq=False, slots=True)
class _User:
    """A connection to the broker.

    Attributes:
        client: what has it.
        calls: how many use it now.
        was_used: whether one has used it since the last look.
        is_over: ends it, when cancelled.
    """

    client: Client
    is_over: anyio.CancelScope
    calls: int = 0
    was_used: bool = True


class Logins:
    """The connections of all users.

    Args:
        endpoint: the broker; credentials in it are not used.
        tasks: connections are kept there.
        clock: the source of time.
        asks: whether the broker asks for a login. Then a call without one never gets to it, where
            it would count as a failure.
        reconnect: seconds to try to replace a lost connection, as `connect` takes them.
    """

    def __init__(
        self, endpoint: Endpoint, tasks: TaskGroup, clock: Clock, *, asks: bool, reconnect: float
    ) -> None:
        self._endpoint = endpoint
        self._tasks = tasks
        self._clock = clock
        self._asks = asks
        self._reconnect = reconnect
        self._turn = anyio.Lock()
        self._failures = Bucket(FAILURES // 2, A_SECOND)
        self._users: dict[Credentials | None, _User] = {}

    @asynccontextmanager
    async def client(self, metadata: Metadata) -> AsyncIterator[Client]:
        """Returns the client of the user who makes a call.

        Raises:
            BrokerError: the broker does not let this user in; or too many users are connected, or
                too many logins have failed here.
            ConnectFailed: the broker does not answer.
        """
        credentials = credentials_of(metadata)
        if credentials is None and self._asks:
            raise _refused("the broker asks for a login: send the metadata `authorization`")
        user = self._users.get(credentials)
        if user is None:
            async with self._turn:
                # Another call with the same login may have had its turn first.
                user = self._users.get(credentials) or await self._log_in(credentials)
        user.calls += 1
        try:
            yield user.client
        except ConnectionLost:
            # Lost for good: the next call makes another one.
            user.is_over.cancel()
            raise
        finally:
            user.calls -= 1
            user.was_used = True

    async def _log_in(self, credentials: Credentials | None) -> _User:
        if self._failures.wait_us(self._clock.now_us()):
            problem = "too many logins have failed here; wait a few seconds and try again"
            raise _refused(problem, ErrorCode.TOO_MANY_CONNECTIONS)
        if len(self._users) >= MOST_USERS:
            problem = f"{MOST_USERS} users are connected, which is the gateway's limit"
            raise _refused(problem, ErrorCode.TOO_MANY_CONNECTIONS)
        try:
            user: _User = await self._tasks.start(self._stay_connected, credentials)
        except AuthFailed:
            self._failures.take(self._clock.now_us())
            raise
        return user

    async def _stay_connected(
        self, credentials: Credentials | None, *, task_status: TaskStatus[_User]
    ) -> None:
        """Have a connection for a user, until no call needs it."""
        endpoint = replace(self._endpoint, credentials=credentials)
        with anyio.CancelScope() as is_over:
            async with connect(endpoint, name="zaichik grpc", reconnect=self._reconnect) as client:
                user = _User(client, is_over)
                self._users[credentials] = user
                task_status.started(user)
                try:
                    while user.calls or user.was_used:
                        user.was_used = False
                        await anyio.sleep(IDLE_SECONDS)
                finally:
                    # Before the connection is closed, so that no call gets one that is.
                    del self._users[credentials]
