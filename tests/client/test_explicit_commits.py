"""Subscriptions with `commit="explicit"`: the program says what is settled, and when."""

import re
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from brokers import GUARD, fake_broker, fake_client, real_broker, real_client
from proxy import cutting_proxy

import zaichik
from zaichik.client import transport as transport_module
from zaichik_protocol import (
    Batch,
    Commit,
    EndCode,
    Hello,
    Messages,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)
from zaichik_protocol import Lagged as WireLagged

pytestmark = pytest.mark.anyio

SUBSCRIPTION = 1  # the id of a fake broker's first
PAGE = Path(__file__).parents[2] / "docs" / "use" / "python.md"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_SECONDS", 0.0)


async def filled(client, count, **settings):
    await client.create_topic("t", retention_ttl="forever", **settings)
    await client.publish_batch("t", [(None, b"%d" % number) for number in range(count)])


async def taken(subscription, count):
    return [(await anext(subscription)).offset for _ in range(count)]


async def position(client):
    """Up to where the broker knows the topic's only subscription to have committed."""
    (state,) = await client.subscriptions("t")
    return state["committed"]


async def in_flight(client):
    (state,) = await client.subscriptions("t")
    return state["delivered"] - state["committed"]


@asynccontextmanager
async def reading(**options):
    """A real broker's ten messages, read by a client of it."""
    async with real_client() as client:
        await filled(client, 10)
        async with client.subscribe("t", commit="explicit", **options) as subscription:
            yield client, subscription


@asynccontextmanager
async def cut_off(**options):
    """A real broker's ten messages, and two clients, one of which may be cut off."""
    async with (
        real_broker() as broker,
        cutting_proxy(broker.port) as proxy,
        zaichik.connect(port=proxy.port, **options) as client,
        zaichik.connect(port=broker.port) as other,
    ):
        await filled(other, 10)
        yield proxy, client, other


# -- stepping settles nothing --------------------------------------------------------------------


async def by_message(subscription):
    return [message.offset async for message in subscription]


async def by_piece(subscription):
    return [message.offset async for piece in subscription.pieces() for message in piece]


async def by_fetch(subscription):
    found = []
    while not subscription.ended:
        for frame in await subscription.fetch():
            found += range(frame.base, frame.base + frame.batch.count)
    return found


@pytest.mark.parametrize("read", [by_message, by_piece, by_fetch])
@pytest.mark.parametrize("name", ["", "n"])
async def test_reading_everything_commits_nothing(read, name):
    async with reading(name=name, until=10) as (client, subscription):
        assert await read(subscription) == [*range(10)]
        subscription.commit_settled()
        assert (await position(client), subscription.committed) == (0, 0)
        await subscription.commit(6)
        subscription.commit_settled()
        assert (await position(client), subscription.committed) == (7, 7)


@pytest.mark.parametrize("read", [by_message, by_piece, by_fetch])
async def test_what_was_delivered_and_not_committed_comes_again(read):
    """CMT-3: in the next subscription of the name, as after a crash of the program."""
    async with reading(name="n", until=10) as (client, subscription):
        await read(subscription)
        await subscription.commit(3)
        async with client.subscribe("t", name="n", commit="explicit") as again:
            assert (again.resumed, again.start) == (True, 4)
            assert await taken(again, 6) == [4, 5, 6, 7, 8, 9]
            assert again.redelivered


async def test_leaving_the_block_commits_nothing():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", commit="explicit") as subscription,
        ):
            await broker.messages(0, b"0", b"1", b"2")
            await taken(subscription, 3)
        assert broker.commits == []
        assert len(broker.of(Unsubscribe)) == 1


async def test_a_reader_killed_before_its_commit_gets_the_messages_again():
    """CMT-3."""
    async with (
        cut_off(reconnect=0) as (proxy, client, other),
        client.subscribe("t", name="n", commit="explicit", until=10) as subscription,
    ):
        assert await by_message(subscription) == [*range(10)]
        await subscription.commit(1)
        proxy.cut()
        async with other.subscribe("t", name="n") as after:
            assert await taken(after, 8) == [*range(2, 10)]
            assert after.redelivered


