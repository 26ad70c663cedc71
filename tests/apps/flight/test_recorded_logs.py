"""A broker with durable topics, recorded: a replay sends every client the same bytes, and needs no
disk for that.
"""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from conversation import batch
from durable_server import BROKEN, FULL, TamedDisk
from framed import Keeper
from peer import GUARD

from zaichik.apps.flight.answers import Answers
from zaichik.apps.flight.format import FlightKind, Recording
from zaichik.apps.flight.player import Player
from zaichik.apps.flight.recorded_logs import RecordedLog
from zaichik.apps.flight.replayed_logs import ReplayedLog
from zaichik.client.questions import explain_request
from zaichik.core.report.answer import explain
from zaichik.core.rights import ANYBODY
from zaichik.storage.clock_file import ClockFile
from zaichik.storage.disk import StorageFailed
from zaichik_protocol import (
    TABLES,
    Close,
    Commit,
    CreateTopic,
    Delete,
    Describe,
    EndCode,
    ErrorCode,
    Explain,
    GoAway,
    GoAwayCode,
    Hello,
    Messages,
    Overflow,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    Start,
    Subscribe,
    SubscriptionEnded,
    TopicCreated,
)
from zaichik_protocol import Kind as Described

asynchronous = pytest.mark.anyio

DURABLE = (Setting.DURABLE, 1)
SMALL = (DURABLE, (Setting.CAPACITY, 5), (Setting.LOG_BYTES, 2**20), (Setting.SEGMENT_BYTES, 2**16))
CANARY = b"card 4000 1234"


@pytest.fixture
def disk(tmp_path):
    return TamedDisk(tmp_path)


@asynccontextmanager
async def client_of(server, everybody=None):
    async with await anyio.connect_tcp(server.host, server.port) as stream:
        client = Keeper(stream)
        if everybody is not None:
            everybody.append(client)
        await client.ask(Hello(1, client="somebody"))
        yield client


@pytest.fixture
def replayed(replay):
    """Replays what was recorded, in which nothing may differ. Returns the replay."""

    def check(flight):
        again = replay(flight.landed())
        assert [step for step in again.steps if step.difference or step.error] == []
        assert again.recording.problem == ""
        return again

    return check


@asynccontextmanager
async def served(flight):
    """Its server, and a client of that, as long as the block lasts."""
    with anyio.fail_after(GUARD):
        async with flight.served() as server:
            async with client_of(server) as client:
                yield server, client
            await anyio.wait_all_tasks_blocked()


def kinds(data):
    """The kinds of all records, answers included, and what logs did."""
    records = list(Recording(bytes(data)).records())
    return {record.kind for record in records}, {
        record.values[0] for record in records if record.kind is FlightKind.LOG
    }


async def read(client, number, count, *, credit):
    """Have a subscription deliver so many messages, a few at a time."""
    delivered = 0
    while delivered < count:
        found = await client.until(Messages)
        if found.id != number:
            continue
        delivered += found.batch.count
        assert found.batch.count <= credit
        await client.send(Commit(0, number, found.base + found.batch.count))


