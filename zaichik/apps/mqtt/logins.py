"""Who a client is to the broker: one connection for each user (G-8).

If the gateway itself has logged in, every client must log in, too, with a user's name and password,
or with a token in either place. The gateway passes that on to the broker, over a connection that
all clients of that login share, see `zaichik.apps.users`. So rules, shares and refusals are the
broker's.

If the gateway has not logged in, there is no access control, and all clients act as the gateway.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from zaichik import BrokerError, Client, Endpoint, Forbidden
from zaichik.apps.mqtt.spaces import MOST_KEY_BYTES
from zaichik.apps.users.connections import UserConnections
from zaichik.apps.users.credentials import credentials_of

logger = logging.getLogger("zaichik.mqtt.logins")

# How long a right is believed that was asked for.
BELIEVED_US = 60_000_000


@dataclass(slots=True, eq=False)
class Login:
    """What a client acts as.

    Attributes:
        user: the user's name; "" without access control.
        client: the user's connection to the broker.
        lost: set when that is lost for good.
    """

    user: str
    client: Client
    lost: anyio.Event = field(default_factory=anyio.Event)


class Logins:
    """All of them.

    Args:
        endpoint: the broker, with the gateway's own login if there is access control.
        own: the gateway's connection.
        tasks: hold the connections.
        now_us: the time.
        reconnect_s: for how long a lost connection is tried again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        own: Client,
        tasks: TaskGroup,
        now_us: Callable[[], int],
        reconnect_s: float,
    ) -> None:
        self.are_required = endpoint.credentials is not None
        """Whether clients must log in."""
        self._own = Login("", own)
        self._users = UserConnections(
            endpoint, "zaichik mqtt, for a user", tasks, now_us, reconnect_s=reconnect_s
        )

    @asynccontextmanager
    async def using(
        self, username: str | None, password: bytes | None, peer: str
    ) -> AsyncIterator[Login]:
        """Returns what a client acts as, for the length of the block.

        Args:
            username: as the client has sent it.
            password: the same.
            peer: its address.

        Raises:
            NotALogin: there is no name, no password or no token.
            ZaichikError: see `UserConnections.acquire`.
        """
        if not self.are_required:
            yield self._own
            return
        async with self._users.using(credentials_of(username, password), peer) as user:
            yield Login(user.name, user.client, user.lost)


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
