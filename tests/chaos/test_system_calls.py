"""What a real broker asks of the system: in which order, and what it makes of answers that no disk
gives on request.
"""

import re
import shutil
import signal
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import PurePosixPath
from random import Random

import anyio
import pytest
from conversation import Conversation, batch
from framed import Client
from served import GUARD, eventually, served
from system_calls import (
    OTHER_CHANGES,
    SYNCS,
    TRACED,
    WRITES,
    Replay,
    recorded,
    strace,
    why_no_strace,
)

from zaichik.base.clock import ManualClock
from zaichik.core.broker import Broker
from zaichik.core.settings import BrokerSettings
from zaichik.storage.disk import PosixDisk
from zaichik.storage.record import RecordKind
from zaichik.storage.repair.checking import check
from zaichik.storage.restoring import restore
from zaichik.storage.store import Store
from zaichik.storage.walk import walk
from zaichik_protocol import (
    DURABLE,
    Batch,
    CreateTopic,
    Delete,
    Deleted,
    Error,
    ErrorCode,
    Hello,
    Ping,
    Pong,
    Publish,
    Published,
    Setting,
    TopicCreated,
    encode,
)

pytestmark = pytest.mark.anyio
POINTS = 200
KIB, MIB = 1024, 1024 * 1024
PRODUCER = 7
FAILED = 74  # see sysexits.h: EX_IOERR


@pytest.fixture
def tracing():
    if why := why_no_strace():
        pytest.skip(why)


@asynccontextmanager
async def connected(broker):
    async with await anyio.connect_tcp("127.0.0.1", broker.port) as stream:
        client = Client(stream)
        await client.ask(Hello(1, features=DURABLE))
        yield client


def create(number, topic, **settings):
    pairs = {Setting.DURABLE: 1} | {
        Setting[name.upper()]: value for name, value in settings.items()
    }
    return CreateTopic(number, topic, tuple(sorted(pairs.items())))


def payloads_of(record):
    return list(map(bytes, Batch(record.body, record.count).each_payload()))


# -- a power cut at any moment -------------------------------------------------------------------


class Work:
    """What is asked of the broker, and what must be on the disk once it was answered.

    Attributes:
        asked: the requests, by their ids.
        sizes: of logs.
    """

    def __init__(self):
        self.asked = {}
        self.log_bytes = {"kept": 1024 * MIB, "small": MIB}
        self.sequence = dict.fromkeys(self.log_bytes, 0)
        self.sequence["gone"] = 0
        self._random = Random(0)

    def note(self, *requests):
        self.asked |= {request.id: request for request in requests}
        return requests

    def publish(self, topic, size):
        number, sequence = len(self.asked) + 10, self.sequence[topic]
        self.sequence[topic] += 1
        payloads = [
            (b"%d/%d " % (number, index)).ljust(size, b".")
            for index in range(self._random.randint(1, 3))
        ]
        return self.note(
            Publish(number, topic, batch(*payloads), producer=PRODUCER, sequence=sequence)
        )[0]

    async def run(self, client, data):
        """Files begin, are complete, and go; checkpoints are made; a topic goes."""
        small = {"segment_bytes": 64 * KIB}
        for number, (topic, size) in enumerate(self.log_bytes.items(), 2):
            await client.ask(*self.note(create(number, topic, log_bytes=size, **small)))
        await client.ask(*self.note(create(5, "gone")))
        await client.ask(self.publish("gone", 10))
        await client.ask(*[self.publish("kept", 10_000)])
        await eventually(lambda: any(data.glob("topics/kept.*/*.state")))
        await client.ask(*self.note(Delete(6, "gone")))
        for _ in range(25):
            await client.ask(
                *[self.publish("kept", self._random.choice([10, 5_000])) for _ in range(3)]
            )
            await client.ask(*[self.publish("small", 12_000) for _ in range(4)])

    def check(self, folder, told):
        """Start with a folder that a power cut has left, when so much had been answered."""
        answers = {frame.id: frame for frame in told}
        store = Store.open(folder)
        try:
            broker = Broker(BrokerSettings(), ManualClock(store.clock_us), logs=store)
            restore(broker, store)
            found = {topic.name: (topic, recovered) for topic, recovered, _ in store.recovered}
            assert found.keys() >= self.expected(answers)
            assert "gone" not in found or not isinstance(answers.get(6), Deleted)
            for name, (topic, recovered) in found.items():
                created = [
                    it.epoch
                    for it in told
                    if isinstance(it, TopicCreated) and self.asked[it.id].topic == name
                ]
                assert created in ([], [topic.epoch])
                assert recovered.damage == ""
                self.check_topic(PosixDisk(folder), name, recovered, answers)
                self.check_copy(broker, name, answers)
        finally:
            store.release()
        assert [problem for it in check(PosixDisk(folder)) for problem in it.problems] == []

    def expected(self, answers):
        """The topics that must be there: one whose deletion may have been asked for need not."""
        created = {
            request.topic: number
            for number, request in self.asked.items()
            if isinstance(request, CreateTopic)
        }
        there = {topic for topic, number in created.items() if number in answers}
        first = next(
            number
            for number, it in self.asked.items()
            if isinstance(it, Publish) and it.topic == "kept"
        )
        return there - {"gone"} if first in answers else there

    def check_topic(self, disk, name, recovered, answers):
        """All that was answered is there, once, at its offset, and nothing else."""
        stored, batches = {}, 0
        for segment in recovered.segments:
            for record in (step.record for step in walk(disk, segment)):
                assert record.kind == RecordKind.MESSAGES
                batches += 1
                stored |= enumerate(payloads_of(record), record.base)
        head = recovered.segments[0].base if recovered.segments else 0
        assert sorted(stored) == list(range(head, recovered.state.end))
        if head:
            assert sum(it.size for it in recovered.segments) > self.log_bytes[name] * 3 // 4
        assert len(set(stored.values())) == len(stored), "one is there twice"
        asked = [it for it in self.asked.values() if isinstance(it, Publish) and it.topic == name]
        assert set(stored.values()) <= {
            bytes(payload) for it in asked for payload in it.batch.each_payload()
        }
        answered = 0
        for it in asked:
            if isinstance(answer := answers.get(it.id), Published):
                answered += 1
                for offset, payload in enumerate(it.batch.each_payload(), answer.first_offset):
                    assert offset < recovered.state.end
                    assert offset < head or stored[offset] == payload
        known = recovered.state.producers.get(PRODUCER)
        assert answered <= (known.next if known else 0)
        assert head or batches == (known.next if known else 0)

    def check_copy(self, broker, name, answers):
        """What was answered last is answered again in the same way."""
        known = [
            it
            for it in self.asked.values()
            if isinstance(it, Publish) and it.topic == name and it.id in answers
        ]
        for last in known[-1:]:
            first = answers[last.id]
            told = replace(first, duplicate=True, durable=True, subscribers=0)
            assert Conversation(broker, greeted=False).ask(Hello(1, features=DURABLE), last)[
                1:
            ] == [told]


