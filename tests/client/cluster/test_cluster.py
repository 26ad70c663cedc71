"""Whichever shard has a topic, a program uses it as at a single broker; and shards may move."""

import inspect
import random

import anyio
import pytest
from brokers import GUARD, real_broker
from shards import publish_on, shards

import zaichik
from zaichik import (
    ConnectFailed,
    ConnectionLost,
    EpochChanged,
    NoSuchTopic,
    NotLossless,
    TakenOver,
    blocking,
)
from zaichik.client import transport as transport_module
from zaichik.client.cluster import known_map as known_map_module
from zaichik.client.cluster import shard_clients as shard_clients_module
from zaichik.client.cluster import shard_dialer as shard_dialer_module
from zaichik.client.cluster.map import TOPIC, Shard
from zaichik.client.replication.watermark import Watermark

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    for module in (known_map_module, shard_clients_module, transport_module):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.001)
        monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(shard_dialer_module, "SPREAD_SECONDS", 0.001)


@pytest.fixture
def endless_pauses(monkeypatch):
    """Whoever has lost a shard tries once, and then again only when the map says something new."""
    for module in (shard_clients_module, transport_module):
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 3600.0)
    for module in (shard_clients_module, shard_dialer_module, transport_module):
        monkeypatch.setattr(module, "LONGEST_PAUSE_SECONDS", 3600.0)


def connected(cluster, **options):
    return zaichik.cluster(*cluster.addresses, **{"reconnect": GUARD} | options)


# -- each topic at its shard ---------------------------------------------------------------------


async def test_a_topic_is_where_its_hash_says_and_nowhere_else():
    async with shards(3) as cluster, connected(cluster) as client:
        for number in range(3):
            await client.publish(cluster.topic_of(number), b"")
        for number, broker in cluster.brokers.items():
            async with zaichik.connect(port=broker.port) as plain:
                names = {topic["name"] for topic in await plain.topics()}
            assert names == {cluster.topic_of(number), TOPIC}


@pytest.mark.parametrize("way", ["publish", "batch", "producer", "subscribe", "work"])
async def test_a_topic_is_created_when_it_is_used_first(way):
    """CL-2b: the shards themselves create none."""
    async with shards(2) as cluster, connected(cluster) as client:
        match way:
            case "publish":
                await client.publish("orders", b"one")
            case "batch":
                await client.publish_batch("orders", iter([(None, b"one")]))
            case "producer":
                async with client.producer("orders") as producer:
                    await producer.send(b"one")
            case "subscribe":
                async with client.subscribe("orders"):
                    pass
            case _:
                async with client.subscribe("orders", name="jobs", shared=True):
                    pass
        assert [topic["name"] for topic in await client.topics()] == ["orders"]


async def test_what_is_created_without_reconnecting_is_created_all_the_same():
    async with shards(2) as cluster, connected(cluster, reconnect=0) as client:
        result = await client.publish("orders", b"")
        assert result.offset == 0


async def test_a_plain_client_at_the_wrong_shard_makes_no_second_topic():
    async with shards(2) as cluster, zaichik.connect(port=cluster.brokers[0].port) as plain:
        with pytest.raises(NoSuchTopic):
            await plain.publish(cluster.topic_of(1), b"")


async def test_a_topic_of_an_epoch_is_not_created():
    async with shards(2) as cluster, connected(cluster) as client:
        with pytest.raises(EpochChanged):
            async with client.subscribe("orders", epoch=1):
                pass
        assert await client.topics() == []


async def test_a_topic_that_another_client_has_deleted_is_created_again():
    """As at a broker that creates topics."""
    async with shards(2) as cluster, connected(cluster) as client, connected(cluster) as other:
        await client.create_topic("orders", retention_ttl="forever")
        await client.publish("orders", b"one")
        await other.delete_topic("orders")
        assert (await client.publish("orders", b"two")).offset == 0
        await other.delete_topic("orders")
        result = await client.publish_batch("orders", iter([(None, b"three"), (None, b"four")]))
        assert (result.first_offset, result.stored) == (0, 2)


async def test_settings_named_before_first_use_stay():
    async with shards(2) as cluster, connected(cluster) as client, connected(cluster) as other:
        await client.create_topic("orders", capacity=7)
        await other.publish("orders", b"")
        assert (await other.topic("orders"))["settings"]["capacity"] == 7


async def test_a_journal_is_where_its_topic_is():
    async with shards(3) as cluster, connected(cluster) as client:
        await client.create_topic("orders", journal=2**20)
        await client.publish("orders", b"")
        async with client.subscribe("$journal/orders") as journal:
            assert len((await anext(journal)).payload) == 40


