"""Opens a connection and closes it gracefully. The first socket is attempted once; only later ones are retried."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from zaichik.client.connection import Connection
from zaichik.client.errors import ConnectFailed, ConnectionLost
from zaichik.net.background import BackgroundTasks
from zaichik.net.socket_stream import SocketStream


@asynccontextmanager
async def opened(
    host: str, port: int, name: str, timeout: float, reconnect: float = 0.0, silence: float = math.inf
) -> AsyncIterator[Connection]:
    """Returns a connection whose Hello was accepted, and sends a Close when the block ends.

    Raises:
        ConnectFailed: there is no broker, or none answered within `timeout` seconds.
        BrokerError: the broker refused to serve this client, with `TooManyConnections` for example.
        Unencodable: the name is longer than a Hello can carry.
    """
    connection = Connection((host, port), name, timeout, reconnect, silence)
    peer = f"{host}:{port}"
    deadline = anyio.current_time() + timeout
    try:
        with anyio.fail_after(timeout):
            stream = await SocketStream.connect(host, port)
    except OSError as error:  # TimeoutError is one
        raise ConnectFailed(
            f"no broker answers at {peer} ({str(error) or 'it took too long'}). Start one with: zaichik serve"
        ) from error
    async with stream, running(connection, stream):
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                await connection.greeted()
        except (TimeoutError, ConnectionLost) as error:
            raise ConnectFailed(
                f"{peer} accepts connections but does not answer as a zaichik broker "
                f"({str(error) or 'it took too long'})"
            ) from error
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def running(connection: Connection, stream: SocketStream) -> AsyncIterator[None]:
    """The connection reads and writes as long as the block lasts."""
    async with BackgroundTasks() as background:
        background.group.start_soon(connection.run, stream)
        try:
            yield
        finally:
            connection.end()
