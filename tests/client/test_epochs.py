"""A broker that comes back without its topics: TOP-5, and that nobody publishes into nothing
without being told.
"""

import logging
import shutil
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import anyio
import pytest
from brokers import GUARD, HANG_UP, fake_broker, fake_client
from proxy import cutting_proxy

import zaichik
from zaichik.client import transport as transport_module
from zaichik.client.client import connect_over
from zaichik.client.dialer import Dialer
from zaichik.client.endpoint import endpoint
from zaichik_protocol import (
    FOREVER,
    Commit,
    CreateTopic,
    Delete,
    Deleted,
    Error,
    ErrorCode,
    Hello,
    Overflow,
    Publish,
    Published,
    Setting,
    Subscribe,
    Subscribed,
    TopicCreated,
    Unsubscribe,
    Welcome,
)

pytestmark = pytest.mark.anyio

OLD_US, NEW_US = 1_000_000_000, 2_000_000_000  # the clocks of a broker and of the next one


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


@asynccontextmanager
async def broker_at(now_us, **settings):
    clock = zaichik.ManualClock(now_us)
    async with zaichik.running_broker(
        clock=clock, settings=zaichik.BrokerSettings(**settings)
    ) as broker:
        yield broker


@asynccontextmanager
async def restarted(new_us=NEW_US, *, settings=None, **options):
    """A client of a broker, a function that puts another broker in its place, and a client of that
    one.
    """
    settings = settings or {}
    with anyio.fail_after(GUARD):
        async with (
            broker_at(OLD_US, **settings) as old,
            broker_at(new_us, **settings) as new,
            cutting_proxy(old.port) as proxy,
            zaichik.connect(port=new.port) as other,
            zaichik.connect(port=proxy.port, reconnect=GUARD, **options) as client,
        ):

            async def restart():
                proxy.target = new.port
                proxy.cut()
                await client.ping()
                await anyio.wait_all_tasks_blocked()

            yield client, restart, other


async def settings_of(client, topic):
    (state,) = await client.topics(topic)
    return state["settings"]


# -- a broker that has lost its topics -----------------------------------------------------------


async def test_a_topic_comes_back_with_the_settings_its_program_gave_it():
    """RET-9: a lossless topic must not come back as one that loses."""
    async with restarted() as (client, restart, other):
        await client.create_topic("t", overflow="reject", retention_ttl="forever")
        await client.create_topic("t", overflow="reject", capacity=10_000)
        before = await settings_of(client, "t")
        await client.publish("t", b"a")
        await restart()
        assert (await client.publish("t", b"b")).offset == 0
        assert await settings_of(other, "t") == before
        assert (before["overflow"], before["retention_ttl_ms"]) == (Overflow.REJECT, FOREVER)


async def test_lost_topics_are_reported_and_logged(caplog):
    caplog.set_level(logging.WARNING)
    async with restarted() as (client, restart, _):
        await client.create_topic("made")
        await client.publish("made", b"a")
        await client.publish("used", b"a")
        assert client.lost_topics == ()
        await restart()
        assert [
            (lost.topic, lost.old_epoch, lost.new_epoch, lost.refusal)
            for lost in client.lost_topics
        ] == [
            ("made", OLD_US, NEW_US, ""),
            ("used", OLD_US, NEW_US, ""),
        ]
        await client.publish("used", b"b")
        await restart()
        assert len(client.lost_topics) == 2, "it is lost once"
    warnings = [
        record.getMessage() for record in caplog.records if record.name == "zaichik.client.epochs"
    ]
    assert len(warnings) == 2
    assert "'used'" in warnings[1]
    assert "lost what was published before" in warnings[1]


async def test_a_stream_continues_in_the_new_topic_unless_configured_otherwise():
    async with restarted() as (client, restart, other):
        async with client.producer("t") as producer:
            for number in range(10):
                await producer.send(b"%d" % number)
            await producer.flush()
            await restart()
            await producer.send(b"more")
        assert (await other.topics("t"))[0]["next_offset"] == 1
        assert len(client.lost_topics) == 1


