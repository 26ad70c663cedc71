"""Keeps the brokers of a node's shards running, and has each of them keep the map.

A task for each shard starts its broker, publishes to it whatever the map becomes, or if somebody
else has published in its place, and starts it again when it has ended: at once, and then after
longer and longer pauses. That needs nobody's agreement, since a shard's address is fixed (CL-2).
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

import zaichik
from zaichik import Forbidden, ZaichikError
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
LOOK_S = 15.0  # from one look at what a broker keeps to the next
# The broker is a process of this machine, whose end is noticed anyway; pings would only cost time.
WATCH_SILENCE_S = 3600.0

Launcher = Callable[[int], AbstractAsyncContextManager[Broker]]
Publisher = Callable[[Endpoint, bytes], Awaitable[None]]
Watcher = Callable[[Endpoint, bytes], Awaitable[None]]


class BrokerHosting:
    """The brokers of a node.

    Args:
        launch: returns the running broker of a shard, for a block.
        publish: has a broker keep a map.
        watch: returns once a broker keeps another one.
        tasks: where they run; cancelled, it stops them in order.
    """

    def __init__(
        self, launch: Launcher, publish: Publisher, watch: Watcher, tasks: TaskGroup
    ) -> None:
        self._launch = launch
        self._publish = publish
        self._watch = watch
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
        pause = PUBLISH_PAUSE_S
        while True:
            payload, changed = self._map, self._map_changed
            if payload is None:
                await changed.wait()
                continue
            try:
                with anyio.fail_after(PUBLISH_S):
                    await self._publish(broker.endpoint, payload)
                pause = PUBLISH_PAUSE_S
                self._ready.add(shard)
                self._tell()
                lost = await self._until_replaced(broker.endpoint, payload, changed)
                if lost:
                    logger.warning("shard %d has lost the map: %s", shard, lost)
                    await anyio.sleep(pause)
            except (ZaichikError, OSError) as error:
                # TimeoutError is an OSError. A broker that is about to end is told of elsewhere.
                logger.warning("shard %d has not taken the map: %s", shard, error)
                await anyio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _until_replaced(
        self, endpoint: Endpoint, payload: bytes, changed: anyio.Event
    ) -> str:
        """Returns, once there is another map, ""; once the broker has lost this one, why."""
        problem = ""
        async with anyio.create_task_group() as tasks:

            async def leave() -> None:
                await changed.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(leave)
            try:
                await self._watch(endpoint, payload)
                problem = "somebody else has published to its topic"
            except Forbidden:
                # A node that may not read what it has published trusts in it.
                await anyio.sleep_forever()
            except (ZaichikError, OSError) as error:
                problem = str(error)
            tasks.cancel_scope.cancel()
        return problem


async def publish_map(endpoint: Endpoint, payload: bytes) -> None:
    """Have a broker keep this map as the only message of its topic `cluster`.

    Raises:
        ZaichikError: it does not.
    """
    async with zaichik.connect(endpoint, name="zaichik cluster", reconnect=0) as client:
        await client.create_topic(TOPIC, capacity=1, retention_ttl="forever", durable=False)
        await client.publish(TOPIC, payload)


async def watch_map(endpoint: Endpoint, payload: bytes) -> None:
    """Return once a broker keeps another message than this one, or none.

    It looks now and then: a subscription that idles would cost a program ten times as much.

    Raises:
        ZaichikError: nothing is heard of the broker.
    """
    async with zaichik.connect(
        endpoint, name="zaichik cluster", reconnect=0, silence_timeout=WATCH_SILENCE_S
    ) as client:
        kept = await _kept(client)
        if kept is None or not await _is_kept(client, payload):
            return
        while await _kept(client) == kept:  # noqa: ASYNC110 (nobody here would set an event)
            await anyio.sleep(LOOK_S)


async def _kept(client: zaichik.Client) -> tuple[int, int] | None:
    """Returns what tells the message that a broker keeps from all others; None: it has no topic."""
    state = await client.topic(TOPIC)
    if state is None:
        return None
    return state["epoch"], state["next_offset"]


async def _is_kept(client: zaichik.Client, payload: bytes) -> bool:
    async with client.subscribe(TOPIC, credit=1) as subscription:
        async for message in subscription:
            return bytes(message.payload) == payload
    return False
