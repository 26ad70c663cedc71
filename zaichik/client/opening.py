"""Opening a connection, and leaving in order: only the first socket may fail to be had, without another attempt."""

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
    """A connection that has said Hello, and says Close at the end.

    Raises:
        ConnectFailed: no broker there, or none that answered within `timeout` seconds.
        BrokerError: the broker answered that it does not serve this client, `TooManyConnections` for example.
        Unencodable: the name is longer than a Hello can tell.
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
