"""From an announcement to a topic that is read, and what is told of those that are not (PAT-2)."""

import math
from contextlib import AsyncExitStack
from itertools import repeat

import anyio
import pytest
from announcing import Announcing, record, refusing
from brokers import GUARD, START_US, fake_client, messages, real_broker, real_client, subscribed

import zaichik
from zaichik import DeletionsMissed, TopicGone, TopicMissed, TopicUnread
from zaichik.client import transport as transport_module
from zaichik.client.patterns import connection_pool, follower
from zaichik.learn.server import free_port
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import DeletionsMissed as WireDeletionsMissed
from zaichik_protocol import EndCode, ErrorCode, Start, Subscribe, SubscriptionEnded, Unsubscribe

pytestmark = pytest.mark.anyio


class Retries:
    """The follower tries again when a test says so, and not every few seconds."""

    def __init__(self):
        self.now = None

    async def every(self, _, action):
        """Take the place of the function that waits."""
        self.now = action
        await anyio.sleep_forever()


@pytest.fixture
def retry(monkeypatch):
    retries = Retries()
    monkeypatch.setattr(follower, "every", retries.every)
    return retries


def asked(broker):
    """What was asked for, except for `$topics`."""
    return [frame for frame in broker.of(Subscribe) if frame.topic != "$topics"]


async def has_asked(broker, count):
    """The topics asked for, when there are so many."""
    while len(asked(broker)) < count:
        await anyio.lowlevel.checkpoint()
    return [(frame.topic, frame.epoch) for frame in asked(broker)]


# -- what is asked for ---------------------------------------------------------------------------


async def test_a_topic_is_asked_for_with_its_epoch_and_a_later_one_from_offset_0():
    topics = Announcing(record("t.1", 7), record("other", 8), record("t.2", 9, gone=True))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", start="latest"),
    ):
        await topics.announce(broker, record("t.3", 11), record("$own", 12))
        await has_asked(broker, 2)
        wanted = [(frame.topic, frame.epoch, frame.start, frame.value) for frame in asked(broker)]
        assert wanted == [("t.1", 7, Start.LATEST, 0), ("t.3", 11, Start.OFFSET, 0)]


async def test_the_table_is_read_and_followed_in_the_epoch_in_which_its_end_was_found():
    topics = Announcing()
    async with fake_client(topics.answers) as (broker, client), client.subscribe_pattern("t.*"):
        assert [frame.epoch for frame in broker.of(Subscribe)] == [0, topics.epoch, topics.epoch]


