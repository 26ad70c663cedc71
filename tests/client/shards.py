"""A cluster whose nodes are a test: brokers in this process, and maps that the test publishes."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.from_thread import BlockingPortal, start_blocking_portal
from brokers import GUARD

import zaichik
from zaichik.client.cluster.hashing import shard_of
from zaichik.client.cluster.map import TOPIC, ClusterMap, Shard
from zaichik.net.background import BackgroundTasks


class Shards:
    """Brokers that are the shards of a cluster, without one that publishes maps by itself.

    Attributes:
        map: the newest one.
        brokers: those that run, by the numbers of their shards.
    """

    def __init__(
        self, tasks: TaskGroup, count: int, folder: Path | None, settings: dict[str, object]
    ) -> None:
        self._tasks = tasks
        self.map = ClusterMap(0, tuple(Shard(0, "") for _ in range(count)))
        self.brokers: dict[int, zaichik.Server] = {}
        self._folder = folder
        self._settings = settings
        # Set to stop one; and when it has stopped.
        self._stops: dict[int, tuple[anyio.Event, anyio.Event]] = {}

    @property
    def addresses(self) -> list[str]:
        """Where the shards are that run."""
        return [self.map.shards[number].address for number in sorted(self.brokers)]

    async def start(self, number: int, port: int = 0) -> None:
        """Start a shard's broker on its folder, as the next generation; nobody is told yet."""
        broker = await self._tasks.start(self._run, number, port)
        self.brokers[number] = broker
        generation = self.map.shards[number].generation + 1
        self.place(number, Shard(generation, f"127.0.0.1:{broker.port}", "a"))

    async def _run(
        self, number: int, port: int, *, task_status: TaskStatus[zaichik.Server]
    ) -> None:
        """Run a broker until it is stopped; in a task, so that they may end in any order."""
        data = None
        if self._folder is not None:
            data = self._folder / f"shard-{number}"
        settings = zaichik.BrokerSettings(auto_create=False, **self._settings)
        stop, stopped = anyio.Event(), anyio.Event()
        self._stops[number] = stop, stopped
        async with zaichik.running_broker(port=port, settings=settings, data=data) as broker:
            task_status.started(broker)
            await stop.wait()
        stopped.set()

    def place(self, number: int, shard: Shard) -> None:
        """Have the next map say that."""
        shards = list(self.map.shards)
        shards[number] = shard
        self.map = replace(self.map, shards=tuple(shards))

    async def stop(self, number: int) -> None:
        """Stop a shard's broker."""
        del self.brokers[number]
        stop, stopped = self._stops.pop(number)
        stop.set()
        await stopped.wait()

    async def publish(self, *numbers: int, payload: bytes | None = None) -> None:
        """Publish the map, or something else, at all shards that run, or at some."""
        for number in numbers or sorted(self.brokers):
            broker = self.brokers[number]
            async with zaichik.connect(port=broker.port, reconnect=0) as client:
                await client.create_topic(TOPIC, capacity=1, retention_ttl="forever")
                await client.publish(TOPIC, payload or self.map.encoded())

    def topic_of(self, number: int, prefix: str = "t") -> str:
        """Returns the name of a topic that belongs to a shard."""
        names = (f"{prefix}{attempt}" for attempt in range(10_000))
        return next(name for name in names if shard_of(name, len(self.map.shards)) == number)


async def publish_on(client: zaichik.Cluster, topic: str) -> None:
    """Publish to a topic until that fails."""
    while True:
        await client.publish(topic, b"")


@asynccontextmanager
async def shards(
    count: int = 3, folder: Path | None = None, **settings: object
) -> AsyncIterator[Shards]:
    """Returns a cluster that runs, and whose shards have the map."""
    with anyio.fail_after(GUARD):
        async with BackgroundTasks() as tasks:
            cluster = Shards(tasks.group, count, folder, settings)
            for number in range(count):
                await cluster.start(number)
            await cluster.publish()
            yield cluster


class EmbeddedShards:
    """A cluster in another thread.

    Attributes:
        cluster: see `Shards`; its methods are called with `call`.
    """

    def __init__(self, portal: BlockingPortal, cluster: Shards) -> None:
        self.cluster = cluster
        self._portal = portal

    @property
    def address(self) -> str:
        """Where one shard is."""
        return self.cluster.addresses[0]

    def call(self, function: Callable[..., object], *arguments: object) -> object:
        """Call a coroutine function where the cluster is."""
        return self._portal.call(function, *arguments)

    def move(self, number: int) -> None:
        """Stop a shard, start it elsewhere, and tell all."""
        for step in (self.cluster.stop, self.cluster.start):
            self.call(step, number)
        self.call(self.cluster.publish)


@contextmanager
def embedded_shards(count: int = 2, folder: Path | None = None) -> Iterator[EmbeddedShards]:
    """A cluster that lives as long as the block, for tests without an event loop."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(shards(count, folder)) as cluster,
    ):
        yield EmbeddedShards(portal, cluster)
