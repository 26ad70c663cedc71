"""One subscription keeps the map current, wherever it can."""

from dataclasses import replace

import anyio
import pytest
from brokers import GUARD, fake_broker, messages, real_broker
from shards import publish_on, shards
from silence import silent

import zaichik
from zaichik import ClusterMapUnusable, ConnectFailed
from zaichik.client.cluster import known_map as known_map_module
from zaichik.client.cluster.map import TOPIC, ClusterMap, Shard
from zaichik_protocol import Describe, Described, Ping, Subscribe, Subscribed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(known_map_module, "FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(known_map_module, "LONGEST_PAUSE_SECONDS", 0.01)


async def until(condition):
    """Returns when something is so; the guard is the test's."""
    while not condition():
        await anyio.lowlevel.checkpoint()


async def test_any_shard_has_the_map():
    async with shards(3) as cluster:
        for address in cluster.addresses:
            async with zaichik.cluster(address) as client:
                assert client.map == cluster.map


async def test_a_change_at_the_shard_that_is_followed_is_known():
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        cluster.place(1, Shard(7, "127.0.0.1:1", "b"))
        await cluster.publish(0)
        await until(lambda: client.map == cluster.map)


async def test_if_the_shard_that_is_followed_is_lost_another_is_asked():
    async with shards(3) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        await cluster.stop(0)
        cluster.place(0, Shard(9, "127.0.0.1:1", "b"))
        await cluster.publish()
        await until(lambda: client.map == cluster.map)


async def test_the_old_map_of_a_node_that_is_cut_off_changes_nothing():
    """CL-3: what it knows of its own shard counts, and what it knows of others does not."""
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        old = cluster.map
        moved = Shard(5, "127.0.0.1:1", "b")
        cluster.place(1, moved)
        await cluster.publish(0)
        await until(lambda: client.map == cluster.map)
        own = replace(old.shards[0], generation=2)
        await cluster.publish(0, payload=replace(old, shards=(own, old.shards[1])).encoded())
        await until(lambda: client.map.shards == (own, moved))


async def test_a_map_of_older_features_is_ignored():
    async with shards(2) as cluster:
        cluster.map = replace(cluster.map, features=3)
        await cluster.publish()
        async with zaichik.cluster(cluster.addresses[0]) as client:
            old = ClusterMap(2, (Shard(9, "127.0.0.1:1", "b"),) * 2)
            await cluster.publish(0, payload=old.encoded())
            later = replace(cluster.map, features=4)
            await cluster.publish(0, payload=later.encoded())
            await until(lambda: client.map.features == 4)
            assert client.map == later


# -- what cannot be followed ---------------------------------------------------------------------


async def test_an_unknown_format_is_a_sentence_at_once():
    async with shards(2) as cluster:
        await cluster.publish(payload=b'{"format": 2}')
        with pytest.raises(ClusterMapUnusable, match=r"format 2.*upgrade zaichik here"):
            async with zaichik.cluster(cluster.addresses[0]):
                pass


async def test_an_unknown_format_later_is_logged_and_what_is_known_still_counts(caplog):
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        topic = cluster.topic_of(1)
        await cluster.publish(0, payload=b'{"format": 2}')
        await until(lambda: "upgrade zaichik here" in caplog.text)
        await client.publish(topic, b"still")
        assert client.map == cluster.map


async def test_a_cluster_that_was_made_anew_is_not_published_to():
    """Its topics are elsewhere: a client that went on would put them out of place."""
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        anew = ClusterMap(1, cluster.map.shards[:1])
        await cluster.publish(0, payload=anew.encoded())
        with pytest.raises(ClusterMapUnusable, match="connect again"):
            await publish_on(client, "orders")


async def test_another_cluster_at_an_address_of_ours_is_not_believed(caplog):
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        other = ClusterMap(0, cluster.map.shards[:1])
        await cluster.publish(0, payload=other.encoded())
        await until(lambda: "that is another cluster" in caplog.text)
        await client.publish("orders", b"")
        assert client.map == cluster.map


async def test_a_broker_of_no_cluster_says_so_and_gets_no_topic():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        with pytest.raises(ConnectFailed, match=r"no topic 'cluster'.*not one of a cluster"):
            async with zaichik.cluster(f"127.0.0.1:{broker.port}", reconnect=0):
                pass
        assert await client.topics() == []


async def test_a_topic_without_a_map_is_not_waited_for_for_ever():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic(TOPIC)
        with pytest.raises(ConnectFailed, match="no map of its cluster yet"):
            async with zaichik.cluster(f"127.0.0.1:{broker.port}", reconnect=0, timeout=0.5):
                pass


async def test_no_broker_is_a_sentence_that_says_how_to_start_a_cluster():
    said = "no broker answers at 127.*Start one with `zaichik cluster serve`"
    with anyio.fail_after(GUARD), pytest.raises(ConnectFailed, match=said):
        async with zaichik.cluster("127.0.0.1:1", reconnect=0):
            pass


async def test_no_address_is_a_sentence():
    with pytest.raises(ValueError, match="name a broker of the cluster"):
        async with zaichik.cluster():
            pass


async def test_one_of_several_addresses_is_enough():
    async with (
        shards(1) as cluster,
        zaichik.cluster("127.0.0.1:1", *cluster.addresses, reconnect=0) as client,
    ):
        assert client.map == cluster.map


async def test_a_cluster_that_starts_later_is_waited_for(caplog):
    async with shards(1) as cluster:
        port = cluster.brokers[0].port
        await cluster.stop(0)
        async with anyio.create_task_group() as tasks:

            async def start_later():
                await until(lambda: "trying again for" in caplog.text)
                await cluster.start(0, port)
                await cluster.publish()

            tasks.start_soon(start_later)
            async with zaichik.cluster(f"127.0.0.1:{port}", reconnect=GUARD) as client:
                assert client.map.shards[0].generation == 2
    assert caplog.text.count("trying again for") == 1


# -- how often it is asked for -------------------------------------------------------------------


async def test_a_hundred_calls_that_wait_ask_once(monkeypatch):
    """CL-3: nobody asks but the one who follows; the others wait for the map to change."""
    # Not even that one, because a shard that is away makes its map doubtful.
    monkeypatch.setattr(known_map_module, "FIRST_DOUBT_SECONDS", 3600.0)
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        topic = cluster.topic_of(1)
        await client.publish(topic, b"")
        await cluster.stop(1)
        asked = client._known.subscriptions
        results = []

        async def publish(number):
            results.append(await client.publish(topic, b"%d" % number))

        async with anyio.create_task_group() as tasks:
            for number in range(100):
                tasks.start_soon(publish, number)
            await anyio.wait_all_tasks_blocked()
            await cluster.start(1)
            await cluster.publish()
        assert len(results) == 100
        assert client._known.subscriptions == asked == 1
        assert len(await (await client.client(topic)).connections()) == 1


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_shard_whose_map_is_doubted_is_left_for_another(monkeypatch, is_silent):
    """Its machine may have gone without a word; or it is cut off, and tells what it knew."""
    monkeypatch.setattr(known_map_module, "FIRST_DOUBT_SECONDS", 0.001)
    async with shards(2) as cluster:
        old = ClusterMap(0, (cluster.map.shards[0], Shard(1, "127.0.0.1:1", "b")))

        def answer(frame: Subscribe):
            reply = Subscribed(frame.id, frame.epoch, 0, 0, 1)
            return [reply, messages(0, old.encoded(), subscription=frame.id)]

        page = b'{"now_us": 1, "boot": 1, "topics": [{"name": "cluster", "epoch": 5}]}'
        answers = {Describe: lambda frame: Described(frame.id, 0, page), Subscribe: answer}
        if is_silent:
            answers[Ping] = lambda _: None
        async with (
            fake_broker(answers) as fake,
            zaichik.cluster(f"127.0.0.1:{fake.port}") as client,
        ):
            assert client.map == old
            moved = replace(cluster.map.shards[1], generation=2)
            cluster.place(1, moved)
            await cluster.publish(0)
            # Nothing is at its address; the map that says where it is now is at the other shard.
            await client.publish(cluster.topic_of(1), b"")
            assert client.map.shards[1] == moved


async def test_another_shard_is_asked_now_and_then(monkeypatch):
    """Else a program that reaches only a machine that is cut off would never know."""
    monkeypatch.setattr(known_map_module, "FOLLOWED_SECONDS", 0.02)
    async with shards(2) as cluster, zaichik.cluster(cluster.addresses[0]) as client:
        cluster.place(1, Shard(7, "127.0.0.1:1", "b"))
        # Only the other one knows.
        await cluster.publish(1)
        await until(lambda: client.map == cluster.map)


async def test_a_port_that_accepts_and_says_nothing_is_passed_over():
    async with shards(1) as cluster:
        with silent() as address:
            async with zaichik.cluster(
                f"127.0.0.1:{address[3][1]}", *cluster.addresses, timeout=0.05, reconnect=GUARD
            ) as client:
                assert client.map == cluster.map
