import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel
import pytest
from brokers import (
    GUARD,
    HANG_UP,
    START_US,
    fake_broker,
    fake_client,
    real_broker,
    real_client,
)

import zaichik
from zaichik import BatchResult, PublishResult
from zaichik.client import client as client_module
from zaichik.client import questions
from zaichik_protocol import (
    FOREVER,
    AdvanceClock,
    Batch,
    ClockAdvanced,
    Close,
    Describe,
    Described,
    Error,
    ErrorCode,
    Kind,
    Ping,
    Publish,
    Published,
    Subscribe,
    Unsubscribe,
)

pytestmark = pytest.mark.anyio


# -- topics --------------------------------------------------------------------------------------


async def test_a_topic_is_created_with_the_settings_named():
    """TOP-2: those not named take the broker's defaults."""
    async with real_client() as client:
        topic = await client.create_topic(
            "t", retention_ttl="forever", compaction_window=timedelta(seconds=2), capacity=5
        )
    assert (topic.name, topic.created, topic.epoch) == ("t", True, START_US)
    assert topic.settings == {
        "retention_ttl_ms": FOREVER,
        "compaction_window_ms": 2000,
        "capacity": 5,
        "max_bytes": 64 * 2**20,
        "max_keys": 100_000,
        "journal_bytes": 0,
        "overflow": 0,
    }


async def test_a_table_is_created():
    """TAB-1."""
    async with real_client() as client:
        topic = await client.create_topic("t", table=True, tombstones=timedelta(hours=1))
        assert (topic.settings["table"], topic.settings["tombstones_ms"]) == (1, 3_600_000)
        assert "table" not in (await client.create_topic("u", table=False)).settings


async def test_creating_a_topic_again_with_the_same_settings_succeeds():
    """TOP-2."""
    async with real_client() as client:
        first = await client.create_topic("t", max_bytes=1000, max_keys=7)
        again = await client.create_topic("t", max_keys=7)
    assert (first.created, again.created) == (True, False)
    assert first.settings == again.settings


async def test_creating_a_topic_again_with_other_settings_fails():
    """TOP-2."""
    async with real_client() as client:
        await client.create_topic("t", retention_ttl=0)
        with pytest.raises(zaichik.TopicExists, match="retention_ttl is 0ms, asked for 1500ms"):
            await client.create_topic("t", retention_ttl=1.5)


async def test_exactly_one_of_many_creators_has_created_a_topic():
    """TOP-1."""
    async with real_client() as client:
        created = []

        async def create():
            created.append((await client.create_topic("t")).created)

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(create)
    assert sorted(created) == [False] * 99 + [True]


@pytest.mark.parametrize("topic", ["", "$own", "a\nb", "x" * 201])
async def test_a_name_the_broker_refuses_is_an_invalid_field(topic):
    """TOP-4."""
    async with real_client() as client:
        for use in (client.create_topic(topic), client.publish(topic, b"")):
            with pytest.raises(zaichik.InvalidField) as caught:
                await use
            assert caught.value.field == "topic"


async def test_an_unencodable_request_is_refused_locally_and_the_connection_continues(caplog):
    async with real_client() as client:
        with pytest.raises(ValueError, match=r"^capacity must be 0 to 2\^64 - 1, not -1$"):
            await client.create_topic("t", capacity=-1)
        with pytest.raises(ValueError, match="CreateTopic"):
            await client.create_topic("x" * 70_000)
        with pytest.raises(ValueError, match="Subscribe"):
            async with client.subscribe("t", credit=-1):
                pass
        with pytest.raises(ValueError, match="Publish"):
            await client.publish("x" * 70_000, b"")
        await client.ping()
    assert caplog.records == []


async def test_a_topic_is_deleted_and_its_readers_are_told():
    """TOP-6."""
    async with real_client() as client:
        await client.publish("t", b"x")
        async with client.subscribe("t") as subscription:
            with pytest.raises(zaichik.NotEmpty, match="'t' has 1 message, 1 subscription and"):
                await client.delete_topic("t", if_empty=True)
            with pytest.raises(zaichik.EpochChanged):
                await client.delete_topic("t", epoch=subscription.epoch + 1)
            await client.delete_topic("t", epoch=subscription.epoch)
            with pytest.raises(zaichik.SubscriptionLost, match="the topic was deleted"):
                await anext(subscription)
        assert await client.topics() == []
        with pytest.raises(zaichik.NoSuchTopic):
            await client.delete_topic("t")
        assert (await client.publish("t", b"y")).offset == 0


