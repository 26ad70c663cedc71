"""Keeps the brokers of a node's shards running, and has each of them keep the map.

A task for each shard starts its broker, publishes to it whatever the map becomes, and starts it
again when it has ended: at once, and then after longer and longer pauses. That needs nobody's
agreement, since a shard's address is fixed (CL-2).
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

import zaichik
from zaichik import ZaichikError
from zaichik.apps.cluster.broker_process import Broker, NotStarted
from zaichik.client.cluster.map import TOPIC, ClusterMap
from zaichik.client.endpoint import Endpoint

logger = logging.getLogger("zaichik.cluster.hosting")

# Pauses before a broker is started again, in seconds: nothing is gained by hurrying a broker whose
# folder is damaged.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
# A broker that has served for so long is well; the next pause is the first one again.
WELL_S = 10.0
PUBLISH_PAUSE_S = 0.5
PUBLISH_S = 5.0

Launcher = Callable[[int], AbstractAsyncContextManager[Broker]]
Publisher = Callable[[Endpoint, bytes], Awaitable[None]]


class BrokerHosting:
    """The brokers of a node.

    Args:
        launch: returns the running broker of a shard, for a block.
        publish: has a broker keep a map.
        tasks: where they run; cancelled, it stops them in order.
    """

    def __init__(self, launch: Launcher, publish: Publisher, tasks: TaskGroup) -> None:
        self._launch = launch
        self._publish = publish
        self._tasks = tasks
        self._wanted: frozenset[int] = frozenset()
        # By shard, from the start of its first broker until its last one has stopped.
        self._keeping: dict[int, anyio.CancelScope] = {}
        self._running: dict[int, Broker] = {}
        self._ready: set[int] = set()
        self._map: bytes | None = None
        self._map_changed = anyio.Event()
        self._changed = anyio.Event()

    def serve(self, shards: frozenset[int]) -> None:
        """Have the brokers of exactly these shards run."""
        self._wanted = shards
        for shard in sorted(shards - self._keeping.keys()):
            self._keeping[shard] = anyio.CancelScope()
            self._tasks.start_soon(self._keep, shard, self._keeping[shard])
        for shard in self._keeping.keys() - shards:
            self._keeping[shard].cancel()
        self._tell()

    def publish(self, cluster_map: ClusterMap) -> None:
        """Have all of these brokers keep this map."""
        self._map = cluster_map.encoded()
        self._map_changed.set()
        self._map_changed = anyio.Event()

    def hang_up(self) -> None:
        """Have all brokers that run read their users and rules again."""
        for broker in self._running.values():
            broker.hang_up()

    async def all_ready(self) -> frozenset[int]:
        """Returns the shards that are to be served, once all of them are and have the map."""
        while not self._ready >= self._wanted:
            await self._changed.wait()
        return self._wanted

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _keep(self, shard: int, scope: anyio.CancelScope) -> None:
        with scope:
            await self._keep_running(shard)
        del self._keeping[shard]
        self._ready.discard(shard)
        # It may have come back while its broker was stopping.
        if shard in self._wanted:
            self.serve(self._wanted)

    async def _keep_running(self, shard: int) -> None:
        pause = FIRST_PAUSE_S
        while True:
            began = anyio.current_time()
            try:
                async with self._launch(shard) as broker:
                    began = anyio.current_time()
                    logger.info("shard %d is served at %s", shard, broker.endpoint)
                    reason = f"exit code {await self._tended(shard, broker)}"
            except (NotStarted, OSError) as error:
                reason = str(error)
            self._ready.discard(shard)
            if anyio.current_time() - began > WELL_S:
                pause = FIRST_PAUSE_S
            logger.error(
                "the broker of shard %d has ended (%s): started again in %g s", shard, reason, pause
            )
            await anyio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _tended(self, shard: int, broker: Broker) -> int:
        """Returns a broker's exit code when it has ended; until then, it has the map."""
        self._running[shard] = broker
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._keep_published, shard, broker)
                code = await broker.wait()
                tasks.cancel_scope.cancel()
        finally:
            del self._running[shard]
        return code

    async def _keep_published(self, shard: int, broker: Broker) -> None:
        published: bytes | None = None
        pause = PUBLISH_PAUSE_S
        while True:
            payload, changed = self._map, self._map_changed
            if payload is None or payload == published:
                await changed.wait()
                continue
            try:
                with anyio.fail_after(PUBLISH_S):
                    await self._publish(broker.endpoint, payload)
            except (ZaichikError, OSError) as error:
                # TimeoutError is an OSError. A broker that is about to end is told of elsewhere.
                logger.warning("shard %d has not taken the map: %s", shard, error)
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                continue
            published = payload
            pause = PUBLISH_PAUSE_S
            self._ready.add(shard)
            self._tell()


async def publish_map(endpoint: Endpoint, payload: bytes) -> None:
    """Have a broker keep this map as the only message of its topic `cluster`.

    Raises:
        ZaichikError: it does not.
    """
    async with zaichik.connect(endpoint, name="zaichik cluster", reconnect=0) as client:
        await client.create_topic(TOPIC, capacity=1, retention_ttl="forever", durable=False)
        await client.publish(TOPIC, payload)