async def first_life(flight, server, disk, everybody):
    """All that clients do, and what happens to the disk meanwhile."""
    pairs = (
        DURABLE,
        (Setting.RETENTION_TTL_MS, 5000),
        (Setting.COMPACTION_WINDOW_MS, 500),
        (Setting.CAPACITY, 3),
    )
    async with client_of(server, everybody) as ana, client_of(server, everybody) as ben:
        await ana.ask(
            CreateTopic(2, "keys", pairs),
            CreateTopic(3, "log", SMALL),
            CreateTopic(4, "gone", SMALL),
        )
        await ben.ask(Subscribe(2, "keys", name="ben", credit=2))
        await ana.ask(Publish(10, "keys", batch((b"k", CANARY), (b"k", b"2"), (b"l", b"3"))))
        for _ in range(2):
            await ana.ask(
                Publish(11, "keys", batch((b"m", b"4"), (b"k", b"5")), producer=7, sequence=0)
            )
        await ben.until(Messages)
        await ben.until_answered(Commit(3, 2, 1))
        for number in range(4):
            await ana.ask(Publish(20 + number, "log", batch(*[CANARY] * 5)))
        await ben.until_answered(Subscribe(4, "log", start=Start.EARLIEST, credit=2))
        await read(ben, 4, 20, credit=2)
        flight.clock.advance(4)
        await ana.ask(
            Publish(30, "log", batch(b"late")),
            Publish(31, "keys", batch((b"n", b"6"), (b"o", b"7"))),
        )
        await ana.until_answered(
            Subscribe(32, "log", start=Start.TIME, value=flight.clock.now_us() - 1, credit=1)
        )
        flight.clock.advance(3)  # the first messages of "keys" have expired
        server.sweep()
        await ana.until_answered(Subscribe(33, "keys", start=Start.EARLIEST, credit=1))
        disk.failure = FULL
        assert (
            await ana.until_answered(Publish(34, "log", batch(b"no room")))
        ).code == ErrorCode.STORAGE_FULL
        disk.failure = None
        await ana.until_answered(Delete(35, "gone"))
        for number in range(20):  # until the first files are removed
            await ana.until_answered(Publish(40 + number, "log", batch(bytes(60_000))))
        await ana.until_answered(Subscribe(70, "log", start=Start.EARLIEST, credit=5))
        for kind in (Described.BROKER, Described.TOPICS, Described.SUBSCRIPTIONS):
            await ana.until_answered(Describe(80 + kind, kind, limit=5))
        await ana.until_answered(Explain(90, "keys", offset=0))
        await ana.until_answered(Explain(91, "log", offset=0))
        server.sweep()
        await ben.send(
            Publish(92, "log", batch(b"the last one"))
        )  # it leaves before it is answered


async def second_life(flight, server, disk, everybody):
    """What is left of that."""
    async with client_of(server, everybody) as ana:
        begun = await ana.until_answered(Subscribe(2, "keys", name="ben", credit=1))
        assert (begun.start, begun.resumed) == (1, True)
        again = await ana.until_answered(
            Publish(11, "keys", batch((b"m", b"4"), (b"k", b"5")), producer=7, sequence=0)
        )
        assert again.duplicate
        await ana.until_answered(Subscribe(3, "log", start=Start.EARLIEST, credit=1000))
        await ana.until(Messages)
        await ana.until_answered(Explain(4, "log", offset=0))


@asynchronous
@pytest.mark.parametrize("is_masked", [False, True], ids=["", "masked"])
async def test_a_replay_sends_every_client_the_same_bytes(new_flight, replayed, disk, is_masked):
    """DUR-1 to DUR-5: of a broker that makes its topics, and of one that finds them."""
    known, did = set(), set()
    for life in (first_life, second_life):
        flight, everybody = new_flight(is_masked=is_masked, disk=disk), []
        with anyio.fail_after(GUARD):
            async with flight.served() as server:
                await life(flight, server, disk, everybody)
                await anyio.wait_all_tasks_blocked()
        again = replayed(flight)
        for client in everybody:
            sent = again.sent()[client.name]
            assert len(sent) >= len(client.received) > 50
            assert is_masked or sent.startswith(client.received)
        for ours, theirs in zip(again.player.broker.registry, flight.broker.registry, strict=True):
            assert (ours.name, ours.epoch, ours.head, ours.end) == (
                theirs.name,
                theirs.epoch,
                theirs.head,
                theirs.end,
            )
        assert not (is_masked and CANARY in flight.data)
        known, did = (
            ours | more for ours, more in zip((known, did), kinds(flight.data), strict=True)
        )
    assert did == {"synced", "refused", "head_moved", "answer"}
    assert {FlightKind.RECOVERED, FlightKind.TAKE, FlightKind.ENTRY, FlightKind.VALUE} <= known


@asynchronous
async def test_a_batch_that_is_delivered_in_pieces_is_recorded_once(new_flight, replayed, disk):
    """A reader with little credit asks for it again with each commit."""
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        await client.ask(
            *(Publish(3 + number, "log", batch(*[b"%d" % number] * 5)) for number in range(4))
        )
        await client.ask(Subscribe(9, "log", start=Start.EARLIEST, credit=1))
        await read(client, 9, 20, credit=1)
    replayed(flight)
    entries = [
        record
        for record in Recording(bytes(flight.data)).records()
        if record.kind is FlightKind.ENTRY
    ]
    assert (
        len([record for record in entries if len(record.payload) == 12]) == 12
    )  # of 3 batches behind the ring
    assert len([record for record in entries if len(record.payload) > 12]) == 3


