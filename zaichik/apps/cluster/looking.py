"""A cluster as it is seen from outside: the map that a shard has, and what each shard answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from zaichik import Client, ZaichikError
from zaichik.client.client import SILENCE_SECONDS, connect_over
from zaichik.client.cluster.cluster import OF_EACH
from zaichik.client.cluster.hashing import shard_of
from zaichik.client.cluster.map import TOPIC, ClusterMap
from zaichik.client.cluster.seed_dialer import SeedDialer
from zaichik.client.endpoint import Endpoint, endpoint

ANSWER_S = 5.0
AT_ONCE = 16  # shards that are asked at a time


class NoCluster(Exception):
    """The broker is in no cluster. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a shard answered.

    Attributes:
        topics: its topics' names, without the map and `$topics`, which every shard has; None: it
            did not answer.
        problem: why it did not answer; "" if it did.
    """

    topics: tuple[str, ...] | None
    problem: str = ""


async def map_at(broker: Endpoint) -> ClusterMap:
    """Returns the cluster's map as a broker has it.

    Raises:
        NoCluster: it has none.
        ClusterMapUnusable: it has one that this version cannot read.
        ZaichikError: it does not answer.
    """
    async with _client(broker) as client:
        # Subscribing would make the topic, at a broker that is in no cluster.
        if any(row["name"] == TOPIC for row in await client.topics(TOPIC)):
            with anyio.move_on_after(ANSWER_S):
                async with client.subscribe(TOPIC, credit=1) as subscription:
                    async for message in subscription:
                        return ClusterMap.parse(bytes(message.payload))
    raise NoCluster(
        f"the broker at {broker} is in no cluster: it has no topic {TOPIC!r} with a map; name a "
        "broker of the cluster with --connect"
    )


async def ask_all(cluster_map: ClusterMap, broker: Endpoint) -> list[Seen]:
    """Returns what each shard answers, by number.

    Args:
        cluster_map: where they are.
        broker: one of them; the login for it is used for all.
    """
    seen = [Seen(None, "it is on no machine")] * len(cluster_map.shards)
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def ask(shard: int, address: str) -> None:
        async with limiter:
            place = endpoint(address)
            seen[shard] = await _asked(replace(broker, host=place.host, port=place.port))

    async with anyio.create_task_group() as tasks:
        for number, shard in enumerate(cluster_map.shards):
            if shard.address:
                tasks.start_soon(ask, number, shard.address)
    return seen


def misplaced(topics: tuple[str, ...], shard: int, shards: int) -> list[tuple[str, int]]:
    """Returns the topics of a shard that belong to another one, each with that one's number."""
    found = [(topic, shard_of(topic, shards)) for topic in topics]
    return [(topic, home) for topic, home in found if home != shard]


async def _asked(broker: Endpoint) -> Seen:
    try:
        async with _client(broker) as client:
            with anyio.fail_after(ANSWER_S):
                names = [str(row["name"]) for row in await client.topics()]
    except (ZaichikError, OSError) as error:
        return Seen(None, str(error) or "it took too long")
    return Seen(tuple(name for name in names if name not in OF_EACH))


@asynccontextmanager
async def _client(broker: Endpoint) -> AsyncIterator[Client]:
    dialer = SeedDialer(broker)
    async with connect_over(dialer, "zaichik cluster", ANSWER_S, 0, SILENCE_SECONDS) as client:
        yield client