# -- commits, and credit -------------------------------------------------------------------------


@pytest.mark.parametrize("credit", [1, 2, 3])
@pytest.mark.parametrize("name", ["", "n"])
async def test_credit_comes_back_with_commits_alone(credit, name):
    """CMT-1."""
    async with reading(name=name, credit=credit) as (client, subscription):
        assert await taken(subscription, credit) == [*range(credit)]
        for offset in range(10 - credit):
            async with anyio.create_task_group() as tasks:
                came = []

                async def step(came=came):
                    came.extend(await taken(subscription, 1))

                tasks.start_soon(step)
                await anyio.wait_all_tasks_blocked()
                await client.ping()
                assert came == []
                await subscription.commit(offset)
            assert came == [offset + credit]


async def test_a_message_may_be_committed_as_well_as_its_offset():
    async with reading() as (client, subscription):
        messages = [await anext(subscription) for _ in range(3)]
        await subscription.commit(messages[1])
        assert await position(client) == 2
        await subscription.commit(messages[2].offset)
        assert await position(client) == 3


async def test_an_offset_may_be_committed_where_steps_settle_too():
    async with real_client() as client:
        await filled(client, 10)
        async with client.subscribe("t", name="n") as subscription:
            await taken(subscription, 3)
            await subscription.commit(2)
            assert await position(client) == 3
            with pytest.raises(zaichik.NotInFlight):
                await subscription.commit(3)
            assert await position(client) == 3


async def test_commits_in_another_order_settle_up_to_the_highest():
    """CMT-2: one below what is committed has no effect."""
    async with reading(name="n") as (client, subscription):
        await taken(subscription, 8)
        for offset, committed in [(4, 5), (1, 5), (6, 7), (6, 7), (0, 7)]:
            await subscription.commit(offset)
            assert (await position(client), subscription.committed) == (committed, committed)
        async with client.subscribe("t", name="n") as again:
            assert again.start == 7


async def test_one_below_where_a_name_resumes_has_no_effect():
    """CMT-2."""
    async with reading(name="n") as (client, subscription):
        await taken(subscription, 5)
        await subscription.commit(4)
        async with client.subscribe("t", name="n", commit="explicit") as again:
            await again.commit(2)
            assert again.committed == 5


async def test_jobs_that_end_in_any_order_are_settled_while_another_task_steps():
    async with reading(name="n", credit=4, until=10) as (client, subscription):
        send, receive = anyio.create_memory_object_stream[int](10)
        unfinished: set[int] = set()
        most = 0

        async def read():
            nonlocal most
            with send:
                async for message in subscription:
                    unfinished.add(message.offset)
                    most = max(most, len(unfinished))
                    await send.send(message.offset)

        async with receive, anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            async for first in receive:
                # The later one of two is done first.
                second = await receive.receive()
                for offset in (second, first):
                    unfinished.remove(offset)
                    lowest = min(unfinished, default=second + 1)
                    if lowest > 0:
                        await subscription.commit(lowest - 1)
                    assert await position(client) <= min(unfinished, default=10)
        assert 2 <= most <= 4
        assert await position(client) == 10


async def test_a_commit_that_is_cancelled_is_made_up_for():
    async with fake_broker({Commit: lambda _: None}) as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", commit="explicit") as subscription,
        ):
            await broker.messages(0, b"0", b"1", b"2")
            await taken(subscription, 3)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(subscription.commit, 1)
                await broker.has_received(Commit)
                tasks.cancel_scope.cancel()
        assert broker.commits == [2, 2]


async def test_a_confirmed_commit_is_not_sent_again():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", name="n", credit=2, commit="explicit") as subscription,
        ):
            await broker.messages(0, b"0", b"1")
            await taken(subscription, 2)
            await subscription.commit(1)
            await broker.messages(2, b"2")
            await taken(subscription, 1)
        assert broker.commits == [2]


# -- what cannot be committed --------------------------------------------------------------------


