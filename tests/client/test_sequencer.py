"""Numbered publishing: PUB-4."""

import asyncio
from dataclasses import replace
from functools import partial
from itertools import pairwise

import anyio
import pytest
from brokers import TABLES_GRANTED, fake_client, real_client
from trio.testing import MockClock

import zaichik
from zaichik.client import sequencer as sequencer_module
from zaichik.client import transport as transport_module
from zaichik.client.publishing import IDLE_SECONDS
from zaichik.client.sequencer import WINDOW
from zaichik_protocol import (
    DURABLE,
    TABLES,
    Close,
    Closed,
    CreateTopic,
    Delete,
    Deleted,
    Error,
    ErrorCode,
    Hello,
    Publish,
    Published,
    Subscribe,
    Subscribed,
    TopicCreated,
    Welcome,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(sequencer_module, "FIRST_RETRY_SECONDS", 0.0)


def by_a_clock_for_tests(test):
    """Trio's, which jumps when everybody waits; nothing else is due in the meantime."""
    clock = MockClock(autojump_threshold=0.01)
    return pytest.mark.parametrize("anyio_backend", [("trio", {"clock": clock})], ids=["trio"])(
        test
    )


def silent(_frame):
    return None


def stored(request, first_offset=0):
    return Published(request.id, first_offset, request.batch.count, 0, 0)


def refused(request, code, field="", retry_after_ms=0):
    return Error(
        request.id,
        code,
        Publish.TYPE,
        field,
        retry_after_ms,
        code.meaning,
        retryable=code.retryable,
        fatal=code.fatal,
    )


def numbers(requests):
    """Producers, as 0, 1, 2 in the order they came, and sequences."""
    producers = list(dict.fromkeys(request.producer for request in requests))
    return [(producers.index(request.producer), request.sequence) for request in requests]


def payloads(requests):
    return [request.batch.payloads()[0] for request in requests]


async def batch(client, payload, topic="t"):
    return await client.publish_batch(topic, [(None, payload)])


async def test_each_topic_has_one_producer_for_all_publishers():
    async with fake_client() as (broker, client):
        await client.publish("t", b"")
        await batch(client, b"")
        async with client.producer("t") as producer:
            await producer.send(b"")
        await client.publish("other", b"")
        requests = broker.of(Publish)
        assert numbers(requests) == [(0, 0), (0, 1), (0, 2), (1, 0)]
        assert all(0 < request.producer < 2**64 for request in requests)


async def test_unanswered_batches_are_sent_again_under_their_numbers():
    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for payload in (b"a", b"b", b"c"):
            tasks.start_soon(batch, client, payload)
        before = [await broker.has_received(Publish, count) for count in (1, 2, 3)]
        await broker.send(stored(before[0]))
        broker.answers[Publish] = stored
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 2)
        assert broker.of(Publish) == before[1:]


async def test_a_cancelled_call_leaves_no_gap_in_the_numbers():
    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        async with anyio.create_task_group() as impatient:
            impatient.start_soon(batch, client, b"a")
            impatient.start_soon(client.publish, "t", b"b")
            await broker.has_received(Publish, 2)
            impatient.cancel_scope.cancel()
        tasks.start_soon(batch, client, b"c")
        before = [await broker.has_received(Publish, count) for count in (1, 2, 3)]
        broker.answers[Publish] = stored
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        assert broker.of(Publish) == before
        assert numbers(before) == [(0, 0), (0, 1), (0, 2)]


async def test_no_more_batches_are_in_flight_than_the_broker_remembers():
    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for number in range(WINDOW + 8):
            tasks.start_soon(batch, client, b"%d" % number)
        first = await broker.has_received(Publish)
        await broker.has_received(Publish, WINDOW)
        await client.ping()
        assert len(broker.of(Publish)) == WINDOW <= 64
        await broker.send(stored(first))
        await broker.has_received(Publish, WINDOW + 1)
        await client.ping()
        waiting = broker.of(Publish)[1:]
        assert len(waiting) == WINDOW
        broker.answers[Publish] = stored
        await broker.send(*map(stored, waiting))
    assert numbers(broker.of(Publish)) == [(0, number) for number in range(WINDOW + 8)]


async def test_an_unsent_batch_that_no_task_waits_for_is_not_sent():
    """Or a program that gives up and tries again would fill the memory."""
    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for _ in range(WINDOW):
            tasks.start_soon(batch, client, b"")
        await broker.has_received(Publish, WINDOW)
        for call in (partial(batch, client, b"x"), partial(client.publish, "t", b"x")):
            async with anyio.create_task_group() as impatient:
                impatient.start_soon(call)
                await client.ping()
                impatient.cancel_scope.cancel()
        broker.answers[Publish] = stored
        await broker.send(*map(stored, broker.of(Publish)))
        await batch(client, b"last")
        assert payloads(broker.of(Publish)) == [b""] * WINDOW + [b"last"]


async def test_unsent_messages_of_a_cancelled_producer_are_not_sent():
    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for _ in range(WINDOW):
            tasks.start_soon(batch, client, b"")
        await broker.has_received(Publish, WINDOW)
        with anyio.CancelScope() as scope:
            async with client.producer("t") as producer:
                await producer.send(b"x")
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        broker.answers[Publish] = stored
        await broker.send(*map(stored, broker.of(Publish)))
        await batch(client, b"last")
        assert payloads(broker.of(Publish)) == [b""] * WINDOW + [b"last"]