async def stream(client, restart):
    async with client.producer("t") as producer:
        await producer.send(b"a")
        await producer.flush()
        await restart()
        await producer.send(b"b")


async def test_publishing_fails_if_configured_so():
    async with restarted(on_new_epoch="raise") as (client, restart, other):
        await client.create_topic("t")
        await client.publish("t", b"a")
        with pytest.raises(
            zaichik.EpochChanged, match=r"lost what was published before.*Connect again"
        ):
            await stream(client, restart)
        for _ in range(2):
            with pytest.raises(zaichik.EpochChanged):
                await client.publish("t", b"b")
            with pytest.raises(zaichik.EpochChanged):
                await client.publish_batch("t", [(None, b"b")])
        assert (await other.topics("t"))[0]["next_offset"] == 0
        assert (await client.publish("another", b"b")).offset == 0


async def test_unanswered_batches_fail_too_and_are_not_stored_in_the_new_topic():
    async with fake_client({Publish: lambda _: None}, on_new_epoch="raise") as (broker, client):
        errors = []

        async def fail(publish):
            with pytest.raises(zaichik.EpochChanged):
                await publish
            errors.append(publish)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(fail, client.publish("t", b"a"))
                tasks.start_soon(fail, client.publish_batch("t", [(None, b"b")]))
            await broker.has_received(Publish, 3)
            await anyio.wait_all_tasks_blocked()  # some of them travel together
            broker.answers[Subscribe] = lambda frame: Subscribed(frame.id, 2, 0, 0, 0)
            broker.received.clear()
            await broker.hang_up()
        assert len(errors) == 6
        await client.ping()
        kinds = [type(frame) for frame in broker.received]
        assert Publish not in kinds[kinds.index(Hello) :]
        assert client._connection.is_quiet


@pytest.mark.parametrize("mode", ["warn", "raise"])
async def test_another_boot_with_the_same_epochs_has_lost_nothing(mode):
    """A broker that keeps its topics on disk."""
    async with restarted(OLD_US, on_new_epoch=mode) as (client, restart, other):
        await other.create_topic("made", capacity=5)
        await other.create_topic("used")
        for topic in ("made", "used"):
            await other.publish(topic, b"a")
        await client.create_topic("made", capacity=5)
        boot = client.welcome.boot
        await client.publish("made", b"a")
        await client.publish("used", b"a")
        await restart()
        assert client.welcome.boot != boot
        await client.publish("made", b"b")
        await client.publish("used", b"b")
        assert client.lost_topics == ()


async def test_a_topic_that_is_refused_is_reported_and_not_swallowed():
    """TOP-2."""
    async with restarted() as (client, restart, other):
        await client.create_topic("t", capacity=5)
        await other.create_topic("t", capacity=7)
        await restart()
        (lost,) = client.lost_topics
        assert (lost.topic, lost.old_epoch, lost.new_epoch) == ("t", OLD_US, NEW_US)
        assert "exists with other settings" in lost.refusal
        assert "exists with other settings" in str(lost)


async def test_a_refusal_for_lack_of_room_is_reported_and_creates_no_topic():
    """RET-9: a lossless topic that cannot have its bytes."""
    async with restarted(settings={"max_bytes": 2**20}) as (client, restart, other):
        await client.create_topic("t", overflow="reject", max_bytes=2**17, capacity=10)
        await other.create_topic("taken", overflow="reject", max_bytes=2**19 - 2**16, capacity=10)
        await restart()
        (lost,) = client.lost_topics
        assert (lost.old_epoch, lost.new_epoch) == (OLD_US, 0)
        assert lost.refusal
        assert [state["name"] for state in await other.topics()] == ["taken"]


# -- a broker that creates nothing by itself -----------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "raise"])
async def test_asking_for_epochs_creates_no_topic(mode):
    """TOP-3."""
    async with restarted(settings={"auto_create": False}, on_new_epoch=mode) as (
        client,
        restart,
        other,
    ):
        for _ in range(2):
            with pytest.raises(zaichik.NoSuchTopic):
                await client.publish("t", b"a")
        assert await client.topics() == []
        async with broker_client(client) as creator:
            await creator.create_topic("t")
        await client.publish("t", b"a")
        assert client.lost_topics == ()
        await restart()
        with pytest.raises(zaichik.NoSuchTopic if mode == "warn" else zaichik.EpochChanged):
            await client.publish("t", b"a")
        (lost,) = client.lost_topics
        assert (lost.topic, lost.old_epoch, lost.new_epoch) == ("t", OLD_US, 0)
        assert await other.topics() == []


