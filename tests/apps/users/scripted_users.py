"""Connections of users whose broker a test scripts: when a login is answered, and how."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
from brokers import GUARD, START_US

import zaichik
from zaichik.apps.users import connections
from zaichik.apps.users.connections import UserConnections
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Error, ErrorCode

ENDPOINT = zaichik.Endpoint("127.0.0.1", 1)
RIGHT = "right"  # the password of every user


def token(letter):
    return zaichik.Credentials(secret=f"zk_{letter * 43}")


def password(user, secret=RIGHT):
    return zaichik.Credentials(user, secret)


def auth_failed():
    return zaichik.AuthFailed(Error(0, ErrorCode.AUTH_FAILED, 0, "", 0, "no"))


class Client:
    """What a connection is here: whose it is, and whether it is open."""

    def __init__(self, user):
        self.user = user
        self.is_closed = False
        self.connection = SimpleNamespace(on_lost=lambda _: None)

    async def describe(self):
        return {"user": self.user}

    def lose(self, name=""):
        """Lose it for good, for the reason of that name."""
        self.connection.on_lost(lambda: zaichik.ConnectionLost("gone", name))


class Broker:
    """A broker that answers a login when it is told to.

    Attributes:
        tried: all logins that it was sent, in their order.
        waiting: those that are not answered.
        clients: all connections, in their order.
        is_slow: whether it answers only when told to.
        error: raised instead of an answer.
    """

    def __init__(self):
        self.tried = []
        self.waiting = {}
        self.clients = []
        self.is_slow = False
        self.error = None

    @asynccontextmanager
    async def connect(self, endpoint, *, name, reconnect):
        """In the place of `zaichik.connect`."""
        login = endpoint.credentials
        self.tried.append(login)
        if self.is_slow:
            self.waiting[login] = anyio.Event()
            try:
                await self.waiting[login].wait()
            finally:
                del self.waiting[login]
        if self.error is not None:
            raise self.error
        if login.user and login.secret != RIGHT:
            raise auth_failed()
        client = Client(login.user or login.secret[3])
        self.clients.append(client)
        try:
            yield client
        finally:
            client.is_closed = True

    def answer(self, login):
        """Answer a login."""
        self.waiting[login].set()

    @property
    def open(self):
        """The users with a connection."""
        return [client.user for client in self.clients if not client.is_closed]


class Running:
    """What a test has.

    Attributes:
        broker, clock, users: see their classes.
        stop: ends the gateway.
    """

    def __init__(self, broker, clock, users, stop):
        self.broker, self.clock, self.users, self.stop = broker, clock, users, stop

    async def refused(self, credentials, peer="10.0.0.1:1"):
        """The error with which a login is refused."""
        try:
            user = await self.users.acquire(credentials, peer)
        except zaichik.ZaichikError as error:
            return type(error)
        self.users.release(user)
        return None


@asynccontextmanager
async def scripted(monkeypatch, *, stop_s=0, **options) -> AsyncIterator[Running]:
    """Connections of users; the options are theirs.

    When it ends, they are waited for only if `stop_s` says so.
    """
    broker, clock = Broker(), zaichik.ManualClock(START_US)
    monkeypatch.setattr(connections, "connect", broker.connect)
    monkeypatch.setattr(connections, "STOP_SECONDS", stop_s)
    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            users = UserConnections(ENDPOINT, "gateway", tasks.group, clock.now_us, **options)
            yield Running(broker, clock, users, tasks.group.cancel_scope.cancel)


async def until(condition):
    """Returns when a condition holds."""
    while not condition():
        await anyio.lowlevel.checkpoint()