class Full:
    """A topic that refuses for a while, as a broker with a table of producers does it."""

    def __init__(self, code=ErrorCode.TOPIC_FULL, retry_after_ms=0):
        self.next = 0
        self.room = 0
        self.tries = 0
        self.taken = []
        self._refusal = partial(refused, code=code, retry_after_ms=retry_after_ms)

    def __call__(self, request):
        self.tries += 1
        if request.sequence > self.next:
            return refused(request, ErrorCode.SEQUENCE_GAP, "sequence")
        if request.sequence < self.next:
            return replace(stored(request, request.sequence), duplicate=True)
        if not self.room:
            return self._refusal(request)
        self.room -= 1
        self.next += 1
        self.taken.append(request.batch.payloads()[0])
        return stored(request, self.next - 1)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_FULL, ErrorCode.NO_MEMORY])
@pytest.mark.parametrize("retry_after_ms", [0, 1])
async def test_publishing_to_a_full_topic_waits_and_keeps_its_order(code, retry_after_ms):
    """RET-9: from the slowest reader back to who publishes."""
    full = Full(code, retry_after_ms)
    async with fake_client({Publish: full}) as (_, client), anyio.create_task_group() as tasks:
        offsets = {}

        async def publish(number):
            offsets[number] = (await batch(client, b"%d" % number)).first_offset

        for number in range(50):
            tasks.start_soon(publish, number)
        for _ in range(50):
            tries = full.tries
            while full.tries < tries + 3:
                await client.ping()
            assert len(full.taken) == len(offsets)
            full.room += 1
            while len(offsets) < len(full.taken) or full.room:
                await client.ping()
    assert [int(payload) for payload in full.taken] == sorted(offsets, key=offsets.__getitem__)


async def test_a_waiting_sequencer_retries_with_one_batch():
    full = Full()
    async with fake_client({Publish: full}) as (broker, client), anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(batch, client, b"%d" % number)
        await broker.has_received(Publish, 40)
        assert {request.sequence for request in broker.of(Publish)[20:]} == {0}
        full.room = 20


@pytest.mark.parametrize(
    ("code", "level"),
    [(ErrorCode.TOPIC_FULL, "INFO"), (ErrorCode.NO_MEMORY, "WARNING")],
)
async def test_the_log_says_once_why_publishing_waits(code, level, caplog):
    """Slow readers are no reason to warn."""
    caplog.set_level("INFO", logger="zaichik")
    full = Full(code)
    async with fake_client({Publish: full}) as (_, client), anyio.create_task_group() as tasks:
        tasks.start_soon(batch, client, b"")
        while full.tries < 3:
            await client.ping()
        full.room = 1
    (record,) = (it for it in caplog.records if "publishing waits" in it.message)
    assert record.levelname == level
    assert code.name in record.message


class TimedFull(Full):
    """A full topic that knows when it was asked, by the clock of the test."""

    def __init__(self, retry_after_ms):
        super().__init__(retry_after_ms=retry_after_ms)
        self.times = []

    def __call__(self, request):
        self.times.append(anyio.current_time())
        return super().__call__(request)

    @property
    def waits(self):
        return [later - earlier for earlier, later in pairwise(self.times)]


@by_a_clock_for_tests
async def test_a_topic_that_stays_full_is_retried_less_and_less_often():
    full = TimedFull(retry_after_ms=50)
    async with fake_client({Publish: full}) as (_, client), anyio.create_task_group() as tasks:
        tasks.start_soon(batch, client, b"a")
        await anyio.sleep(15)
        assert 10 < full.tries < 40
        for number, wait in enumerate(full.waits):
            longest = min(0.05 * 2 ** (number + 1), 1.0)
            assert max(longest / 2, 0.05) - 0.01 <= wait <= longest + 0.1, (
                "never before the broker said"
            )
        assert len({round(wait, 3) for wait in full.waits[5:]}) > 3, "and never in step with others"
        full.room = 1


@by_a_clock_for_tests
async def test_a_success_resets_the_backoff():
    full = TimedFull(retry_after_ms=50)
    async with fake_client({Publish: full}) as (_, client), anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(batch, client, b"a")
            await anyio.sleep(5)
            full.room = 1
            await anyio.sleep(1.5)
            full.times.clear()
        tasks.start_soon(batch, client, b"a")
        await anyio.sleep(0.3)
        assert full.waits[0] <= 0.2
        full.room = 1


@by_a_clock_for_tests
async def test_the_brokers_retry_after_is_respected():
    full = TimedFull(retry_after_ms=1500)
    async with fake_client({Publish: full}) as (_, client), anyio.create_task_group() as tasks:
        tasks.start_soon(batch, client, b"a")
        await anyio.sleep(15)
        assert len(full.waits) > 3
        assert all(1.49 <= wait <= 3.1 for wait in full.waits)
        full.room = 1


async def test_a_full_topic_survives_a_lost_connection():
    full = Full()
    async with fake_client({Publish: full}) as (broker, client), anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(batch, client, b"%d" % number)
        for _ in range(5):
            await broker.has_received(Publish, len(broker.of(Publish)) + 3)
            await broker.hang_up()
            await broker.has_received(Hello, len(broker.of(Hello)) + 1)
            full.room += 2
    assert len(full.taken) == 10


class Runs:
    """One run of a broker after the other, each with its boot, and the epoch that the topic has in
    it.

    Args:
        epochs: of the topic in each run; None: the question is not answered; or the code of a
            refusal.
        topic: what is answered to a Publish.
    """

    def __init__(self, *epochs, topic=silent):
        self.answers = {Hello: self._welcome, Subscribe: self._probed, Publish: topic}
        self._epochs = epochs
        self._run = 0

    def _welcome(self, frame):
        self._run += 1
        return Welcome(frame.id, 1, 0, 6 + self._run, 2**21, 8192, 2**20, 10**6, 0, "fake")

    def _probed(self, frame):
        match self._epochs[self._run - 1]:
            case None:
                return None
            case ErrorCode() as code:
                return Error(frame.id, code, Subscribe.TYPE, "", 0, code.meaning)
            case epoch:
                return Subscribed(frame.id, epoch, 0, 0, 0)


