"""Durable topics over real sockets and files: a restart brings them back; and a bad disk."""

import logging
import time
from contextlib import contextmanager

import anyio
import pytest
from conversation import batch
from durable_server import BROKEN, FULL, START_US, TamedDisk, client_of, server_on

import zaichik
from zaichik.base.clock import ManualClock
from zaichik.core.settings import BrokerSettings
from zaichik.learn.server import free_port
from zaichik.net.background import BackgroundTasks
from zaichik.server.running import running_broker
from zaichik.server.server import Server
from zaichik.storage.disk import StorageFailed
from zaichik.storage.store import CLOCK, CannotOpen
from zaichik.storage.topic_log import TopicLog
from zaichik_protocol import (
    Close,
    Closed,
    Commit,
    Committed,
    CreateTopic,
    Delete,
    Deleted,
    EndCode,
    Error,
    ErrorCode,
    GoAway,
    GoAwayCode,
    Messages,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    SubscriptionEnded,
    Unsubscribe,
)

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
DURABLE_TOPIC = CreateTopic(2, "t", ((Setting.DURABLE, 1),))


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def disk(data):
    return TamedDisk(data)


async def payloads(client, topic="t", **how):
    """All there is from there on."""
    (state,) = await client.topics(topic)
    how = {"until": state["next_offset"]} | how
    async with client.subscribe(topic, **how) as subscription:
        return [message.payload async for message in subscription]


# -- after a restart


async def test_topics_come_back_with_their_epochs_and_their_messages(data):
    """DUR-8: and offsets go on."""
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        topic = await client.create_topic("t", durable=True, capacity=5, log_bytes=MIB)
        await client.create_topic("memory", retention_ttl="forever")
        await client.create_topic("empty", durable=True)
        for first in range(0, 30, 10):
            stored = await client.publish_batch(
                "t", [(None, b"%d" % (first + index)) for index in range(5)]
            )
            assert stored.durable
            await client.publish_batch(
                "t", [(b"key", b"%d" % (first + index)) for index in range(5, 10)]
            )
        boot = client.welcome.boot
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        assert client.welcome.boot != boot
        again = await client.create_topic("t", durable=True, capacity=5, log_bytes=MIB)
        assert (again.created, again.epoch, again.settings) == (False, topic.epoch, topic.settings)
        assert sorted(state["name"] for state in await client.topics("")) == ["empty", "t"]
        assert await payloads(client) == [b"%d" % index for index in range(30)]
        assert (await client.publish_batch("t", [(None, b"30")])).first_offset == 30
        (state,) = await client.topics("t")
        assert (state["stored"], state["resident"], set(state["left_over"].values())) == (
            31,
            31,
            {0},
        )


async def test_windows_keep_repeats_out_across_a_restart(data):
    """DUR-8, COM-1: for as long as if there had been none."""
    clock = ManualClock(START_US)
    async with (
        running_broker(data=data, clock=clock) as server,
        zaichik.connect(port=server.port) as client,
    ):
        await client.create_topic("t", durable=True, compaction_window=60)
        await client.publish_batch("t", [(b"a", b"1"), (b"b", b"1")])
        clock.advance(30)
        await client.publish_batch("t", [(b"c", b"1")])
    clock.advance(29)
    async with (
        running_broker(data=data, clock=clock) as server,
        zaichik.connect(port=server.port) as client,
    ):
        (state,) = await client.topics("t")
        assert state["open_windows"] == 3
        result = await client.publish_batch(
            "t", [(b"a", b"2"), (b"b", b"2"), (b"c", b"2"), (b"d", b"2")]
        )
        assert (result.first_offset, result.stored, result.compacted) == (3, 1, 3)
        clock.advance(1)
        result = await client.publish_batch(
            "t", [(b"a", b"3"), (b"b", b"3"), (b"c", b"3"), (b"d", b"3")]
        )
        assert (result.first_offset, result.stored, result.compacted) == (4, 2, 2)
        (state,) = await client.topics("t")
        assert (state["published"], state["compacted"], set(state["left_over"].values())) == (
            11,
            5,
            {0},
        )