@asynchronous
@pytest.mark.parametrize("is_masked", [False, True], ids=["", "masked"])
async def test_what_was_read_from_the_disk_is_masked_like_what_was_published(
    new_flight, disk, is_masked
):
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL), Publish(3, "log", batch((b"a key", CANARY))))
    flight = new_flight(disk=disk, is_masked=is_masked)
    async with served(flight) as (_, client):
        await client.ask(Subscribe(2, "log", start=Start.EARLIEST))
        assert (await client.until(Messages)).batch.payloads() == [CANARY]
    assert b"a key" in flight.data
    assert (CANARY in flight.data) is not is_masked


@asynchronous
async def test_a_disk_that_fails_is_replayed(new_flight, replayed, disk):
    """DUR-6: everybody is sent away, and what waited is not answered."""
    flight = new_flight(disk=disk)
    async with served(flight) as (server, client), client_of(server) as other:
        await client.ask(CreateTopic(2, "log", SMALL), Publish(3, "log", batch(b"0")))
        disk.failure = BROKEN
        await client.send(Publish(4, "log", batch(b"1")), Close(5))
        for each in (client, other):
            assert await each.rest() == [GoAway(0, GoAwayCode.STORAGE, GoAwayCode.STORAGE.meaning)]
    assert isinstance(flight.failure, StorageFailed)
    again = replayed(flight)
    assert again.player.broker.ends == {"STORAGE": 2}


@asynchronous
async def test_requests_that_come_while_a_stopping_broker_waits_for_its_disk_are_replayed(
    new_flight, replayed, disk
):
    """CLO-2: they are not carried out."""
    flight = new_flight(disk=disk)
    async with served(flight) as (server, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        disk.hold()
        await client.send(Publish(4, "log", batch(b"1")), Ping(5, 0))
        assert await client.receive() == Pong(5, 0)
        (number,) = server.broker.managers
        server.stop()
        await anyio.wait_all_tasks_blocked()
        flight.broker.managers[number].apply(
            Ping(6, 0), flight.clock.now_us()
        )  # as a Hello whose connection is greeted
        assert not flight.broker.managers[number].next_output(flight.clock.now_us())
        disk.let_go()
        published, goodbye = await client.rest()
        assert (published, type(goodbye)) == (Published(4, 0, 1, 0, 0), GoAway)
    replayed(flight)


def spoil(path):
    """Change one byte in the middle of what was written."""
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)


@asynchronous
async def test_damage_is_replayed(new_flight, replayed, disk):
    """DUR-7: topics that cannot be read, or written, or found."""
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        for number, name in enumerate(("end", "middle", "lost")):
            await client.ask(CreateTopic(10 + number, name, SMALL))
            for each in range(6):  # one after the other: what is written at once may be in one file
                await client.ask(Publish(20 + each, name, batch(bytes(30_000))))
    for path in disk.root.glob("topics/lost.*/*"):
        path.write_bytes(b"nothing")
    for path in disk.root.glob("topics/end.*/*.state"):
        path.unlink()  # or else the start would not read what came before it
    for name in ("end", "middle"):
        spoil(min(disk.root.glob(f"topics/{name}.*/*.log")))
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        (refused,) = await client.ask(Publish(2, "end", batch(b"x")))
        (unknown,) = await client.ask(CreateTopic(3, "lost", SMALL))
        (other,) = await client.ask(CreateTopic(4, "other", SMALL))
        assert (refused.code, unknown.code, type(other)) == (
            ErrorCode.DAMAGED,
            ErrorCode.DAMAGED,
            TopicCreated,
        )
        for number, name in enumerate(("end", "middle"), 5):
            await client.until_answered(Subscribe(number, name, start=Start.EARLIEST))
            ended = await client.until(SubscriptionEnded)
            assert (ended.id, ended.code) == (number, EndCode.DAMAGED)
        await client.until_answered(Describe(8, Described.TOPICS))
    replayed(flight)
    assert FlightKind.DAMAGED in kinds(flight.data)[0]