class Topic:
    """A topic with a table of producers: what a durable one still has in the next run of its
    broker.

    Attributes:
        known: the next number of each producer.
        stored: the payloads, in order.
    """

    def __init__(self):
        self.known = {}
        self.stored = []

    def __call__(self, request):
        following = self.known.get(request.producer, 0)
        if request.sequence and not following:
            return refused(request, ErrorCode.PRODUCER_UNKNOWN, "producer")
        if request.sequence > following:
            return refused(request, ErrorCode.SEQUENCE_GAP, "sequence")
        if request.sequence == following:
            self.known[request.producer] = following + 1
            self.stored += request.batch.payloads()
        return replace(stored(request, request.sequence), duplicate=request.sequence < following)


UNCHANGED = pytest.param((1, 1), id="unchanged")
NEVER_KNOWN = pytest.param((None, 1), id="never known")
NOT_TOLD = pytest.param((1, ErrorCode.TOO_MANY_SUBSCRIPTIONS), id="not told")
CHANGED = pytest.param((1, 2), id="changed")
GONE = pytest.param((1, ErrorCode.NO_SUCH_TOPIC), id="gone")


async def published(broker, client, tasks, *payloads):
    """Publish each in a task of its own; the requests, when they have come."""
    count = len(broker.of(Publish))
    for payload in payloads:
        tasks.start_soon(batch, client, payload)
        await broker.has_received(Publish, count := count + 1)
    return broker.of(Publish)[-len(payloads) :]


@pytest.mark.parametrize(
    "epochs", [CHANGED, GONE, pytest.param((None, ErrorCode.NO_SUCH_TOPIC), id="gone unknown")]
)
async def test_another_topic_is_sent_everything_under_new_numbers(epochs):
    """The broker was restarted and has forgotten topics and producers, so nothing can be stored
    twice in it.
    """
    runs = Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        before = await published(broker, client, tasks, b"0", b"1", b"2", b"3")
        await broker.send(stored(before[0]))
        broker.answers[Publish] = stored
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        after = broker.of(Publish)
        assert payloads(after) == payloads(before[1:])
        assert numbers(before + after) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("epochs", [UNCHANGED, NEVER_KNOWN, NOT_TOLD])
async def test_a_topic_that_a_restart_has_kept_is_sent_the_same_numbers(epochs):
    """A durable one: what was stored and not answered would be stored twice under new ones."""
    topic, runs = Topic(), Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        before = await published(broker, client, tasks, b"0", b"1", b"2", b"3")
        for request in before[:3]:
            topic(request)
        await broker.send(stored(before[0]))
        broker.answers[Publish] = topic
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        await batch(client, b"4")
        assert broker.of(Publish)[:3] == before[1:]
        assert numbers([*before, broker.of(Publish)[-1]]) == [(0, number) for number in range(5)]
    assert topic.stored == [b"0", b"1", b"2", b"3", b"4"]


class Copy(Topic):
    """A copy of a topic that was made when so many batches of its one producer were stored.

    Attributes:
        full: the payloads that are refused once, for lack of room.
    """

    def __init__(self, producer, *payloads, full=()):
        super().__init__()
        self.known = {producer: len(payloads)}
        self.stored = list(payloads)
        self.full = set(full)

    def __call__(self, request):
        (payload,) = request.batch.payloads()
        is_next = request.sequence == self.known.get(request.producer, 0)
        if is_next and payload in self.full:
            self.full.remove(payload)
            return refused(request, ErrorCode.TOPIC_FULL)
        reply = super().__call__(request)
        if isinstance(reply, Published) and not reply.duplicate:
            return replace(reply, first_offset=len(self.stored) - 1)
        return reply


async def restored(broker, client, tasks, *, full=()):
    """Publish six batches, have three answered, and restore a copy that was made after the first.

    Returns it.
    """
    before = await published(broker, client, tasks, b"0", b"1", b"2", b"3", b"4", b"5")
    for offset, request in enumerate(before[:3]):
        await broker.send(stored(request, offset))
    await client.ping()
    copy = Copy(before[0].producer, b"0", full=full)
    broker.answers[Publish] = copy
    await broker.hang_up()
    return copy


@pytest.mark.parametrize("full", [(), (b"3",), (b"4",)], ids=str)
@pytest.mark.parametrize("epochs", [UNCHANGED, NEVER_KNOWN, NOT_TOLD])
async def test_a_topic_in_an_earlier_state_is_sent_everything_under_new_numbers(epochs, full):
    """A gap with nothing unanswered before it proves that none of these batches is stored."""
    runs = Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client):
        async with anyio.create_task_group() as tasks:
            copy = await restored(broker, client, tasks, full=full)
        await batch(client, b"6")
        assert copy.stored == [b"0", b"3", b"4", b"5", b"6"]
        assert [lost.is_older for lost in client.lost_topics] == [True]


async def test_a_gap_behind_a_batch_that_was_full_before_the_restore_is_one_too():
    """It is the first one of those that wait, so nothing that the broker lacks will come."""
    runs = Runs(1, 1)
    async with fake_client(runs.answers) as (broker, client):
        async with anyio.create_task_group() as tasks:
            before = await published(broker, client, tasks, b"0", b"1", b"2", b"3")
            await broker.send(stored(before[0]), stored(before[1], 1))
            await broker.send(refused(before[2], ErrorCode.TOPIC_FULL))
            await broker.send(refused(before[3], ErrorCode.SEQUENCE_GAP))
            await broker.has_received(Publish, 5)
            broker.answers[Publish] = copy = Copy(before[0].producer, b"0")
            await broker.hang_up()
        assert copy.stored == [b"0", b"2", b"3"]


