"""Subscriptions that go on after a loss: CMT-3, CMT-4."""

from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count

import anyio
import pytest
from brokers import GUARD, fake_client, real_broker, real_client
from proxy import cutting_proxy

import zaichik
from zaichik.client import transport as transport_module
from zaichik.net.background import BackgroundTasks
from zaichik_protocol import (
    OWNER,
    Commit,
    Committed,
    EndCode,
    Error,
    ErrorCode,
    Hello,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
    Welcome,
)
from zaichik_protocol import Lagged as WireLagged

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


def at(frame):
    """A subscription that stands where it was asked to."""
    return Subscribed(frame.id, 77, frame.value, 100, frame.value)


def refused(frame, code):
    return Error(frame.id, code, Subscribe.TYPE, "", 0, code.meaning, retryable=code.retryable)


async def offsets(subscription, count):
    return [(await anext(subscription)).offset for _ in range(count)]


async def again(broker):
    """Have the client come back; the Subscribe it comes with."""
    count = len(broker.of(Hello))
    await broker.hang_up()
    await broker.has_received(Hello, count + 1)
    return await broker.has_received(Subscribe, len(broker.of(Subscribe)) + 1)


@asynccontextmanager
async def cut_off(**settings):
    """A real broker, a client that is cut off by `proxy.cut()`, and one that is not."""
    async with (
        real_broker(**settings) as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port, reconnect=GUARD) as client,
        zaichik.connect(port=broker.port) as other,
    ):
        yield proxy, client, other


async def publish(client, count):
    await client.publish_batch("t", [(None, b"%d" % number) for number in range(count)])


# -- without a name ------------------------------------------------------------------------------


async def test_it_resumes_at_the_first_message_not_taken():
    async with fake_client({Subscribe: at}) as (broker, client):
        async with client.subscribe(
            "t", start=5, until=90, credit=7, credit_bytes=1234
        ) as subscription:
            await broker.messages(5, b"5", b"6", b"7")
            await broker.messages(8, b"8")  # waits in the inbox
            assert await offsets(subscription, 1) == [5]
            first, second = broker.of(Subscribe)[0], await again(broker)
            assert (second.id, second.topic, second.until) == (first.id, "t", 90)
            assert (second.credit, second.credit_bytes) == (7, 1234)
            assert (second.start, second.value, second.epoch) == (Start.OFFSET, 8, 77)
            await broker.messages(8, b"8", b"9")
            await client.ping()
            assert len(subscription._inbox.events) == 1, "what comes again is not kept twice"
            assert await offsets(subscription, 4) == [6, 7, 8, 9]
            assert subscription.start == 5
        await client.ping()
        assert broker.commits == [9], "what was taken before is settled without a word"


async def test_messages_taken_while_the_request_was_in_flight_are_not_repeated():
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("t", start=0) as subscription,
    ):
        await broker.messages(0, b"0", b"1")
        await broker.messages(2, b"2", b"3")
        await client.ping()
        broker.answers[Subscribe] = lambda _: None
        request = await again(broker)
        assert request.value == 0
        assert await offsets(subscription, 3) == [0, 1, 2]
        await broker.send(at(request))
        await broker.messages(0, b"0", b"1", b"2", b"3", b"4")
        await broker.messages(5, b"5")
        assert await offsets(subscription, 3) == [3, 4, 5]
        assert [commit for commit in broker.commits if commit > 6] == []


async def test_messages_gone_by_then_are_reported_as_lag_except_those_taken():
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("t", start=0, events=True) as subscription,
    ):
        await broker.messages(0, b"0")
        await broker.messages(1, b"1", b"2")
        await client.ping()
        broker.answers[Subscribe] = lambda _: None
        request = await again(broker)
        assert await offsets(subscription, 2) == [0, 1]
        await broker.send(at(request), WireLagged(1, 0, 2), WireLagged(1, 2, 9))
        await broker.messages(9, b"9")
        assert await offsets(subscription, 1) == [2]
        lagged = await anext(subscription)
        assert (lagged.start, lagged.end, subscription.lagged) == (3, 9, 6)
        assert await offsets(subscription, 1) == [9]