@asynchronous
async def test_a_log_that_is_changed_under_its_broker_is_replayed(new_flight, replayed, disk):
    """DUR-7: its readers end, without having asked for anything."""
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        await client.ask(Publish(3, "log", batch(b"one")))
        await client.ask(Subscribe(4, "log", start=Start.LATEST))
        (path,) = disk.root.glob("topics/log.*/*.log")
        path.unlink()
        refused = await client.until_answered(Publish(5, "log", batch(b"two")))
        assert refused.code == ErrorCode.DAMAGED
        ended = await client.until(SubscriptionEnded)
        assert (ended.id, ended.code) == (4, EndCode.DAMAGED)
    replayed(flight)


@asynchronous
async def test_a_lossless_topic_that_is_full_on_the_disk_is_replayed(new_flight, replayed, disk):
    """RET-9, DUR-4: whether it is depends on the sizes of files."""
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", (*SMALL, (Setting.OVERFLOW, Overflow.REJECT))))
        await client.ask(Subscribe(3, "log", credit=1))
        requests = [Publish(4 + number, "log", batch(bytes(60_000))) for number in range(40)]
        outcomes = [await client.until_answered(request) for request in requests]
        assert isinstance(outcomes[0], Published)
        assert outcomes[-1].code == ErrorCode.TOPIC_FULL
    replayed(flight)


@asynchronous
@pytest.mark.parametrize("is_masked", [False, True], ids=["", "masked"])
async def test_a_table_and_what_a_start_finds_in_it_are_replayed(
    new_flight, replayed, disk, is_masked
):
    """DUR-10, TAB-5."""
    table = (DURABLE, (Setting.TABLE, 1), (Setting.TOMBSTONES_MS, 1000))
    for is_first in (True, False):
        flight = new_flight(is_masked=is_masked, disk=disk)
        with anyio.fail_after(GUARD):
            async with (
                flight.served() as server,
                await anyio.connect_tcp(server.host, server.port) as stream,
            ):
                client = Keeper(stream)
                await client.ask(Hello(1, client="somebody", features=TABLES))
                if is_first:
                    await client.ask(CreateTopic(2, "t", table))
                first = batch((b"a", b"1"), (b"b", b"2"), (b"", b"3"), (b"a", CANARY), (b"c", b""))
                await client.until_answered(Publish(3, "t", first, tombstones=True))
                await client.until_answered(Publish(4, "t", batch((b"b", b"4"))))
                flight.clock.advance(2)
                server.sweep()
                await client.until_answered(Subscribe(5, "t", credit=100))
                await client.until(Messages)
                await client.until_answered(
                    Subscribe(6, "t", start=Start.OFFSET, value=1, credit=9)
                )
                await client.until_answered(Describe(7, Described.TOPICS, limit=5))
                await client.until_answered(Explain(8, "t", offset=0))
            await anyio.wait_all_tasks_blocked()
        replayed(flight)


@asynchronous
async def test_which_limit_of_the_disk_a_file_was_removed_for_is_replayed(
    new_flight, replayed, disk
):
    """EXP-2, DUR-9: it is known only to the log."""
    flight = new_flight(disk=disk, max_disk_bytes=300_000)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        for number in range(10):
            await client.until_answered(Publish(3 + number, "log", batch(bytes(60_000))))
        explained = await client.until_answered(Explain(20, "log", offset=0))
    assert json.loads(explained.json)["verdicts"][0]["rule"] == "DUR-9"
    replayed(flight)


@asynchronous
async def test_every_prefix_of_a_recording_is_replayed_up_to_the_tear(new_flight, replay, disk):
    """The last call may lack its answers; it is left out."""
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        await client.ask(
            *(Publish(3 + number, "log", batch(*[b"%d" % number] * 5)) for number in range(4))
        )
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(Subscribe(2, "log", start=Start.EARLIEST, credit=6))
        await read(client, 2, 20, credit=6)
        await client.until_answered(Describe(3, Described.TOPICS))
    data = flight.landed()
    whole, size = replay(data), len(data)
    for record in reversed(list(Recording(data).records())):
        size -= 17 + len(record.payload) + 4
        for cut in (size, size + 1):
            torn = replay(data[:cut])
            assert torn.recording.problem
            assert not torn.recording.is_damaged
            assert torn.differences == []
            assert [step.output for step in torn.steps] == [
                step.output for step in whole.steps[: len(torn.steps)]
            ]
    assert size == len(data) - sum(21 + len(record.payload) for record in Recording(data).records())