async def test_nothing_is_stored_in_an_earlier_state_if_configured_so():
    runs = Runs(1, 1)
    refusals = []

    async def refused_batch(client, payload):
        with pytest.raises(zaichik.EpochChanged, match="gone back to an earlier state"):
            await batch(client, payload)
        refusals.append(payload)

    async with fake_client(runs.answers, on_new_epoch="raise") as (broker, client):
        async with anyio.create_task_group() as tasks:
            (first,) = await published(broker, client, tasks, b"0")
            await broker.send(stored(first))
            (second,) = await published(broker, client, tasks, b"1")
            await broker.send(stored(second, 1))
            for payload in (b"2", b"3"):
                tasks.start_soon(refused_batch, client, payload)
            await broker.has_received(Publish, 4)
            broker.answers[Publish] = copy = Copy(first.producer, b"0")
            await broker.hang_up()
        await refused_batch(client, b"4")
    assert copy.stored == [b"0"]
    assert sorted(refusals) == [b"2", b"3", b"4"]


@pytest.mark.parametrize("has_deleted", [True, False])
async def test_offsets_that_are_given_again_are_a_loss_unless_the_program_has_deleted_the_topic(
    has_deleted,
):
    """The copy is older than the producer, so there is no gap."""
    runs = Runs(1, 1)
    answers = {
        **runs.answers,
        Delete: lambda frame: Deleted(frame.id),
        CreateTopic: lambda frame: TopicCreated(frame.id, 1, 1, ()),
    }
    async with fake_client(answers) as (broker, client):
        broker.answers[Publish] = partial(stored, first_offset=5)
        await batch(client, b"0")
        if has_deleted:
            await client.delete_topic("t")
            await client.create_topic("t")
        broker.answers[Publish] = partial(stored, first_offset=3)
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        await batch(client, b"1")
        await batch(client, b"2")
        assert [lost.is_older for lost in client.lost_topics] == [True] * (not has_deleted)


def gap_after_the_first(request):
    """What a broken broker answers: that a batch before this one is missing."""
    if request.sequence:
        return refused(request, ErrorCode.SEQUENCE_GAP, "sequence")
    return stored(request)


async def test_gaps_without_a_restart_are_raised():
    """No copy is restored under a running broker: something else is wrong."""
    async with fake_client({Publish: gap_after_the_first}) as (broker, client):
        await batch(client, b"0")
        for payload in (b"1", b"2"):
            with pytest.raises(zaichik.SequenceGap):
                await batch(client, payload)
        assert payloads(broker.of(Publish)) == [b"0", b"1", b"2"]
        assert client.lost_topics == ()


async def test_one_gap_after_each_restart_is_believed():
    runs = Runs(1, 1, 1, topic=gap_after_the_first)
    async with fake_client(runs.answers) as (broker, client):
        await batch(client, b"0")
        for restarts in (1, 2):
            await broker.hang_up()
            await broker.has_received(Hello, 1 + restarts)
            await batch(client, b"repeated")
            for _ in range(2):
                with pytest.raises(zaichik.SequenceGap):
                    await batch(client, b"refused")
            assert [lost.is_older for lost in client.lost_topics] == [True] * restarts


async def test_an_offset_and_a_gap_after_one_restart_are_reported_once():
    runs = Runs(1, 1, topic=partial(stored, first_offset=5))
    async with fake_client(runs.answers) as (broker, client):
        await batch(client, b"0")
        broker.answers[Publish] = partial(stored, first_offset=3)
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        await batch(client, b"1")
        broker.answers[Publish] = gap_after_the_first
        with pytest.raises(zaichik.SequenceGap):
            await batch(client, b"2")
        assert len(client.lost_topics) == 1


@pytest.mark.parametrize("durable", [False, True])
async def test_a_topic_in_memory_has_no_earlier_state(durable):
    """Whatever is said of its epoch: a restart ends it."""
    runs = Runs(1, 1)

    def welcome(frame):
        return replace(runs.answers[Hello](frame), features=frame.features & DURABLE)

    def answer(request):
        reply = gap_after_the_first(request)
        if isinstance(reply, Published):
            return replace(reply, durable=durable)
        return reply

    async with fake_client({**runs.answers, Hello: welcome, Publish: answer}) as (broker, client):
        await batch(client, b"0")
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        if durable:
            await batch(client, b"1")
        else:
            with pytest.raises(zaichik.SequenceGap):
                await batch(client, b"1")
        assert len(client.lost_topics) == durable


async def test_a_topic_made_anew_in_the_same_run_is_sent_the_same_numbers():
    """TOP-6: what was stored in the topic before is not stored in this one as well."""
    runs = Runs(1, 2)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        broker.answers[Hello] = lambda frame: replace(runs.answers[Hello](frame), boot=7)
        before = await published(broker, client, tasks, b"0", b"1")
        broker.answers[Publish] = stored
        await broker.hang_up()
    assert broker.of(Publish) == before * 2
    assert [lost.new_epoch for lost in client.lost_topics] == [2]


async def test_what_was_ambiguous_is_not_in_another_topic():
    """The broker forgets sooner than ours says: what it refuses was sent to it only once."""
    boots, runs = iter((7, 7, 8)), Runs(1, 1, 2)
    answers = {
        **runs.answers,
        Hello: lambda frame: replace(runs.answers[Hello](frame), boot=next(boots)),
    }
    async with fake_client(answers) as (broker, client), anyio.create_task_group() as tasks:
        await published(broker, client, tasks, b"0", b"1")
        await broker.hang_up()
        await broker.has_received(Publish, 4)
        broker.answers[Publish] = forgetful = Forgetful(b"1")
        await broker.hang_up()
    assert forgetful.taken == [b"0", b"1"]