def shown(data):
    return '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


PONG = shown(encode(Pong(1, 2)))
SMALL_TRACE = f"""\
7  mkdir({shown(b"/r/data")}, 0700) = 0
7  openat(AT_FDCWD, {shown(b"/r")}, O_RDONLY|O_DIRECTORY) = 4
7  fdatasync(4) = 0
8  openat(AT_FDCWD, {shown(b"/r/data/.a")}, O_RDWR|O_CREAT|O_EXCL, 0600) = 5
7  openat(AT_FDCWD, {shown(b"/elsewhere/a")}, O_RDWR|O_CREAT|O_EXCL, 0600) = 6
8  openat(AT_FDCWD, {shown(b"/r/data/none")}, O_RDWR) = -1 ENOENT (No such file or directory)
8  pwrite64(5, {shown(b"one two")}, 7, 0) = 7
8  fdatasync(5 <unfinished ...>
7  accept4(3, {{sa_family=AF_INET}}, [16], SOCK_CLOEXEC) = 9
7  --- SIGCHLD ---
7  sendmsg(9, {{msg_name=NULL, msg_iov=[{{iov_base={PONG}, iov_len=22}}], msg_iovlen=1}}, 0) = 22
8  <... fdatasync resumed>) = 0
8  rename({shown(b"/r/data/.a")}, {shown(b"/r/data/a")}) = 0
8  ftruncate(5, 3 <unfinished ...>
7  +++ exited with 0 +++
"""


def test_calls_that_are_made_again_leave_what_a_power_cut_may_leave(tmp_path):
    events = recorded(SMALL_TRACE.splitlines())
    assert [call.name for begins, call in events if not begins].count("openat") == 3
    replay, seen, told = Replay(PurePosixPath("/r")), [], []
    for number in replay.run(events):
        found = set()
        for seed in range(40):
            target = tmp_path / f"{number} {seed}"
            replay.content.cut(Random(seed), target)
            found.add(
                " ".join(
                    sorted(
                        it.name + it.read_text().replace("\0", "0") for it in target.glob("data/*")
                    )
                )
            )
        seen.append((found, (tmp_path / f"{number} 0" / "data").exists()))
        told.append(len(replay.told))
    assert all(is_there for _, is_there in seen[6:])  # since its sync has ended
    assert [found for found, _ in seen[:7]] == [{""}] * 6 + [{"", ".a"}]
    ends = [
        number
        for number, (begins, call) in enumerate(events)
        if call.name == "fdatasync" and not begins
    ]
    is_synced = ends[1]
    assert {".a", ".a0000000", ".aone two"} <= seen[is_synced - 1][0]
    assert seen[is_synced][0] == {"", ".aone two"}
    assert seen[-2][0] == {"", ".aone two", "aone two"}
    assert {"aone", "aone two"} <= seen[-1][0]
    assert (told[is_synced - 3], told[is_synced - 2], replay.told) == (0, 1, [Pong(1, 2)])


