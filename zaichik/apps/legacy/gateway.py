"""The gateway's listener: each connection gets a session, and all share one client."""

import logging
from functools import partial

import anyio

from zaichik import Client
from zaichik.apps.legacy.session import Session
from zaichik.net.listener import Listener
from zaichik.net.served import Served
from zaichik.net.socket_stream import SocketStream

logger = logging.getLogger("zaichik.legacy.gateway")

# and no other: the protocol has no login, so every connection acts as the gateway's user
HOST = "127.0.0.1"
# each may hold an incomplete frame, a message being sent, and one for each of its subscriptions
MAX_CONNECTIONS = 64
PING_SECONDS = 1.0


class Gateway:
    """The original's server, with our broker behind it.

    Args:
        client: the broker's client, which acts for all.
        listener: accepts connections; closed when `run` returns.
        quick_ack: see `Session`.

    Attributes:
        host, port: where it listens.
    """

    def __init__(self, client: Client, listener: Listener, *, quick_ack: bool = True) -> None:
        self.host, self.port = listener.host, listener.port
        self._client = client
        self._listener = listener
        self._quick_ack = quick_ack
        self._served = Served(MAX_CONNECTIONS, logger)

    @classmethod
    async def listening(cls, client: Client, port: int, *, quick_ack: bool = True) -> "Gateway":
        """Returns a gateway at a port of this machine, which no other reaches; 0 takes a free one.

        Raises:
            OSError: the port is not available.
        """
        return cls(client, await Listener.open(HOST, port), quick_ack=quick_ack)

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ExceptionGroup: of one `ConnectionLost`: the broker is gone for good.
        """
        async with self._listener, anyio.create_task_group() as tasks:
            serve_one = partial(self._served.serve, self._converse)
            tasks.start_soon(self._listener.serve, serve_one, tasks)
            while True:  # a lost broker is noticed even while no one is connected
                await self._client.ping()
                await anyio.sleep(PING_SECONDS)

    async def _converse(self, stream: SocketStream, peer: str) -> str:
        return await Session(stream, peer, self._client, quick_ack=self._quick_ack).run()
