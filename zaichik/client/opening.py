"""Opens a connection and closes it gracefully.

The first socket is attempted once; only later ones are retried.
"""

# Not compiled: mypyc has no asynchronous generators, which context managers are written as.

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import gaierror

import anyio

from zaichik.client.connection import BrokerConnection
from zaichik.client.dialer import Dialer
from zaichik.client.errors import ConnectFailed, ConnectionLost
from zaichik.client.forking import unwatch, watch
from zaichik.net.background import DetachedTasks
from zaichik.net.stream import Stream
from zaichik.net.tls_engine import TlsFailed


@asynccontextmanager
async def open_connection(
    dialer: Dialer,
    name: str,
    timeout: float,
    reconnect: float = 0.0,
    silence_timeout: float = math.inf,
) -> AsyncIterator[BrokerConnection]:
    """Returns a connection whose Hello was accepted, and sends a Close when the block ends.

    Raises:
        ConnectFailed: there is no broker, or none answered in time (see `connect`), or TLS failed.
        BrokerError: the broker refused to serve this client, with `TooManyConnections` for example.
        Unencodable: the name is longer than a Hello can carry.
    """
    connection = BrokerConnection(dialer, name, timeout, reconnect, silence_timeout)
    peer = str(dialer.endpoint)
    deadline = anyio.current_time() + dialer.greeting_seconds(timeout)
    try:
        with anyio.fail_after(timeout):
            stream = await dialer.dial()
    except TlsFailed as error:
        raise ConnectFailed(f"{peer}: {error}") from error
    except OSError as error:  # TimeoutError is one
        reason = error.strerror or str(error) or "it took too long"
        advice = dialer.advice
        if isinstance(error, gaierror):
            advice = "Is the host's name right?"
        raise ConnectFailed(f"no broker answers at {peer} ({reason}). {advice}") from error
    async with stream, run_connection(connection, stream):
        try:
            with anyio.fail_after(deadline - anyio.current_time()):
                await connection.greeted()
        except (TimeoutError, ConnectionLost) as error:
            reason = "it took too long"
            if isinstance(error, ConnectionLost):
                reason = error.message
            raise ConnectFailed(
                f"{peer} accepts connections but does not answer as a zaichik broker ({reason})"
            ) from error
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def open_further_connection(
    dialer: Dialer, name: str, timeout: float, reconnect: float, silence_timeout: float
) -> AsyncIterator[BrokerConnection]:
    """Returns one more connection, that the broker serves as any other.

    A full broker accepts one more, for an operator, and refuses most of what it is asked there.

    Raises:
        ConnectFailed, BrokerError: as `open_connection`; `TooManyConnections` also if it is one for
            an operator.
        ConnectionLost: it was lost at once.
    """
    opening = open_connection(dialer, name, timeout, reconnect, silence_timeout)
    async with opening as connection:
        await connection.try_out()
        yield connection


@asynccontextmanager
async def run_connection(connection: BrokerConnection, stream: Stream) -> AsyncIterator[None]:
    """Let the connection read and write as long as the block lasts."""
    async with DetachedTasks() as background:
        background.group.start_soon(connection.run, stream)
        watch(connection.inherited)
        try:
            yield
        finally:
            unwatch(connection.inherited)
            connection.end()