def broker_client(client):
    """Another client of the same broker, which is to be forgotten."""
    host, port = client._connection._dialer.endpoint.host, client._connection._dialer.endpoint.port
    return zaichik.connect(host, port)


# -- on the wire ---------------------------------------------------------------------------------


def topic_frames(broker):
    kinds = CreateTopic, Subscribe, Publish
    return [(type(frame), frame.topic) for frame in broker.received if isinstance(frame, kinds)]


async def test_the_epoch_is_asked_for_once_and_no_publish_waits_for_it():
    async with fake_client({Subscribe: lambda _: None}) as (broker, client):
        for _ in range(3):
            await client.publish("t", b"a")
        async with client.producer("t") as producer:
            await producer.send(b"b")
        assert topic_frames(broker) == [(Subscribe, "t"), *[(Publish, "t")] * 4]
        (probe,) = broker.of(Subscribe)
        assert (probe.until, probe.epoch) == (0, 0)
        assert [frame.subscription for frame in broker.of(Unsubscribe)] == [probe.id]


async def test_a_topic_that_was_created_here_is_not_asked_for():
    async with fake_client({CreateTopic: lambda f: TopicCreated(f.id, 1, 9, ())}) as (
        broker,
        client,
    ):
        await client.create_topic("t")
        await client.publish("t", b"a")
        assert broker.of(Subscribe) == []


async def test_a_client_that_does_not_reconnect_does_not_ask():
    async with fake_client(reconnect=0) as (broker, client):
        await client.publish("t", b"a")
        assert broker.of(Subscribe) == []


async def test_publishing_continues_if_the_broker_does_not_report_an_epoch():
    unsupported = lambda f: Error(f.id, ErrorCode.UNSUPPORTED, f.TYPE, "type", 0, "what?")  # noqa: E731
    async with fake_client({Subscribe: unsupported, Unsubscribe: unsupported}) as (broker, client):
        await client.publish("t", b"a")
        await broker.hang_up()
        await client.publish("t", b"b")
        assert client.lost_topics == ()


class Keeper:
    """Answers CreateTopic, as a broker whose topics have this epoch."""

    def __init__(self):
        self.epoch = 9

    def __call__(self, frame):
        return TopicCreated(frame.id, 1, self.epoch, ())


async def test_topics_come_first_then_subscriptions_then_questions_and_then_the_rest():
    answers = {CreateTopic: Keeper(), Subscribe: lambda f: Subscribed(f.id, 9, 0, 0, 0)}
    async with fake_client(answers) as (broker, client):
        for name in ("a", "b"):
            await client.create_topic(name, capacity=5)
        await client.create_topic("a", max_keys=7)
        await client.publish("used", b"")
        async with client.subscribe("read"), anyio.create_task_group() as tasks:
            broker.answers[Publish] = lambda _: None
            tasks.start_soon(client.publish, "a", b"1")
            await broker.has_received(Publish, 2)
            tasks.start_soon(client.publish, "b", b"2")
            await broker.has_received(Publish, 3)
            broker.answers[Publish] = lambda f: Published(f.id, 0, 1, 0, 0)
            broker.received.clear()
            await broker.hang_up()
        assert topic_frames(broker) == [
            (CreateTopic, "a"), (CreateTopic, "b"), (Subscribe, "read"), (Subscribe, "used"),
            (Subscribe, "a"), (Subscribe, "b"), (Publish, "a"), (Publish, "b"),
        ]  # fmt: skip
        assert broker.of(CreateTopic)[0].settings == ((Setting.CAPACITY, 5), (Setting.MAX_KEYS, 7))
        ids = [frame.id for frame in broker.of(Subscribe)]
        assert ids == sorted(ids), "or the broker would refuse them"