@pytest.mark.soak
async def test_a_power_cut_between_any_two_calls_loses_nothing_that_was_answered(tmp_path, tracing):
    """DUR-1, DUR-3, DUR-7, DUR-8: of what was not synced, anything may be left."""
    data, log, work = tmp_path / "real" / "data", tmp_path / "calls", Work()
    data.parent.mkdir()
    with anyio.fail_after(4 * GUARD):
        with served(
            "--data", str(data), through=strace(f"{TRACED},{OTHER_CHANGES}", log)
        ) as broker:
            async with connected(broker) as client:
                await work.run(client, data)
            broker.signal(signal.SIGTERM)
            assert await broker.ended() == 0
        await eventually(
            lambda: re.search(rf"^{broker.pid} .*\+\+\+ exited", log.read_text(), re.MULTILINE)
        )
    events = recorded(log.read_text().splitlines())
    others = {call.name for _, call in events if str(data).encode() in b"".join(call.texts)}
    assert not others & {*OTHER_CHANGES.split(",")}, "calls that are not made again here"
    replay, random = Replay(PurePosixPath(data.parent)), Random(1)
    points = {*random.sample(range(len(events)), POINTS), len(events)}
    told = 0
    for number in replay.run(events):
        if number in points or len(replay.told) > told:
            told = len(replay.told)
            target = tmp_path / f"{number}"
            replay.content.cut(random, target)
            work.check(target / "data", replay.told)
            shutil.rmtree(target)
    assert {frame.id for frame in replay.told} >= work.asked.keys()


# -- answers of the system -----------------------------------------------------------------------


def payloads(folder):
    """What a broker that starts with it has in its only topic."""
    store = Store.open(folder)
    ((_, recovered, _),) = store.recovered
    found = []
    for segment in recovered.segments:
        for record in (step.record for step in walk(PosixDisk(folder), segment)):
            found += payloads_of(record)
    store.release()
    return found


@pytest.mark.soak
async def test_a_sync_that_fails_ends_the_broker(tmp_path, tracing):
    """DUR-6."""
    command = strace(SYNCS, tmp_path / "calls", "-e", "inject=fdatasync:error=EIO:when=20")
    data, sent, answered = tmp_path / "data", 0, 0
    with anyio.fail_after(2 * GUARD), served("--data", str(data), through=command) as broker:
        async with connected(broker) as client:
            await client.ask(create(2, "t"))
            while True:
                sent += 1
                await client.send(Publish(10 + sent, "t", batch(b"%d" % sent)))
                if not isinstance(await client.receive(), Published):
                    break
                answered = sent
        assert await broker.ended() == FAILED
        assert "cannot be synced" in broker.log
    assert answered > 3
    found = payloads(data)
    assert found[:answered] == [b"%d" % number for number in range(1, answered + 1)]
    assert len(found) <= sent


@pytest.mark.soak
async def test_a_disk_without_room_is_an_answer(tmp_path, tracing):
    """DUR-6: others notice nothing, and when there is room again, it goes on as if nothing had been
    sent meanwhile.
    """
    command = strace(WRITES, tmp_path / "calls", "-e", f"inject={WRITES}:error=ENOSPC:when=8..14")
    data, sent, answered = tmp_path / "data", 0, []
    with anyio.fail_after(2 * GUARD), served("--data", str(data), through=command) as broker:
        async with connected(broker) as client:
            await client.ask(create(2, "t"))
            refused = again = 0
            while again < 20:
                sent += 1
                (answer,) = await client.ask(Publish(10 + sent, "t", batch(b"%d" % sent)))
                if isinstance(answer, Published):
                    assert answer.first_offset == len(answered)
                    answered.append(b"%d" % sent)
                    again += refused > 0
                else:
                    assert isinstance(answer, Error)
                    assert answer.code == ErrorCode.STORAGE_FULL
                    refused += 1
                (other,) = await client.ask(Publish(5, "memory", batch(b"x")))
                assert isinstance(other, Published)
            broker.signal(signal.SIGTERM)
            assert await broker.ended() == 0
    assert refused
    assert payloads(data) == answered


@pytest.mark.soak
async def test_a_slow_disk_holds_up_nobody_who_does_not_need_it(tmp_path, tracing):
    """DUR-2."""
    command = strace(SYNCS, tmp_path / "calls", "-e", "inject=fdatasync:delay_enter=1000000")
    with (
        anyio.fail_after(2 * GUARD),
        served("--data", str(tmp_path / "data"), through=command) as broker,
    ):
        async with connected(broker) as client:
            await client.ask(create(2, "t"))
            for first in range(100, 400, 100):
                await client.send(Publish(first, "t", batch(b"x")))
                for number in range(first + 1, first + 50):
                    (answer,) = await client.ask(Publish(number, "memory", batch(b"x")))
                    assert (answer.id, answer.durable) == (number, False)
                assert await client.ask(Ping(first + 50, 0)) == [Pong(first + 50, 0)]
                answer = await client.receive()
                assert (answer.id, answer.durable) == (first, True)