async def test_a_topic_that_went_before_it_was_asked_for_is_not_made_again():
    """Otherwise it would be announced, and so on."""
    topics = Announcing()
    topics.topics = {"t.1": refusing(ErrorCode.EPOCH_CHANGED)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        await topics.announce(broker, record("t.1", 7), record("t.1", 7, gone=True))
        assert await anext(pattern) == TopicMissed("t.1", 1)
        topics.topics = {}
        await topics.announce(broker, record("t.1", 9, 1, first=7))
        assert await has_asked(broker, 2) == [("t.1", 7), ("t.1", 9)]


async def test_topics_between_two_looks_are_told_by_their_number():
    topics = Announcing(record("t.1", 7, 5, first=1))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        await topics.announce(
            broker,
            record("t.1", 17, 9, first=1, gone=True),
            record("t.2", 18, 2, first=1),
            record("t.1", 19, 10, first=1),
        )
        told = [await anext(pattern) for _ in range(2)]
        assert told == [TopicMissed("t.1", 4), TopicMissed("t.2", 2)]
        assert await has_asked(broker, 3) == [("t.1", 7), ("t.2", 18), ("t.1", 19)]


async def test_a_topic_that_is_made_again_is_read_besides_the_one_that_has_gone():
    topics = Announcing(record("t.1", 7))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        (old,) = asked(broker)
        await broker.messages(0, b"old", subscription=old.id)
        await topics.announce(broker, record("t.1", 9, 1, first=7))
        await has_asked(broker, 2)
        new = asked(broker)[1]
        await broker.send(
            SubscriptionEnded(old.id, EndCode.DELETED, 1, "deleted"),
            messages(0, b"new", subscription=new.id),
        )
        assert (await anext(pattern)).payload == b"old"
        assert {await anext(pattern), await anext(pattern)} == {
            TopicGone("t.1", 7, 1),
            zaichik.Message("t.1", 0, START_US / 1e6, None, b"new"),
        }
        assert pattern.topics == ("t.1",)


# -- looking again -------------------------------------------------------------------------------


async def test_records_that_went_are_told_once_and_make_it_look_again():
    topics = Announcing(record("t.1", 7))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        topics.records += [record("t.2", 8), record("t.1", 9, 1, first=7)]
        await broker.send(WireDeletionsMissed(topics.following, 1))
        assert await anext(pattern) == DeletionsMissed("$topics", 1)
        assert await has_asked(broker, 3) == [("t.1", 7), ("t.2", 8), ("t.1", 9)]
        assert [frame.start for frame in asked(broker)] == [Start.EARLIEST, *[Start.OFFSET] * 2]


async def test_a_table_of_topics_that_is_made_anew_is_read_again():
    """PAT-5: what is known already is not read twice."""
    topics = Announcing(record("t.1", 7), record("t.2", 8))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        await topics.end(broker)
        topics.epoch = 20
        topics.records = [record("t.1", 7), record("t.2", 19), record("t.3", 10)]
        assert await anext(pattern) == DeletionsMissed("$topics", 3)
        assert await has_asked(broker, 4) == [("t.1", 7), ("t.2", 8), ("t.2", 19), ("t.3", 10)]
        await topics.announce(broker, record("t.4", 21))
        assert (await has_asked(broker, 5))[-1] == ("t.4", 21)


@pytest.mark.parametrize("events", [False, True])
async def test_records_that_went_are_logged_once_or_not_at_all(events, caplog):
    topics = Announcing(record("t.1", 7))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=events),
    ):
        topics.records += [record("t.2", 8)]
        await broker.send(WireDeletionsMissed(topics.following, 1))
        await has_asked(broker, 2)
    logged = []
    if not events:
        logged = ["$topics: topics missed: topics may have come and gone unseen"]
    assert caplog.messages == logged


async def test_a_table_of_topics_that_never_lasts_is_read_less_and_less_often(monkeypatch):
    pauses = []

    def backoff(first, most):
        for _ in range(3):
            pauses.append((first, most))
            yield 0
        yield math.inf

    monkeypatch.setattr(follower, "backoff", backoff)
    topics = Announcing()

    def never_lasting(frame):
        if frame.start == Start.LATEST:
            return topics.answer(frame)
        made, _ = topics.answer(frame)
        topics.epoch += 1
        return [made, SubscriptionEnded(frame.id, EndCode.DELETED, 0, "deleted")]

    async with fake_client(topics.answers | {Subscribe: never_lasting}) as (broker, client):
        with anyio.move_on_after(GUARD):
            async with BackgroundTasks() as tasks:
                tasks.group.start_soon(begin, client)
                await broker.has_received(Subscribe, 8)
                await client.ping()
                await anyio.wait_all_tasks_blocked()
        assert len(broker.of(Subscribe)) == 8
        assert set(pauses) == {(0.01, 5.0)}


async def begin(client):
    async with client.subscribe_pattern("t.*"):
        pass


async def test_a_program_that_does_not_read_holds_up_further_looks(monkeypatch):
    monkeypatch.setattr(follower, "MOST_UNREAD", 3)
    monkeypatch.setattr(follower, "backoff", lambda first, most: repeat(0))
    topics = Announcing()

    def ending(frame):
        answer = topics.answer(frame)
        if frame.start == Start.OFFSET:
            topics.epoch += 1
            return [answer, SubscriptionEnded(frame.id, EndCode.DELETED, 0, "deleted")]
        return answer

    async with (
        fake_client(topics.answers | {Subscribe: ending}) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        # Three for each look, the first of which has nothing to report.
        await broker.has_received(Subscribe, 12)
        await client.ping()
        await anyio.wait_all_tasks_blocked()
        assert len(broker.of(Subscribe)) == 12
        assert await anext(pattern) == DeletionsMissed("$topics", 0)
        await broker.has_received(Subscribe, 15)


async def test_a_restart_is_the_end_of_all_topics_that_are_not_durable(monkeypatch, tmp_path):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)
    clock = zaichik.ManualClock(START_US)
    port = free_port()
    with anyio.fail_after(GUARD):
        async with AsyncExitStack() as stack:
            async with zaichik.running_broker(port=port, clock=clock, data=tmp_path):
                client = await stack.enter_async_context(zaichik.connect(port=port))
                await client.create_topic("t.durable", durable=True)
                made = await client.create_topic("t.memory")
                pattern = await stack.enter_async_context(
                    client.subscribe_pattern("t.*", events=True)
                )
                await client.publish("t.durable", b"0")
                assert (await anext(pattern)).offset == 0
            clock.advance(1)
            async with zaichik.running_broker(port=port, clock=clock, data=tmp_path):
                told = {await anext(pattern), await anext(pattern)}
                assert told == {
                    TopicGone("t.memory", made.epoch, 0),
                    DeletionsMissed("$topics", 2),
                }
                await client.publish("t.durable", b"1")
                assert (await anext(pattern)).offset == 1
                await stack.aclose()