async def test_what_has_expired_after_a_restart_counts_as_gone_though_nobody_reads(data):
    """DUR-4, TOP-6: the ring is empty then, so that the times are those of the log."""
    clock = ManualClock(START_US)
    async with (
        running_broker(data=data, clock=clock) as server,
        zaichik.connect(port=server.port) as client,
    ):
        await client.create_topic("t", durable=True, retention_ttl=60)
        await client.publish_batch("t", [(None, b"1"), (None, b"2")])
    async with (
        running_broker(data=data, clock=clock) as server,
        zaichik.connect(port=server.port) as client,
    ):
        clock.advance(60)
        server.sweep()
        (state,) = await client.topics("t")
        assert (state["resident"], state["expired"], set(state["left_over"].values())) == (
            0,
            2,
            {0},
        )
        await client.delete_topic("t", if_empty=True)


async def test_a_batch_that_is_sent_again_after_a_restart_is_a_duplicate(data):
    """DUR-3, PUB-4: with the first answer, but for the subscribers; a refusal is remembered as
    well.
    """
    settings = ((Setting.DURABLE, 1), (Setting.CAPACITY, 3), (Setting.COMPACTION_WINDOW_MS, 60_000))
    batches = [batch(b"x"), batch(b"1", b"2", b"3", b"4"), batch((b"k", b"y"), (b"k", b"z"))]
    numbered = [
        Publish(10 + number, "t", it, producer=7, sequence=number)
        for number, it in enumerate(batches)
    ]
    async with running_broker(data=data) as server, client_of(server) as client:
        _, first, refused, third = await client.ask(CreateTopic(2, "t", settings), *numbered)
        assert first == Published(10, 0, 1, 0, 0, durable=True)
        assert refused.code == ErrorCode.BATCH_TOO_LARGE
    async with running_broker(data=data) as server, client_of(server) as client:
        answers = [(await client.ask(request))[0] for request in numbered]
        assert answers[0] == Published(10, 0, 1, 0, 0, duplicate=True, durable=True)
        assert (answers[1].code, answers[1].message) == (refused.code, refused.message)
        assert answers[2] == Published(
            12, third.first_offset, 1, 1, 0, b"\x02", duplicate=True, durable=True
        )
        (fourth,) = await client.ask(Publish(13, "t", batch(b"x"), producer=7, sequence=3))
        assert fourth == Published(13, 2, 1, 0, 0, durable=True)
        (gap,) = await client.ask(Publish(14, "t", batch(b"x"), producer=7, sequence=5))
        assert gap.code == ErrorCode.SEQUENCE_GAP


async def test_a_named_position_comes_back_although_it_has_just_moved(data):
    """DUR-5: an orderly stop loses no commit; what may have been delivered is marked so."""
    async with running_broker(data=data) as server, client_of(server) as client:
        await client.ask(
            DURABLE_TOPIC, *[Publish(3, "t", batch(b"%d" % number)) for number in range(5)]
        )
        await client.send(
            Subscribe(20, "t", name="n", credit=3), Subscribe(21, "t", name="gone", credit=1)
        )
        for _ in range(6):
            await client.receive()
        assert await client.ask(Commit(22, 20, 2)) == [Committed(22, 2)]
        await client.receive()
        await client.send(Unsubscribe(23, 21, forget=True))
        await client.receive()
    async with running_broker(data=data) as server, client_of(server) as client:
        await client.ask(Publish(3, "t", batch(b"5")))
        (subscribed,) = await client.ask(Subscribe(20, "t", name="n", credit=9))
        assert (subscribed.resumed, subscribed.start, subscribed.committed) == (True, 2, 2)
        frames = [await client.receive() for _ in range(4)]
        assert [(frame.base, frame.redelivered) for frame in frames] == [
            (2, True),
            (3, True),
            (4, True),
            (5, False),
        ]
        (subscribed,) = await client.ask(Subscribe(21, "t", name="gone", credit=1))
        assert (subscribed.resumed, subscribed.start) == (False, 0)