@pytest.mark.parametrize("read", ["message", "piece"])
async def test_what_was_not_given_out_cannot_be_committed(read):
    """It has been sent, so the broker would not refuse it."""
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", commit="explicit", credit=4) as subscription,
        ):
            await broker.messages(0, b"0", b"1", b"2", b"3")
            await client.ping()
            with pytest.raises(zaichik.NotInFlight):
                await subscription.commit(0)
            if read == "message":
                await taken(subscription, 2)
            else:
                await anext(subscription.pieces())  # of half the credit
            with pytest.raises(zaichik.NotInFlight, match=r"offset 2 of t .* next one is 2;"):
                await subscription.commit(2)
            assert broker.of(Commit) == []
            await subscription.commit(1)
        assert broker.commits == [2]


async def test_a_message_that_was_not_given_out_cannot_be_committed():
    async with reading(name="n") as (client, subscription):
        message = await anext(subscription)
        with pytest.raises(zaichik.NotInFlight):
            await subscription.commit(message._replace(offset=1))
        with pytest.raises(ValueError, match="a message of 'u' cannot be committed to 't'"):
            await subscription.commit(message._replace(topic="u"))
        subscription.commit_settled()
        assert await position(client) == 0


async def test_no_offset_is_below_zero():
    async with reading() as (_, subscription):
        with pytest.raises(ValueError, match="an offset is at least 0, not -1"):
            await subscription.commit(-1)


async def test_another_mode_is_refused():
    async with fake_client() as (broker, client):
        with pytest.raises(ValueError, match="must be 'automatic' or 'explicit', not 'manual'"):
            client.subscribe("t", commit="manual")
        assert broker.of(Subscribe) == []


async def test_shared_names_and_patterns_have_no_explicit_commits():
    async with fake_client() as (_, client):
        with pytest.raises(ValueError, match="commit='explicit' is not for it"):
            client.subscribe("t", name="n", shared=True, commit="explicit")
        with pytest.raises(TypeError, match="commit"):
            client.subscribe_pattern("t*", commit="explicit")


# -- offsets without messages --------------------------------------------------------------------


async def test_lag_is_settled_by_a_commit_and_not_by_the_step():
    """LAG-1."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", commit="explicit", events=True) as subscription,
    ):
        await broker.messages(0, b"0")
        await broker.send(WireLagged(SUBSCRIPTION, 1, 4))
        await broker.messages(4, b"4", b"5")
        assert await taken(subscription, 1) == [0]
        await subscription.commit(0)
        lagged = await anext(subscription)
        await subscription.commit(lagged.end - 1)
        with pytest.raises(zaichik.NotInFlight):
            await subscription.commit(lagged.end)
        assert await taken(subscription, 1) == [4]
        await client.ping()
        assert broker.commits == [1, 4]


async def test_a_commit_beyond_lag_settles_the_lag():
    """LAG-1, at a real broker, which counts no credit for it."""
    async with real_client() as client:
        await client.create_topic("t", capacity=3)
        await client.publish_batch("t", [(None, b"x")] * 3)
        await client.publish_batch("t", [(None, b"x")] * 3)
        async with client.subscribe("t", start=0, credit=2, commit="explicit") as subscription:
            assert await taken(subscription, 2) == [3, 4]
            assert (await position(client), subscription.lagged) == (0, 3)
            await subscription.commit(3)
            assert await position(client) == 4
            assert await taken(subscription, 1) == [5]


@pytest.mark.parametrize("read", [by_message, by_piece, "fetch"])
async def test_offsets_that_a_table_has_no_more_can_be_committed(read):
    """TAB-7: up to the end that was asked for, and not before it was reached."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=13, commit="explicit") as subscription,
    ):
        rows = Batch.of([(b"", b"a"), (b"", b"b")])
        await broker.send(Messages(SUBSCRIPTION, 2, 0, rows, deltas=(0, 7), holes=True))
        if read == "fetch":
            (frame,) = await subscription.fetch()
            assert frame.base == 2
        else:
            assert await taken(subscription, 2) == [2, 9]
        await subscription.commit(4)
        with pytest.raises(zaichik.NotInFlight):
            await subscription.commit(12)
        await broker.send(SubscriptionEnded(SUBSCRIPTION, EndCode.UNTIL, 13, "its end"))
        assert await (subscription.fetch() if read == "fetch" else read(subscription)) == []
        await subscription.commit(12)
        assert broker.commits == [5, 13]


