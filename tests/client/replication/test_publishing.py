"""Publishes that wait until their messages are replicated: AK-1."""

import shutil
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import pytest
from attacked import attacked_broker
from brokers import START_US, real_broker
from proxy import cutting_proxy
from replicating import LOSSLESS, FakeBridge, Waiting, bridged, copying

import zaichik
from zaichik.client import transport as transport_module
from zaichik.client.replication import follower as follower_module
from zaichik.client.replication.watermark import Watermark, topic_of
from zaichik_protocol import Batch

pytestmark = pytest.mark.anyio

SOURCE = topic_of("t")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(follower_module, "RETRY_SECONDS", 0.0)
    # What is found by looking now and then is found late, and nothing else is to depend on it.
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 3600.0)


@asynccontextmanager
async def replicated(**settings):
    """A client, a bridge with one of its own, and tasks."""
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        bridged(other, **settings) as bridge,
        anyio.create_task_group() as tasks,
    ):
        yield client, bridge, tasks
        tasks.cancel_scope.cancel()


def begun(tasks, call, *arguments, **options):
    """A call in the background."""
    waiting = Waiting()
    tasks.start_soon(waiting.run, partial(call, *arguments, **options))
    return waiting


async def has_stored(client, count):
    """Wait until the topic has so many messages, and the client has handled all answers."""
    while (await client.topic("t"))["next_offset"] < count:
        await anyio.lowlevel.checkpoint()
    await client.ping()
    await client.ping()


# -- what is acknowledged, and when --------------------------------------------------------------


async def test_it_returns_when_the_watermark_has_passed_its_offset():
    async with replicated() as (client, bridge, tasks):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        assert not waiting.done.is_set()
        await bridge.has(1)
        result = await waiting.outcome()
        assert result.offset == 0


async def test_the_watermark_at_its_offset_is_not_enough():
    async with replicated() as (client, bridge, tasks):
        first = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        second = begun(tasks, client.publish, "t", b"y", acked_by="kafka")
        await has_stored(client, 2)
        await bridge.has(1)
        await first.outcome()
        await client.ping()
        assert not second.done.is_set()
        await bridge.has(2)
        await second.outcome()


async def test_a_watermark_that_came_before_the_answer_counts():
    async with replicated() as (client, bridge, tasks):
        ahead = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await bridge.has(1000)
        await ahead.outcome()
        for _ in range(10):
            await client.publish("t", b"x", acked_by="kafka")


async def test_many_tasks_share_one_subscription():
    async with replicated() as (client, bridge, tasks):
        many = [begun(tasks, client.publish, "t", b"%d" % n, acked_by="kafka") for n in range(100)]
        await has_stored(client, 100)
        assert len(await client.subscriptions(SOURCE)) == 1
        await bridge.has(100)
        results = [await waiting.outcome() for waiting in many]
        assert sorted(result.offset for result in results) == list(range(100))


async def test_a_batch_waits_for_its_last_message():
    async with replicated() as (client, bridge, tasks):
        batch = [(None, b"a"), (None, b"b"), (None, b"c")]
        waiting = begun(tasks, client.publish_batch, "t", batch, acked_by="kafka")
        await has_stored(client, 3)
        await bridge.has(2)
        await client.ping()
        assert not waiting.done.is_set()
        await bridge.has(3)
        result = await waiting.outcome()
        assert (result.first_offset, result.stored) == (0, 3)


async def test_a_batch_that_the_program_numbers_waits_too_also_when_it_is_repeated():
    async with replicated() as (client, bridge, tasks):
        publish = partial(client.publish_batch, "t", Batch.of([(b"", b"x")]), acked_by="kafka")
        first = begun(tasks, publish, producer=7, number=0)
        await has_stored(client, 1)
        again = begun(tasks, publish, producer=7, number=0)
        await client.ping()
        assert not first.done.is_set()
        assert not again.done.is_set()
        await bridge.has(1)
        assert (await first.outcome()).first_offset == 0
        assert (await again.outcome()).first_offset == 0


async def test_a_message_that_a_window_drops_waits_for_the_one_that_kept_it_out():
    async with replicated(compaction_window="forever") as (client, bridge, tasks):
        first = begun(tasks, client.publish, "t", b"x", key=b"k", acked_by="kafka")
        await has_stored(client, 1)
        dropped = begun(tasks, client.publish, "t", b"y", key=b"k", acked_by="kafka")
        batch = begun(tasks, client.publish_batch, "t", [(b"k", b"z")], acked_by="kafka")
        await client.ping()
        await client.ping()
        assert not dropped.done.is_set()
        assert not batch.done.is_set()
        await bridge.has(1)
        await first.outcome()
        assert (await dropped.outcome()).compacted
        assert (await batch.outcome()).compacted == 1