async def test_a_topic_that_was_deleted_does_not_come_back(data):
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        old = await client.create_topic("t", durable=True)
        await client.publish("t", b"x")
        await client.delete_topic("t")
        new = await client.create_topic("t", durable=True)
        await client.create_topic("gone", durable=True)
        await client.delete_topic("gone")
    assert len(list((data / "topics").iterdir())) == 1
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        (state,) = await client.topics("")
        assert (state["name"], state["epoch"], state["stored"]) == ("t", new.epoch, 0)
        assert new.epoch > old.epoch


async def test_time_goes_on_although_the_clock_was_set_back(data):
    """RET-8, DUR-8: what was stored is not in the future, and nothing expires early."""
    clock = ManualClock(START_US)
    async with (
        running_broker(data=data, clock=clock) as server,
        zaichik.connect(port=server.port) as client,
    ):
        clock.advance(10 * 365 * 86_400)
        await client.create_topic("t", durable=True)
        await client.publish("t", b"x")
    async with running_broker(data=data) as server:
        assert server.clock.now_us() >= clock.now_us()


async def test_a_clock_that_was_set_right_makes_nothing_old(data, monkeypatch, patchable, caplog):
    """DUR-8: two years behind at first, then right; what was stored seconds ago stays."""
    real = time.time_ns
    years = 2 * 365 * 86_400
    monkeypatch.setattr("zaichik.base.clock.time.time_ns", lambda: real() - years * 10**9)
    one_day = {"retention_ttl": 86_400, "compaction_window": 3_600}
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", durable=True, **one_day)
        await client.publish("t", b"old", key=b"a")
        assert "clock_jumps" not in await client.describe()
    monkeypatch.setattr("zaichik.base.clock.time.time_ns", real)
    for _ in range(2):
        async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
            server.sweep()
            assert await payloads(client) == [b"old"]
            result = await client.publish("t", b"again", key=b"a")
            assert result.compacted == 1
            ((at_us, by_us),) = (await client.describe())["clock_jumps"]
            assert at_us <= server.clock.now_us()
            assert by_us / 1e6 == pytest.approx(years, abs=60)
            verdict, *_ = (await client.explain("t", offset=0))["verdicts"]
            assert verdict["fate"] == "readable"
            assert "clock was set forward by 730.0 days" in verdict["text"]
            assert verdict["evidence"]["clock_jumped_us"] == by_us
    assert caplog.text.count("the machine's clock was set forward by 730.0 days") == 1


async def test_a_clock_that_was_ahead_is_described(data, monkeypatch, patchable):
    """DUR-8: nine years, of which nobody was told."""
    real = time.time_ns
    years = 9 * 365 * 86_400
    monkeypatch.setattr("zaichik.base.clock.time.time_ns", lambda: real() + years * 10**9)
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", durable=True)
        await client.publish("t", b"x")
    monkeypatch.setattr("zaichik.base.clock.time.time_ns", real)
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        described = await client.describe()
        assert described["clock_ahead_us"] / 1e6 == pytest.approx(years, abs=60)
        assert "clock_jumps" not in described


# -- our client


class Restarts:
    """A broker that is stopped and started again each time `now` is called, on the same port."""

    def __init__(self, data):
        self.port = free_port()
        self._data = data
        self._moment = anyio.Event()

    def now(self):
        self._moment.set()

    async def run(self, task_status):
        is_first = True
        while True:
            async with running_broker(data=self._data, port=self.port):
                if is_first:
                    task_status.started()
                is_first = False
                await self._moment.wait()
                self._moment = anyio.Event()