@pytest.mark.parametrize(
    "code", [ErrorCode.EPOCH_CHANGED, ErrorCode.OFFSET_AHEAD, ErrorCode.NO_SUCH_TOPIC]
)
async def test_a_refusal_ends_it_after_the_messages_received(code, caplog):
    """TOP-5."""
    async with fake_client({Subscribe: at}) as (broker, client):
        async with client.subscribe("t", start=0) as subscription:
            await broker.messages(0, b"0", b"1")
            await broker.messages(2, b"2")
            assert await offsets(subscription, 1) == [0]
            broker.answers[Subscribe] = lambda frame: refused(frame, code)
            await again(broker)
            await client.ping()
            assert await offsets(subscription, 2) == [1, 2]
            for _ in range(2):
                with pytest.raises(zaichik.BrokerError) as caught:
                    await anext(subscription)
                assert caught.value.code == code
            await again_without(broker, client)
        await client.ping()
        assert broker.of(Unsubscribe) == []
    assert not [record for record in caplog.records if "refused" in record.getMessage()]


class Run:
    """A broker that is another run at each Hello, and keeps a topic of this epoch."""

    def __init__(self, epoch=77):
        self.epoch = epoch
        self._boots = count(7)

    def welcome(self, frame):
        return Welcome(frame.id, 1, 0, next(self._boots), 2**21, 8192, 2**20, 10**6, 0, "fake")

    def subscribed(self, frame):
        if frame.epoch not in (0, self.epoch):
            return refused(frame, ErrorCode.EPOCH_CHANGED)
        return Subscribed(
            frame.id, self.epoch, frame.value, 100, frame.value, named=bool(frame.name)
        )


@pytest.mark.parametrize("name", ["", "worker"])
async def test_after_a_restart_it_resumes_if_the_epoch_is_the_same(name):
    """TOP-5: a durable topic keeps its epoch and its offsets, and the boot is another one."""
    run = Run()
    answers = {Hello: run.welcome, Subscribe: run.subscribed}
    async with (
        fake_client(answers) as (broker, client),
        client.subscribe("t", name=name, start=5) as subscription,
    ):
        await broker.messages(5, b"5", b"6", b"7")
        assert await offsets(subscription, 2) == [5, 6]
        boot = client.welcome.boot
        request = await again(broker)
        await client.ping()
        assert client.welcome.boot != boot
        assert (request.start, request.value, request.epoch) == (Start.OFFSET, 5 if name else 8, 77)
        await broker.messages(
            request.value, *[b"%d" % number for number in range(request.value, 10)]
        )
        assert await offsets(subscription, 3) == [7, 8, 9]
        assert subscription.lagged == 0


@pytest.mark.parametrize("name", ["", "worker"])
async def test_after_a_restart_it_ends_if_the_epoch_is_another_one(name):
    """TOP-5: its offsets mean nothing in that topic."""
    run = Run()
    answers = {Hello: run.welcome, Subscribe: run.subscribed}
    async with (
        fake_client(answers) as (broker, client),
        client.subscribe("t", name=name, start=5) as subscription,
    ):
        await broker.messages(5, b"5")
        await client.ping()
        run.epoch = 78
        await again(broker)
        await client.ping()
        assert await offsets(subscription, 1) == [5]
        with pytest.raises(zaichik.EpochChanged):
            await anext(subscription)


async def again_without(broker, client):
    """Have the client come back; it must not subscribe."""
    count = len(broker.of(Subscribe))
    hellos = len(broker.of(Hello))
    await broker.hang_up()
    await broker.has_received(Hello, hellos + 1)
    await client.ping()
    assert len(broker.of(Subscribe)) == count


async def test_an_ended_subscription_is_not_made_again():
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("t", start=0, until=2) as subscription,
    ):
        await broker.messages(0, b"0", b"1")
        await broker.send(SubscriptionEnded(1, EndCode.UNTIL, 2, "until"))
        await client.ping()
        await again_without(broker, client)
        assert [message.offset async for message in subscription] == [0, 1]
    assert broker.commits == []


async def test_a_message_of_an_ended_subscription_may_still_be_committed():
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        await publish(other, 3)
        async with client.subscribe("t", start=0, until=3) as subscription:
            messages = [message async for message in subscription]
            proxy.cut()
            await subscription.commit(messages[-1])


