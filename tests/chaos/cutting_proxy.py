"""A proxy that cuts connections, at seeded random positions, in the middle of whatever is on its
way.

Each direction of each connection is given a number of bytes when it is made. The byte after these
is never passed on: both sides are closed at once. Every second time that is a reset, as when a
machine disappears, and otherwise an orderly end, as when a process does. The positions follow from
the seed and the number of the connection, and from nothing else.

It can also be told to cut: then all its connections are, and new ones as soon as they are made,
until it is told to accept them again.

    client ─▶ [ so many bytes ─▶ x ] ─▶ broker
    client ◀─ [ x ◀─ so many bytes ] ◀─ broker
"""

import random
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

_PIECE = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing throws away what is unsent, and says so


class CuttingProxy:
    """Stands before a broker.

    Args:
        leads_to: the broker's port.
        seed: of the positions.
        at_most: bytes that a direction may carry; how many it does is anything from 1 to this, all
            equally likely.

    Attributes:
        port: where clients connect.
        cut_at: when connections were cut at their positions, as `time.monotonic` counts.
        is_open: whether new connections are passed on.
    """

    port: int

    def __init__(self, leads_to: int, seed: int, at_most: int) -> None:
        self.cut_at: list[float] = []
        self.is_open = True
        self._leads_to = leads_to
        self._seed = seed
        self._at_most = at_most
        self._connections = 0
        # Those that are passed on. A set that keeps order.
        self._passing: dict[TaskGroup, None] = {}

    @property
    def cuts(self) -> int:
        """Connections cut at their positions so far."""
        return len(self.cut_at)

    def cut(self) -> None:
        """Cut all connections, and new ones until `is_open` is true again."""
        self.is_open = False
        for tasks in self._passing:
            tasks.cancel_scope.cancel()

    async def serve(self, outside: SocketStream) -> None:
        """One connection, from its beginning to its cut."""
        number, self._connections = self._connections, self._connections + 1
        positions = random.Random(f"{self._seed} {number}")
        there, back = (positions.randint(1, self._at_most) for _ in range(2))
        async with outside:
            if not self.is_open:
                return
            # The broker may be away: then the connection ends as if it were cut.
            with suppress(OSError):
                async with await anyio.connect_tcp("127.0.0.1", self._leads_to) as inside:
                    await self._between(outside, inside, there, back)
                    if number % 2:
                        _reset(outside, inside)

    async def _between(
        self, outside: SocketStream, inside: SocketStream, there: int, back: int
    ) -> None:
        """Pass on what comes, until one side ends or is cut."""
        async with anyio.create_task_group() as tasks:
            self._passing[tasks] = None
            tasks.start_soon(self._pass_on, outside, inside, there, tasks)
            tasks.start_soon(self._pass_on, inside, outside, back, tasks)
        del self._passing[tasks]

    async def _pass_on(
        self, source: SocketStream, to: SocketStream, left: int, tasks: TaskGroup
    ) -> None:
        """Until the source ends or the position comes; either ends both directions."""
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while left > 0:
                data = await source.receive(_PIECE)
                await to.send(data[:left])
                left -= len(data)
            self.cut_at.append(time.monotonic())
        tasks.cancel_scope.cancel()


def _reset(*sides: SocketStream) -> None:
    """Have these end with a reset, when they are closed."""
    for side in sides:
        with suppress(OSError):  # it is closed already
            side.extra(SocketAttribute.raw_socket).setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET
            )


@asynccontextmanager
async def cutting_proxy(leads_to: int, *, seed: int, at_most: int) -> AsyncIterator[CuttingProxy]:
    """A proxy that works as long as the block lasts."""
    proxy = CuttingProxy(leads_to, seed, at_most)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0) as listener,
        anyio.create_task_group() as tasks,
    ):
        proxy.port = listener.extra(SocketAttribute.local_port)
        tasks.start_soon(listener.serve, proxy.serve)
        yield proxy
        tasks.cancel_scope.cancel()