async def test_a_program_that_does_not_read_holds_up_announcements(monkeypatch):
    monkeypatch.setattr(follower, "MOST_UNREAD", 3)
    topics = Announcing()
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        missed = [record(f"t.{number}", 7, 1, first=5) for number in range(5)]
        await topics.announce(broker, *missed)
        assert await has_asked(broker, 3) == [("t.0", 7), ("t.1", 7), ("t.2", 7)]
        await anyio.wait_all_tasks_blocked()
        assert len(asked(broker)) == 3
        told = [await anext(pattern) for _ in range(5)]
        assert told == [TopicMissed(f"t.{number}", 1) for number in range(5)]
        assert len(await has_asked(broker, 5)) == 5


# -- what cannot be read -------------------------------------------------------------------------


async def test_without_the_right_a_topic_is_told_and_read_again_from_where_it_was():
    topics = Announcing(record("t.1", 7))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        (first,) = asked(broker)
        await broker.messages(0, b"0", b"1", subscription=first.id)
        await broker.send(SubscriptionEnded(first.id, EndCode.FORBIDDEN, 2, "no more"))
        assert [(await anext(pattern)).payload for _ in range(2)] == [b"0", b"1"]
        unread = await anext(pattern)
        assert unread == TopicUnread("t.1", "the subscription to t.1 was ended: no more")
        await topics.end(broker)
        topics.epoch = 20
        assert await anext(pattern) == DeletionsMissed("$topics", 1)
        await has_asked(broker, 2)
        again = asked(broker)[1]
        assert (again.epoch, again.start, again.value) == (7, Start.OFFSET, 2)