async def test_several_are_made_again_in_the_order_of_their_numbers():
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("a"),
        client.subscribe("b"),
        client.subscribe("c"),
    ):
        await again(broker)
        requests = [await broker.has_received(Subscribe, count) for count in (4, 5, 6)]
        assert [(request.id, request.topic) for request in requests] == [
            (1, "a"),
            (2, "b"),
            (3, "c"),
        ]


async def test_an_unanswered_subscribe_is_sent_again_unchanged():
    async with (
        fake_client({Subscribe: lambda _: None}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):

        async def read():
            async with client.subscribe("t", start="latest") as subscription:
                assert await offsets(subscription, 1) == [9]

        tasks.start_soon(read)
        first = await broker.has_received(Subscribe)
        assert await again(broker) == first
        await broker.send(Subscribed(1, 77, 9, 9, 9))
        await broker.messages(9, b"9")


async def test_a_subscription_left_in_between_is_not_made_again():
    async with fake_client({Subscribe: at}) as (broker, client):
        async with client.subscribe("t"):
            pass
        await again_without(broker, client)


async def test_a_subscription_left_while_being_made_again_is_not_made_once_more():
    async with fake_client({Subscribe: at}) as (broker, client):
        async with client.subscribe("t"):
            broker.answers[Subscribe] = lambda _: None
            await again(broker)
            await broker.hang_up()
            while client._connection._transport.is_open:
                await anyio.lowlevel.checkpoint()
        await client.ping()
        assert len(broker.of(Hello)) == 3
        assert len(broker.of(Subscribe)) == 2


# -- with a name ---------------------------------------------------------------------------------


async def test_a_named_subscription_resumes_where_the_last_one_stopped():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 10)
        async with client.subscribe("t", name="worker") as subscription:
            assert (subscription.name, subscription.resumed) == ("worker", False)
            assert await offsets(subscription, 4) == [0, 1, 2, 3]
            assert not subscription.redelivered
        async with client.subscribe("t", name="worker", start="latest") as subscription:
            assert (subscription.start, subscription.resumed) == (3, True)
            assert await offsets(subscription, 1) == [3]
            assert subscription.redelivered
        async with client.subscribe("t") as subscription:
            assert (subscription.name, subscription.resumed, subscription.start) == ("", False, 0)


async def test_a_loop_over_a_name_sees_nothing_twice_and_settles_the_message_in_hand():
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        await publish(other, 10)
        async with client.subscribe("t", name="worker", credit=4) as subscription:
            assert await offsets(subscription, 3) == [0, 1, 2]
            proxy.cut()
            assert await offsets(subscription, 7) == [3, 4, 5, 6, 7, 8, 9]
            (state,) = await other.subscriptions()
            assert state["delivered"] - state["committed"] <= 4
        await client.ping()
        async with other.subscribe("t", name="worker") as subscription:
            assert subscription.start == 9


async def test_commit_waits_until_the_message_is_redelivered():
    """A commit beyond what the new connection has delivered would be refused (CMT-2)."""
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        await publish(other, 10)
        async with client.subscribe("t", name="worker") as subscription:
            messages = [await anext(subscription) for _ in range(4)]
            for message in messages:
                proxy.cut()
                await subscription.commit(message)
        await client.ping()
        async with other.subscribe("t", name="worker") as subscription:
            assert subscription.start == 4


async def test_nothing_is_committed_before_it_is_redelivered():
    async with (
        fake_client({Subscribe: named_from_the_start}) as (broker, client),
        client.subscribe("t", name="worker", credit=4) as subscription,
        anyio.create_task_group() as tasks,
    ):
        await broker.messages(0, b"0", b"1", b"2", b"3")
        messages = [await anext(subscription) for _ in range(4)]
        await again(broker)
        await client.ping()
        broker.received.clear()
        tasks.start_soon(subscription.__anext__)
        tasks.start_soon(subscription.commit, messages[0])
        await anyio.wait_all_tasks_blocked()
        await client.ping()
        assert broker.commits == []
        await broker.messages(0, b"0", b"1", b"2", b"3")
        await broker.has_received(Commit, 2)
        assert sorted(broker.commits) == [1, 4]
        await broker.messages(4, b"4")


