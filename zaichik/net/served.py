"""Connections that are served at the same time: so many at most, each in a task of its own.

What one connection may hold is bounded, so their number bounds what a server holds. A connection
counts from the moment at which it was accepted, also while TLS or a WebSocket is being agreed on:
strangers who never agree would take any number of descriptors. An exception ends the connection
that it comes from, and no other.
"""

# Not compiled: it runs once in a connection, so there is nothing to gain.

import logging
from collections.abc import Awaitable, Callable

from zaichik.net.socket_stream import SocketStream

# Returns the reason why the connection has ended, for the log; "" if it has logged that itself.
Converse = Callable[[SocketStream, str], Awaitable[str]]


class Served:
    """The connections of a server.

    Args:
        most: how many there may be.
        logger: the server's own.
        make_room: called when there are as many; returns whether it ends one of them.

    Attributes:
        count: how many there are.
        turned_away: how many more there would have been, without the limit.
    """

    def __init__(
        self, most: int, logger: logging.Logger, make_room: Callable[[], bool] = lambda: False
    ) -> None:
        self.count = 0
        self.turned_away = 0
        self._most = most
        self._logger = logger
        self._make_room = make_room

    async def serve(self, converse: Converse, stream: SocketStream, peer: str) -> None:
        """Serve a connection that was just accepted, and close it.

        Args:
            converse: gets stream and peer; it may close the stream itself.
            stream: the connection.
            peer: its address.
        """
        try:
            if self.count < self._most or self._make_room():
                await self._serve(converse, stream, peer)
            else:
                self.turned_away += 1
                self._logger.warning(
                    "%s turned away: there are %d connections, which is the limit",
                    peer,
                    self.count,
                )
        finally:
            await stream.aclose()

    async def _serve(self, converse: Converse, stream: SocketStream, peer: str) -> None:
        self.count += 1
        self._logger.info("%s connected", peer)
        try:
            reason = await converse(stream, peer)
            if reason:
                self._logger.info("%s disconnected: %s", peer, reason)
        except Exception:
            self._logger.exception("%s: a bug ended this connection", peer)
        finally:
            self.count -= 1