async def test_a_client_may_say_it_once_for_all_publishes_to_a_topic():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port, acked_by={"t": "kafka"}) as client,
        zaichik.connect(port=broker.port) as other,
        bridged(other) as bridge,
        anyio.create_task_group() as tasks,
    ):
        calls = [
            begun(tasks, client.publish, "t", b"x"),
            begun(tasks, client.publish_batch, "t", [(None, b"x")]),
        ]
        await has_stored(client, 2)
        assert not any(call.done.is_set() for call in calls)
        await client.publish("elsewhere", b"x")
        await bridge.has(2)
        for call in calls:
            await call.outcome()


async def test_a_program_may_publish_on_and_wait_later():
    async with replicated() as (client, bridge, tasks):
        first = await client.acknowledgement("t")
        one = await client.publish("t", b"x")
        second = await client.acknowledgement("t")
        two = await client.publish_batch("t", [(None, b"y")])
        waiting = [begun(tasks, first.confirm, one), begun(tasks, second.confirm, two)]
        await bridge.has(2)
        for call in waiting:
            await call.outcome()


# -- no bridge, and a bridge that is late --------------------------------------------------------


async def test_without_a_bridge_it_waits_and_a_time_limit_ends_that():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        anyio.create_task_group() as tasks,
    ):
        await other.create_topic("t", **LOSSLESS)
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        with pytest.raises(TimeoutError), anyio.fail_after(0.01):
            await client.publish("t", b"y", acked_by="kafka")
        await has_stored(client, 2)
        assert not waiting.done.is_set()
        bridge = FakeBridge(other, "t")
        await bridge.begin()
        await bridge.has(2)
        await waiting.outcome()


async def test_where_topics_are_not_made_on_first_use_it_waits_for_the_bridge_to_make_its_own():
    async with (
        real_broker(auto_create=False) as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        anyio.create_task_group() as tasks,
    ):
        await other.create_topic("t", **LOSSLESS)
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        bridge = FakeBridge(other, "t")
        await bridge.begin()
        await bridge.has(1)
        await waiting.outcome()


async def test_who_gives_up_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(follower_module, "IDLE_SECONDS", 0.0)
    async with replicated() as (client, bridge, _):
        with pytest.raises(TimeoutError), anyio.fail_after(0.01):
            await client.publish("t", b"x", acked_by="kafka")
        while await client.subscriptions(SOURCE):
            await anyio.lowlevel.checkpoint()
        async with copying(bridge):
            await client.publish("t", b"y", acked_by="kafka")


# -- what is lost --------------------------------------------------------------------------------


async def test_a_message_in_a_gap_is_not_acknowledged_though_the_watermark_has_passed_it():
    async with replicated() as (client, bridge, tasks):
        calls = [begun(tasks, client.publish, "t", b"x", acked_by="kafka")]
        await has_stored(client, 1)
        calls.append(begun(tasks, client.publish, "t", b"y", acked_by="kafka"))
        await has_stored(client, 2)
        calls.append(begun(tasks, client.publish, "t", b"z", acked_by="kafka"))
        await has_stored(client, 3)
        await bridge.has(3, (1, 2))
        await calls[0].outcome()
        await calls[2].outcome()
        with pytest.raises(zaichik.ReplicationLost, match="offset 1 of t is stored, but") as lost:
            await calls[1].outcome()
        assert (lost.value.topic, lost.value.offset) == ("t", 1)


async def test_what_lies_below_the_gaps_that_a_watermark_has_is_not_acknowledged():
    async with replicated() as (client, bridge, tasks):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        await bridge.has(500, (400, 401), gaps_from=300)
        with pytest.raises(zaichik.ReplicationLost, match="not known"):
            await waiting.outcome()


async def test_the_watermark_of_a_topic_that_was_made_anew_acknowledges_nothing():
    """Offsets mean something with their epoch alone, and `Published` does not have it."""
    async with replicated() as (client, bridge, tasks):
        async with copying(bridge):
            for _ in range(3):
                await client.publish("t", b"x", acked_by="kafka")
        await bridge._client.delete_topic("t")
        await bridge._client.create_topic("t", **LOSSLESS)
        # Its offset is 0, and the watermark of the old topic stands at 3.
        with pytest.raises(zaichik.ReplicationLost, match="another one by now"):
            await client.publish("t", b"x", acked_by="kafka")
        # Now the client knows the new topic, and its offset is 1.
        waiting = begun(tasks, client.publish, "t", b"y", acked_by="kafka")
        await has_stored(client, 2)
        assert not waiting.done.is_set()
        await bridge.begin()
        async with copying(bridge):
            await waiting.outcome()


async def test_a_topic_that_is_made_anew_while_somebody_waits_is_an_error(monkeypatch):
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.01)
    async with replicated() as (client, bridge, tasks):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        await bridge._client.delete_topic("t")
        await bridge._client.create_topic("t", **LOSSLESS)
        with pytest.raises(zaichik.ReplicationLost, match="another one by now"):
            await waiting.outcome()