async def test_a_topic_is_compared_with_the_one_of_the_run_before():
    """And not with that of the first run."""
    topic, runs = Topic(), Runs(1, 2, 2)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        (request,) = await published(broker, client, tasks, b"0")
        await broker.hang_up()
        topic(await broker.has_received(Publish, 2))
        broker.answers[Publish] = topic
        await broker.hang_up()
        await broker.has_received(Publish, 3)
    assert numbers(broker.of(Publish)) == [(0, 0), (1, 0), (1, 0)]
    assert topic.stored == payloads([request])


async def test_a_kept_topic_that_has_forgotten_the_producer_makes_batches_ambiguous():
    """As after a mere loss: it may have stored them, and forgotten them with the time."""
    runs = Runs(1, 1)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        broker.answers[Publish] = stored
        await batch(client, b"0")
        broker.answers[Publish] = silent

        async def in_doubt():
            with pytest.raises(zaichik.ProducerUnknown):
                await batch(client, b"1")

        tasks.start_soon(in_doubt)
        await broker.has_received(Publish, 2)
        broker.answers[Publish] = Topic()
        await broker.hang_up()
    assert numbers(broker.of(Publish)) == [(0, 0), (0, 1), (0, 1)]


async def test_what_waits_for_a_socket_is_not_ambiguous():
    """It was never sent, so a topic that has forgotten the producer does not have it."""
    runs, topic = Runs(1, 1), Topic()
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        broker.answers[Publish] = stored
        await batch(client, b"0")
        broker.answers[Publish] = silent

        async def in_doubt():
            with pytest.raises(zaichik.ProducerUnknown):
                await batch(client, b"1")

        tasks.start_soon(in_doubt)
        await broker.has_received(Publish, 2)
        greet = broker.answers[Hello]
        broker.answers[Hello] = silent
        await broker.hang_up()
        hello = await broker.has_received(Hello, 2)
        tasks.start_soon(batch, client, b"2")
        await anyio.wait_all_tasks_blocked()
        broker.answers[Publish] = topic
        await broker.send(greet(hello))
    assert topic.stored == [b"2"]
    assert numbers(broker.of(Publish)) == [(0, 0), (0, 1), (0, 1), (0, 2), (1, 0)]


@pytest.mark.parametrize("losses", [1, 3])
@pytest.mark.parametrize("epochs", [NEVER_KNOWN, NOT_TOLD])
async def test_a_topic_of_unknown_epoch_is_sent_new_numbers_when_it_knows_no_old_ones(
    epochs, losses
):
    """It would know them if it had stored anything, so nothing is ambiguous, however often the
    socket is lost.
    """
    first, then = epochs
    topic, runs = Topic(), Runs(first, *[then] * losses)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        before = await published(broker, client, tasks, b"0", b"1", b"2", b"3")
        await broker.send(stored(before[0]))
        for loss in range(1, losses):
            await broker.hang_up()
            await broker.has_received(Publish, 4 + 3 * loss)
            broker.answers[Hello] = lambda frame: Welcome(
                frame.id, 1, 0, 8, 2**21, 8192, 2**20, 10**6, 0, "fake"
            )
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        tasks.start_soon(batch, client, b"4")
        await broker.has_received(Publish, 4)
        old = broker.of(Publish)
        assert old[:3] == before[1:]
        broker.answers[Publish] = topic
        await broker.send(*map(topic, old))
    assert topic.stored == [b"1", b"2", b"3", b"4"]
    assert numbers(broker.of(Publish)[4:]) == [(0, 0), (0, 1), (0, 2), (0, 3)]


async def test_batches_are_ambiguous_again_once_the_next_run_has_answered():
    """It knew the producer then, so what it did not answer it may have stored."""
    runs = Runs(None, 1, 1)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        failed = []

        async def in_doubt():
            with pytest.raises(zaichik.ProducerUnknown):
                await batch(client, b"1")
            failed.append(b"1")

        await published(broker, client, tasks, b"0")
        await broker.hang_up()
        await broker.has_received(Publish, 2)
        tasks.start_soon(in_doubt)
        await broker.has_received(Publish, 3)
        await broker.send(stored(broker.of(Publish)[1]))
        await client.ping()
        broker.answers[Publish] = Topic()
        await broker.hang_up()
    assert failed == [b"1"]


async def test_numbers_begin_anew_where_the_last_run_took_none():
    """Those it was sent without were lost with it, and would be missing."""
    runs = Runs(1, 1, topic=lambda request: refused(request, ErrorCode.UNSUPPORTED, "producer"))
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:

        async def lost():
            with pytest.raises(zaichik.ConnectionLost):
                await batch(client, b"0")

        broker.answers[Publish] = lambda request: (
            runs.answers[Publish](request) if request.producer else None
        )
        tasks.start_soon(lost)
        await broker.has_received(Publish, 2)
        for payload in (b"1", b"2"):
            tasks.start_soon(batch, client, payload)
            await client.ping()
        broker.answers[Publish] = topic = Topic()
        await broker.hang_up()
    assert topic.stored == [b"1", b"2"]


@pytest.mark.parametrize(
    ("epochs", "is_kept"),
    [
        *[((1, 1), True), ((1, 2), False), ((1, ErrorCode.NO_SUCH_TOPIC), False)],
        *[
            (epochs, is_kept)
            for epochs in ((None, 1), (1, ErrorCode.NO_MEMORY))
            for is_kept in (True, False)
        ],
    ],
)
@pytest.mark.parametrize("count", range(7))
async def test_a_restarted_broker_stores_what_waits_once_and_in_the_same_order(
    epochs, is_kept, count
):
    """Whether its topic is durable or not, and however many of six batches it had stored without an
    answer.
    """
    topic, runs = Topic(), Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        (first,) = await published(broker, client, tasks, b"first")
        await broker.send(topic(first))
        requests = await published(broker, client, tasks, *[b"%d" % number for number in range(6)])
        for request in requests[:count]:
            topic(request)
        broker.answers[Publish] = after = topic if is_kept else Topic()
        await broker.hang_up()
        await broker.has_received(Publish, 13)
    assert after.stored == [b"first"] * is_kept + payloads(requests)