async def test_a_connection_is_found_and_ended_and_its_client_comes_back():
    """CLO-4."""
    async with (
        real_broker() as broker,
        zaichik.connect(port=broker.port) as operator,
        zaichik.connect(port=broker.port, name="stuck") as client,
    ):
        await client.ping()
        own, other = await operator.connections()
        assert (other["client"], other["peer"].partition(":")[0]) == ("stuck", "127.0.0.1")
        await operator.disconnect(other["connection"])
        await client.ping()
        assert [state["connection"] for state in await operator.connections()] == [1, 3]
        for number in (own["connection"], other["connection"]):
            with pytest.raises(zaichik.InvalidField, match=f"connection {number} "):
                await operator.disconnect(number)


async def test_the_clock_is_advanced():
    """TIM-4."""
    async with real_client() as client:
        begin_us = (await client.describe())["now_us"]
        await client.create_topic("t", retention_ttl=3600)
        await client.publish("t", b"x")
        assert await client.advance_clock(3599.999) == begin_us + 3_599_999_000
        assert (await client.topic("t"))["resident"] == 1
        assert await client.advance_clock(timedelta(milliseconds=1)) == begin_us + 3_600_000_000
        assert (await client.topic("t"))["resident"] == 0
        with pytest.raises(ValueError, match="0 or more seconds"):
            await client.advance_clock(-1)
        with pytest.raises(zaichik.InvalidField, match="never goes back"):
            await client.advance_clock(1e12)


async def test_a_clock_is_advanced_once_although_its_answer_is_lost():
    answers = [HANG_UP, ClockAdvanced]

    def advanced(frame):
        answer = answers.pop(0)
        return answer if answer is HANG_UP else answer(frame.id)

    told = {
        Describe: lambda frame: Described(frame.id, 0, b'{"now_us": 7}'),
        AdvanceClock: advanced,
    }
    async with fake_client(told) as (broker, client):
        assert await client.advance_clock(1) == 1_000_007
    assert [frame.to_us for frame in broker.of(AdvanceClock)] == [1_000_007] * 2


async def test_the_broker_describes_itself():
    async with real_client(max_topics=77) as client:
        state = await client.describe()
    assert (state["connections"], state["limits"]["max_topics"]) == (1, 77)


async def test_topics_are_listed_in_the_order_of_their_names():
    async with real_client() as client:
        for name in ("b2", "a", "b1"):
            await client.publish(name, b"")
        assert [topic["name"] for topic in await client.topics()] == ["a", "b1", "b2"]
        assert [topic["name"] for topic in await client.topics("b")] == ["b1", "b2"]
        assert await client.topics("c") == []


async def test_more_topics_than_a_page_holds_are_all_listed(monkeypatch):
    monkeypatch.setattr(questions, "DESCRIBE_PAGE", 3)
    names = [f"t{number}" for number in range(7)]
    async with real_client() as client:
        for name in names:
            await client.publish(name, b"")
        assert [topic["name"] for topic in await client.topics()] == names


async def test_the_counters_of_all_topics_are_listed(monkeypatch):
    monkeypatch.setattr(questions, "DESCRIBE_PAGE", 3)
    names = [f"t{number}" for number in range(7)]
    async with real_client() as client:
        for name in names:
            await client.publish(name, b"x")
        found = await client.counters()
        (one,) = await client.counters("t3")
        topic = await client.topic("t3")
    assert [row["name"] for row in found] == names
    assert (one["published"], one["next_offset"], one["capacity"]) == (
        1,
        1,
        topic["settings"]["capacity"],
    )


async def test_one_topic_is_looked_at_closely():
    async with real_client() as client:
        await client.create_topic("t", compaction_window=60, retention_ttl=60)
        for key in ("a", "\xe4", b"\xff"):
            await client.publish("t", b"x", key=key)
        async with (
            client.subscribe("t", start="latest"),
            client.subscribe("t", start=1, credit=1) as behind,
        ):
            windows, marks = await client.windows("t"), await client.marks("t")
            assert [key for key, _ in windows] == [b"\xff", "\xe4".encode(), b"a"]
            assert marks == [
                (offset, opened_us) for offset, (_, opened_us) in enumerate(reversed(windows))
            ]
            assert await client.windows("t", 1) == windows[:1]
            assert await client.marks("t", 1) == marks[:1]
            first, second = await client.furthest("t")
            assert await client.furthest("t", 1) == [first]
            assert (first["start"], second["start"]) == (1, 3)
            assert behind.start == 1
        assert (
            await client.windows("none")
            == await client.marks("none")
            == await client.furthest("none")
            == []
        )