async def test_a_topic_that_goes_unread_is_missed():
    topics = Announcing(record("t.1", 7))
    topics.topics = {"t.1": refusing(ErrorCode.FORBIDDEN)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        assert await anext(pattern) == TopicUnread("t.1", "not now")
        await topics.announce(broker, record("t.1", 7, gone=True))
        assert await anext(pattern) == TopicMissed("t.1", 1)


async def test_one_for_which_there_is_no_memory_is_asked_for_when_another_leaves():
    topics = Announcing(record("t.1", 7), record("t.2", 8))
    topics.topics = {"t.2": refusing(ErrorCode.NO_MEMORY)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        assert await anext(pattern) == TopicUnread("t.2", "not now")
        topics.topics = {}
        await broker.send(SubscriptionEnded(asked(broker)[0].id, EndCode.DELETED, 0, "deleted"))
        assert await anext(pattern) == TopicGone("t.1", 7, 0)
        assert await has_asked(broker, 3) == [("t.1", 7), ("t.2", 8), ("t.2", 8)]


async def test_one_for_which_there_was_no_memory_is_asked_for_again_now_and_then(retry):
    """Others may have left, and nobody tells the client of that. One success leads to another."""
    topics = Announcing(*(record(f"t.{number}", 7) for number in range(3)))
    topics.topics = {f"t.{number}": refusing(ErrorCode.NO_MEMORY) for number in range(3)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        retry.now()
        assert (await has_asked(broker, 4))[-1] == ("t.0", 7)
        topics.topics = {}
        retry.now()
        assert [topic for topic, _ in await has_asked(broker, 7)][4:] == ["t.1", "t.2", "t.0"]
        assert {await anext(pattern) for _ in range(3)} == {
            TopicUnread(f"t.{number}", "not now") for number in range(3)
        }


async def test_those_that_have_waited_longest_come_first():
    topics = Announcing(record("t.1", 7), record("t.2", 7))
    topics.topics = {f"t.{number}": refusing(ErrorCode.NO_MEMORY) for number in (1, 2)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True),
    ):
        await topics.announce(broker, record("t.3", 7))
        asked_for = [topic for topic, _ in await has_asked(broker, 4)]
        assert asked_for == ["t.1", "t.2", "t.1", "t.3"]
        topics.topics = {}
        await topics.announce(broker, record("t.4", 7))
        asked_for = [topic for topic, _ in await has_asked(broker, 7)]
        assert asked_for[4:] == ["t.2", "t.4", "t.1"]


async def test_those_that_were_refused_are_asked_for_again_after_a_look():
    topics = Announcing(*(record(f"t.{number}", 7) for number in range(3)))
    topics.topics = {f"t.{number}": refusing(ErrorCode.NO_MEMORY) for number in range(2)}
    topics.topics["t.2"] = refusing(ErrorCode.FORBIDDEN)
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        topics.topics = {}
        await topics.end(broker)
        topics.epoch = 20
        again = (await has_asked(broker, 6))[3:]
        assert sorted(again) == [("t.0", 7), ("t.1", 7), ("t.2", 7)]
        while len(pattern.topics) < 3:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("code", [EndCode.FORBIDDEN, EndCode.DAMAGED])
async def test_a_topic_that_is_read_again_is_reported_again_if_it_cannot_be(code, retry):
    topics = Announcing(record("t.1", 7))
    topics.topics = {"t.1": refusing(ErrorCode.NO_MEMORY)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        assert await anext(pattern) == TopicUnread("t.1", "not now")
        topics.topics = {}
        retry.now()
        while not pattern.topics:
            await anyio.lowlevel.checkpoint()
        await broker.send(SubscriptionEnded(asked(broker)[-1].id, code, 0, "no more"))
        reason = "the subscription to t.1 was ended: no more"
        assert await anext(pattern) == TopicUnread("t.1", reason)


async def test_a_topic_that_is_refused_after_it_went_is_missed_and_not_asked_for_again(retry):
    topics = Announcing()
    topics.topics = {"t.1": lambda _: None}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        await topics.announce(broker, record("t.1", 7))
        await has_asked(broker, 1)
        await topics.announce(broker, record("t.1", 7, gone=True))
        await client.ping()
        await broker.send(refusing(ErrorCode.NO_MEMORY)(asked(broker)[0]))
        assert await anext(pattern) == TopicMissed("t.1", 1)
        retry.now()
        await topics.announce(broker, record("t.2", 7))
        assert await has_asked(broker, 2) == [("t.1", 7), ("t.2", 7)]


async def test_while_it_looks_again_no_topic_takes_its_place(monkeypatch):
    """A full connection has room for one subscription then, which is that of `$topics`."""
    monkeypatch.setattr(connection_pool, "MOST_CONNECTIONS", 1)
    topics = Announcing(record("t.1", 7), record("t.2", 8))
    topics.topics = {"t.2": refusing(ErrorCode.TOO_MANY_SUBSCRIPTIONS)}
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", events=True) as pattern,
    ):
        assert (await anext(pattern)).topic == "t.2"
        topics.topics = {}
        broker.answers[Subscribe] = lambda _: None
        following = len(broker.of(Subscribe))
        await topics.end(broker)
        looking = await broker.has_received(Subscribe, following + 1)
        await broker.send(SubscriptionEnded(asked(broker)[0].id, EndCode.DELETED, 0, "deleted"))
        assert await anext(pattern) == TopicGone("t.1", 7, 0)
        await client.ping()
        assert len(asked(broker)) == 2
        broker.answers[Subscribe] = topics.answer
        await broker.send(topics.answer(looking))
        assert (await has_asked(broker, 3))[-1] == ("t.2", 8)


# -- more topics than a connection has -----------------------------------------------------------


async def some(client, count):
    for number in range(count):
        await client.create_topic(f"t.{number}", retention_ttl="forever")
        await client.publish(f"t.{number}", b"here")


async def test_further_connections_read_what_one_cannot():
    async with real_client(max_subscriptions=5) as client:
        await some(client, 17)
        async with client.subscribe_pattern("t.*") as pattern:
            assert len(pattern.topics) == 17
            read = {(await anext(pattern)).topic for _ in range(17)}
            assert len(read) == 17
            # One subscription is that of `$topics`.
            assert len(await client.connections()) == 4
            # The follower's place is kept, while it looks again as well.
            await client.create_topic("t.new", retention_ttl="forever")
            await client.publish("t.new", b"here")
            assert (await anext(pattern)).topic == "t.new"
        while len(await client.connections()) > 1:
            pass


async def test_what_no_connection_can_read_is_told_and_read_later(monkeypatch):
    """PAT-4."""
    monkeypatch.setattr(connection_pool, "MOST_CONNECTIONS", 2)
    async with real_client(max_subscriptions=3) as client:
        await some(client, 7)
        async with client.subscribe_pattern("t.*", events=True) as pattern:
            assert len(pattern.topics) == 5
            first = [await anext(pattern) for _ in range(7)]
            unread = {item.topic for item in first if isinstance(item, TopicUnread)}
            assert unread == {f"t.{number}" for number in range(7)} - {*pattern.topics}
            gone = pattern.topics[0]
            await client.delete_topic(gone)
            assert (await anext(pattern)).topic == gone
            late = await anext(pattern)
            assert late.topic in unread
            assert late.offset == 0


async def test_a_broker_that_takes_no_further_connection_is_told():
    async with real_client(max_subscriptions=3, max_connections=1) as client:
        await some(client, 3)
        async with client.subscribe_pattern("t.*", events=True) as pattern:
            told = [await anext(pattern) for _ in range(3)]
            (unread,) = [item for item in told if isinstance(item, TopicUnread)]
            assert "TOO_MANY_CONNECTIONS" in unread.reason


async def test_a_connection_that_was_refused_is_tried_again_now_and_then(retry):
    async with (
        real_broker(max_subscriptions=3, max_connections=2) as broker,
        zaichik.connect(port=broker.port) as client,
        AsyncExitStack() as others,
    ):
        await some(client, 3)
        await others.enter_async_context(zaichik.connect(port=broker.port))
        async with client.subscribe_pattern("t.*", events=True) as pattern:
            first = [await anext(pattern) for _ in range(3)]
            (unread,) = [item for item in first if isinstance(item, TopicUnread)]
            await others.aclose()
            while len(await client.connections()) > 1:
                pass
            retry.now()
            late = await anext(pattern)
            assert (late.topic, late.offset) == (unread.topic, 0)


async def test_a_connection_that_the_program_has_filled_itself_is_tried_again(retry):
    async with (
        real_client(max_subscriptions=2, max_connections=1) as client,
        AsyncExitStack() as others,
    ):
        await some(client, 1)
        await others.enter_async_context(client.subscribe("other"))
        async with client.subscribe_pattern("t.*", events=True) as pattern:
            assert isinstance(await anext(pattern), TopicUnread)
            await others.aclose()
            retry.now()
            assert (await anext(pattern)).topic == "t.0"


async def test_a_pattern_leaves_room_on_the_connection_of_the_program(monkeypatch):
    monkeypatch.setattr(connection_pool, "MOST_OF_OWN", 2)
    async with real_client(max_subscriptions=8) as client:
        await some(client, 5)
        async with (
            client.subscribe_pattern("t.*") as first,
            client.subscribe_pattern("t.*") as second,
            client.subscribe("other"),
        ):
            assert len(first.topics) == len(second.topics) == 5


async def test_a_program_that_has_filled_its_connection_reads_topics_over_another():
    async with real_client(max_subscriptions=2) as client:
        await some(client, 1)
        async with client.subscribe("other"), client.subscribe_pattern("t.*") as messages:
            assert (await anext(messages)).topic == "t.0"


async def test_a_topic_that_has_gone_gives_its_credit_back():
    topics = Announcing()
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", credit=80) as pattern,
    ):
        for number in range(20):
            await topics.announce(broker, record(f"t.{number}", 7))
            await has_asked(broker, number + 1)
            while pattern.topics != (f"t.{number}",):
                await anyio.lowlevel.checkpoint()
            frame = asked(broker)[-1]
            await broker.send(SubscriptionEnded(frame.id, EndCode.DELETED, 0, "deleted"))
            while pattern.topics:
                await pattern.fetch(timeout=0)
        assert {frame.credit for frame in asked(broker)} == {10}


async def test_a_topic_that_was_refused_gives_its_credit_back():
    topics = Announcing()
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", credit=80, events=True) as pattern,
    ):
        for number in range(20):
            topics.topics = {f"t.{number}": refusing(ErrorCode.EPOCH_CHANGED)}
            await topics.announce(broker, record(f"t.{number}", 7))
            assert await anext(pattern) == TopicMissed(f"t.{number}", 1)
        assert {frame.credit for frame in asked(broker)} == {10}