async def test_a_topic_that_is_deleted_while_somebody_waits_is_an_error(monkeypatch):
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.01)
    async with replicated() as (client, bridge, tasks):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        await bridge._client.delete_topic("t")
        with pytest.raises(zaichik.ReplicationLost, match="the topic is gone"):
            await waiting.outcome()


# -- connections that are lost -------------------------------------------------------------------


async def test_a_lost_connection_is_only_a_longer_wait():
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port) as client,
        zaichik.connect(port=broker.port) as other,
        bridged(other) as bridge,
        anyio.create_task_group() as tasks,
    ):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        proxy.cut()
        await bridge.has(1)
        await waiting.outcome()
        async with copying(bridge):
            await client.publish("t", b"x", acked_by="kafka")


async def test_a_broker_that_was_restarted_and_has_lost_the_topic_is_an_error():
    async with (
        real_broker() as broker,
        zaichik.running_broker(clock=zaichik.ManualClock(2 * START_US)) as next_broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port) as client,
        zaichik.connect(port=broker.port) as other,
        zaichik.connect(port=next_broker.port) as another,
        anyio.create_task_group() as tasks,
    ):
        await client.create_topic("t", **LOSSLESS)
        bridge = FakeBridge(other, "t")
        await bridge.begin()
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        proxy.target = next_broker.port
        proxy.cut()
        with pytest.raises(zaichik.ReplicationLost, match="another one by now"):
            await waiting.outcome()
        bridge = FakeBridge(another, "t")
        await bridge.begin()
        async with copying(bridge):
            await client.publish("t", b"x", acked_by="kafka")


async def test_a_client_that_is_closed_does_not_leave_anybody_waiting():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as other,
        bridged(other),
        anyio.create_task_group() as tasks,
    ):
        async with zaichik.connect(port=broker.port) as client:
            waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
            await has_stored(client, 1)
        with pytest.raises(zaichik.ConnectionLost, match="client was closed"):
            await waiting.outcome()


async def test_a_connection_that_is_lost_for_good_is_an_error():
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as other,
        bridged(other),
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port, reconnect=0) as client,
        anyio.create_task_group() as tasks,
    ):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        proxy.cut()
        with pytest.raises(zaichik.ConnectionLost):
            await waiting.outcome()


# -- a broker with another folder ----------------------------------------------------------------


@asynccontextmanager
async def moved(folder, **settings):
    """A client of a durable topic, and what has it go on with a copy of the folder.

    Args:
        folder: of the test.
        **settings: of the topic.

    Returns:
        The client; a function that copies the folder as it is; and a coroutine function that ends
        this broker, serves the copy in its place, and returns a bridge that has begun there.
    """
    async with AsyncExitStack() as later:
        tasks = await later.enter_async_context(anyio.create_task_group())
        async with AsyncExitStack() as first:
            running = partial(zaichik.running_broker, clock=zaichik.ManualClock(START_US))
            broker = await first.enter_async_context(running(data=folder / "a"))
            proxy = await later.enter_async_context(cutting_proxy(broker.port))
            client = await later.enter_async_context(zaichik.connect(port=proxy.port))
            await client.create_topic("t", durable=True, **(LOSSLESS | settings))

            def copied():
                shutil.copytree(folder / "a", folder / "b")

            async def goes_on():
                await first.aclose()
                again = await later.enter_async_context(running(data=folder / "b"))
                proxy.target = again.port
                proxy.cut()
                other = await later.enter_async_context(zaichik.connect(port=again.port))
                bridge = FakeBridge(other, "t")
                await bridge.begin()
                return bridge

            yield client, tasks, copied, goes_on
            tasks.cancel_scope.cancel()


async def test_what_a_window_dropped_is_in_doubt_if_the_topic_was_restored_since(tmp_path):
    """What had kept it out may have been lost, and the watermark has passed it as a gap."""
    async with moved(tmp_path, compaction_window="forever") as (client, tasks, copied, goes_on):
        await client.publish("t", b"x", key=b"k")
        one = begun(tasks, client.publish, "t", b"y", key=b"k", acked_by="kafka")
        batch = begun(tasks, client.publish_batch, "t", [(b"k", b"z")], acked_by="kafka")
        await has_stored(client, 1)
        await client.ping()
        copied()
        bridge = await goes_on()
        await bridge.has(10, (0, 10))
        for waiting in (one, batch):
            with pytest.raises(zaichik.ReplicationLost, match="kept it out"):
                await waiting.outcome()


async def test_what_a_window_dropped_is_not_in_doubt_for_an_older_gap(tmp_path):
    async with moved(tmp_path, compaction_window="forever") as (client, _, copied, goes_on):
        await client.publish("t", b"x", key=b"k")
        copied()
        bridge = await goes_on()
        await bridge.has(10, (0, 10))
        result = await client.publish("t", b"y", key=b"k", acked_by="kafka")
        assert result.compacted