async def test_nothing_is_committed_while_it_is_asked_for_again():
    def at_the_start(frame):
        return Subscribed(frame.id, 77, 0, 9, 0, named=True)

    async with (
        fake_client({Subscribe: at_the_start}) as (broker, client),
        client.subscribe("t", name="worker", credit=4) as subscription,
    ):
        await broker.messages(0, b"0", b"1", b"2", b"3")
        assert await offsets(subscription, 2) == [0, 1]
        broker.answers[Subscribe] = lambda _: None
        request = await again(broker)
        broker.received.clear()
        assert await offsets(subscription, 2) == [2, 3]
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == []
        await broker.send(at_the_start(request))
        await broker.messages(0, b"0", b"1", b"2", b"3")
        await client.ping()
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == [3]


async def test_a_commit_that_was_sent_again_too_early_is_sent_once_more():
    def too_early(frame):
        return Error(frame.id, ErrorCode.NOT_IN_FLIGHT, Commit.TYPE, "next", 0, "too early")

    async with (
        fake_client({Subscribe: lambda frame: Subscribed(frame.id, 77, 0, 9, 0, named=True)}) as (
            broker,
            client,
        ),
        client.subscribe("t", name="worker") as subscription,
        anyio.create_task_group() as tasks,
    ):
        await broker.messages(0, b"0", b"1")
        message = await anext(subscription)
        broker.answers[Commit] = lambda _: None
        tasks.start_soon(subscription.commit, message)
        await broker.has_received(Commit)
        broker.answers[Commit] = too_early
        await again(broker)
        await broker.has_received(Commit, 2)
        await client.ping()
        broker.answers[Commit] = lambda _: None
        await broker.messages(0, b"0", b"1")
        commit = await broker.has_received(Commit, 3)
        await broker.send(Committed(commit.id, commit.next))


async def test_a_commit_that_is_sent_again_fails_as_its_subscription_does():
    """The broker only knows that there is no subscription any more; the program learns why."""

    def unknown(frame):
        return Error(
            frame.id, ErrorCode.NO_SUCH_SUBSCRIPTION, Commit.TYPE, "subscription", 0, "unknown"
        )

    async with fake_client({Subscribe: named_from_the_start, Commit: lambda _: None}) as (
        broker,
        client,
    ):
        errors = []
        async with (
            client.subscribe("t", name="worker") as subscription,
            anyio.create_task_group() as tasks,
        ):
            await broker.messages(0, b"0")
            message = await anext(subscription)

            async def commit():
                with pytest.raises(zaichik.ZaichikError) as caught:
                    await subscription.commit(message)
                errors.append(caught.type)

            tasks.start_soon(commit)
            await broker.has_received(Commit)
            broker.answers[Subscribe] = lambda frame: refused(frame, ErrorCode.EPOCH_CHANGED)
            broker.answers[Commit] = unknown
            await again(broker)
        assert errors == [zaichik.EpochChanged]


@asynccontextmanager
async def commit_that_waits(broker, client, until=None):
    """A subscription is made again, and a commit waits for its message to be delivered again;
    yields its errors.
    """
    errors = []
    async with (
        client.subscribe("t", name="worker", until=until) as subscription,
        anyio.create_task_group() as tasks,
    ):
        await broker.messages(0, b"0", b"1")
        message = [await anext(subscription) for _ in range(2)][1]
        await again(broker)
        await client.ping()

        async def commit():
            try:
                await subscription.commit(message)
            except Exception as error:
                errors.append(error)

        tasks.start_soon(commit)
        await anyio.wait_all_tasks_blocked()
        assert broker.commits == []
        yield errors


def named_from_the_start(frame):
    """A name that nothing was settled of, whatever was committed over a socket that was lost."""
    resumed = frame.start == Start.OFFSET
    return Subscribed(frame.id, 77, 0, 9, 0, named=True, resumed=resumed)


@pytest.mark.parametrize("code", [EndCode.TAKEN_OVER, EndCode.FORBIDDEN])
async def test_a_commit_that_waits_fails_as_its_subscription_does(code):
    async with fake_client({Subscribe: named_from_the_start}) as (broker, client):
        async with commit_that_waits(broker, client) as errors:
            await broker.send(SubscriptionEnded(1, code, 0, "the end"))
            await broker.messages(5, b"of another one", subscription=9)
        (error,) = errors
        assert type(error) is (
            zaichik.TakenOver if code == EndCode.TAKEN_OVER else zaichik.SubscriptionLost
        )
        assert broker.commits == []


