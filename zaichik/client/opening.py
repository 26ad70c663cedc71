"""Opens a connection and closes it gracefully. The first socket is attempted once; only later ones are retried."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import gaierror

import anyio

from zaichik.client.connection import Connection
from zaichik.client.dialer import Dialer
from zaichik.client.errors import ConnectFailed, ConnectionLost
from zaichik.net.background import BackgroundTasks
from zaichik.net.stream import Stream
from zaichik.net.tls_engine import TlsFailed


@asynccontextmanager
async def opened(
    dialer: Dialer, name: str, timeout: float, reconnect: float = 0.0, silence: float = math.inf
) -> AsyncIterator[Connection]:
    """Returns a connection whose Hello was accepted, and sends a Close when the block ends.

    Raises:
        ConnectFailed: there is no broker, or none answered in time (see `connect`), or TLS failed.
        BrokerError: the broker refused to serve this client, with `TooManyConnections` for example.
        Unencodable: the name is longer than a Hello can carry.
    """
    connection = Connection(dialer, name, timeout, reconnect, silence)
    peer = str(dialer.endpoint)
    deadline = anyio.current_time() + dialer.greeting_seconds(timeout)
    try:
        with anyio.fail_after(timeout):
            stream = await dialer.dial()
    except TlsFailed as error:
        raise ConnectFailed(f"{peer}: {error}") from error
    except OSError as error:  # TimeoutError is one
        reason = error.strerror or str(error) or "it took too long"
        advice = "Is the host's name right?" if isinstance(error, gaierror) else "Start one with `zaichik serve`"
        raise ConnectFailed(f"no broker answers at {peer} ({reason}). {advice}") from error
    async with stream, running(connection, stream):
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                await connection.greeted()
        except (TimeoutError, ConnectionLost) as error:
            reason = error.message if isinstance(error, ConnectionLost) else "it took too long"
            raise ConnectFailed(
                f"{peer} accepts connections but does not answer as a zaichik broker ({reason})"
            ) from error
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def running(connection: Connection, stream: Stream) -> AsyncIterator[None]:
    """Let the connection read and write as long as the block lasts."""
    async with BackgroundTasks() as background:
        background.group.start_soon(connection.run, stream)
        try:
            yield
        finally:
            connection.end()
