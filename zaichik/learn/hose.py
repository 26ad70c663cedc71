"""A client that floods a broker with requests and never reads a reply. Its buffers are small.

Between two programs on one machine the kernel buffers about 4 MiB that nobody reads. With small
segments it buffers less than 1 MiB, and a broker's own limit shows after fewer requests.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from zaichik.learn import causes
from zaichik.learn.failure import Failure
from zaichik.learn.trial import Target

SEGMENT, WINDOW = 1400, 65_536  # bytes


class Hose:
    """An open one.

    Args:
        sock: connected, not blocking.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    async def pour(self, data: bytes) -> bool:
        """Send it all. Returns False if the broker has disconnected us, which it may."""
        rest = memoryview(data)
        while rest:
            await anyio.wait_writable(self._socket)
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True


@asynccontextmanager
async def hose(target: Target) -> AsyncIterator[Hose]:
    """Connect one; it is closed with the block."""
    with socket.socket(socket.AF_INET6 if ":" in target.host else socket.AF_INET) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        try:
            await anyio.to_thread.run_sync(sock.connect, (target.host, target.port))
        except OSError:
            raise Failure("no connection could be made", cause=causes.REFUSED) from None
        sock.setblocking(False)
        yield Hose(sock)