@pytest.mark.parametrize("epochs", [UNCHANGED, NEVER_KNOWN, NOT_TOLD, CHANGED])
@pytest.mark.parametrize("answered", range(8))
async def test_a_restarted_broker_is_sent_waiting_batches_in_the_same_order(answered, epochs):
    """However far the refusals of a full topic, and of what came behind, have come back by then."""
    runs = Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:
        (first,) = await published(broker, client, tasks, b"first")
        await broker.send(stored(first))
        requests = await published(broker, client, tasks, *[b"%d" % number for number in range(6)])
        full = Full()
        full.next = 1
        for request in requests[:answered]:
            await broker.send(full(request))
        await client.ping()
        topic = Topic()
        if epochs == (1, 1):
            topic(first)
        broker.answers[Publish] = topic
        await broker.hang_up()
    assert topic.stored[-6:] == payloads(requests)


@pytest.mark.parametrize("epochs", [UNCHANGED, NEVER_KNOWN, NOT_TOLD, CHANGED, GONE])
async def test_a_batch_that_its_program_has_numbered_keeps_its_number(epochs):
    """Whatever became of its topic: what that means is for the program to say."""
    runs = Runs(*epochs)
    async with fake_client(runs.answers) as (broker, client), anyio.create_task_group() as tasks:

        async def publish():
            with pytest.raises(zaichik.ProducerUnknown):
                await client.publish_batch("t", [(None, b"a")], producer=5, number=3)

        tasks.start_soon(publish)
        before = await broker.has_received(Publish)
        await broker.hang_up()
        assert await broker.has_received(Publish, 2) == before
        await broker.send(refused(before, ErrorCode.PRODUCER_UNKNOWN, "producer"))
    assert numbers(broker.of(Publish)) == [(0, 3), (0, 3)]


async def test_a_permanent_refusal_is_raised_and_uses_its_number_up():
    async with fake_client({Publish: partial(refused, code=ErrorCode.FORBIDDEN)}) as (
        broker,
        client,
    ):
        with pytest.raises(zaichik.Forbidden):
            await batch(client, b"")
        broker.answers[Publish] = stored
        await batch(client, b"")
        assert numbers(broker.of(Publish)) == [(0, 0), (0, 1)]


class Forgetful:
    """Forgets all producers before each batch of the given payloads, once."""

    def __init__(self, *payloads):
        self.known = {}
        self.taken = []
        self._payloads = set(payloads)

    def __call__(self, request):
        (payload,) = request.batch.payloads()
        if payload in self._payloads:
            self._payloads.remove(payload)
            self.known.clear()
        following = self.known.get(request.producer)
        if following is None and request.sequence:
            return refused(request, ErrorCode.PRODUCER_UNKNOWN, "producer")
        if request.sequence > (following or 0):
            return refused(request, ErrorCode.SEQUENCE_GAP, "sequence")
        self.known[request.producer] = request.sequence + 1
        self.taken.append(payload)
        return stored(request, len(self.taken) - 1)


async def test_a_forgotten_producer_takes_a_new_id_for_batches_sent_only_once():
    """A broker whose clock is moved forgets sooner than ours says.

    What it has refused it has not stored.
    """
    forgetful = Forgetful(b"5", b"12", b"13", b"30")
    async with fake_client({Publish: forgetful}) as (_, client), anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(batch, client, b"%d" % number)
    payloads = [int(payload) for payload in forgetful.taken]
    assert sorted(payloads) == list(range(40))


async def test_a_forgotten_producer_keeps_the_order():
    forgetful = Forgetful(b"5", b"12", b"13", b"30")
    async with (
        fake_client({Publish: forgetful}) as (_, client),
        client.producer("t", max_batch=1) as producer,
    ):
        for number in range(40):
            await producer.send(b"%d" % number)
    assert forgetful.taken == [b"%d" % number for number in range(40)]