@asynchronous
async def test_a_replayed_broker_explains_what_the_recorded_one_would(new_flight, replayed, disk):
    """EXP-1: about messages that are on its disk, are gone from there, and wait for it."""
    flight = new_flight(disk=disk)

    def verdict(broker, topic, offset):
        request = explain_request(0, topic, offset, None, None, None)
        return json.loads(explain(broker, request, ANYBODY, flight.clock.now_us()))

    async with served(flight) as (server, client):
        brief = (DURABLE, (Setting.RETENTION_TTL_MS, 5000))
        await client.ask(CreateTopic(2, "log", SMALL), CreateTopic(3, "brief", brief))
        await client.ask(Subscribe(4, "log", credit=1, name="mine"))
        for number in range(25):
            await client.until_answered(Publish(10 + number, "log", batch(bytes(60_000))))
        await client.until_answered(Publish(50, "brief", batch(b"x")))
        flight.clock.advance(6)
        server.sweep()
    questions = [("log", 0), ("log", 18), ("log", 24), ("log", 25), ("brief", 0)]
    expected = [verdict(flight.broker, *question) for question in questions]
    assert [found["verdicts"][0]["fate"] for found in expected] == [
        "evicted", "readable", "readable", "never_seen", "expired"
    ]  # fmt: skip
    again = replayed(flight)
    assert [verdict(again.player.broker, *question) for question in questions] == expected


@asynchronous
async def test_whoever_looks_into_the_broker_is_not_in_the_recording(new_flight, replayed, disk):
    flight = new_flight(disk=disk)
    async with served(flight) as (server, client):
        await client.ask(
            CreateTopic(2, "log", SMALL),
            Describe(3, Described.BROKER),
            Publish(4, "log", batch(b"x")),
        )
        flight.broker.tape.flush()
        before = len(flight.data)
        for kind in Described:
            flight.broker.describe(Describe(1, kind), ANYBODY, flight.clock.now_us())
        flight.broker.tape.flush()
        assert len(flight.data) == before
        assert server.broker.registry.on_disk()["disk_bytes"] > 0
        await client.ask(Describe(5, Described.BROKER), Describe(6, Described.TOPICS))
    replayed(flight)


@asynchronous
async def test_whoever_looks_into_a_replayed_broker_takes_no_answers_away(new_flight, disk):
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL))
        for number in range(3):
            await client.ask(
                Publish(3 + number, "log", batch(b"x")), Describe(9 + number, Described.TOPICS)
            )
    player = Player(Recording(flight.landed()))
    for step in player.steps():
        assert not step.difference
        player.broker.describe(Describe(1, Described.TOPICS), ANYBODY, flight.clock.now_us())


@asynchronous
async def test_an_explanation_of_a_moment_knows_nothing_that_the_disk_answered_later(
    new_flight, disk
):
    """The first call after that moment stays where it is: or else its answers would be taken for
    earlier ones.
    """
    flight = new_flight(disk=disk)
    async with served(flight) as (server, client):
        await client.ask(CreateTopic(2, "brief", (*SMALL, (Setting.RETENTION_TTL_MS, 5000))))
        for number in range(10):
            await client.until_answered(Publish(3 + number, "brief", batch(bytes(60_000))))
        until_us = flight.clock.now_us()
        flight.clock.advance(6)
        server.sweep()
    player = Player(Recording(flight.landed()))
    assert not [step.difference for step in player.steps(until_us) if step.difference]
    request = explain_request(0, "brief", 0, None, None, None)
    assert (
        json.loads(explain(player.broker, request, ANYBODY, until_us))["verdicts"][0]["fate"]
        == "readable"
    )


class Asked:
    """A log that is asked, and says nothing of itself.

    Attributes:
        wakes: what it is to call back.
    """

    write = drop_below = save = None

    def __init__(self):
        self.wakes = []

    def entry(self, offset, wake):
        self.wakes.append(wake)

    def is_reading(self, wake):
        return wake in self.wakes

    def release(self, wake):
        self.wakes.remove(wake)