async def test_nothing_is_published_before_the_topics_are_known_but_commits_are_made():
    answers = {CreateTopic: Keeper(), Subscribe: lambda f: Subscribed(f.id, 9, f.value, 9, f.value)}
    async with fake_client(answers) as (broker, client):
        await client.create_topic("t")
        async with (
            client.subscribe("t", credit=2, start=0) as subscription,
            anyio.create_task_group() as tasks,
        ):
            broker.answers[CreateTopic] = lambda _: None
            broker.received.clear()
            await broker.hang_up()
            question = await broker.has_received(CreateTopic)
            tasks.start_soon(client.publish, "t", b"a")
            tasks.start_soon(client.publish, "new", b"a")
            await broker.has_received(Subscribe)
            await broker.messages(0, b"0", b"1")
            assert [(await anext(subscription)).offset for _ in range(2)] == [0, 1]
            subscription.commit_settled()
            await broker.has_received(Commit)
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with client.subscribe("given up"):
                    pass
            await anyio.wait_all_tasks_blocked()
            assert broker.of(Publish) == []
            await broker.send(TopicCreated(question.id, 1, 9, ()))
            await broker.has_received(Publish, 2)
        subscribed = {frame.topic: frame.id for frame in broker.of(Subscribe)}
        assert list(subscribed) == ["t", "new", "given up"]
        left = [frame.subscription for frame in broker.of(Unsubscribe)]
        assert subscribed["given up"] in left


async def test_who_subscribes_while_topics_are_asked_for_is_not_overtaken_by_a_question():
    """The ids of Subscribes must rise: the question about a topic is one, and is sent at once."""
    answers = {CreateTopic: Keeper(), Subscribe: lambda f: Subscribed(f.id, 9, 0, 0, 0)}
    async with fake_client(answers) as (broker, client):
        await client.create_topic("t")
        broker.answers[CreateTopic] = lambda _: None
        broker.received.clear()
        await broker.hang_up()
        question = await broker.has_received(CreateTopic)
        made = anyio.Event()

        async def read():
            async with client.subscribe("read"):
                made.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(client.publish, "new", b"a")
            await broker.has_received(Subscribe, 2)
            await broker.send(TopicCreated(question.id, 1, 9, ()))
            await made.wait()
        ids = [frame.id for frame in broker.of(Subscribe)]
        assert ids == sorted(ids), "or the broker would refuse them"
        assert [frame.topic for frame in broker.of(Subscribe)] == ["read", "new"]


@pytest.mark.parametrize("losses", [1, 3])
async def test_a_loss_while_topics_are_asked_for_is_followed_by_asking_again(losses):
    """And another run of the broker is not forgotten: PUB-4."""
    boots = count(7)
    hello = lambda f: Welcome(f.id, 1, 0, min(next(boots), 8), 2**21, 8192, 2**20, 10**6, 0, "fake")  # noqa: E731
    keeper = Keeper()
    async with fake_client({CreateTopic: keeper, Hello: hello, Publish: lambda _: None}) as (
        broker,
        client,
    ):
        await client.create_topic("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"a")
            first = await broker.has_received(Publish)
            broker.answers[CreateTopic] = lambda _: None
            await broker.hang_up()
            for number in range(losses):
                await broker.has_received(CreateTopic, number + 2)
                await broker.hang_up()
            broker.answers[Publish] = lambda f: Published(f.id, 0, 1, 0, 0)
            keeper.epoch = 10
            question = await broker.has_received(CreateTopic, losses + 2)
            assert len(broker.of(Publish)) == 1
            await broker.send(keeper(question))
        _, again = broker.of(Publish)
        assert (again.sequence, again.batch) == (0, first.batch)
        assert again.producer != first.producer
        assert [lost.new_epoch for lost in client.lost_topics] == [10]


def another_boot_each_time():
    boots = count(7)
    return lambda f: Welcome(f.id, 1, 0, next(boots), 2**21, 8192, 2**20, 10**6, 0, "fake")


async def test_a_change_that_was_told_before_another_loss_is_a_change():
    """PUB-4: nothing was sent to the topic that was there in the meantime."""
    keeper = Keeper()
    answers = {CreateTopic: keeper, Hello: another_boot_each_time(), Publish: lambda _: None}
    async with fake_client(answers) as (broker, client):
        for topic in ("t", "u"):
            await client.create_topic(topic)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"a")
            first = await broker.has_received(Publish)
            keeper.epoch = 10
            broker.answers[CreateTopic] = lambda f: keeper(f) if f.topic == "t" else None
            await broker.hang_up()
            await broker.has_received(CreateTopic, 4)
            while not client.lost_topics:
                await anyio.lowlevel.checkpoint()
            assert len(broker.of(Publish)) == 1
            broker.answers |= {CreateTopic: keeper, Publish: lambda f: Published(f.id, 0, 1, 0, 0)}
            await broker.hang_up()
        _, again = broker.of(Publish)
        assert again.producer != first.producer