async def test_a_page_is_told_as_it_comes():
    async with real_client() as client:
        for name in ("a", "b", "c"):
            await client.publish(name, b"")
        page, more = await client.describe_page(Kind.TOPICS, after="a", limit=1)
        assert ([topic["name"] for topic in page["topics"]], more) == (["b"], True)
        page, more = await client.describe_page(Kind.COUNTERS, "c")
        assert ([row[0] for row in page["rows"]], more) == (["c"], False)
        assert page["boot"] == client.welcome.boot
        with pytest.raises(zaichik.InvalidField):
            await client.describe_page(Kind.TOPICS, limit=0)


async def test_subscriptions_are_listed_by_the_topics_they_read():
    """CMT-5."""
    async with real_client() as client, client.subscribe("a", credit=7), client.subscribe("b"):
        (state,) = await client.subscriptions("a")
        assert len(await client.subscriptions()) == 2
    assert (state["topic"], state["credit"]) == ("a", 7)


async def test_why_a_message_did_not_arrive_is_explained():
    async with real_client() as client, client.subscribe("t", credit=1) as subscription:
        await client.publish("t", b"x", key="k")
        await client.publish("t", b"y", key="k")
        await anext(subscription)
        answer = await client.explain("t", offset=1)
        assert [it["fate"] for it in answer["verdicts"]] == ["readable", "waits_for_credit"]
        assert (await client.explain("t", key="k"))["offset"] == 1
        long_ago = datetime.fromtimestamp(0, UTC)
        assert (await client.explain("t", key=b"k", at=long_ago, subscription="1.1"))["offset"] == 0


async def test_what_cannot_be_explained():
    async with real_client() as client:
        await client.publish("t", b"x")
        for wrong in (
            {},
            {"offset": 0, "key": "k"},
            {"at": datetime.now(UTC)},
            {"offset": 0, "at": datetime.now(UTC)},
        ):
            with pytest.raises(ValueError, match="either an offset, or a key"):
                await client.explain("t", **wrong)
        with pytest.raises(zaichik.NoSuchTopic):
            await client.explain("u", offset=0)
        with pytest.raises(zaichik.NoSuchSubscription):
            await client.explain("t", offset=0, subscription="n")
        with pytest.raises(zaichik.InvalidField) as caught:
            await client.explain("t", key="k", at=datetime.now(UTC) + timedelta(days=1))
        assert caught.value.field == "time"
        assert await client.explain("t", offset=0)


# -- publishing ----------------------------------------------------------------------------------


async def test_a_message_published_is_stored():
    """PUB-1, PUB-3."""
    async with real_client() as client, client.subscribe("t") as subscription:
        assert await client.publish("t", b"a") == PublishResult(
            offset=0, compacted=False, subscribers=1
        )
        assert await client.publish("t", b"b", key="k") == PublishResult(
            offset=1, compacted=False, subscribers=1
        )
        assert await anext(subscription) == zaichik.Message("t", 0, START_US / 1e6, None, b"a")
        assert await anext(subscription) == zaichik.Message("t", 1, START_US / 1e6, b"k", b"b")


async def test_a_compacted_message_has_no_offset():
    """COM-2."""
    async with real_client() as client:
        await client.create_topic("t", compaction_window=10)
        await client.publish("t", b"a", key="k")
        assert await client.publish("t", b"b", key=b"k") == PublishResult(
            offset=None, compacted=True, subscribers=0
        )


@pytest.mark.parametrize("as_batch", [False, True])
async def test_a_batch_result_names_the_dropped_messages(as_batch):
    """COM-2."""
    messages = [("a", b"1"), ("b", b"2"), ("a", b"3"), (None, b"4"), (b"b", b"5")]
    if as_batch:
        messages = Batch.of(
            (b"" if key is None else key if isinstance(key, bytes) else key.encode(), payload)
            for key, payload in messages
        )
    async with real_client() as client:
        await client.create_topic("t", compaction_window="forever")
        await client.publish("t", b"0")
        result = await client.publish_batch("t", messages)
    assert result == BatchResult(
        first_offset=1, stored=3, compacted=2, dropped=(2, 4), subscribers=0
    )


