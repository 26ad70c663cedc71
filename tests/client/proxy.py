"""A proxy between client and broker that cuts connections after so many bytes."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import chain, repeat

import anyio
from anyio.abc import SocketAttribute, SocketStream

from zaichik.net.background import BackgroundTasks

UP, DOWN = "to the broker", "to the client"
NEVER = (UP, 2**60)

Cut = tuple[str, int]


class Proxy:
    """Passes bytes on, in both directions, and cuts each connection where it is told.

    Attributes:
        port: where it listens.
        target: the port of the broker.
        connections: how many there were.
    """

    def __init__(self, port: int, target: int, cuts: Iterable[Cut]) -> None:
        self.port = port
        self.target = target
        self.connections = 0
        self._cuts: Iterator[Cut] = chain(cuts, repeat(NEVER))
        self._scopes: set[anyio.CancelScope] = set()

    def cut(self) -> None:
        """Cut all that there are."""
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, client: SocketStream) -> None:
        """One connection."""
        self.connections += 1
        direction, size = next(self._cuts)
        async with client:
            try:
                broker = await anyio.connect_tcp("127.0.0.1", self.target)
            except OSError:
                return
            async with broker, anyio.create_task_group() as tasks:
                self._scopes.add(tasks.cancel_scope)
                for name, source, sink in ((UP, client, broker), (DOWN, broker, client)):
                    tasks.start_soon(
                        pass_on,
                        source,
                        sink,
                        size if name == direction else 2**60,
                        tasks.cancel_scope,
                    )
            self._scopes.discard(tasks.cancel_scope)


async def pass_on(
    source: SocketStream, sink: SocketStream, size: int, scope: anyio.CancelScope
) -> None:
    """So many bytes, at most; then, or when either ends, end it all."""
    try:
        while size > 0:
            data = (await source.receive())[:size]
            size -= len(data)
            await sink.send(data)
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass
    scope.cancel()


@asynccontextmanager
async def cutting_proxy(target: int, cuts: Iterable[Cut] = ()) -> AsyncIterator[Proxy]:
    """One that cuts the first connection at the first of the cuts, and so on; those after the last
    are left alone.
    """
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        BackgroundTasks() as tasks,
    ):
        proxy = Proxy(listener.extra(SocketAttribute.local_port), target, cuts)
        tasks.group.start_soon(listener.serve, proxy.serve)
        yield proxy