async def test_topics_that_are_over_and_not_read_hold_up_announcements(monkeypatch):
    """What they have given is kept until the program reads it."""
    monkeypatch.setattr(follower, "MOST_UNREAD", 2)
    topics = Announcing(record("t.0", 7), record("t.1", 7))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*") as pattern,
    ):
        old = asked(broker)
        for frame in old:
            await broker.messages(0, b"old", subscription=frame.id)
            await broker.send(SubscriptionEnded(frame.id, EndCode.DELETED, 1, "deleted"))
        again = [record(f"t.{number}", 9, 1, first=7) for number in range(2)]
        await topics.announce(broker, *again, record("t.2", 9))
        await has_asked(broker, 4)
        await client.ping()
        await anyio.wait_all_tasks_blocked()
        assert len(asked(broker)) == 4
        for _ in range(2):
            assert (await anext(pattern)).payload == b"old"
        with anyio.move_on_after(0):
            await anext(pattern)
        while len(asked(broker)) < 5:
            await pattern.fetch(timeout=0)
        assert (await has_asked(broker, 5))[-1] == ("t.2", 9)


async def test_what_ends_it_is_raised_however_much_comes_of_other_topics():
    topics = Announcing(record("t.1", 7), record("t.2", 8))
    async with (
        fake_client(topics.answers) as (broker, client),
        client.subscribe_pattern("t.*", name="n") as pattern,
    ):
        first, second = asked(broker)
        await broker.send(SubscriptionEnded(first.id, EndCode.TAKEN_OVER, 0, "taken over"))
        failures = []
        for number in range(3):
            await broker.messages(number, b"more", subscription=second.id)
            await client.ping()
            try:
                await anext(pattern)
            except zaichik.TakenOver as failure:
                failures.append(failure)
        assert len(failures) == 2