async def test_the_dropped_messages_of_a_long_batch_are_read_from_the_bitmap():
    async with real_client() as client:
        await client.create_topic("t", compaction_window="forever")
        result = await client.publish_batch(
            "t", ((str(number % 10), b"") for number in range(1000))
        )
    assert result.dropped == tuple(range(10, 1000))


async def test_a_message_without_payload_deletes_its_key():
    """TAB-5."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        assert (await client.publish("t", b"1", key="a")).offset == 0
        await client.publish_batch("t", [("b", b"2"), ("a", None)])
        await client.publish("t", None, key="b")
        state = await client.topic("t")
        assert (state["keys"], state["tombstones"], state["superseded"]) == (0, 2, 2)


async def test_a_batch_of_the_wire_deletes_keys_if_that_is_said():
    """TAB-6: as a copy of messages does."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        copied = Batch.of([(b"a", b""), (b"b", b"1")])
        with pytest.raises(zaichik.InvalidField):
            await client.publish_batch("t", copied)
        assert (await client.publish_batch("t", copied, tombstones=True)).stored == 2
        assert (await client.topic("t"))["tombstones"] == 1


async def test_deleting_no_key_in_particular_is_refused_before_it_is_sent():
    async with fake_client() as (broker, client):
        for use in (client.publish("t", None), client.publish_batch("t", [(None, None)])):
            with pytest.raises(ValueError, match="name the key"):
                await use
        await client.ping()
        assert broker.of(Publish) == []


async def test_an_empty_key_is_refused_before_it_is_sent():
    """COM-5."""
    async with fake_client() as (broker, client):
        for use in (client.publish("t", b"", key=""), client.publish_batch("t", [(b"", b"")])):
            with pytest.raises(ValueError, match="empty key"):
                await use
        await client.ping()
        assert broker.of(Publish) == []


async def test_an_empty_batch_is_refused_before_it_is_sent():
    async with real_client() as client:
        with pytest.raises(ValueError, match="a batch needs"):
            await client.publish_batch("t", [])


@pytest.mark.parametrize("size", [2**20 + 1, 3 * 2**20])
async def test_a_message_larger_than_the_broker_accepts_does_not_end_the_connection(size):
    async with real_client() as client:
        with pytest.raises(zaichik.MessageTooLarge, match=f"{size:,} bytes is too large"):
            await client.publish("t", b"x" * size)
        await client.publish("t", b"x" * 2**20)


@pytest.mark.parametrize(
    "messages", [[(None, b"x" * 2**20)] * 2, [(None, b"")] * 8193, [(None, b"")] * 200_000]
)
async def test_a_batch_larger_than_the_broker_accepts_does_not_end_the_connection(messages):
    async with real_client() as client:
        with pytest.raises(zaichik.BatchTooLarge, match="Send it in pieces"):
            await client.publish_batch("t", messages)
        await client.publish_batch("t", [(None, b"")] * 8192)


async def test_a_batch_larger_than_the_ring_is_refused_whole():
    """RET-6, PUB-2."""
    async with real_client() as client:
        await client.create_topic("t", capacity=2)
        with pytest.raises(zaichik.BatchTooLarge):
            await client.publish_batch("t", [(None, b"")] * 3)
        assert (await client.publish("t", b"")).offset == 0


async def test_many_tasks_publishing_at_once_get_their_own_results():
    async with real_client() as client:
        offsets = {}

        async def publish(payload):
            offsets[(await client.publish("t", payload)).offset] = payload

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(publish, str(number).encode())
        async with client.subscribe("t", start=0, until=200) as subscription:
            stored = {message.offset: message.payload async for message in subscription}
    assert len(offsets) == 200
    assert offsets == stored


async def test_publishing_much_to_a_topic_that_is_read_does_not_deadlock():
    """LAG-3: neither side waits for the other, though nobody reads for now."""
    async with real_client() as client, client.subscribe("t", credit_bytes=2**30) as subscription:
        for number in range(400):
            await client.publish("t", number.to_bytes(2, "big") * 32 * 1024)
        for number in range(400):
            assert (await anext(subscription)).payload[:2] == number.to_bytes(2, "big")