async def test_a_topic_that_has_gone_back_has_lost_who_waits(tmp_path, monkeypatch):
    """Or its offset would be another message's, which may be replicated."""
    monkeypatch.setattr(follower_module, "LOOK_SECONDS", 0.01)
    async with moved(tmp_path) as (client, tasks, copied, goes_on):
        await client.publish("t", b"before")
        copied()
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 2)
        await goes_on()
        with pytest.raises(zaichik.ReplicationLost, match="gone back to an earlier state"):
            await waiting.outcome()


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "evicts"),
        ({"overflow": "reject"}, "expire"),
        ({"overflow": "reject", "retention_ttl": 60}, "expire"),
        ({"retention_ttl": "forever"}, "evicts"),
        ({"table": True, "retention_ttl": "forever"}, "table"),
    ],
    ids=range(5),
)
async def test_a_topic_that_may_lose_messages_is_refused_and_nothing_is_stored(settings, problem):
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic("t", max_bytes=2**20, **settings)
        with pytest.raises(zaichik.NotLossless, match=problem) as refused:
            await client.publish("t", b"x", key=b"k", acked_by="kafka")
        assert "zaichik create TOPIC --overflow reject" in str(refused.value)
        with pytest.raises(zaichik.NotLossless, match=problem):
            async with client.producer("t", acked_by="kafka"):
                pass
        with pytest.raises(zaichik.NotLossless, match=problem):
            async with client.subscribe("t", acked_by="kafka"):
                pass
        assert (await client.topic("t"))["next_offset"] == 0
        assert await client.topics("replicated/") == []


async def test_a_topic_that_is_not_there_is_not_made():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        with pytest.raises(zaichik.NoSuchTopic, match="not lossless"):
            await client.publish("t", b"x", acked_by="kafka")
        assert await client.topics() == []


async def test_what_acknowledges_nothing_is_refused():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        with pytest.raises(ValueError, match="acked_by must be 'kafka', not 'pulsar'"):
            await client.publish("t", b"x", acked_by="pulsar")
        with pytest.raises(ValueError, match="not 'pulsar'"):
            client.subscribe("t", acked_by="pulsar")
        with pytest.raises(ValueError, match="not for shared names"):
            client.subscribe("t", name="n", shared=True, acked_by="kafka")
        with pytest.raises(ValueError, match="not 'pulsar'"):
            async with zaichik.connect(port=broker.port, acked_by={"t": "pulsar"}):
                pass
        with pytest.raises(ValueError, match="at most 189 bytes"):
            await client.publish("x" * 190, b"x", acked_by="kafka")


async def test_what_is_no_watermark_is_passed_over(caplog):
    async with replicated() as (client, bridge, tasks):
        waiting = begun(tasks, client.publish, "t", b"x", acked_by="kafka")
        await has_stored(client, 1)
        await bridge.says(b"rubbish")
        await bridge.has(1, by="pulsar")
        await client.ping()
        assert not waiting.done.is_set()
        await bridge.has(1)
        await waiting.outcome()


# -- rights --------------------------------------------------------------------------------------

RULES = """user bridge
allow publish,create replicated/*
user *
deny publish,create replicated/*
deny subscribe replicated/secret
allow all *
"""


async def test_with_access_control_only_the_bridge_may_say_what_is_replicated(tmp_path):
    """A watermark that anybody may publish would let anybody forge acknowledgements (G-8)."""
    async with (
        attacked_broker(tmp_path / "access", RULES) as broker,
        broker.client("ana") as ana,
        broker.client("boris") as forger,
        anyio.create_task_group() as tasks,
    ):
        await ana.create_topic("t", **LOSSLESS)
        waiting = begun(tasks, ana.publish, "t", b"x", acked_by="kafka")
        await has_stored(ana, 1)
        state = await forger.topic("t")
        with pytest.raises(zaichik.Forbidden):
            await forger.publish(SOURCE, Watermark(state["epoch"], 99).encoded())
        with pytest.raises(zaichik.Forbidden):
            await forger.create_topic(SOURCE)
        await ana.ping()
        assert not waiting.done.is_set()
        tasks.cancel_scope.cancel()


async def test_who_may_not_read_the_watermark_is_told_before_anything_is_stored(tmp_path):
    async with (
        attacked_broker(tmp_path / "access", RULES) as broker,
        broker.client("ana") as ana,
    ):
        await ana.create_topic("secret", **LOSSLESS)
        with pytest.raises(zaichik.Forbidden, match="replicated/secret"):
            await ana.publish("secret", b"x", acked_by="kafka")
        assert (await ana.topic("secret"))["next_offset"] == 0