async def test_all_topics_are_listed_by_name_without_the_map():
    async with shards(3) as cluster, connected(cluster) as client:
        names = [f"t{number}" for number in range(20)]
        for name in names:
            await client.create_topic(name)
        await client.create_topic("other")
        assert [topic["name"] for topic in await client.topics()] == sorted([*names, "other"])
        assert [topic["name"] for topic in await client.topics("t1")] == sorted(
            name for name in names if name.startswith("t1")
        )


async def test_each_shard_is_described_also_one_that_is_away():
    async with shards(2) as cluster, connected(cluster, reconnect=0) as client:
        await cluster.stop(1)
        there, away = await client.describe()
        assert there["broker"]["topics"] == 1
        assert (there["shard"], there["machine"], there["generation"]) == (0, "a", 1)
        assert (away["shard"], away["broker"]) == (1, None)
        assert away["address"] == cluster.map.shards[1].address


async def test_a_shard_has_a_client_only_once_it_is_used():
    async with shards(2) as cluster, connected(cluster) as client:
        await client.publish(cluster.topic_of(1), b"")
        with pytest.raises(ValueError, match="no shard 2; there are 2, from 0"):
            await client.shard_client(2)
        states = await (await client.shard_client(1)).connections()
        # That of the map is at the shard that was named first.
        assert len(states) == 1


async def test_explanations_are_asked_of_the_topics_shard():
    async with shards(3) as cluster, connected(cluster) as client:
        await client.create_topic("orders", retention_ttl="forever")
        await client.publish("orders", b"")
        explained = await client.explain("orders", offset=0)
        assert explained["topic"] == "orders"


# -- shards that move ----------------------------------------------------------------------------


async def test_only_topics_of_a_shard_that_is_away_wait():
    """CL-4."""
    async with shards(2) as cluster, connected(cluster) as client:
        here, away = cluster.topic_of(0), cluster.topic_of(1)
        await client.publish(away, b"")
        await cluster.stop(1)
        with anyio.move_on_after(0.05) as waiting:
            await client.publish(away, b"")
        assert waiting.cancelled_caught
        await client.publish(here, b"")


async def test_a_shard_that_came_back_elsewhere_is_found_by_the_map_alone(tmp_path, endless_pauses):
    async with shards(2, tmp_path) as cluster, connected(cluster) as client:
        topic = cluster.topic_of(1)
        await client.create_topic(topic, durable=True)
        await client.publish(topic, b"before")
        await cluster.stop(1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, topic, b"meanwhile")
            await anyio.wait_all_tasks_blocked()
            await cluster.start(1)
            await cluster.publish()
        async with client.subscribe(topic, until=2) as subscription:
            assert [item.payload async for item in subscription] == [b"before", b"meanwhile"]


async def test_a_socket_to_a_broker_that_has_lost_its_shard_is_given_up():
    """CL-6: a machine that was cut off still answers, and nothing it stores is kept."""
    # Without a heartbeat, which would find it out as well.
    settings = {"idle_timeout": 3600.0}
    async with (
        shards(2, **settings) as cluster,
        real_broker() as elsewhere,
        connected(cluster) as client,
    ):
        topic = cluster.topic_of(1)
        await client.publish(topic, b"")
        cluster.place(1, Shard(2, f"127.0.0.1:{elsewhere.port}", "b"))
        await cluster.publish(0)
        async with zaichik.connect(port=elsewhere.port) as plain:
            # Even if the program has nothing to say at the moment.
            while len(await plain.connections()) < 2:
                await anyio.lowlevel.checkpoint()
            await client.publish(topic, b"")
            assert await plain.topic(topic)
        async with zaichik.connect(port=cluster.brokers[1].port) as old:
            assert [state["client"] for state in await old.connections()][:-1] == []


async def test_other_shards_keep_their_sockets_when_one_moves():
    async with shards(2) as cluster, connected(cluster) as client:
        here, moving = cluster.topic_of(0), cluster.topic_of(1)
        await client.publish(here, b"")
        transport = (await client.client(here)).connection.transport
        socket = transport._stream
        await client.publish(moving, b"")
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.publish()
        await client.publish(moving, b"")
        await client.publish(here, b"")
        assert transport.is_open
        assert transport._stream is socket


async def test_a_subscription_goes_on_where_its_shard_is_now(tmp_path):
    async with shards(2, tmp_path) as cluster, connected(cluster) as client:
        topic = cluster.topic_of(1)
        await client.create_topic(topic, durable=True)
        async with client.subscribe(topic) as subscription:
            await client.publish(topic, b"0")
            assert (await anext(subscription)).offset == 0
            await cluster.stop(1)
            await cluster.start(1)
            await cluster.publish()
            await client.publish(topic, b"1")
            assert (await anext(subscription)).offset == 1