# -- how it ends ---------------------------------------------------------------------------------


async def test_a_broker_without_topics_to_follow_says_so():
    topics = Announcing()
    answers = topics.answers | {Subscribe: refusing(ErrorCode.INVALID_FIELD, "topic")}
    async with fake_client(answers) as (_, client):
        with pytest.raises(zaichik.InvalidField, match="not now"):
            async with client.subscribe_pattern("t.*"):
                pass


async def test_what_is_no_record_ends_it():
    topics = Announcing((b"t.1", b"{}"))
    async with fake_client(topics.answers) as (_, client):
        with pytest.raises(zaichik.UnexpectedReply):
            async with client.subscribe_pattern("t.*"):
                pass


async def test_a_topic_that_was_asked_for_is_left_as_well():
    topics = Announcing()
    topics.topics = {"t.1": lambda _: None}
    async with fake_client(topics.answers) as (broker, client):
        async with client.subscribe_pattern("t.*"):
            await topics.announce(broker, record("t.1", 7))
            await has_asked(broker, 1)
            (frame,) = asked(broker)
        await client.ping()
        left = [frame.subscription for frame in broker.of(Unsubscribe)]
        assert frame.id in left
        # Its answer comes now, and is nobody's.
        await broker.send(subscribed(frame))
        await client.ping()


async def test_a_subscriber_without_patterns_never_sees_other_topics():
    async with real_client() as client:
        await client.create_topic("orders.*", retention_ttl="forever")
        async with client.subscribe("orders.*") as subscription:
            await client.publish("orders.de", b"not for it")
            await client.publish("orders.*", b"for it")
            assert (await anext(subscription)).payload == b"for it"