async def test_a_commit_that_waits_is_made_if_its_subscription_reaches_its_end():
    """RET-4: commits are accepted after it."""
    async with fake_client({Subscribe: named_from_the_start}) as (broker, client):
        async with commit_that_waits(broker, client, until=2) as errors:
            await broker.send(WireLagged(1, 0, 2), SubscriptionEnded(1, EndCode.UNTIL, 2, "until"))
        assert errors == []
        assert broker.commits == [2]


async def test_a_commit_that_waits_fails_if_its_subscription_is_refused_another_time():
    async with fake_client({Subscribe: named_from_the_start}) as (broker, client):
        async with commit_that_waits(broker, client) as errors:
            broker.answers[Subscribe] = lambda frame: refused(frame, ErrorCode.EPOCH_CHANGED)
            await again(broker)
        assert [type(error) for error in errors] == [zaichik.EpochChanged]
        assert broker.commits == []


async def test_a_commit_that_waits_ends_with_the_block_of_its_subscription():
    async with (
        fake_client({Subscribe: named_from_the_start}) as (broker, client),
        anyio.create_task_group() as tasks,
    ):
        async with client.subscribe("t", name="worker") as subscription:
            await broker.messages(0, b"0")
            message = await anext(subscription)
            await again(broker)
            await client.ping()
            failed = []

            async def fail(call):
                with pytest.raises(RuntimeError, match="has ended"):
                    await call()
                failed.append(call)

            tasks.start_soon(fail, lambda: subscription.commit(message))
            tasks.start_soon(fail, subscription.__anext__)
            await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(GUARD):
            while len(failed) < 2:
                await anyio.lowlevel.checkpoint()


async def test_a_name_that_was_forgotten_meanwhile_begins_where_everything_is_settled():
    async with (
        fake_client({Subscribe: lambda frame: Subscribed(frame.id, 77, 5, 9, 5, named=True)}) as (
            broker,
            client,
        ),
        client.subscribe("t", name="worker", start="latest") as subscription,
    ):
        await broker.messages(5, b"5", b"6", b"7")
        await subscription.commit(await anext(subscription))
        assert await offsets(subscription, 1) == [6]
        request = await again(broker)
        assert (request.name, request.start, request.value, request.epoch) == (
            "worker",
            Start.OFFSET,
            6,
            77,
        )


async def test_a_name_that_was_taken_over_is_not_taken_back():
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        await publish(other, 3)
        async with (
            client.subscribe("t", name="worker") as first,
            other.subscribe("t", name="worker") as second,
        ):
            assert second.resumed
            with pytest.raises(zaichik.TakenOver, match="worker"):
                await offsets(first, 99)
            proxy.cut()
            await client.ping()
            with pytest.raises(zaichik.TakenOver):
                await anext(first)
            assert await offsets(second, 3) == [0, 1, 2]
            assert [state["name"] for state in await other.subscriptions()] != []


async def test_a_reader_replaced_between_two_sockets_does_not_displace_the_new_one():
    """CMT-3."""
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        async with client.subscribe("t", name="worker") as hung:
            target, proxy.target = proxy.target, 1  # nobody answers there
            proxy.cut()
            async with other.subscribe("t", name="worker") as present:
                proxy.target = target
                await client.ping()
                with pytest.raises(zaichik.TakenOver, match="worker") as caught:
                    await anext(hung)
                assert isinstance(caught.value, zaichik.SubscriptionLost)
                await publish(other, 1)
                assert await offsets(present, 1) == [0]
        async with client.subscribe("t", name="worker") as anew:
            assert anew.resumed, "a new subscription may have the name again"


def granted(frame):
    """A broker that wants to know who asks for a name."""
    return Welcome(frame.id, 1, frame.features & OWNER, 7, 2**21, 8192, 2**20, 10**6, 0, "fake")