async def test_a_topic_that_was_another_one_before_the_loss_is_kept():
    """PUB-4: its batches were sent to the topic that is still there."""
    keeper = Keeper()
    answers = {CreateTopic: keeper, Hello: another_boot_each_time(), Publish: lambda _: None}
    async with fake_client(answers) as (broker, client):
        for epoch in (9, 10):  # somebody has deleted it in between
            keeper.epoch = epoch
            await client.create_topic("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"a")
            first = await broker.has_received(Publish)
            broker.answers[Publish] = lambda f: Published(f.id, 0, 1, 0, 0)
            await broker.hang_up()
        assert broker.of(Publish) == [first, first]


@pytest.mark.parametrize("epoch", [9, 10])
async def test_a_topic_that_comes_back_with_other_settings_is_judged_by_its_epoch(epoch):
    """TOP-2, PUB-4: a durable topic keeps what was stored in it, whatever its settings."""
    keeper = Keeper()
    answers = {CreateTopic: keeper, Hello: another_boot_each_time(), Publish: lambda _: None}
    async with fake_client(answers) as (broker, client):
        await client.create_topic("t", capacity=5)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.publish, "t", b"a")
            first = await broker.has_received(Publish)
            keeper.epoch = epoch
            exists = lambda f: Error(f.id, ErrorCode.TOPIC_EXISTS, f.TYPE, "settings", 0, "others")  # noqa: E731
            broker.answers |= {
                CreateTopic: lambda f: exists(f) if f.settings else keeper(f),
                Publish: lambda f: Published(f.id, 0, 1, 0, 0),
            }
            await broker.hang_up()
        _, again = broker.of(Publish)
        assert (again.producer == first.producer) is (epoch == 9)
        assert [(lost.old_epoch, lost.new_epoch) for lost in client.lost_topics] == [(9, epoch)]


# -- a topic that was restored from an older copy --------------------------------------------------


class Machine:
    """Runs one broker after the other, each in a task of its own."""

    def __init__(self, tasks, proxy):
        self._tasks = tasks
        self._proxy = proxy
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._ended.set()

    async def _run(self, data, *, task_status):
        with self._scope:
            async with zaichik.running_broker(data=data) as broker:
                task_status.started(broker.port)
                await anyio.sleep_forever()
        self._ended.set()

    async def start(self, data):
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._proxy.target = await self._tasks.start(partial(self._run, data))

    async def stop(self):
        self._scope.cancel()
        await self._ended.wait()


@asynccontextmanager
async def machine():
    with anyio.fail_after(GUARD):
        async with cutting_proxy(0) as proxy, anyio.create_task_group() as tasks:
            machine = Machine(tasks, proxy)
            yield machine, proxy.port
            await machine.stop()