async def test_a_forgotten_producer_reports_batches_that_may_have_been_stored():
    async with (
        fake_client({Publish: stored}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def publish():
            with pytest.raises(zaichik.ProducerUnknown):
                await batch(client, b"b")

        await batch(client, b"a")
        broker.answers[Publish] = silent
        tasks.start_soon(publish)
        await broker.has_received(Publish, 2)
        broker.answers[Publish] = Forgetful()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        await client.ping()
        assert await batch(client, b"c")
        assert numbers(broker.of(Publish)) == [(0, 0), (0, 1), (0, 1), (1, 0)]


async def test_batches_after_a_temporary_refusal_are_not_ambiguous():
    """Another run of the broker, a full topic and two losses: what cannot have been stored is not
    told of.
    """
    boots = iter((7, 8, 8))
    answers = {
        Publish: silent,
        Hello: lambda frame: Welcome(
            frame.id, 1, 0, next(boots), 2**21, 8192, 2**20, 10**6, 0, "fake"
        ),
    }
    async with fake_client(answers) as (broker, client), anyio.create_task_group() as tasks:
        for payload, count in ((b"a", 1), (b"b", 2)):
            tasks.start_soon(batch, client, payload)
            await broker.has_received(Publish, count)
        await broker.send(refused(broker.of(Publish)[0], ErrorCode.TOPIC_FULL))
        await client.ping()
        await broker.hang_up()
        await broker.has_received(Publish, 3)
        broker.answers[Publish] = another = Forgetful()
        await broker.hang_up()
    assert another.taken == [b"a", b"b"]


async def test_nothing_overtakes_batches_returned_after_a_reported_one():
    unknown = partial(refused, code=ErrorCode.PRODUCER_UNKNOWN, field="producer")
    async with (
        fake_client({Publish: stored}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def in_doubt(payload):
            with pytest.raises(zaichik.ProducerUnknown):
                await batch(client, payload)

        await batch(client, b"a")
        broker.answers[Publish] = silent
        for payload, count in ((b"b", 2), (b"c", 3)):
            tasks.start_soon(in_doubt, payload)
            await broker.has_received(Publish, count)
        await broker.hang_up()
        await broker.has_received(Publish, 5)
        tasks.start_soon(batch, client, b"d")
        await broker.has_received(Publish, 6)
        b, c, d = broker.of(Publish)[3:]
        broker.answers[Publish] = stored
        await broker.send(unknown(b))
        await client.ping()
        tasks.start_soon(batch, client, b"e")
        await client.ping()
        await broker.send(unknown(c), unknown(d))
        await broker.has_received(Publish, 8)
        assert payloads(broker.of(Publish)[6:]) == [b"d", b"e"]
        assert numbers(broker.of(Publish)[6:]) == [(0, 0), (0, 1)]


async def test_a_gap_with_nothing_before_it_is_raised():
    async with fake_client({Publish: partial(refused, code=ErrorCode.SEQUENCE_GAP)}) as (_, client):
        with pytest.raises(zaichik.SequenceGap):
            await batch(client, b"")


async def test_an_idle_sequencer_takes_a_new_id_and_is_dropped_if_unused():
    now = 0.0
    async with fake_client() as (broker, client):
        publishing = client._publishing
        publishing._clock = lambda: now
        await batch(client, b"")
        now += IDLE_SECONDS
        await batch(client, b"")
        now += IDLE_SECONDS + 1
        await batch(client, b"")
        assert numbers(broker.of(Publish)) == [(0, 0), (0, 1), (1, 0)]
        for number in range(20):
            now += IDLE_SECONDS / 4
            await batch(client, b"", f"t{number}")
            assert len(publishing._sequencers) <= 6


async def test_a_broker_without_numbers_is_sent_unnumbered_batches_in_order():
    def unnumbered(request):
        return (
            refused(request, ErrorCode.UNSUPPORTED, "producer")
            if request.producer
            else stored(request)
        )

    async with (
        fake_client({Publish: unnumbered}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for number in range(10):
            tasks.start_soon(batch, client, b"%d" % number)
        await broker.has_received(Publish, 20)
        requests = broker.of(Publish)
        assert payloads(requests[:10]) == payloads(requests[10:])
        assert {(request.producer, request.sequence) for request in requests[10:]} == {(0, 0)}


async def test_nothing_overtakes_batches_returned_by_a_broker_without_numbers():
    def refusal(request):
        return refused(request, ErrorCode.UNSUPPORTED, "producer")

    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        for payload in (b"a", b"b", b"c"):
            tasks.start_soon(batch, client, payload)
        first, *others = [await broker.has_received(Publish, count) for count in (1, 2, 3)]
        broker.answers[Publish] = stored
        await broker.send(refusal(first))
        await client.ping()
        tasks.start_soon(batch, client, b"d")
        await client.ping()
        await broker.send(*map(refusal, others))
        await broker.has_received(Publish, 7)
        assert payloads(broker.of(Publish)[3:]) == [*payloads([first, *others]), b"d"]


async def test_nothing_overtakes_if_another_topic_found_out_first():
    def unnumbered(request):
        return (
            refused(request, ErrorCode.UNSUPPORTED, "producer")
            if request.producer
            else stored(request)
        )

    async with (
        fake_client({Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        requests = []
        for payload, topic in ((b"a", "first"), (b"b", "second")):
            tasks.start_soon(batch, client, payload, topic)
            requests.append(await broker.has_received(Publish, len(requests) + 1))
        broker.answers[Publish] = unnumbered
        await broker.send(unnumbered(requests[0]))
        await broker.has_received(Publish, 3)
        tasks.start_soon(batch, client, b"c", "second")
        await client.ping()
        await client.ping()
        await broker.send(unnumbered(requests[1]))
        await broker.has_received(Publish, 6)
        assert payloads(request for request in broker.of(Publish) if not request.producer) == [
            b"a",
            b"b",
            b"c",
        ]
        await batch(client, b"d", "third")
        assert broker.of(Publish)[-1].producer == 0, "topics that come later know it from the start"


async def test_a_batch_without_a_number_is_lost_with_its_connection():
    """It could be stored twice."""

    def unnumbered(request):
        return refused(request, ErrorCode.UNSUPPORTED, "producer") if request.producer else None

    async with (
        fake_client({Publish: unnumbered}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def publish():
            with pytest.raises(zaichik.ConnectionLost):
                await batch(client, b"")

        tasks.start_soon(publish)
        await broker.has_received(Publish, 2)
        await broker.hang_up()
        await client.ping()
    assert len(broker.of(Publish)) == 2


async def test_batches_waiting_after_a_lost_one_are_sent_over_the_next_connection():
    def unnumbered(request, answer=silent):
        return (
            refused(request, ErrorCode.UNSUPPORTED, "producer")
            if request.producer
            else answer(request)
        )

    async with (
        fake_client({Publish: unnumbered}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        lost = []

        async def publish(payload):
            try:
                await batch(client, payload)
            except zaichik.ConnectionLost:
                lost.append(payload)

        tasks.start_soon(publish, b"1")
        await broker.has_received(Publish, 2)
        for payload in (b"2", b"3"):
            tasks.start_soon(publish, payload)
            await client.ping()
        broker.answers[Publish] = partial(unnumbered, answer=stored)
        await broker.hang_up()
        await broker.has_received(Publish, 4)
        assert payloads(broker.of(Publish)[2:]) == [b"2", b"3"]
    assert lost == [b"1"]


async def test_a_leaving_client_does_not_retry_a_temporary_refusal():
    async with (
        anyio.create_task_group() as tasks,
        fake_client({Publish: silent}) as (broker, client),
    ):

        async def publish():
            with pytest.raises(zaichik.TopicFull):
                await batch(client, b"")

        tasks.start_soon(publish)
        request = await broker.has_received(Publish)
        broker.answers[Close] = lambda frame: [
            refused(request, ErrorCode.TOPIC_FULL),
            Closed(frame.id),
        ]


async def test_every_waiting_call_fails_when_the_connection_is_lost_for_good():
    full, errors = Full(), []
    async with (
        fake_client({Publish: full}, reconnect=0) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def publish():
            with pytest.raises(zaichik.ConnectionLost) as caught:
                await batch(client, b"")
            errors.append(caught.value)

        for _ in range(WINDOW + 5):
            tasks.start_soon(publish)
        await broker.has_received(Publish, WINDOW + 2)
        await broker.hang_up()
    assert len({id(error) for error in errors}) == WINDOW + 5


async def test_a_lossless_topic_makes_its_publishers_wait_for_its_readers():
    """RET-9, with a real broker: from the reader's credit back to `send`."""
    async with real_client() as client:
        await client.create_topic("t", capacity=10, overflow="reject", retention_ttl="forever")

        async def publish():
            async with client.producer("t", max_batch=4) as producer:
                for number in range(200):
                    await producer.send(b"%d" % number)

        async with (
            client.subscribe("t", credit=5, until=200) as subscription,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(publish)
            assert [int(message.payload) async for message in subscription] == list(range(200))
        assert subscription.lagged == 0


async def test_a_publisher_that_is_cancelled_while_it_waits_for_room_waits_no_longer():
    async with real_client() as client:
        await client.create_topic("t", capacity=1, overflow="reject")
        async with client.subscribe("t", credit=1):
            await client.publish("t", b"a")
            await client.publish("t", b"b")
            with anyio.move_on_after(0.05) as scope:
                await client.publish("t", b"c")
            assert scope.cancelled_caught


def test_a_program_that_asyncio_itself_runs_waits_for_room_as_well():
    """In callbacks of the event loop anyio does not know which library runs it."""

    async def main():
        full = Full()
        async with (
            fake_client({Publish: full}) as (broker, client),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(batch, client, b"")
            await broker.has_received(Publish, 2)
            full.room = 1

    asyncio.run(main())


# -- tombstones ----------------------------------------------------------------------------------


async def delete(client, key="k"):
    return await client.publish_batch("t", [(key, None)])


async def test_a_broker_without_tables_is_sent_no_flag():
    """table.15: it has no topic in which the flag would mean something."""
    async with fake_client() as (broker, client):
        await delete(client)
        await client.publish_batch("t", [("k", None)], producer=5)
        await client.publish("t", None, key="k")
        assert [request.tombstones for request in broker.of(Publish)] == [False] * 3


async def test_batches_that_wait_keep_what_was_meant():
    """TAB-6."""
    async with fake_client({**TABLES_GRANTED, Publish: silent}) as (broker, client):
        async with anyio.create_task_group() as tasks:
            for number in range(WINDOW + 2):
                payload = None if number % 2 else b""
                tasks.start_soon(client.publish_batch, "t", [(str(number), payload)])
            for request in [await broker.has_received(Publish, n + 1) for n in range(WINDOW)]:
                await broker.send(stored(request))
            broker.answers[Publish] = stored
            for number in (WINDOW, WINDOW + 1):
                await broker.send(stored(await broker.has_received(Publish, number + 1)))
        meant = {request.batch.keys()[0]: request.tombstones for request in broker.of(Publish)}
    assert meant == {b"%d" % number: bool(number % 2) for number in range(WINDOW + 2)}


@pytest.mark.parametrize("features", [TABLES, 0], ids=["with tables", "without tables"])
async def test_what_is_sent_again_has_the_flag_if_the_broker_still_knows_it(features):
    """table.15."""
    async with (
        fake_client({**TABLES_GRANTED, Publish: silent}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(delete, client)
        tasks.start_soon(partial(client.publish_batch, "t", [("k", None)], producer=5))
        await broker.has_received(Publish, 2)
        assert all(request.tombstones for request in broker.of(Publish))
        granted = broker.answers[Hello]
        broker.answers[Hello] = lambda frame: replace(granted(frame), features=features)
        broker.answers[Publish] = stored
        broker.received.clear()
        await broker.hang_up()
        await broker.has_received(Publish, 2)
    assert [request.tombstones for request in broker.of(Publish)] == [bool(features)] * 2


async def test_a_refused_tombstone_is_retried_as_one():
    """TAB-6."""
    answers = iter([partial(refused, code=ErrorCode.NO_MEMORY), stored])
    async with fake_client({**TABLES_GRANTED, Publish: lambda frame: next(answers)(frame)}) as (
        broker,
        client,
    ):
        await delete(client)
        assert [request.tombstones for request in broker.of(Publish)] == [True, True]


async def test_a_full_table_is_not_retried():
    """TAB-1: no reader can make room."""
    full = partial(refused, code=ErrorCode.TABLE_FULL)
    async with fake_client({Publish: full}) as (broker, client):
        with pytest.raises(zaichik.TableFull) as caught:
            await batch(client, b"1")
        assert not caught.value.retryable
        assert len(broker.of(Publish)) == 1


async def test_a_producer_goes_on_after_its_table_was_full():
    """TAB-1: the refusal uses the number up."""
    async with real_client() as client:
        await client.create_topic("t", table=True, capacity=1)
        await client.publish_batch("t", [("a", b"1")])
        with pytest.raises(zaichik.TableFull, match="capacity is 1"):
            await client.publish_batch("t", [("b", b"2")])
        assert (await client.publish_batch("t", [("a", b"3")])).first_offset == 1
        assert (await client.publish_batch("t", [("a", None), ("b", b"4")])).stored == 2