async def test_a_restart_is_but_a_pause_for_its_clients(data):
    """DUR-8: for a publisher, and for readers with and without a name: nothing is lost, or stored
    twice.
    """
    restarts, heard = Restarts(data), {"": [], "n": []}
    written = [b"%d" % number for number in range(60)]

    async def read(client, name):
        async with client.subscribe("t", name=name, events=True) as subscription:
            async for message in subscription:
                heard[name].append(message)
                if message.payload == written[-1]:
                    return

    with anyio.fail_after(30):
        async with BackgroundTasks() as tasks:
            await tasks.group.start(restarts.run)
            async with zaichik.connect(port=restarts.port) as client:
                await client.create_topic("t", durable=True, capacity=10)
                async with anyio.create_task_group() as readers:
                    for name in heard:
                        readers.start_soon(read, client, name)
                    for number, payload in enumerate(written):
                        await client.publish("t", payload)
                        if number % 20 == 7:
                            restarts.now()
                assert client.lost_topics == ()
    for messages in heard.values():
        assert all(isinstance(message, zaichik.Message) for message in messages), (
            "nobody has lagged"
        )
        assert {message.offset: message.payload for message in messages} == {
            number: b"%d" % number for number in range(60)
        }
    assert [message.offset for message in heard[""]] == list(range(60)), (
        "without a name, each comes once"
    )


# -- reading from the disk

MANY = 50_000


async def test_readers_far_below_a_small_ring_are_served_from_the_disk(data):
    """DUR-4: at their own places, each message once."""
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", durable=True, capacity=500, segment_bytes=256 * 1024)
        for first in range(0, MANY, 500):
            await client.publish_batch(
                "t", [(None, b"%d" % (first + index)) for index in range(500)]
            )
        counts = {}

        async def read(start):
            async with client.subscribe("t", start=start, until=MANY) as subscription:
                wanted = start
                async for message in subscription:
                    assert (message.offset, message.payload) == (wanted, b"%d" % wanted)
                    wanted += 1
            counts[start] = wanted

        with anyio.fail_after(30):
            async with anyio.create_task_group() as readers:
                for start in (0, 1, 12_345, 49_400, 49_999):
                    readers.start_soon(read, start)
        assert set(counts.values()) == {MANY}
        topic = server.broker.registry.durable("t")
        assert topic.retained.ring.next_offset - topic.retained.ring.head == 500


async def test_a_reader_whose_files_go_is_told_exactly_what_it_has_missed(data):
    """DUR-4, LAG-1: retention by bytes, while it is behind."""
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic(
            "t", durable=True, capacity=10, log_bytes=MIB, segment_bytes=64 * 1024
        )
        await client.publish_batch("t", [(None, b"%d." % index) for index in range(10)])
        async with client.subscribe("t", credit=5, events=True) as subscription:
            got = [(await anext(subscription)).offset for _ in range(3)]
            for first in range(10, 2010, 10):
                await client.publish_batch(
                    "t", [(None, b"%d." % (first + index) + b"x" * 990) for index in range(10)]
                )
            (state,) = await client.topics("t")
            assert 0 < state["evicted"] == state["head"]
            assert state["log_bytes"] <= MIB + 64 * 1024
            lagged = []
            async for item in subscription:
                if isinstance(item, zaichik.Lagged):
                    lagged.append((item.start, item.end))
                    got += range(item.start, item.end)
                else:
                    assert item.payload.startswith(b"%d." % item.offset)
                    got.append(item.offset)
                if got[-1] == 2009:
                    break
    assert got == list(range(2010))
    assert lagged == [(lagged[0][0], state["head"])]
    assert 3 <= lagged[0][0] <= 10


# -- the disk is slow, full, broken


async def test_a_stop_waits_for_what_waits_for_the_disk(disk):
    """CLO-2: everything that was read is answered, and is there after the restart."""
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC)
        disk.hold()
        await client.send(
            *[Publish(10 + number, "t", batch(b"%d" % number)) for number in range(5)], Ping(20, 0)
        )
        assert await client.receive() == Pong(20, 0)
        server.stop()
        await anyio.wait_all_tasks_blocked()
        disk.let_go()
        *answers, goodbye = await client.rest()
        assert answers == [
            Published(10 + number, number, 1, 0, 0, durable=True) for number in range(5)
        ]
        assert isinstance(goodbye, GoAway)
        assert goodbye.code == GoAwayCode.STOPPING
    async with server_on(disk) as server, zaichik.connect(port=server.port) as client:
        assert await payloads(client) == [b"%d" % number for number in range(5)]