@pytest.mark.parametrize("mode", ["warn", "raise"])
@pytest.mark.parametrize("since", [0, 1], ids=["before the first", "after the first"])
async def test_a_copy_that_was_restored_is_published_to_and_what_it_lacks_is_reported(
    since, mode, tmp_path
):
    """The copy was made before the client published, or between two of its messages."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    async with machine() as (broker, port):
        await broker.start(data)
        async with zaichik.connect(port=port, on_new_epoch=mode) as client:
            await client.create_topic("t", durable=True)
            for number in range(since):
                await client.publish("t", b"%d" % number)
            await broker.stop()
            shutil.copytree(data, copy)
            await broker.start(data)
            for number in range(since, 5):
                assert (await client.publish("t", b"%d" % number)).offset == number
            assert client.lost_topics == ()
            await broker.stop()
            await broker.start(copy)
            # A batch from before it is back would be ambiguous.
            await client.ping()
            if mode == "warn" or not since:
                # Without a gap, this answer is the proof.
                assert (await client.publish("t", b"5")).offset == since
            if mode == "warn":
                assert (await client.publish("t", b"6")).offset == since + 1
            else:
                for _ in range(2):
                    with pytest.raises(zaichik.EpochChanged, match="earlier state"):
                        await client.publish("t", b"6")
            (lost,) = client.lost_topics
            assert (lost.topic, lost.is_older) == ("t", True)
            assert lost.old_epoch == lost.new_epoch != 0


# -- a topic that its program deletes --------------------------------------------------------------


@pytest.mark.parametrize("mode", ["warn", "raise"])
@pytest.mark.parametrize("options", [{}, {"durable": True}])
async def test_what_the_program_deletes_and_creates_again_is_not_lost(mode, options, tmp_path):
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker(data=tmp_path) as broker,
            zaichik.connect(port=broker.port, on_new_epoch=mode) as client,
        ):
            first = await client.create_topic("t", **options)
            await client.publish("t", b"a")
            await client.delete_topic("t")
            second = await client.create_topic("t", **options)
            assert first.epoch != second.epoch
            assert (await client.publish("t", b"b")).offset == 0
            await client.delete_topic("t")
            assert (await client.publish("t", b"c")).offset == 0
            assert client.lost_topics == ()


async def test_what_somebody_else_deletes_is_reported():
    with anyio.fail_after(GUARD):
        async with (
            zaichik.running_broker() as broker,
            zaichik.connect(port=broker.port) as other,
            zaichik.connect(port=broker.port) as client,
        ):
            await client.create_topic("t")
            await other.delete_topic("t")
            with pytest.raises(zaichik.NoSuchTopic):
                await client.delete_topic("t")
            await client.create_topic("t")
            assert [lost.topic for lost in client.lost_topics] == ["t"]


async def test_a_topic_that_was_deleted_is_not_created_again_after_a_reconnection():
    async with restarted() as (client, restart, other):
        await client.create_topic("t")
        await client.publish("used", b"a")
        await client.delete_topic("t")
        await client.delete_topic("used")
        await restart()
        assert await other.topics() == []
        assert client.lost_topics == ()


async def test_a_program_that_makes_a_lost_topic_anew_can_publish():
    async with restarted(on_new_epoch="raise") as (client, restart, _):
        await client.create_topic("t")
        await restart()
        with pytest.raises(zaichik.EpochChanged):
            await client.publish("t", b"a")
        await client.delete_topic("t")
        await client.create_topic("t")
        await client.publish("t", b"a")
        assert len(client.lost_topics) == 1


@pytest.mark.parametrize("settings", [{}, {"capacity": 5}])
async def test_a_topic_whose_delete_is_retried_is_not_asked_for(settings):
    """Asking would create it, with an epoch that a Delete with an epoch does not delete."""
    keeper = Keeper()
    answers = {
        CreateTopic: keeper,
        Subscribe: lambda f: Subscribed(f.id, keeper.epoch, 0, 0, 0),
        Delete: lambda _: HANG_UP,
    }
    async with fake_client(answers, on_new_epoch="raise") as (broker, client):
        if settings:
            await client.create_topic("t", **settings)
        await client.publish("t", b"a")
        await client.publish("other", b"a")
        broker.received.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(client.delete_topic, "t", epoch=9))
            await broker.has_received(Delete)
            broker.answers[Delete] = lambda f: Deleted(f.id)
        assert [topic for _, topic in topic_frames(broker)] == ["other"]
        await client.create_topic("t", **settings)
        await client.publish("t", b"b")
        assert client.lost_topics == ()


@pytest.mark.parametrize("settings", [{}, {"capacity": 5}])
async def test_a_topic_whose_retried_delete_is_refused_is_asked_for(settings):
    keeper = Keeper()
    refusals = [HANG_UP, ErrorCode.NOT_EMPTY]

    def refused(frame):
        code = refusals.pop(0)
        if code is HANG_UP:
            keeper.epoch = 11
            return HANG_UP
        return Error(frame.id, code, Delete.TYPE, "topic", 0, code.meaning)

    answers = {
        CreateTopic: keeper,
        Subscribe: lambda f: Subscribed(f.id, keeper.epoch, 0, 0, 0),
        Delete: refused,
    }
    async with fake_client(answers) as (_, client):
        if settings:
            await client.create_topic("t", **settings)
        await client.publish("t", b"a")
        with pytest.raises(zaichik.NotEmpty):
            await client.delete_topic("t", if_empty=True)
        await client.ping()
        assert [(lost.old_epoch, lost.new_epoch) for lost in client.lost_topics] == [(9, 11)]


async def test_a_delete_that_was_cancelled_may_have_been_carried_out():
    keeper = Keeper()
    async with fake_client({CreateTopic: keeper, Delete: lambda _: None}) as (broker, client):
        await client.create_topic("t")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.delete_topic, "t")
            await broker.has_received(Delete)
            tasks.cancel_scope.cancel()
        keeper.epoch = 11
        await client.create_topic("t")
        assert client.lost_topics == ()


async def test_leaving_while_topics_are_asked_for():
    async with fake_client({CreateTopic: Keeper()}) as (broker, client):
        await client.create_topic("t")
        broker.answers[CreateTopic] = lambda _: None
        await broker.hang_up()
        await broker.has_received(CreateTopic, 2)


async def test_on_new_epoch_is_one_of_two_words():
    with pytest.raises(ValueError, match="on_new_epoch"):
        async with zaichik.connect(port=1, on_new_epoch="ignore"):
            pass


# -- a client that creates topics itself ---------------------------------------------------------


@asynccontextmanager
async def creating_client(answers, reconnect=GUARD):
    """A fake broker that creates no topics, and a client that has them created."""
    async with fake_broker(answers) as broker:
        dialer = Dialer(endpoint(f"127.0.0.1:{broker.port}"))
        async with connect_over(dialer, "", 5.0, reconnect, GUARD, creates=True) as client:
            yield broker, client


@pytest.mark.parametrize("reconnect", [GUARD, 0])
async def test_a_topic_is_created_before_the_first_batch_and_not_before_the_second(reconnect):
    """CL-2b: also if a loss would be final, so that no epoch has to be known."""
    async with creating_client({CreateTopic: Keeper()}, reconnect) as (broker, client):
        await client.publish("t", b"1")
        await client.publish("t", b"2")
        kinds = [type(frame) for frame in broker.received if not isinstance(frame, Hello)]
        assert kinds == [CreateTopic, Publish, Publish]
        assert broker.of(CreateTopic)[0].settings == ()


async def test_a_topic_that_may_not_be_created_is_only_asked_for():
    def forbidden(frame):
        return Error(frame.id, ErrorCode.FORBIDDEN, CreateTopic.TYPE, "topic", 0, "not you")

    async with creating_client({CreateTopic: forbidden}) as (broker, client):
        await client.publish("t", b"1")
        await client.publish("t", b"2")
        async with client.subscribe("t"):
            pass
        await broker.has_received(Publish, 2)
        # One for the first batch, and one for the subscription.
        assert len(broker.of(CreateTopic)) == 2
        assert [frame.until for frame in broker.of(Subscribe)] == [0, FOREVER]


async def test_after_a_reconnection_a_topic_that_was_published_to_is_created_again():
    async with creating_client({CreateTopic: Keeper()}) as (broker, client):
        await client.publish("t", b"1")
        await broker.hang_up()
        await broker.has_received(CreateTopic, 2)


async def test_topics_of_the_broker_s_own_are_not_created():
    async with creating_client({}) as (broker, client):
        async with client.subscribe("$journal/t"):
            pass
        await client.publish("$journal/t", b"")
        assert broker.of(CreateTopic) == []