@asynchronous
async def test_a_jump_of_the_clock_is_replayed(new_flight, replayed, disk):
    """DUR-8: without it, the replayed broker would have nothing left to deliver."""
    first = new_flight(disk=disk)
    expires = (DURABLE, (Setting.RETENTION_TTL_MS, 100_000))
    async with served(first) as (_, client):
        await client.ask(CreateTopic(2, "t", expires), Publish(3, "t", batch(b"old")))
    file = ClockFile(disk)
    jumped_us = 400_000_000
    file.jumps.append((file.time_us + jumped_us, jumped_us))
    file.save(file.time_us + jumped_us)
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.send(Subscribe(2, "t", start=Start.EARLIEST))
        found = await client.until(Messages)
        assert found.batch.payloads() == [b"old"]
        await client.ask(Describe(3, Described.BROKER))
    again = replayed(flight)
    assert again.player.broker.jumps == tuple(file.jumps)


def test_nothing_is_left_of_a_reader_that_is_gone(flight):
    """On either side: and one that comes again counts as another one."""
    called = []
    reader, other = (lambda: called.append("reader")), (lambda: called.append("other"))
    inner = Asked()
    recorded = RecordedLog(inner, 1, flight.broker.tape)
    with flight.broker.tape:
        for wake in (reader, other, other):
            assert recorded.entry(0, wake) is None
        recorded.release(reader)
        assert (recorded.is_reading(reader), recorded.is_reading(other)) == (False, True)
        recorded.entry(0, reader)
    inner.wakes[-1]()
    *entries, answer, _ = list(Recording(flight.landed()).records())
    assert (called, answer.kind, answer.values) == (["reader"], FlightKind.LOG, ["answer", 3])
    answers = Answers(iter(entries))
    replayed = ReplayedLog(answers, 1, {})
    for wake in (reader, other, other):
        assert replayed.entry(0, wake) is None
    replayed.release(reader)
    assert (replayed.is_reading(reader), replayed.is_reading(other)) == (False, True)
    replayed.entry(0, reader)
    replayed.call(*answer.values)
    assert called == ["reader", "reader"]
    assert not replayed.is_reading(reader)


@asynchronous
async def test_a_broker_with_a_disk_that_is_not_recorded_yet_serves(new_flight, disk):
    flight = new_flight(disk=disk)
    flight.broker.tape.end()
    async with served(flight) as (_, client):
        created, published = await client.ask(
            CreateTopic(2, "log", SMALL), Publish(3, "log", batch(b"x"))
        )
        assert (type(created), type(published)) == (TopicCreated, Published)


@asynchronous
@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        ((FlightKind.LOG, 9, b'["synced", 1, 1]'), "there is no such log"),
        ((FlightKind.LOG, 1, b'["__init__"]'), "there is no such call of a log"),
        ((FlightKind.LOG, 1, b'["answer", 77]'), "it answers what the broker has not asked"),
        ((FlightKind.LOG, 1, b'["synced", 5, 1]'), "it fails"),
        ((FlightKind.LOG, 1, b'["refused", 99999, "", ""]'), "it fails"),
        ((FlightKind.LOG, 1, b"5"), "it fails"),
        ((FlightKind.RECOVERED, 1, b'["t", 0, 0, 1, {}, [], ""]'), "it fails"),
        ((FlightKind.ENTRY, 1, b""), "the broker does not ask what it asked in the recording"),
        ((FlightKind.DAMAGED, 1, b""), "the broker does not ask what it asked in the recording"),
        (
            (FlightKind.VALUE, 1, b'["size", 5]'),
            "the broker does not ask what it asked in the recording",
        ),
        ((FlightKind.TAKE, 9, b""), "there is no such connection"),
        ((FlightKind.FRAME, 1, b"no request"), "it is not a request"),
        ((FlightKind.CALL, 1, b'["__init__"]'), "there is no such call"),
    ],
    ids=str,
)
async def test_records_that_make_no_sense_are_one_sentence(
    new_flight, replay, rewrite, disk, record, sentence
):
    kind, number, payload = record
    flight = new_flight(disk=disk)
    async with served(flight) as (_, client):
        await client.ask(CreateTopic(2, "log", SMALL), Publish(3, "log", batch(b"x")))
    data = flight.landed()

    def more(records):
        at = next(index for index, each in enumerate(records) if each.kind is FlightKind.DISCONNECT)
        return [
            *records[:at],
            records[0]._replace(kind=kind, number=number, payload=payload),
            *records[at:],
        ]

    again = replay(rewrite(data, more))
    (step,) = again.differences
    assert step.difference == sentence
    assert len(again.steps) == len(replay(data).steps) + 1