async def test_what_waits_for_the_disk_at_a_stop_is_delivered_before_the_goodbye(disk):
    """CLO-2: also to a reader whose own connection owes and waits for nothing."""
    async with (
        server_on(disk) as server,
        client_of(server) as reader,
        client_of(server) as writer,
    ):
        await writer.ask(DURABLE_TOPIC)
        await reader.ask(Subscribe(2, "t", credit=9))
        disk.hold()
        await writer.send(Publish(10, "t", batch(b"0")), Ping(20, 0))
        assert await writer.receive() == Pong(20, 0)
        server.stop()
        await anyio.wait_all_tasks_blocked()
        disk.let_go()
        assert [type(frame) for frame in await reader.rest()] == [Messages, GoAway]


async def test_close_is_answered_when_nothing_is_owed(disk):
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC)
        disk.hold()
        await client.send(Publish(10, "t", batch(b"x")), Close(11))
        await anyio.wait_all_tasks_blocked()
        disk.let_go()
        assert await client.rest() == [Published(10, 0, 1, 0, 0, durable=True), Closed(11)]


async def test_a_peer_that_leaves_while_it_waits_does_no_harm(disk, caplog):
    """CLO-1: what it has sent is stored."""
    async with server_on(disk) as server, client_of(server) as other:
        await other.ask(DURABLE_TOPIC)
        async with client_of(server) as client:
            disk.hold()
            await client.send(Publish(10, "t", batch(b"x")), Ping(11, 0))
            await client.receive()
        await anyio.wait_all_tasks_blocked()
        disk.let_go()
        (answer,) = await other.ask(Publish(12, "t", batch(b"y")))
        assert answer.first_offset == 1
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_requests_are_not_read_while_too_much_waits(disk):
    """LAG-3: and they are when it is on the disk."""
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC)
        disk.hold()
        requests = [Publish(10 + number, "t", batch(b"x" * MIB)) for number in range(10)]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.send, *requests, Ping(30, 0))
            await anyio.wait_all_tasks_blocked()
            (manager,) = server.broker.managers.values()
            while server.broker.registry.durable("t").retained.waiting_bytes < 4 * MIB:
                await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            assert server.broker.registry.durable("t").retained.waiting_bytes < 6 * MIB
            assert manager.requests < 10
            disk.let_go()
            frames = [await client.receive() for _ in range(11)]
        assert Pong(30, 0) in frames
        assert [frame.first_offset for frame in frames if isinstance(frame, Published)] == list(
            range(10)
        )


async def test_a_full_disk_refuses_publishes_until_there_is_room(disk):
    """DUR-3: and nothing else."""
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC, Publish(3, "t", batch(b"0")))
        disk.failure = FULL
        (error,) = await client.ask(Publish(4, "t", batch(b"1"), producer=7))
        assert (error.code, error.retryable, error.field) == (ErrorCode.STORAGE_FULL, True, "topic")
        assert await client.ask(Publish(5, "memory", batch(b"1"))) == [Published(5, 0, 1, 0, 0)]
        disk.failure = None
        assert await client.ask(Publish(6, "t", batch(b"1"), producer=7)) == [
            Published(6, 1, 1, 0, 0, durable=True)
        ]


async def test_a_topic_that_finds_no_room_is_neither_there_nor_on_the_disk(disk):
    async with server_on(disk) as server, client_of(server) as client:
        disk.failure = FULL
        (error,) = await client.ask(DURABLE_TOPIC)
        assert (error.code, error.retryable) == (ErrorCode.STORAGE_FULL, True)
        assert server.broker.registry.durable("t") is None
        disk.failure = None
        (created,) = await client.ask(DURABLE_TOPIC)
        assert created.created == 1
        assert len(disk.files("topics")) == 1


