"""What a program calls: a client for all topics of a cluster, whichever shard has them.

Each method that is about one topic is that of the `Client` of the topic's shard. What is about all
topics asks all shards. A topic is created at first use, as at a single broker; but since shards
create none by themselves, so that no topic comes to be where its hash does not say, this client
asks for it (see `epochs`).
"""

# Not compiled: mypyc has no asynchronous generators, which context managers are written as.

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import anyio

from zaichik.client.client import (
    DEFAULT_CREDIT,
    DEFAULT_CREDIT_BYTES,
    RECONNECT_SECONDS,
    SILENCE_SECONDS,
    Client,
    check_terms,
    connect_over,
    pattern_terms,
)
from zaichik.client.cluster.all_turns import AllTurns, ClusterPattern
from zaichik.client.cluster.known_map import KnownMap
from zaichik.client.cluster.map import TOPIC, ClusterMap
from zaichik.client.cluster.seed_dialer import SeedDialer
from zaichik.client.cluster.shard_clients import ShardClients
from zaichik.client.cluster.shard_dialer import ShardDialer
from zaichik.client.endpoint import Endpoint, at
from zaichik.client.errors import Forbidden, NoSuchTopic, ZaichikError
from zaichik.client.messages import (
    AckedBy,
    BatchResult,
    Key,
    Payload,
    PublishResult,
    batch_of,
    check_acked_by,
)
from zaichik.client.patterns.news import News
from zaichik.client.patterns.records import TOPICS
from zaichik.client.patterns.subscription import PatternSubscription
from zaichik.net.background import DetachedTasks
from zaichik.net.tls_settings import ClientTls
from zaichik_protocol import DEFAULT_PORT, Batch

# Topics that every shard has.
OF_EACH = {TOPIC, TOPICS}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@asynccontextmanager
async def cluster(
    *brokers: str | Endpoint,
    tls: ClientTls | None = None,
    name: str = "",
    timeout: float = 5.0,
    reconnect: float = RECONNECT_SECONDS,
    silence_timeout: float = SILENCE_SECONDS,
    on_new_epoch: Literal["warn", "raise"] = "warn",
    acked_by: Mapping[str, AckedBy] | None = None,
) -> AsyncIterator["Cluster"]:
    """Returns a client of a cluster that stays connected for as long as the block lasts.

    It follows the cluster's map, and connects to a shard when a topic of it is used first. If a
    shard moves or is restarted, what concerns its topics waits, as with `connect`, and nothing else
    does.

    Args:
        brokers: addresses of one broker of the cluster, or of several, of which one must answer.
            The first says how to log in, and whether with TLS, at all of them.
        tls: see `connect`.
        name: the client's name in the brokers' logs and in `describe`.
        timeout: seconds a broker may take to accept a connection and answer.
        reconnect: seconds to keep trying: to find the cluster, to reach a shard for the first time,
            and after a connection was lost. Then what needs it raises; a later call tries again.
            0: do not try.
        silence_timeout: see `connect`.
        on_new_epoch: see `connect`.
        acked_by: see `connect`.

    Raises:
        ConnectFailed: no broker answers, or those that do are not of a cluster.
        ClusterMapUnusable: the cluster's map is of a format that this version does not know.
        BrokerError: the broker refused to serve this client, with `AuthFailed` for example.
        ValueError: an argument is out of range, or no broker is named.
    """
    check_terms(reconnect, silence_timeout, on_new_epoch)
    for by in (acked_by or {}).values():
        check_acked_by(by)
    if not brokers:
        raise ValueError("name a broker of the cluster: zaichik.cluster('HOST:PORT')")
    seeds = [at(broker, DEFAULT_PORT) for broker in brokers]

    def to_any(broker: Endpoint) -> AbstractAsyncContextManager[Client]:
        return connect_over(SeedDialer(broker, tls), name, timeout, 0, silence_timeout)

    to_shard = partial(
        connect_over,
        name=name,
        timeout=timeout,
        reconnect=reconnect,
        silence_timeout=silence_timeout,
        is_strict=on_new_epoch == "raise",
        creates=True,
        acked_by=acked_by,
    )
    known = KnownMap(seeds, to_any, reconnect, timeout)
    dial = partial(ShardDialer, known, seed=seeds[0], tls=tls)
    async with DetachedTasks() as tasks:
        tasks.group.start_soon(known.run)
        await known.first()
        shards = ShardClients(known, dial, to_shard, tasks.group, reconnect)
        yield Cluster(known, shards, timeout)