async def test_a_shard_that_nobody_has_is_waited_for(endless_pauses):
    async with shards(2) as cluster:
        there = cluster.map.shards[1]
        cluster.place(1, Shard(1, "", None))
        await cluster.publish(0)
        async with (
            zaichik.cluster(cluster.addresses[0], reconnect=GUARD) as client,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(client.publish, cluster.topic_of(1), b"")
            await anyio.wait_all_tasks_blocked()
            cluster.place(1, there)
            await cluster.publish(0)


async def test_a_shard_that_stays_away_is_a_sentence_and_tried_again_by_the_next_call():
    async with shards(2) as cluster:
        first = cluster.addresses[0]
        port = cluster.brokers[1].port
        await cluster.stop(1)
        async with zaichik.cluster(first, reconnect=0.05) as client:
            topic = cluster.topic_of(1)
            with pytest.raises(ConnectFailed, match=rf"shard 1 cannot be reached: .*:{port}"):
                await client.publish(topic, b"")
            await cluster.start(1, port)
            await client.publish(topic, b"")


async def test_a_shard_that_was_lost_for_good_is_used_again_when_it_is_back():
    async with shards(2) as cluster, connected(cluster, reconnect=0.05) as client:
        topic = cluster.topic_of(1)
        await client.publish(topic, b"")
        port = cluster.brokers[1].port
        await cluster.stop(1)
        with pytest.raises((ConnectionLost, ConnectFailed)):
            await publish_on(client, topic)
        await cluster.start(1, port)
        await client.publish(topic, b"")


async def test_a_topic_in_memory_that_a_restart_has_lost_is_reported_and_created_again():
    async with shards(2) as cluster, connected(cluster) as client:
        topic = cluster.topic_of(1)
        await client.create_topic(topic, capacity=9, retention_ttl="forever")
        await client.publish(topic, b"")
        await cluster.stop(1)
        await cluster.start(1)
        await cluster.publish()
        await client.publish(topic, b"")
        assert (await client.topic(topic))["settings"]["capacity"] == 9
        assert [lost.topic for lost in (await client.client(topic)).lost_topics] == [topic]


# -- a ledger ------------------------------------------------------------------------------------

MOVES = 6
MOST_BETWEEN = 30  # acknowledged messages from one event to the next


@pytest.mark.parametrize("seed", range(3))
async def test_nothing_acknowledged_is_lost_or_there_twice_while_shards_move(tmp_path, seed):
    """Brokers stop in the midst of publishing, and start again at other ports."""
    chance = random.Random(seed)
    async with shards(3, tmp_path) as cluster, connected(cluster) as client:
        topics = [f"t{number}" for number in range(6)]
        for topic in topics:
            await client.create_topic(topic, durable=True)
        acknowledged = {topic: {} for topic in topics}
        is_over = False

        async def publish(topic):
            while not is_over:
                number = len(acknowledged[topic])
                result = await client.publish(topic, b"%d" % number)
                acknowledged[topic][number] = result.offset

        async def go_on():
            """Let some more be acknowledged, by whichever shards are there."""
            enough = sum(map(len, acknowledged.values())) + chance.randrange(MOST_BETWEEN)
            while sum(map(len, acknowledged.values())) < enough:
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            for topic in topics:
                tasks.start_soon(publish, topic)
            for _ in range(MOVES):
                await go_on()
                number = chance.randrange(3)
                await cluster.stop(number)
                await go_on()
                await cluster.start(number)
                await cluster.publish()
            is_over = True
        for topic in topics:
            state = await client.topic(topic)
            async with client.subscribe(topic, until=state["next_offset"]) as subscription:
                found = {item.offset: int(item.payload) async for item in subscription}
            numbers = [found[offset] for offset in sorted(found)]
            assert numbers == list(range(len(numbers))), topic
            assert {number: found[at] for number, at in acknowledged[topic].items()} == {
                number: number for number in acknowledged[topic]
            }
            assert len(acknowledged[topic]) == len(numbers) > 0


# -- patterns ------------------------------------------------------------------------------------


async def test_a_pattern_reads_the_topics_of_all_shards_those_that_come_later_included():
    async with shards(3) as cluster, connected(cluster) as client:
        for number in range(3):
            await client.create_topic(cluster.topic_of(number), retention_ttl="forever")
            await client.publish(cluster.topic_of(number), b"%d" % number)
        async with client.subscribe_pattern("**") as subscription:
            assert sorted(subscription.topics) == sorted(map(cluster.topic_of, range(3)))
            later = [cluster.topic_of(number, "later") for number in range(3)]
            for topic in later:
                await client.create_topic(topic, retention_ttl="forever")
                await client.publish(topic, b"later")
            found = {(item := await anext(subscription)).topic: item.payload for _ in range(6)}
        assert found == {cluster.topic_of(n): b"%d" % n for n in range(3)} | dict.fromkeys(
            later, b"later"
        )


async def test_a_pattern_with_a_name_keeps_its_place_in_each_topic(tmp_path):
    async with shards(2, tmp_path) as cluster, connected(cluster) as client:
        topics = [cluster.topic_of(number) for number in range(2)]
        for topic in topics:
            await client.create_topic(topic, durable=True)
            await client.publish(topic, b"one")
        async with client.subscribe_pattern("t*", name="billing") as subscription:
            for _ in topics:
                item = await anext(subscription)
                await subscription.commit(item)
        for topic in topics:
            await client.publish(topic, b"two")
        async with client.subscribe_pattern("t*", name="billing") as subscription:
            assert {(await anext(subscription)).payload for _ in topics} == {b"two"}


async def test_a_pattern_goes_on_at_a_shard_that_has_moved(tmp_path):
    async with shards(2, tmp_path) as cluster, connected(cluster) as client:
        topics = [cluster.topic_of(number) for number in range(2)]
        for topic in topics:
            await client.create_topic(topic, durable=True)
        async with client.subscribe_pattern("t*") as subscription:
            await cluster.stop(1)
            await cluster.start(1)
            await cluster.publish()
            for topic in topics:
                await client.publish(topic, b"")
            assert {(await anext(subscription)).topic for _ in topics} == set(topics)


async def read_on(subscription, seen):
    """Read until that fails; `seen` is told the payloads."""
    async for item in subscription:
        seen.add(item.payload)


async def test_if_one_shard_refuses_all_that_had_come_is_given_out_first(tmp_path):
    async with shards(2, tmp_path) as cluster, connected(cluster) as client:
        topics = [cluster.topic_of(number) for number in range(2)]
        for topic in topics:
            await client.create_topic(topic, durable=True)
            await client.publish(topic, b"")
        async with client.subscribe_pattern("t*", name="billing") as subscription:
            seen = {(await anext(subscription)).topic for _ in topics}
            async with client.subscribe(topics[1], name="billing"):
                await client.publish(topics[0], b"last")
                with pytest.raises(TakenOver):
                    await read_on(subscription, seen)
            assert seen == {*topics, b"last"}
            with pytest.raises(TakenOver):
                await anext(subscription)


# -- acknowledged by Kafka ------------------------------------------------------------------------


async def test_what_kafka_is_to_acknowledge_makes_no_topic_that_may_lose_messages():
    async with (
        shards(2) as cluster,
        connected(cluster, acked_by={"mails": "kafka"}) as client,
    ):
        for topic, options in (("orders", {"acked_by": "kafka"}), ("mails", {})):
            with pytest.raises(NoSuchTopic):
                await client.publish(topic, b"", **options)
            with pytest.raises(NoSuchTopic):
                await client.publish_batch(topic, [(None, b"")], **options)
        assert await client.topics() == []


async def test_what_kafka_is_to_acknowledge_is_looked_for_at_the_topics_shard():
    async with shards(3) as cluster, connected(cluster) as client:
        for number in range(3):
            topic = cluster.topic_of(number)
            await client.create_topic(topic, retention_ttl="forever", overflow="reject")
            mark = Watermark(epoch=(await client.topic(topic))["epoch"], next=1)
            await client.create_topic(f"replicated/{topic}", capacity=1, retention_ttl="forever")
            await client.publish(f"replicated/{topic}", mark.encoded())
            result = await client.publish(topic, b"", acked_by="kafka")
            assert result.offset == 0
        with pytest.raises(ValueError, match="kafka"):
            async with connected(cluster, acked_by={"orders": "me"}):
                pass
        await client.create_topic("orders")
        with pytest.raises(NotLossless):
            await client.publish("orders", b"", acked_by="kafka")


async def test_what_a_client_takes_a_cluster_takes_too():
    """A method that is written out, and not forwarded, forgets what is added to the other one."""
    for single, whole in (
        (zaichik.Client, zaichik.Cluster),
        (blocking.Client, blocking.Cluster),
    ):
        for name in ("publish", "publish_batch", "subscribe", "producer", "subscribe_pattern"):
            of_one = inspect.signature(getattr(single, name)).parameters
            of_all = inspect.signature(getattr(whole, name)).parameters
            assert list(of_one) == list(of_all), name
    for single, whole in (
        (zaichik.connect, zaichik.cluster),
        (blocking.connect, blocking.cluster),
    ):
        of_one = {*inspect.signature(single).parameters} - {"host", "port"}
        assert of_one == {*inspect.signature(whole).parameters} - {"brokers"}