async def test_all_logs_together_have_no_more_bytes_than_they_may(disk):
    """DUR-9: a topic removes its own oldest files, and nobody else's."""
    settings, message = BrokerSettings(max_disk_bytes=600_000), batch(b"x" * 10_000)
    small_files = (Setting.DURABLE, 1), (Setting.LOG_BYTES, MIB)
    async with server_on(disk, settings=settings) as server, client_of(server) as client:
        await client.ask(CreateTopic(2, "t", small_files))
        for number in range(100):
            (answer,) = await client.ask(Publish(3, "t", message))
            assert answer.first_offset == number
        assert 450_000 < server.broker.registry.on_disk()["disk_bytes"] <= settings.max_disk_bytes
        head = server.broker.registry.durable("t").head
        assert head > 40
        await client.ask(CreateTopic(4, "other", DURABLE_TOPIC.settings))
        answers = [(await client.ask(Publish(5, "other", message)))[0] for _ in range(60)]
        error = next(answer for answer in answers if isinstance(answer, Error))
        assert (error.code, error.retryable) == (ErrorCode.STORAGE_FULL, True)
        assert "max_disk_bytes" in error.message
        assert server.broker.registry.durable("t").head == head
        await client.ask(Delete(6, "t"))
        (answer,) = await client.ask(Publish(7, "other", message))
        assert isinstance(answer, Published)
    files = sum(path.stat().st_size for path in disk.root.rglob("*.log"))
    assert 0 < files == server.broker.registry.on_disk()["disk_bytes"]


async def test_our_client_waits_for_room(disk):
    async with server_on(disk) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", durable=True)
        disk.failure = FULL
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(client.publish, "t", b"%d" % number)
            before = disk.writes
            while disk.writes == before:
                await anyio.lowlevel.checkpoint()
            disk.failure = None
        assert sorted(await payloads(client)) == [b"%d" % number for number in range(5)]


async def test_a_stop_on_a_full_disk_is_orderly(disk):
    """What saves the next start some reading is not needed."""
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC, Publish(3, "t", batch(b"0")))
        disk.failure = FULL
    disk.failure = None
    async with server_on(disk) as server, zaichik.connect(port=server.port) as client:
        assert await payloads(client) == [b"0"]


@contextmanager
def failing():
    """The block must end because the disk has failed."""
    try:
        yield
    except BaseExceptionGroup as group:
        others = group.split(StorageFailed)[1]
        if others is not None:
            raise others from None
    else:
        pytest.fail("nobody was told that the disk has failed")


async def test_a_disk_that_fails_ends_the_broker(disk, caplog):
    """DUR-6: nothing that waits is answered; clients are told; the caller gets the exception."""
    with failing():
        async with (
            server_on(disk) as server,
            client_of(server) as client,
            client_of(server) as other,
        ):
            await client.ask(DURABLE_TOPIC, Publish(3, "t", batch(b"0")))
            disk.failure = BROKEN
            await client.send(Publish(4, "t", batch(b"1")), Close(5))
            for each in (client, other):
                assert await each.rest() == [
                    GoAway(0, GoAwayCode.STORAGE, GoAwayCode.STORAGE.meaning)
                ]
    assert "The broker ends" in caplog.text


async def test_a_disk_that_fails_during_the_stop_is_told_as_well(disk):
    """DUR-6: at once, and with no answer."""
    with failing():
        async with server_on(disk) as server, client_of(server) as client:
            await client.ask(DURABLE_TOPIC)
            disk.hold()
            disk.failure = BROKEN
            await client.send(Publish(4, "t", batch(b"1")), Ping(5, 0))
            assert await client.receive() == Pong(5, 0)
            server.stop()
            await anyio.wait_all_tasks_blocked()
            disk.let_go()
            (goodbye,) = await client.rest()
            assert goodbye.code == GoAwayCode.STORAGE


async def test_a_disk_that_fails_at_the_very_end_is_told_as_well(disk):
    with failing():
        async with server_on(disk) as server, client_of(server) as client:
            await client.ask(DURABLE_TOPIC, Publish(4, "t", batch(b"1")))
            disk.failure = BROKEN