def _routed(
    method: Callable[Concatenate[Client, str, Arguments], Awaitable[Result]],
) -> Callable[Concatenate["Cluster", str, Arguments], Awaitable[Result]]:
    """Returns a method that calls this one of the client of a topic's shard."""

    @wraps(method)
    async def call(
        self: "Cluster", topic: str, /, *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> Result:
        client = await self.client(topic)
        return await method(client, topic, *arguments, **options)

    return call


def _routed_block(
    method: Callable[Concatenate[Client, str, Arguments], AbstractAsyncContextManager[Result]],
) -> Callable[Concatenate["Cluster", str, Arguments], AbstractAsyncContextManager[Result]]:
    """Returns a method that enters this block of the client of a topic's shard."""

    @wraps(method)
    @asynccontextmanager
    async def enter(
        self: "Cluster", topic: str, /, *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> AsyncIterator[Result]:
        client = await self.client(topic)
        async with method(client, topic, *arguments, **options) as entered:
            yield entered

    return enter


class Cluster:
    """A client of a cluster; `cluster` makes one. Many tasks may call its methods at once.

    Besides the errors it names, each method raises `ConnectFailed` if a shard that it needs cannot
    be reached in time, and `ClusterMapUnusable` once the map cannot be followed any more.
    """

    def __init__(self, known: KnownMap, shards: ShardClients, timeout: float) -> None:
        self._known = known
        self._shards = shards
        self._timeout = timeout

    @property
    def map(self) -> ClusterMap:
        """Where the shards are, as far as this client knows."""
        return self._known.map

    async def client(self, topic: str) -> Client:
        """Returns the client of the topic's shard, which has all methods of a `Client`.

        Use it for whatever is about this topic. Once its connection was lost for good, ask again.
        """
        return await self._shards.client(self.map.shard_of(topic))

    async def shard_client(self, shard: int) -> Client:
        """Returns the client of a shard, by its number.

        Raises:
            ValueError: there is no shard of that number.
        """
        if not 0 <= shard < len(self.map.shards):
            raise ValueError(f"there is no shard {shard}; there are {len(self.map.shards)}, from 0")
        return await self._shards.client(shard)

    # -- about one topic -------------------------------------------------------------------------

    create_topic = _routed(Client.create_topic)
    delete_topic = _routed(Client.delete_topic)
    topic = _routed(Client.topic)
    explain = _routed(Client.explain)
    producer = _routed_block(Client.producer)
    subscribe = _routed_block(Client.subscribe)

    async def publish(
        self,
        topic: str,
        payload: Payload | None,
        key: Key = None,
        *,
        acked_by: AckedBy | None = None,
    ) -> PublishResult:
        """Publishes one message; returns its result once it is readable (PUB-1).

        See `zaichik.Client.publish`.

        Raises:
            MessageTooLarge, TableFull, InvalidField, ValueError, NotLossless, NoSuchTopic,
                ReplicationLost: see there.
        """
        client = await self.client(topic)
        publish = partial(client.publish, topic, payload, key, acked_by=acked_by)
        return await _created_again(client, topic, acked_by, publish)

    async def publish_batch(
        self,
        topic: str,
        batch: Batch | Iterable[tuple[Key, Payload | None]],
        *,
        producer: int = 0,
        number: int = 0,
        tombstones: bool = False,
        acked_by: AckedBy | None = None,
    ) -> BatchResult:
        """Publishes several messages, all or none; returns their result (PUB-2).

        See `zaichik.Client.publish_batch`.

        Raises:
            BatchTooLarge, SequenceGap, ProducerUnknown, TableFull, ValueError, NotLossless,
                NoSuchTopic, ReplicationLost: see there.
        """
        if not isinstance(batch, Batch):
            # What it is made of may be there once only.
            batch, tombstones = batch_of(batch, tombstones=tombstones)
        client = await self.client(topic)
        publish = partial(
            client.publish_batch,
            topic,
            batch,
            producer=producer,
            number=number,
            tombstones=tombstones,
            acked_by=acked_by,
        )
        return await _created_again(client, topic, acked_by, publish)

    # -- about all of them -----------------------------------------------------------------------

    async def topics(self, prefix: str = "") -> list[dict[str, Any]]:
        """Returns the state of every topic whose name begins with `prefix`, sorted by name.

        Each shard is asked. What each has for itself, the map and `$topics`, is left out.
        See `docs/use/describe.md`.
        """
        found = await self._from_all(lambda client: client.topics(prefix))
        states = [state for topics in found for state in topics if state["name"] not in OF_EACH]
        return sorted(states, key=lambda state: str(state["name"]))

    async def describe(self) -> list[dict[str, Any]]:
        """Returns what each shard reports of itself, in the order of their numbers.

        Each is an object with `shard`, `address`, `machine` (None if nobody has it) and
        `generation`, as the map has them, and `broker`: what `Client.describe` returns; None if it
        does not answer in time.
        """
        described = []
        for number, shard in enumerate(self.map.shards):
            described.append(
                {
                    "shard": number,
                    "address": shard.address,
                    "machine": shard.machine,
                    "generation": shard.generation,
                    "broker": None,
                }
            )

        async def ask(row: dict[str, Any]) -> None:
            with suppress(ZaichikError):
                client = await self._shards.client(row["shard"])
                row["broker"] = await client.describe()

        with anyio.move_on_after(self._timeout):
            async with anyio.create_task_group() as tasks:
                for row in described:
                    tasks.start_soon(ask, row)
        return described

    @asynccontextmanager
    async def subscribe_pattern(
        self,
        pattern: str,
        *,
        start: Literal["earliest", "latest"] | datetime = "earliest",
        credit: int = DEFAULT_CREDIT,
        credit_bytes: int = DEFAULT_CREDIT_BYTES,
        name: str = "",
        events: bool = False,
    ) -> AsyncIterator[PatternSubscription[Any]]:
        """Returns one subscription to all topics that match, at whichever shard they are.

        See `zaichik.Client.subscribe_pattern`. All shards must be there when the block begins. If
        one is away later, its topics wait; if it is away for longer than `reconnect`, iterating
        raises `ConnectionLost`.

        Args:
            pattern: see there.
            start: see there.
            credit: the most messages in flight, of all shards; each has an equal share.
            credit_bytes: the most bytes in flight, in the same way.
            name: see there.
            events: see there.

        Raises:
            ValueError, InvalidField, Unsupported, TooManySubscriptions, ConnectionLost,
                BrokerError, UnexpectedReply: see there.
        """
        matching = ClusterPattern(pattern)
        shards = len(self.map.shards)
        terms = pattern_terms(start, max(1, credit // shards), max(1, credit_bytes // shards), name)
        news = News()
        clients = await self._from_all(_itself)
        async with AsyncExitStack() as stack:
            followers = []
            for client in clients:
                following = client.following(matching, terms, news, events=events)
                followers.append(await stack.enter_async_context(following))
            turns = AllTurns([each.turns for each in followers], self.map.shard_of, news)
            subscription = PatternSubscription[Any](matching, name, turns, events=events)
            for client in clients:
                stack.enter_context(client.committing(subscription))
            yield subscription

    async def _from_all(self, ask: Callable[[Client], Awaitable[Result]]) -> list[Result]:
        """Returns what each shard answers, in the order of their numbers.

        Raises:
            ZaichikError: the error of the first that fails.
        """
        answers: dict[int, Result] = {}
        failures: list[ZaichikError] = []

        async def ask_one(shard: int) -> None:
            try:
                answers[shard] = await ask(await self._shards.client(shard))
            except ZaichikError as error:
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for shard in range(len(self.map.shards)):
                tasks.start_soon(ask_one, shard)
        if failures:
            raise failures[0]
        return [answers[shard] for shard in sorted(answers)]


async def _itself(client: Client) -> Client:
    return client


async def _created_again(
    client: Client,
    topic: str,
    acked_by: AckedBy | None,
    publish: Callable[[], Awaitable[Result]],
) -> Result:
    """Returns what a publish returns, also if another client has deleted its topic meanwhile."""
    try:
        return await publish()
    except NoSuchTopic:
        # One that is created by the way may lose messages, so nobody acknowledges them.
        if client.acknowledges(topic, acked_by) is not None:
            raise
    # Who may publish to it need not be allowed to create it. Then the next attempt says so.
    with suppress(Forbidden):
        await client.create_topic(topic)
    return await publish()
