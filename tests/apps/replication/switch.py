"""A switch between clients and brokers: what it passes on, and to which broker, a test says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from zaichik.net.background import BackgroundTasks

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Switch:
    """Passes bytes on, in both directions.

    Attributes:
        port: where it listens.
        target: the port of the broker; 0: there is none.
        is_deaf: whether what clients send is lost on the way.
        is_mute: whether what the broker sends is.
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.is_deaf = False
        self.is_mute = False
        self._scopes: set[anyio.CancelScope] = set()

    def cut(self) -> None:
        """Cut all connections."""
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, client: SocketStream) -> None:
        """Serve one connection."""
        async with client:
            try:
                broker = await anyio.connect_tcp("127.0.0.1", self.target)
            except OSError:
                return
            async with broker, anyio.create_task_group() as tasks:
                self._scopes.add(tasks.cancel_scope)
                tasks.start_soon(self._up, client, broker, tasks.cancel_scope)
                tasks.start_soon(self._down, broker, client, tasks.cancel_scope)
            self._scopes.discard(tasks.cancel_scope)

    async def _up(self, source: SocketStream, sink: SocketStream, end: anyio.CancelScope) -> None:
        try:
            while True:
                data = await source.receive()
                if not self.is_deaf:
                    await sink.send(data)
        except GONE:
            end.cancel()

    async def _down(self, source: SocketStream, sink: SocketStream, end: anyio.CancelScope) -> None:
        try:
            while True:
                data = await source.receive()
                if not self.is_mute:
                    await sink.send(data)
        except GONE:
            end.cancel()


@asynccontextmanager
async def switch(target: int) -> AsyncIterator[Switch]:
    """A switch to the broker at that port."""
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        BackgroundTasks() as tasks,
    ):
        made = Switch(listener.extra(SocketAttribute.local_port), target)
        tasks.group.start_soon(listener.serve, made.serve)
        yield made