async def test_many_batches_in_flight_at_once_do_not_deadlock():
    async with real_client() as client, client.subscribe("t", credit_bytes=2**30) as subscription:
        async with anyio.create_task_group() as tasks:
            for _ in range(400):
                tasks.start_soon(client.publish, "t", b"x" * 64 * 1024)
        for offset in range(400):
            assert (await anext(subscription)).offset == offset


# -- what comes out of the blocks ----------------------------------------------------------------


class Own(Exception):
    pass


@pytest.mark.parametrize("kind", [Own, zaichik.TopicExists, SystemExit, KeyboardInterrupt])
async def test_a_blocks_exception_leaves_all_blocks_unwrapped(kind):
    error = kind(Error(1, 67, 2, "", 0, "own")) if kind is zaichik.TopicExists else kind()
    with pytest.raises(kind) as caught:
        async with (
            zaichik.running_broker() as broker,
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t"),
            client.producer("t"),
        ):
            raise error
    assert caught.value is error


@pytest.mark.parametrize("block", ["broker", "client", "subscription", "producer"])
async def test_a_blocks_exception_leaves_it_unwrapped(block):
    def within(broker, client):
        match block:
            case "broker":
                return zaichik.running_broker()
            case "client":
                return zaichik.connect(port=broker.port)
            case "subscription":
                return client.subscribe("t")
            case "producer":
                return client.producer("t")

    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        with pytest.raises(Own):
            async with within(broker, client):
                raise Own
        await client.ping()


async def test_cancelling_passes_through_all_blocks():
    after = []
    with anyio.fail_after(GUARD), anyio.CancelScope() as scope:
        async with (
            zaichik.running_broker() as broker,
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
            client.producer("t") as producer,
        ):
            await producer.send(b"a")
            scope.cancel()
            async for _ in subscription:
                pass
        after.append("went on")
    assert scope.cancelled_caught
    assert after == []


async def test_a_scope_inside_the_blocks_ends_only_what_is_inside():
    async with real_client() as client, client.subscribe("t") as subscription:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(subscription)
        await client.publish("t", b"a")
        assert (await anext(subscription)).payload == b"a"


async def test_a_background_failure_of_a_client_ends_its_block(monkeypatch):
    async def fail(_client):
        raise Own

    monkeypatch.setattr(zaichik.Client, "commit_regularly", fail)
    async with real_broker() as broker:
        with pytest.raises(ExceptionGroup) as caught:
            async with zaichik.connect(port=broker.port):
                await anyio.sleep_forever()
    assert isinstance(caught.value.exceptions[0], Own)


async def test_a_generator_of_messages_may_be_abandoned():
    async def payloads(port):
        async with (
            zaichik.connect(port=port) as client,
            client.subscribe("t", start=0) as subscription,
        ):
            async for message in subscription:
                yield message.payload

    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.publish("t", b"a")
        generator = payloads(broker.port)
        assert await anext(generator) == b"a"
        await generator.aclose()
        assert await client.subscriptions() == []


# -- subscribing, as far as the client does it ---------------------------------------------------


async def test_a_refused_subscription_leaves_nothing_behind(caplog):
    async with fake_client(
        {Subscribe: lambda f: Error(f.id, ErrorCode.EPOCH_CHANGED, 4, "epoch", 0, "no")}
    ) as (
        broker,
        client,
    ):
        with pytest.raises(zaichik.EpochChanged):
            async with client.subscribe("t", epoch=5):
                pass
        await client.ping()
        assert broker.of(Unsubscribe) == []
        assert client._connection._receivers == {}
    assert caplog.records == []


async def test_a_cancelled_subscribe_is_undone():
    async with fake_client({Subscribe: lambda _: None}) as (broker, client):
        async with anyio.create_task_group() as tasks:

            async def subscribe():
                async with client.subscribe("t"):
                    pass

            tasks.start_soon(subscribe)
            request = await broker.has_received(Subscribe)
            tasks.cancel_scope.cancel()
        await client.ping()
        assert [frame.subscription for frame in broker.of(Unsubscribe)] == [request.id]


async def test_ids_rise_so_that_late_subscriptions_are_accepted():
    async with real_client() as client:
        for _ in range(3):
            await client.publish("t", b"")
            async with client.subscribe("t"):
                pass


