"""Who a client is to the broker: one connection for each user (G-8).

If the gateway itself has logged in, every client must log in, too, with a user's name and password,
or with a token in the place of the password. The gateway passes that on to the broker, over a
connection that all clients of that login share. So rules, shares and refusals are the broker's.

If the gateway has not logged in, there is no access control, and all clients act as the gateway.
"""

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup, TaskStatus

from zaichik import BrokerError, Client, Credentials, Endpoint, Forbidden, ZaichikError, connect
from zaichik.apps.mqtt.spaces import MOST_KEY_BYTES

logger = logging.getLogger("zaichik.mqtt.logins")

TOKEN_PREFIX = "zk_"  # noqa: S105 (no secret)
# How long a right is believed that was asked for.
BELIEVED_US = 60_000_000


class NoLogin(Exception):
    """A client has not said who it is, and must."""


@dataclass(slots=True, eq=False)
class Login:
    """A user's connection to the broker.

    Attributes:
        user: the user's name; "" without access control.
        client: the connection.
        uses: how many clients have it.
        released: set when none has it any more.
    """

    user: str
    client: Client
    uses: int = 0
    released: anyio.Event = field(default_factory=anyio.Event)


class Logins:
    """All of them.

    Args:
        endpoint: the broker, with the gateway's own login if there is access control.
        own: the gateway's connection.
        tasks: hold the connections.
        reconnect_s: for how long a lost connection is tried again.
    """

    def __init__(
        self, endpoint: Endpoint, own: Client, tasks: TaskGroup, reconnect_s: float
    ) -> None:
        self._endpoint = endpoint
        self._own = Login("", own)
        self._tasks = tasks
        self._reconnect_s = reconnect_s
        self._open: dict[tuple[str, bytes], Login] = {}
        self._opening = anyio.Lock()

    @property
    def are_required(self) -> bool:
        """Whether clients must log in."""
        return self._endpoint.credentials is not None

    async def log_in(self, username: str | None, password: bytes | None) -> Login:
        """Returns the connection of a user, to be given back by `release`.

        Raises:
            NoLogin: there is no name, no password or no token.
            AuthFailed: the broker does not accept them.
            ZaichikError: the broker cannot be reached, or has no room.
        """
        if not self.are_required:
            return self._own
        credentials = _credentials(username, password)
        key = (credentials.user, hashlib.sha256(credentials.secret.encode()).digest())
        # One at a time: passwords cost the broker a quarter of a second each.
        async with self._opening:
            login = self._open.get(key)
            if login is None:
                login = await self._tasks.start(self._hold, credentials, key)
        login.uses += 1
        return login

    def release(self, login: Login) -> None:
        """Give a connection back."""
        if login is self._own:
            return
        login.uses -= 1
        if not login.uses:
            login.released.set()

    async def _hold(
        self,
        credentials: Credentials,
        key: tuple[str, bytes],
        *,
        task_status: TaskStatus[Login],
    ) -> None:
        endpoint = replace(self._endpoint, credentials=credentials)
        is_started = False
        try:
            async with connect(
                endpoint, name="zaichik mqtt, for a user", reconnect=self._reconnect_s
            ) as client:
                user = str((await client.describe())["user"])
                login = Login(user, client)
                self._open[key] = login
                is_started = True
                task_status.started(login)
                await login.released.wait()
        except ZaichikError as error:
            if not is_started:
                raise
            logger.warning("the connection of a user to the broker has ended: %s", error)
        finally:
            self._open.pop(key, None)


def _credentials(username: str | None, password: bytes | None) -> Credentials:
    """Returns what a client has said: a token may stand in either place.

    Raises:
        NoLogin: nothing that could be a login.
    """
    secret = ""
    if password is not None:
        with suppress(UnicodeDecodeError):
            secret = password.decode()
    if secret.startswith(TOKEN_PREFIX):
        return Credentials(secret=secret)
    if username is not None and username.startswith(TOKEN_PREFIX):
        return Credentials(secret=username)
    if not username or not secret:
        raise NoLogin
    return Credentials(username, secret)


class Rights:
    """What users may do in the topics that hold MQTT's messages.

    The broker has no question for that, so the gateway does the thing where it changes nothing.

    Args:
        now_us: the time.
        are_checked: whether there is access control.
    """

    def __init__(self, now_us: Callable[[], int], *, are_checked: bool) -> None:
        self._now_us = now_us
        self._are_checked = are_checked
        self._known: dict[tuple[str, str, str], tuple[bool, int]] = {}

    async def may_subscribe(self, login: Login, space: str) -> bool:
        """Returns whether a user may read a topic."""
        return await self._may("subscribe", login, space)

    async def may_publish(self, login: Login, space: str) -> bool:
        """Returns whether a user may publish to a topic."""
        return await self._may("publish", login, space)

    async def _may(self, action: str, login: Login, space: str) -> bool:
        if not self._are_checked:
            return True
        key = (action, login.user, space)
        found, until_us = self._known.get(key, (False, 0))
        now_us = self._now_us()
        if now_us < until_us:
            return found
        found = await _tried(action, login.client, space)
        self._known = {known: value for known, value in self._known.items() if value[1] > now_us}
        self._known[key] = (found, now_us + BELIEVED_US)
        return found


async def _tried(action: str, client: Client, space: str) -> bool:
    try:
        if action == "publish":
            # No key is that long, so the broker refuses it anyway; but first it checks the rights.
            await client.publish(space, b"", bytes(MOST_KEY_BYTES + 1))
        else:
            async with client.subscribe(space, start="latest", credit=1):
                pass
    except Forbidden:
        return False
    except BrokerError as error:
        logger.debug("%s to %s: %s", action, space, error)
    return True
