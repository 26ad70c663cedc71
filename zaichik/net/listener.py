"""An accept loop that never ends by itself, not even when the process runs out of file descriptors.

`accept` fails for transient reasons: the peer has gone again, or no descriptor is left (EMFILE and
its kin). anyio's accept loop ends with the first of these errors, and all connections end with it.
This one continues. When descriptors run out, it gives up a spare one to accept the next connection
and closes that at once, so the peer sees its connection closed instead of hanging in the backlog.
Then it pauses, so as not to spin.

A peer's address is taken from `accept`. The socket itself no longer knows it once the peer has
reset the connection, and a port scan does just that.
"""

import errno
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from zaichik.net.socket_stream import SocketStream

logger = logging.getLogger(__name__)

# Connections that may wait to be accepted when all clients reconnect at once. It is Linux's default
# limit.
BACKLOG = 4096

# Errors of an `accept` for lack of a resource; the pause after one; and the time between two log
# lines about them.
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE_SECONDS = 0.1
LOG_SECONDS = 1.0

# Serves a connection; it also gets the peer's address, HOST:PORT.
Handler = Callable[[SocketStream, str], Coroutine[Any, Any, None]]


class Listener:
    """Listening sockets on all addresses of a host, with one port.

    Attributes:
        host, port: the address of the first socket.
    """

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self.host: str
        self.port: int
        self.host, self.port, *_ = sockets[0].getsockname()
        self._spare = socket.socket()  # a descriptor to give up when no other is left
        self._silent_until = -math.inf

    @classmethod
    async def open(cls, host: str, port: int) -> "Listener":
        """Returns a listener on that address; port 0 takes a free one.

        Raises:
            OSError: the address is taken, forbidden or unknown.
        """
        sockets: list[socket.socket] = []
        try:
            found = await anyio.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            # Some systems name an address twice.
            for family, kind, proto, _, address in dict.fromkeys(found):
                raw = socket.socket(family, kind, proto)
                sockets.append(raw)
                raw.setblocking(False)
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                # Port 0 is chosen once: all addresses of the host get the same.
                chosen = sockets[0].getsockname()[1] or port
                raw.bind((address[0], chosen, *address[2:]))
                raw.listen(BACKLOG)
            return cls(sockets)
        except BaseException as error:
            for raw in sockets:
                raw.close()
            is_taken = isinstance(error, OSError) and error.errno == errno.EADDRINUSE
            # The port that was chosen is free at the first address, but not at the next: choose
            # again.
            if is_taken and port == 0 and len(sockets) > 1:
                return await cls.open(host, port)
            raise

    async def serve(
        self, handler: Handler, tasks: TaskGroup, turn: Callable[[], Awaitable[None]] = checkpoint
    ) -> None:
        """Accept until cancelled or closed; `handler` runs in `tasks` for each connection.

        Before each connection is accepted, `turn` is awaited.
        """
        async with anyio.create_task_group() as accepting:
            for raw in self._sockets:
                accepting.start_soon(self._accept_forever, raw, handler, tasks, turn)

    async def _accept_forever(
        self,
        raw: socket.socket,
        handler: Handler,
        tasks: TaskGroup,
        turn: Callable[[], Awaitable[None]],
    ) -> None:
        while raw.fileno() >= 0:
            try:
                await anyio.wait_readable(raw)
                await turn()
                connection, address = raw.accept()
            except anyio.ClosedResourceError:
                break
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._turn_away(raw, str(error.strerror))
                    await anyio.sleep(PAUSE_SECONDS)
            else:
                tasks.start_soon(handler, SocketStream(connection), _host_and_port(address))

    def _turn_away(self, raw: socket.socket, reason: str) -> None:
        """Accept a connection with the spare descriptor, and close it at once."""
        now = anyio.current_time()
        if now >= self._silent_until:
            self._silent_until = now + LOG_SECONDS
            logger.warning("connections are turned away: %s", reason)
        self._spare.close()
        # It fails if the peer has gone already, or another thread took the descriptor first.
        with suppress(OSError):
            raw.accept()[0].close()
        # If this fails, there is no spare descriptor until the next time.
        with suppress(OSError):
            self._spare = socket.socket()

    async def __aenter__(self) -> "Listener":
        """Returns the listener."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening."""
        await self.aclose()

    async def aclose(self) -> None:
        """Stop listening."""
        for raw in self._sockets:
            anyio.notify_closing(raw)
            raw.close()
        self._spare.close()


def _host_and_port(address: Any) -> str:
    """Returns an address of `accept` as text.

    Some systems have none for a connection that is already reset.
    """
    if not address:
        return "unknown:0"
    return f"{address[0]}:{address[1]}"
