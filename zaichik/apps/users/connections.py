"""One connection to the broker for each login, which all clients of that login share.

    acquire ──▶ an open connection of this login? ──────────────────────────▶ User
                  │ no                                                          ▲
                  ▼                                                             │
                one attempt for all who wait for this login ──▶ the broker ──▶ it holds

The attempt is a task of its own, which then keeps the connection until it is not needed any more or
lost for good. A client that leaves while it waits takes nothing with it: an attempt that the broker
has begun to check is always finished, because one that is broken off counts as a failure there, and
could not be counted here. An attempt that waits for its turn is dropped if no client waits for it.

Logins do not wait for each other, with one exception. The broker checks one password at a time, and
lets only two of an address wait (`MOST_PASSWORDS_OF_ONE`), so a gateway has only one checked at a
time, and leaves the other place to other programs of its machine. Tokens cost the broker nothing.

Whether a login is right can be learnt here without asking the broker, if its user is connected. So
a password is answered only while its address may still guess; a token cannot be guessed.

A secret is kept only by the client that needs it to reconnect. Here a login is known by a hash
with a key that no other process has.
"""

import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from zaichik import AuthFailed, Client, ConnectionLost, Credentials, Endpoint, ZaichikError, connect
from zaichik.apps.users.credentials import check_size
from zaichik.apps.users.failures import Failures
from zaichik.base.escapes import shown
from zaichik.client.endpoint import TOKEN

logger = logging.getLogger("zaichik.users")

# How long a connection is kept that no client uses, and how many of them. A program that connects
# again and again has its password checked once.
KEEP_S = 60.0
MOST_KEPT = 64
# Logins with a token that the broker checks at the same time, and those with a password.
TOKENS_AT_ONCE = 4
PASSWORDS_AT_ONCE = 1
# When the gateway stops, its clients end first, and may use their connections for so long.
STOP_SECONDS = 5.0


class TooManyFailures(ZaichikError):
    """Too many logins have failed, so this one was not tried."""

    name = "TOO_MANY_CONNECTIONS"  # as the broker answers in the same case
    retryable = True


class TooManyUsers(ZaichikError):
    """As many users are connected as the gateway allows."""

    name = "TOO_MANY_CONNECTIONS"
    retryable = True


@dataclass(eq=False, slots=True)
class User:
    """A user's connection to the broker, from `acquire` until `release`.

    Attributes:
        name: the user's; "" without access control.
        client: the connection.
        lost: set when the connection is lost for good. It is not handed out again.
        key: what the login is known by.
        uses: how many clients have it or wait for it.
        is_open: whether name and client are there.
        is_evicted: whether it is to be closed, because others need its place.
        queued: where an attempt to open it waits for its turn.
        failure: why it could not be opened.
        settled: set when it is open, or could not be opened.
        changed: set, for the task that keeps it, when anything of this has changed.
    """

    key: bytes
    name: str = ""
    client: Client = field(init=False)
    lost: anyio.Event = field(default_factory=anyio.Event)
    uses: int = 0
    is_open: bool = False
    is_evicted: bool = False
    queued: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    failure: Exception | None = None
    settled: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Attempt:
    """What is needed to open a connection, once.

    Attributes:
        opening: opens it, with the login's secret.
        turns: how many of its kind are tried at the same time.
        peer: the address of the client that came first.
    """

    opening: AbstractAsyncContextManager[Client]
    turns: anyio.Semaphore
    peer: str