async def test_what_an_earlier_subscription_was_given_settles_nothing_of_the_next():
    """TAB-5: a reader that starts over has not seen what it had committed before."""
    async with (
        fake_client({Commit: lambda _: None, Unsubscribe: lambda _: None}) as (broker, client),
        client.subscribe("t", commit="explicit") as subscription,
    ):
        await broker.messages(0, b"0", b"1", b"2")
        await taken(subscription, 3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscription.commit, 2)
            await broker.has_received(Commit)
            async with anyio.create_task_group() as starting:
                starting.start_soon(subscription.start_over)
                end = await broker.has_received(Unsubscribe)
                await broker.send(Unsubscribed(end.id))
            tasks.cancel_scope.cancel()
        with pytest.raises(zaichik.NotInFlight):
            await subscription.commit(0)
        await broker.messages(0, b"0", b"1", b"2", subscription=2)
        assert await taken(subscription, 1) == [0]
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == [3]


# -- a lost connection ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "n"])
async def test_after_a_loss_nothing_is_given_out_twice_and_the_credit_is_the_same(name):
    """CMT-1, CMT-3: what the program still holds is in flight, whatever has happened since."""
    async with cut_off(reconnect=GUARD) as (proxy, client, other):
        async with client.subscribe("t", name=name, credit=4, commit="explicit") as subscription:
            assert await taken(subscription, 4) == [0, 1, 2, 3]
            await subscription.commit(0)
            assert await taken(subscription, 1) == [4]
            for offset in range(1, 6):
                proxy.cut()
                await subscription.commit(offset)
                assert await taken(subscription, 1) == [offset + 4]
                assert await position(other) == offset + 1
                assert await in_flight(other) <= 4
        await client.ping()


@pytest.mark.parametrize("name", ["", "n"])
async def test_a_loss_gives_no_credit_back(name):
    """CMT-1."""
    async with (
        cut_off(reconnect=GUARD) as (proxy, client, other),
        client.subscribe("t", name=name, credit=2, commit="explicit") as subscription,
    ):
        assert await taken(subscription, 2) == [0, 1]
        proxy.cut()
        await client.ping()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscription.__anext__)
            await anyio.wait_all_tasks_blocked()
            await client.ping()
            assert subscription.in_hand is None
            assert (await position(other), await in_flight(other)) == (0, 2)
            await subscription.commit(0)


async def test_a_commit_that_the_broker_has_lost_is_made_again():
    """The message would be in flight for ever otherwise, and nobody would commit it."""

    def from_the_start(frame):
        return Subscribed(frame.id, 77, 0, 9, 0, named=True, resumed=True)

    async with (
        fake_client({Subscribe: from_the_start}) as (broker, client),
        client.subscribe("t", name="n", credit=1, commit="explicit") as subscription,
        anyio.create_task_group() as tasks,
    ):
        await broker.messages(0, b"0")
        assert await taken(subscription, 1) == [0]
        await subscription.commit(0)
        tasks.start_soon(subscription.__anext__)
        await broker.hang_up()
        await broker.has_received(Hello, 2)
        await broker.has_received(Subscribe, 2)
        await broker.messages(0, b"0")
        assert (await broker.has_received(Commit, 2)).next == 1
        await broker.messages(1, b"1")


# -- the page ------------------------------------------------------------------------------------


def test_the_example_of_the_page_prints_what_the_page_says(capsys):
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Explicit commits\n")[2]
    (code, printed) = re.search(
        r"```python\n(.*?)```\n\nIt prints `(.*?)`", section, re.DOTALL
    ).groups()
    exec(code, {})  # noqa: S102 (our own document)
    assert capsys.readouterr().out == f"{printed}\n"
