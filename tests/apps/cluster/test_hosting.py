"""Brokers are kept running, and have the map."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest
from brokers import real_broker

import zaichik
from zaichik import BrokerError, ConnectFailed
from zaichik.apps.cluster import hosting as hosting_module
from zaichik.apps.cluster.broker_process import NotStarted
from zaichik.apps.cluster.hosting import BrokerHosting, publish_map, watch_map
from zaichik.client.cluster.map import TOPIC, ClusterMap, Shard
from zaichik.client.endpoint import Endpoint
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import Error, ErrorCode

pytestmark = pytest.mark.anyio
GUARD_S = 30


def a_map(features=0):
    return ClusterMap(features, (Shard(1, "a:1", "a"), Shard(1, "a:2", "a")))


class Brokers:
    """Brokers that are started, and end when the test says so."""

    def __init__(self):
        self.running = {}
        self.starts = []
        self.stops = []
        self.published = []
        self.hung_up = []
        self.changed = anyio.Event()
        self.refuses = 0
        self.fails_to_publish = 0
        self.slow_to_stop = None
        self.replaced = anyio.Event()
        self.watch_fails = None

    def note(self):
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, holds):
        with anyio.fail_after(GUARD_S):
            while not holds():
                await self.changed.wait()

    @asynccontextmanager
    async def launch(self, shard):
        self.starts.append(shard)
        self.note()
        if self.refuses:
            self.refuses -= 1
            raise NotStarted("its port is in use")
        ended = anyio.Event()

        async def wait():
            await ended.wait()
            return 9

        self.running[shard] = ended
        self.note()
        try:
            yield SimpleNamespace(
                endpoint=shard, wait=wait, hang_up=lambda: self.hung_up.append(shard)
            )
        finally:
            if self.slow_to_stop is not None:
                with anyio.CancelScope(shield=True):
                    await self.slow_to_stop.wait()
            self.running.pop(shard)
            self.stops.append(shard)
            self.note()

    async def publish(self, shard, payload):
        if self.fails_to_publish:
            self.fails_to_publish -= 1
            raise ConnectFailed("no")
        self.published.append((shard, ClusterMap.parse(payload).features))
        self.note()

    async def watch(self, shard, payload):
        if self.watch_fails is not None:
            raise self.watch_fails
        await self.replaced.wait()
        self.replaced = anyio.Event()


@pytest.fixture
async def brokers(monkeypatch):
    monkeypatch.setattr(hosting_module, "FIRST_PAUSE_S", 0)
    monkeypatch.setattr(hosting_module, "PUBLISH_PAUSE_S", 0)
    return Brokers()


@asynccontextmanager
async def hosted(brokers):
    async with BackgroundTasks() as tasks:
        yield BrokerHosting(brokers.launch, brokers.publish, brokers.watch, tasks.group)


async def test_what_is_to_be_served_is_started_and_has_the_map(brokers):
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0, 1}))
        with anyio.fail_after(GUARD_S):
            assert await hosting.all_ready() == {0, 1}
        assert sorted(brokers.published) == [(0, 0), (1, 0)]
        hosting.publish(a_map(5))
        await brokers.until(lambda: sorted(brokers.published[2:]) == [(0, 5), (1, 5)])
    assert sorted(brokers.stops) == [0, 1]


async def test_all_brokers_that_run_are_told_to_read_their_rules_again(brokers):
    async with hosted(brokers) as hosting:
        hosting.hang_up()
        hosting.publish(a_map())
        hosting.serve(frozenset({0, 1}))
        with anyio.fail_after(GUARD_S):
            await hosting.all_ready()
        hosting.hang_up()
    assert sorted(brokers.hung_up) == [0, 1]


async def test_what_is_not_to_be_served_any_more_is_stopped(brokers):
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0, 1}))
        await brokers.until(lambda: len(brokers.running) == 2)
        hosting.serve(frozenset({1}))
        await brokers.until(lambda: brokers.stops == [0])
        assert brokers.starts.count(1) == 1


async def test_a_broker_that_has_ended_is_started_again_and_gets_the_map_again(brokers, caplog):
    """Its topic `cluster` was in its memory."""
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        await brokers.until(lambda: brokers.published == [(0, 0)])
        brokers.running[0].set()
        await brokers.until(lambda: brokers.published == [(0, 0), (0, 0)])
    assert "shard 0 has ended (exit code 9)" in caplog.text


async def test_a_broker_that_does_not_start_is_tried_again(brokers, caplog):
    brokers.refuses = 2
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        with anyio.fail_after(GUARD_S):
            await hosting.all_ready()
    assert brokers.starts == [0, 0, 0]
    assert "its port is in use" in caplog.text


async def test_a_map_that_was_not_taken_is_published_again(brokers, caplog):
    brokers.fails_to_publish = 2
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        with anyio.fail_after(GUARD_S):
            await hosting.all_ready()
    assert caplog.text.count("has not taken the map") == 2


async def test_a_map_that_somebody_else_has_replaced_is_published_again(brokers, caplog):
    """Clients could not use the cluster before it changes the next time."""
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        await brokers.until(lambda: brokers.published == [(0, 0)])
        brokers.replaced.set()
        await brokers.until(lambda: brokers.published == [(0, 0), (0, 0)])
        hosting.publish(a_map(5))
        await brokers.until(lambda: brokers.published[2:] == [(0, 5)])
    assert caplog.text.count("has lost the map") == 1


async def test_a_node_that_may_not_read_the_map_trusts_in_what_it_has_published(brokers):
    brokers.watch_fails = BrokerError.of(Error(1, ErrorCode.FORBIDDEN, 0, "", 0, "no"))
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        await brokers.until(lambda: brokers.published)
        await anyio.wait_all_tasks_blocked()
        assert brokers.published == [(0, 0)]
        hosting.publish(a_map(5))
        await brokers.until(lambda: brokers.published[1:] == [(0, 5)])


async def test_a_shard_that_comes_back_while_it_stops_is_started_after_that(brokers):
    """Two brokers would want its port and its folder."""
    async with hosted(brokers) as hosting:
        hosting.publish(a_map())
        hosting.serve(frozenset({0}))
        await brokers.until(lambda: brokers.published)
        brokers.slow_to_stop = anyio.Event()
        hosting.serve(frozenset())
        await anyio.wait_all_tasks_blocked()
        hosting.serve(frozenset({0}))
        await anyio.wait_all_tasks_blocked()
        assert brokers.starts == [0]
        brokers.slow_to_stop.set()
        await brokers.until(lambda: brokers.starts == [0, 0])
        brokers.slow_to_stop = None


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("damage", ["publish", "delete"])
async def test_what_takes_the_place_of_the_map_is_noticed(monkeypatch, damage, before):
    monkeypatch.setattr(hosting_module, "LOOK_S", 0.001)
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        place = Endpoint("127.0.0.1", broker.port)
        with anyio.fail_after(GUARD_S):
            await publish_map(place, b"ours")
            with anyio.move_on_after(0.05) as looking:
                await watch_map(place, b"ours")
            assert looking.cancelled_caught

            async def replace():
                if damage == "delete":
                    await client.delete_topic(TOPIC)
                else:
                    await client.publish(TOPIC, b"theirs")

            if before:
                await replace()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(watch_map, place, b"ours")
                if not before:
                    await replace()