async def test_a_name_is_claimed_by_the_same_owner_each_time():
    """CMT-3: with a greater attempt each time, also if the first one was never answered."""
    answers = {Hello: granted, Subscribe: lambda _: None}
    async with fake_client(answers) as (broker, client), BackgroundTasks() as tasks:
        tasks.group.start_soon(read_in_vain, client)
        await broker.has_received(Subscribe)
        broker.answers[Subscribe] = at
        await again(broker)
        await client.ping()
        await again(broker)
        requests = broker.of(Subscribe)
    assert [(request.owned, request.attempt) for request in requests] == [
        (True, 1),
        (True, 2),
        (True, 3),
    ]
    assert len({request.owner for request in requests}) == 1
    assert requests[0].owner > 0


async def read_in_vain(client):
    async with client.subscribe("t", name="worker") as subscription:
        await anext(subscription)


async def test_two_subscriptions_are_two_owners():
    """CMT-3: and one without a name is none."""
    async with fake_client({Hello: granted}) as (broker, client):
        for name in ("worker", "worker", ""):
            async with client.subscribe("t", name=name):
                pass
    first, second, anonymous = broker.of(Subscribe)
    assert first.owner != second.owner
    assert (anonymous.owned, anonymous.owner, anonymous.attempt) == (False, 0, 0)


async def test_a_broker_that_does_not_know_owners_is_sent_none():
    """CMT-3: also if the one before it did."""
    answers = {Hello: granted, Subscribe: at}
    async with fake_client(answers) as (broker, client), client.subscribe("t", name="worker"):
        broker.answers[Hello] = lambda frame: replace(granted(frame), features=0)
        request = await again(broker)
    assert (request.name, request.owned, request.owner, request.attempt) == ("worker", False, 0, 0)


async def test_forgetting_ends_it_and_the_next_one_begins_anew(caplog):
    async with cut_off() as (proxy, client, other):
        await other.create_topic("t", retention_ttl="forever")
        await publish(other, 5)
        for cut in (False, True):
            async with client.subscribe("t", name="worker") as subscription:
                assert not subscription.resumed
                assert await offsets(subscription, 3) == [0, 1, 2]
                if cut:
                    proxy.cut()
                await subscription.forget()
                assert [message async for message in subscription] == []
            await client.ping()
    assert not [record for record in caplog.records if "refused" in record.getMessage()]


@pytest.mark.parametrize("credit", [1, 2, 1000])
async def test_forgetting_ends_a_loop_whatever_is_left_to_commit(credit):
    """Half of the credit is due to be committed, and nobody takes it."""
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 5)
        async with client.subscribe("t", name="worker", credit=credit) as subscription:
            assert await offsets(subscription, 1) == [0]
            await subscription.forget()
            assert [message async for message in subscription] == []


# -- starting over -------------------------------------------------------------------------------


async def test_one_that_starts_over_while_the_connection_is_lost_begins_at_the_earliest():
    """TAB-5: its name is forgotten first, whichever connection carries that."""
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("t", start=5, name="n") as subscription,
        anyio.create_task_group() as tasks,
    ):
        await broker.messages(5, b"")
        await offsets(subscription, 1)
        broker.answers[Unsubscribe] = lambda _: None
        tasks.start_soon(subscription.start_over)
        await broker.has_received(Unsubscribe)
        broker.answers[Unsubscribe] = lambda frame: Unsubscribed(frame.id) if frame.id else None
        broker.received.clear()
        await broker.hang_up()
        resumed = await broker.has_received(Subscribe)
        end = await broker.has_received(Unsubscribe)
        begun = await broker.has_received(Subscribe, 2)
        assert (resumed.id, resumed.value) == (1, 5)
        assert (end.subscription, end.forget) == (1, True)
        assert (begun.id, begun.start, begun.name) == (2, Start.EARLIEST, "n")
        await broker.messages(0, b"", subscription=2)
        assert await offsets(subscription, 1) == [0]


async def test_one_that_has_started_over_resumes_under_its_new_number():
    async with (
        fake_client({Subscribe: at}) as (broker, client),
        client.subscribe("t", start=5) as subscription,
    ):
        await subscription.start_over()
        await broker.messages(0, b"", b"", subscription=2)
        assert await offsets(subscription, 2) == [0, 1]
        resumed = await again(broker)
        assert (resumed.id, resumed.start, resumed.value) == (2, Start.OFFSET, 2)
        await broker.messages(2, b"", subscription=2)
        assert await offsets(subscription, 1) == [2]