async def test_a_reader_that_waits_ends_when_its_log_is_changed_by_another_program(data):
    """DUR-7: there will never be a message for it."""
    async with (
        running_broker(data=data) as server,
        zaichik.connect(port=server.port) as client,
        client_of(server) as reader,
    ):
        await client.create_topic("t", durable=True)
        await client.publish("t", b"one")
        await reader.ask(Subscribe(3, "t", start=Start.LATEST))
        (path,) = data.glob("topics/t.*/*.log")
        path.unlink()
        with pytest.raises(zaichik.Damaged):
            await client.publish("t", b"two")
        ended = await reader.receive()
        assert (type(ended), ended.code, ended.next) == (SubscriptionEnded, EndCode.DAMAGED, 1)
        assert path.name in ended.text


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_what_follows_a_write_ends_the_broker_and_lets_the_folder_go(
    data, monkeypatch
):
    """P5: a program may begin another broker, which finds what was synced."""

    def finish(*_):
        raise ZeroDivisionError

    server = await Server.listening("127.0.0.1", 0, data=data)
    failures = []

    async def run():
        try:
            await server.run()
        except ExceptionGroup as error:
            failures.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        async with zaichik.connect(port=server.port, reconnect=0) as client:
            await client.create_topic("t", durable=True)
            monkeypatch.setattr(TopicLog, "_finish", finish)
            with pytest.raises(zaichik.ConnectionLost):
                await client.publish("t", b"one")
    monkeypatch.undo()
    assert failures[0].subgroup(ZeroDivisionError)
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        assert await payloads(client) == [b"one"]


@pytest.mark.usefixtures("patchable")
async def test_a_bug_in_the_last_sweep_does_not_end_the_stop(data, monkeypatch):
    """P5: what waits is written, and the next start finds all of it."""
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        await client.create_topic("t", durable=True)
        await client.publish("t", b"one")
        monkeypatch.setattr(server.broker.registry, "sweep", lambda _: 1 / 0)
    assert server.bugs.count == 2, "before the goodbyes and after them"
    assert (data / CLOCK).exists()
    async with running_broker(data=data) as server, zaichik.connect(port=server.port) as client:
        assert await payloads(client) == [b"one"]


async def test_a_deletion_is_answered_when_the_files_are_gone(disk):
    async with server_on(disk) as server, client_of(server) as client:
        await client.ask(DURABLE_TOPIC)
        disk.hold()
        await client.send(Publish(4, "t", batch(b"1")), Ping(5, 0))
        await client.receive()
        await client.send(Publish(6, "t", batch(b"2")), Delete(7, "t"))
        async with client_of(server) as other:  # it answers when the broker has got that far
            while server.broker.registry.durable("t") is not None:
                await other.ask(Ping(2, 0))
        disk.let_go()
        errors = [await client.receive(), await client.receive()]
        assert {(error.id, error.code) for error in errors} == {
            (number, ErrorCode.NO_SUCH_TOPIC) for number in (4, 6)
        }
        assert await client.receive() == Deleted(7)
        assert disk.files("topics") == {}
        await client.ask(Publish(8, "t", batch(b"3")))


# -- the folder


async def test_a_folder_is_of_one_broker_at_a_time(data):
    async with running_broker(data=data) as server:
        with pytest.raises(CannotOpen, match="another broker uses") as refused:
            async with running_broker(data=data):
                pass
        assert refused.value.code == 73
        async with client_of(server) as client:
            assert await client.ask(Ping(2, 3)) == [Pong(2, 3)]
    async with running_broker(data=data):
        pass


async def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotOpen, match="cannot be used") as refused:
        async with running_broker(data=tmp_path / "file" / "data"):
            pass
    assert refused.value.code == 73


async def test_only_a_client_that_knows_the_flag_gets_it(data):
    async with (
        running_broker(data=data) as server,
        client_of(server) as knows,
        client_of(server, 0) as plain,
    ):
        await knows.ask(DURABLE_TOPIC)
        for client, flag in ((knows, True), (plain, False)):
            (answer,) = await client.ask(Publish(3, "t", batch(b"x")))
            assert answer.durable is flag