class UserConnections:
    """All of a gateway's users.

    Args:
        endpoint: the broker; credentials in it are not used.
        name: of the connections, in the broker's log and in `describe`.
        tasks: keeps the connections.
        now_us: the time.
        reconnect_s: for how long a lost connection is tried again.
        keep_s: for how long one is kept that no client uses.
        most: users that are connected at the same time; None: as many as the broker allows.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        tasks: TaskGroup,
        now_us: Callable[[], int],
        *,
        reconnect_s: float = 60.0,
        keep_s: float = KEEP_S,
        most: int | None = None,
    ) -> None:
        self._endpoint = replace(endpoint, credentials=None)
        self._name = name
        self._tasks = tasks
        self._reconnect_s = reconnect_s
        self._keep_s = keep_s
        self._most = most
        self._failures = Failures(now_us)
        self._hash_key = secrets.token_bytes(32)
        # Those that are open or being opened.
        self._users: dict[bytes, User] = {}
        # Those that are open, and those of them that no client uses, the longest unused first.
        self._open: set[User] = set()
        self._unused: dict[User, None] = {}
        self._token_turns = anyio.Semaphore(TOKENS_AT_ONCE)
        self._password_turns = anyio.Semaphore(PASSWORDS_AT_ONCE)

    # -- what gateways call ----------------------------------------------------------------------

    @asynccontextmanager
    async def using(self, credentials: Credentials | None, peer: str) -> AsyncIterator[User]:
        """Returns a user's connection for the length of the block; see `acquire`."""
        user = await self.acquire(credentials, peer)
        try:
            yield user
        finally:
            self.release(user)

    async def acquire(self, credentials: Credentials | None, peer: str) -> User:
        """Returns a user's connection, to be given back by `release`.

        Args:
            credentials: the login; None if the broker asks for none.
            peer: the address of the client, with its port.

        Raises:
            NotALogin: the login is too long.
            TooManyFailures: too many logins have failed here, from this address or from all.
            TooManyUsers: there is no room for another user.
            AuthFailed: the broker does not accept the credentials.
            ZaichikError: the broker cannot be reached, or has no room.
        """
        is_guess = _is_guess(credentials)
        if is_guess and not self._failures.may_guess(peer):
            raise _too_many_failures()
        key = self._key_of(credentials)
        user = self._users.get(key)
        if user is None:
            user = self._begin(key, credentials, peer)
        return await self._settled(user)

    def release(self, user: User) -> None:
        """Give a connection back, which is closed some time after the last client has done so."""
        user.uses -= 1
        user.changed.set()
        if user.uses:
            return
        if user not in self._open:
            # It is lost, or has not had its turn. Attempts without a client must not pile up.
            self._forget(user)
            user.queued.cancel()
        elif user.is_open:
            self._unused[user] = None
            if len(self._unused) > MOST_KEPT:
                self._evict()

    # -- attempts --------------------------------------------------------------------------------

    def _begin(self, key: bytes, credentials: Credentials | None, peer: str) -> User:
        """Returns a user whose connection is being opened."""
        if credentials is not None:
            check_size(credentials)
        if not self._failures.may_try(peer):
            self._charge_guess(credentials, peer)
            raise _too_many_failures()
        # Here is the secret, and in the client that this makes.
        opening = connect(
            replace(self._endpoint, credentials=credentials),
            name=self._name,
            reconnect=self._reconnect_s,
        )
        turns = self._token_turns
        if _is_guess(credentials):
            turns = self._password_turns
        user = self._users[key] = User(key)
        self._tasks.start_soon(self._run, user, _Attempt(opening, turns, peer))
        return user

    async def _settled(self, user: User) -> User:
        """Returns the user when its connection is open."""
        user.uses += 1
        user.changed.set()
        self._unused.pop(user, None)
        try:
            await user.settled.wait()
        except BaseException:
            self.release(user)
            raise
        if user.failure is not None:
            self.release(user)
            raise user.failure.with_traceback(None)
        return user

    async def _run(self, user: User, attempt: _Attempt) -> None:
        """Open a user's connection and keep it, in a task of its own."""
        try:
            with user.queued:
                await attempt.turns.acquire()
            if user.queued.cancelled_caught:
                return
            async with AsyncExitStack() as stack:
                try:
                    await self._open_for(user, attempt, stack)
                finally:
                    attempt.turns.release()
                await self._keep(user)
        except ZaichikError as error:
            user.failure = error
        except Exception as bug:
            # It ends the clients that wait for this login, and no other ones.
            if user.settled.is_set():
                logger.exception("a bug ended the connection of a user to the broker")
            user.failure = bug
        finally:
            self._forget(user)
            if not user.is_open and user.failure is None:
                user.failure = ConnectionLost("the gateway stops")
            user.settled.set()

    async def _open_for(self, user: User, attempt: _Attempt, stack: AsyncExitStack) -> None:
        """Open a connection, which the stack closes, if it is still wanted and allowed."""
        # The last client has left in the very moment in which its turn came.
        if not user.uses:
            raise ConnectionLost("no client waits for this login any more")
        # Others have failed while it waited for its turn.
        if not self._failures.may_try(attempt.peer):
            raise _too_many_failures()
        self._make_room()
        self._open.add(user)
        try:
            user.client = await stack.enter_async_context(attempt.opening)
            user.name = str((await user.client.describe())["user"])
        except AuthFailed:
            self._failures.failed(attempt.peer)
            raise
        user.is_open = True
        if not user.uses:
            self._unused[user] = None
        user.settled.set()

    def _make_room(self) -> None:
        """Have room for one more user.

        Raises:
            TooManyUsers: all of them are in use.
        """
        if self._most is None or len(self._open) < self._most:
            return
        if not self._unused:
            raise TooManyUsers(f"{self._most} users are connected, which is the gateway's limit")
        self._evict()

    def _evict(self) -> None:
        """Close the connection that no client has used for the longest time."""
        user = next(iter(self._unused))
        user.is_evicted = True
        user.changed.set()
        self._forget(user)

    # -- keeping ---------------------------------------------------------------------------------

    async def _keep(self, user: User) -> None:
        """Returns when a connection is not needed any more, or lost for good."""
        self._watch(user)
        try:
            await self._needed(user)
        except anyio.get_cancelled_exc_class():
            # The gateway stops, and its clients with it. They may have something left to do.
            with anyio.move_on_after(STOP_SECONDS, shield=True):
                while user.uses:
                    user.changed = anyio.Event()
                    await user.changed.wait()
            raise
        finally:
            # Before it is closed, so that no client gets one that is.
            self._forget(user)

    async def _needed(self, user: User) -> None:
        while not user.lost.is_set() and not user.is_evicted:
            user.changed = anyio.Event()
            if user.uses:
                await user.changed.wait()
                continue
            with anyio.move_on_after(self._keep_s):
                await user.changed.wait()
            # It may have been taken at the last moment.
            if not user.changed.is_set():
                return

    def _watch(self, user: User) -> None:
        """Have a connection that is lost for good be given to no other client."""
        connection = user.client.connection
        tell_client = connection.on_lost

        def on_lost(lost: Callable[[], Exception]) -> None:
            tell_client(lost)
            error = lost()
            if isinstance(error, ZaichikError) and error.name == AuthFailed.name:
                self._failures.ended()
            if self._users.get(user.key) is user:
                logger.warning(
                    "the connection of user %s to the broker has ended: %s",
                    shown(user.name),
                    error,
                )
            self._forget(user)
            user.lost.set()
            user.changed.set()

        connection.on_lost = on_lost

    def _forget(self, user: User) -> None:
        """Hand a connection out no more. Another one may have taken its place already."""
        if self._users.get(user.key) is user:
            del self._users[user.key]
        self._open.discard(user)
        self._unused.pop(user, None)

    # -- logins ----------------------------------------------------------------------------------

    def _charge_guess(self, credentials: Credentials | None, peer: str) -> None:
        # That it was refused says that nobody is connected with this password.
        if _is_guess(credentials):
            self._failures.guessed(peer)

    def _key_of(self, credentials: Credentials | None) -> bytes:
        """Returns what a login is known by here, which does not tell it."""
        known = None
        if credentials is not None:
            known = (credentials.user, credentials.secret)
        return hashlib.blake2b(repr(known).encode(), key=self._hash_key).digest()


def _is_guess(credentials: Credentials | None) -> bool:
    """Returns whether a login may be a guess: a token has 256 random bits."""
    return credentials is not None and not TOKEN.fullmatch(credentials.secret)


def _too_many_failures() -> TooManyFailures:
    return TooManyFailures("too many logins have failed here; wait a few seconds and try again")
