"""A cluster whose nodes are a test: brokers in this process, and maps that the test publishes."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from brokers import GUARD

import zaichik
from zaichik.client.cluster.hashing import shard_of
from zaichik.client.cluster.map import TOPIC, ClusterMap, Shard


class Shards:
    """Brokers that are the shards of a cluster, without one that publishes maps by itself.

    Attributes:
        map: the newest one.
        brokers: those that run, by the numbers of their shards.
    """

    def __init__(self, count: int, folder: Path | None, settings: dict[str, object]) -> None:
        self.map = ClusterMap(0, tuple(Shard(0, "") for _ in range(count)))
        self.brokers: dict[int, zaichik.Server] = {}
        self._folder = folder
        self._settings = settings
        self._running: dict[int, AsyncExitStack] = {}

    @property
    def addresses(self) -> list[str]:
        """Where the shards are that run."""
        return [self.map.shards[number].address for number in sorted(self.brokers)]

    async def start(self, number: int, port: int = 0) -> None:
        """Start a shard's broker on its folder, as the next generation; nobody is told yet."""
        stack = AsyncExitStack()
        data = None
        if self._folder is not None:
            data = self._folder / f"shard-{number}"
        settings = zaichik.BrokerSettings(auto_create=False, **self._settings)
        running = zaichik.running_broker(port=port, settings=settings, data=data)
        broker = await stack.enter_async_context(running)
        self._running[number] = stack
        self.brokers[number] = broker
        generation = self.map.shards[number].generation + 1
        self.place(number, Shard(generation, f"127.0.0.1:{broker.port}", "a"))

    def place(self, number: int, shard: Shard) -> None:
        """Have the next map say that."""
        shards = list(self.map.shards)
        shards[number] = shard
        self.map = replace(self.map, shards=tuple(shards))

    async def stop(self, number: int) -> None:
        """Stop a shard's broker."""
        del self.brokers[number]
        await self._running.pop(number).aclose()

    async def publish(self, *numbers: int, payload: bytes | None = None) -> None:
        """Publish the map, or something else, at all shards that run, or at some."""
        for number in numbers or sorted(self.brokers):
            broker = self.brokers[number]
            async with zaichik.connect(port=broker.port, reconnect=0) as client:
                await client.create_topic(TOPIC, capacity=1, retention_ttl="forever")
                await client.publish(TOPIC, payload or self.map.encoded())

    async def aclose(self) -> None:
        """Stop all of them."""
        for number in [*self.brokers]:
            await self.stop(number)

    def topic_of(self, number: int, prefix: str = "t") -> str:
        """Returns the name of a topic that belongs to a shard."""
        names = (f"{prefix}{attempt}" for attempt in range(10_000))
        return next(name for name in names if shard_of(name, len(self.map.shards)) == number)


@asynccontextmanager
async def shards(
    count: int = 3, folder: Path | None = None, **settings: object
) -> AsyncIterator[Shards]:
    """Returns a cluster that runs, and whose shards have the map."""
    cluster = Shards(count, folder, settings)
    with anyio.fail_after(GUARD):
        try:
            for number in range(count):
                await cluster.start(number)
            await cluster.publish()
            yield cluster
        finally:
            with anyio.CancelScope(shield=True):
                await cluster.aclose()