async def test_a_bitmap_of_nothing_is_no_dropped_message():
    async with fake_client({Publish: lambda f: Published(f.id, 3, 2, 0, 9)}) as (_, client):
        result = await client.publish_batch("t", [("a", b""), ("b", b"")])
    assert result == BatchResult(first_offset=3, stored=2, compacted=0, dropped=(), subscribers=9)


async def test_ping_is_answered_after_everything_before_it(caplog):
    caplog.set_level(logging.DEBUG)
    async with fake_client() as (broker, client):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"")
            await broker.has_received(Publish)
            await client.ping()
        kinds = [type(frame) for frame in broker.received[1:]]
        assert kinds == [Subscribe, Unsubscribe, Publish, Ping], (
            "the first two ask for the topic's epoch"
        )


# -- blocks that other tasks leave -----------------------------------------------------------------


async def enter_all(stack, port):
    """Enter every block that a client has."""
    client = await stack.enter_async_context(zaichik.connect(port=port))
    producer = await stack.enter_async_context(client.producer("t"))
    subscription = await stack.enter_async_context(client.subscribe("t", start=0))
    await producer.send(b"a")
    return client, subscription


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "ended"])
async def test_another_task_may_leave_what_one_has_entered(waits):
    """As the set-up and the tear-down of a fixture. On trio: see `DetachedTasks`."""
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        stack, is_over = AsyncExitStack(), asyncio.Event()
        entered = asyncio.get_running_loop().create_future()

        async def enter():
            entered.set_result(await enter_all(stack, broker.port))
            if waits:
                await is_over.wait()
            return "not cancelled"

        async def leave():
            await stack.aclose()

        entering = asyncio.create_task(enter())
        client, subscription = await entered
        assert (await anext(subscription)).payload == b"a"
        await asyncio.create_task(leave())
        is_over.set()
        assert await entering == "not cancelled"
        with pytest.raises(zaichik.ConnectionLost, match="this client has closed it"):
            await client.ping()
        assert await other.subscriptions() == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_client_may_be_started_and_stopped_with_a_timeout():
    """`wait_for` has a task of its own, up to Python 3.11."""
    async with real_broker() as broker:
        connecting = zaichik.connect(port=broker.port)
        client = await asyncio.wait_for(connecting.__aenter__(), GUARD)
        await client.publish("t", b"a")
        await asyncio.wait_for(connecting.__aexit__(None, None, None), GUARD)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_loop_over_a_generator_with_a_client_may_be_left():
    """The event loop closes it, in another task."""

    async def messages(port):
        async with (
            zaichik.connect(port=port) as client,
            client.subscribe("t", start=0) as subscription,
        ):
            async for message in subscription:
                yield message

    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.publish("t", b"a")
        with anyio.CancelScope():
            async for message in messages(broker.port):
                assert message.payload == b"a"
                break
        while len(await client.connections()) > 1:
            await anyio.lowlevel.checkpoint()
        assert asyncio.current_task().cancelling() == 0


async def test_clients_may_be_closed_in_the_order_in_which_they_were_opened():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        with anyio.CancelScope():
            clients = [zaichik.connect(port=broker.port) for _ in range(3)]
            for client in clients:
                await client.__aenter__()
            for left, client in enumerate(clients, 1):
                await client.__aexit__(None, None, None)
                assert len(await other.connections()) == 4 - left
        await anyio.lowlevel.checkpoint()


async def test_a_cancelled_block_still_ends_in_order():
    """The broker is sent what was published, and a Close."""
    async with fake_broker() as broker:
        with anyio.CancelScope() as scope:
            async with (
                zaichik.connect(port=broker.port) as client,
                client.producer("t") as producer,
            ):
                await producer.send(b"a")
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert [type(frame) for frame in broker.received][-2:] == [Publish, Close]


async def test_a_client_that_reads_nothing_wakes_up_for_nothing(patchable, monkeypatch):
    """One for each shard of a cluster would add up."""
    pauses = []

    class Pause(float):
        def __radd__(self, now):
            """A deadline is computed."""
            pauses.append(now)
            return now + 0.001

    monkeypatch.setattr(client_module, "COMMIT_SECONDS", Pause())
    async with real_client() as client:
        await client.publish("t", b"")
        assert pauses == []
        async with client.subscribe("t"):
            while len(pauses) < 3:
                await anyio.lowlevel.checkpoint()
