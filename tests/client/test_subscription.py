import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from brokers import START_US, fake_broker, fake_client, real_broker, real_client
from trio.testing import MockClock

import zaichik
from zaichik import DeletionsMissed, Lagged, Message
from zaichik.client import client as client_module
from zaichik_protocol import (
    Batch,
    Close,
    Commit,
    EndCode,
    Error,
    ErrorCode,
    Hello,
    Messages,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
    Unsubscribe,
    Unsubscribed,
)
from zaichik_protocol import DeletionsMissed as WireDeletionsMissed
from zaichik_protocol import Lagged as WireLagged

pytestmark = pytest.mark.anyio

SUBSCRIPTION = 1  # the id of a fake broker's first: the Hello was 1


class Own(Exception):
    pass


async def publish(client, count, topic="t", first=0):
    await client.publish_batch(
        topic, [(None, b"%d" % number) for number in range(first, first + count)]
    )


async def settled(client, topic="t"):
    """Up to where the broker knows a topic's only subscription to have committed."""
    (state,) = await client.subscriptions(topic)
    return state["committed"]


async def offsets(subscription):
    return [message.offset async for message in subscription]


def ended(until):
    return SubscriptionEnded(SUBSCRIPTION, EndCode.UNTIL, until, "it reached its end")


def cut_off(code, text, at=0):
    return SubscriptionEnded(SUBSCRIPTION, code, at, text)


# -- where it starts and ends --------------------------------------------------------------------


async def test_it_reads_kept_messages_and_new_ones():
    """RET-2."""
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 3)
        async with client.subscribe("t") as subscription:
            assert (subscription.topic, subscription.start, subscription.live) == ("t", 0, 3)
            assert subscription.epoch == START_US
            await publish(client, 3, first=3)
            assert [(await anext(subscription)).payload for _ in range(6)] == [
                b"%d" % n for n in range(6)
            ]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("latest", 4),
        (3, 3),
        (4, 4),
        (datetime.fromtimestamp(START_US / 1e6, UTC), 0),
        (datetime.fromtimestamp(START_US / 1e6 + 1, UTC), 2),
        (datetime.fromtimestamp(START_US / 1e6 + 1e-6, UTC), 2),
        (datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(days=1), 4),
    ],
)
async def test_it_starts_where_it_is_told_to(start, first):
    """RET-4, RET-3."""
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 2)
        broker.clock.advance(1)
        await publish(client, 2, first=2)
        async with client.subscribe("t", start=start) as subscription:
            assert (subscription.start, subscription.live) == (first, 4)
            await publish(client, 1, first=4)
            assert (await anext(subscription)).offset == first


async def test_a_start_beyond_the_end_is_ahead():
    """RET-4."""
    async with real_client() as client:
        with pytest.raises(zaichik.OffsetAhead):
            async with client.subscribe("t", start=1):
                pass


async def test_an_invalid_start_is_refused_before_it_is_sent():
    async with fake_client() as (broker, client):
        with pytest.raises(ValueError, match="a start must be"):
            async with client.subscribe("t", start="newest"):
                pass
        await client.ping()
        assert broker.of(Subscribe) == []


async def test_another_epoch_than_the_known_one_is_refused():
    """TOP-5."""
    async with real_client() as client:
        topic = await client.create_topic("t")
        async with client.subscribe("t", epoch=topic.epoch):
            pass
        with pytest.raises(zaichik.EpochChanged):
            async with client.subscribe("t", epoch=topic.epoch + 1):
                pass


async def test_until_ends_the_loop_before_that_offset():
    """RET-4."""
    async with real_client() as client:
        async with client.subscribe("t", until=3) as subscription:
            await publish(client, 5)
            assert await offsets(subscription) == [0, 1, 2]
            assert await offsets(subscription) == [], "it stays ended"
            subscription.commit_settled()
            assert await settled(client) == 3, "commits are accepted until it is left"
        assert await client.subscriptions() == []


async def test_until_below_the_start_gives_nothing():
    async with real_client() as client:
        await publish(client, 5)
        async with client.subscribe("t", start=4, until=2) as subscription:
            assert await offsets(subscription) == []


async def test_holes_are_stepped_over():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", until=13) as subscription,
        ):
            batch = Batch.of([(b"", b"a"), (b"", b"b")])
            await broker.send(
                Messages(SUBSCRIPTION, 5, 0, batch, deltas=(0, 7), holes=True), ended(13)
            )
            assert await offsets(subscription) == [5, 12]
        assert broker.commits == [13]


async def test_a_subscription_the_broker_ends_is_lost():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"a")
        await broker.send(cut_off(EndCode.FORBIDDEN, "not any more"))
        assert (await anext(subscription)).payload == b"a"
        for _ in range(2):
            with pytest.raises(
                zaichik.SubscriptionLost, match=r"t was ended: not any more \[FORBIDDEN\]$"
            ):
                await anext(subscription)


async def test_an_end_for_a_reason_of_a_later_broker_has_a_code_of_its_own():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.send(cut_off(99, "a new reason"))
        with pytest.raises(
            zaichik.SubscriptionLost, match=r"t was ended: a new reason \[SUBSCRIPTION_LOST\]$"
        ):
            await anext(subscription)


async def test_two_subscriptions_are_independent():
    """UNS-3."""
    async with (
        real_client() as client,
        client.subscribe("t", until=3) as one,
        client.subscribe("t", until=3) as two,
    ):
        await publish(client, 3)
        assert await offsets(one) == [0, 1, 2]
        assert await offsets(two) == [0, 1, 2]


async def test_leaving_unsubscribes():
    """CLO-3."""
    async with real_client() as client:
        async with client.subscribe("t"):
            assert len(await client.subscriptions()) == 1
        assert await client.subscriptions() == []
        assert client._subscriptions == set()


# -- lag -----------------------------------------------------------------------------------------


async def lagging(client, **options):
    await client.create_topic("t", capacity=5)
    await publish(client, 5)
    await publish(client, 5, first=5)
    return client.subscribe("t", start=2, until=10, **options)


async def test_lag_is_counted_and_logged(caplog):
    """LAG-1."""
    async with real_client() as client, await lagging(client) as subscription:
        assert await offsets(subscription) == [5, 6, 7, 8, 9]
        assert subscription.lagged == 3
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "zaichik.client.subscription")
    assert (
        record.getMessage() == "t: 3 messages were gone before they could be read (offsets 2 to 4)"
    )


async def test_one_message_that_was_lost_is_no_plural_in_the_log(caplog):
    """LAG-1."""
    async with real_client() as client:
        await client.create_topic("t", capacity=5)
        await publish(client, 1)
        await publish(client, 5, first=1)
        async with client.subscribe("t", start=0, until=6) as subscription:
            assert await offsets(subscription) == [1, 2, 3, 4, 5]
    (record,) = caplog.records
    assert record.getMessage() == "t: 1 message was gone before it could be read (offset 0)"


async def test_with_events_lag_is_also_yielded(caplog):
    """LAG-1."""
    async with real_client() as client, await lagging(client, events=True) as subscription:
        items = [item async for item in subscription]
        assert items[0] == Lagged("t", 2, 5)
        assert [message.offset for message in items[1:]] == [5, 6, 7, 8, 9]
        assert subscription.lagged == 3
    assert len(caplog.records) == 1


@pytest.mark.parametrize("events", [False, True])
async def test_lag_may_be_the_last_event(events):
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=9, events=events) as subscription,
    ):
        await broker.send(WireLagged(SUBSCRIPTION, 0, 4), WireLagged(SUBSCRIPTION, 4, 9), ended(9))
        assert [item async for item in subscription] == (
            [Lagged("t", 0, 4), Lagged("t", 4, 9)] if events else []
        )
        assert subscription.lagged == 9
        await client.ping()


async def test_a_step_past_lag_settles_it():
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=4, events=True) as subscription,
    ):
        await broker.send(WireLagged(SUBSCRIPTION, 0, 4), ended(4))
        async for _ in subscription:
            assert broker.commits == []
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == [4]


# -- the step settles the one before -------------------------------------------------------------


async def test_a_step_settles_the_message_before_never_the_one_in_hand():
    """CMT-2."""
    async with real_client() as client, client.subscribe("t", credit=1, until=20) as subscription:
        await publish(client, 20)
        async for message in subscription:
            assert await settled(client) == message.offset
        assert await settled(client) == 20


async def leave_after_three(subscription, how):
    async for message in subscription:
        if message.offset == 3:
            match how:
                case "break":
                    break
                case "exception":
                    raise Own
                case "cancelled":
                    with anyio.CancelScope() as scope:
                        scope.cancel()
                        await anyio.sleep_forever()
                    break


@pytest.mark.parametrize("how", ["break", "exception", "cancelled"])
async def test_leaving_settles_messages_stepped_past_and_not_the_one_in_hand(how):
    async with fake_broker() as broker:
        try:
            async with (
                zaichik.connect(port=broker.port) as client,
                client.subscribe("t") as subscription,
            ):
                await broker.messages(0, b"0", b"1", b"2", b"3", b"4", b"5")
                await leave_after_three(subscription, how)
        except Own:
            pass
        assert broker.commits == [3]
        assert [type(frame) for frame in broker.received] == [
            Hello,
            Subscribe,
            Commit,
            Unsubscribe,
            Close,
        ]


async def test_a_cancelled_program_settles_messages_it_stepped_past():
    async with fake_broker() as broker:
        with anyio.CancelScope() as scope:
            async with (
                zaichik.connect(port=broker.port) as client,
                client.subscribe("t") as subscription,
            ):
                await broker.messages(0, b"0", b"1", b"2")
                async for message in subscription:
                    if message.offset == 2:
                        scope.cancel()
                        await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert broker.commits == [2]


async def test_leaving_at_the_normal_end_settles_everything():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t", until=3) as subscription,
        ):
            await broker.messages(0, b"0", b"1", b"2")
            await broker.send(ended(3))
            await offsets(subscription)
        assert broker.commits == [3]


async def test_leaving_without_a_step_settles_nothing():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
        ):
            await broker.messages(0, b"0", b"1")
            await anext(subscription)
        assert broker.commits == []


async def test_commit_settles_the_message_in_hand():
    """CMT-2."""
    async with real_client() as client, client.subscribe("t") as subscription:
        await publish(client, 3)
        await anext(subscription)
        message = await anext(subscription)
        await subscription.commit(message)
        assert await settled(client) == message.offset + 1


async def test_a_commit_is_not_sent_twice():
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
        ):
            await broker.messages(0, b"0", b"1", b"2")
            first = await anext(subscription)
            second = await anext(subscription)
            await subscription.commit(second)
            await subscription.commit(first)
            assert (await anext(subscription)).offset == 2
        assert broker.commits == [2, 1]


async def test_committing_an_undelivered_message_is_not_in_flight():
    """CMT-2."""
    async with real_client() as client, client.subscribe("t") as subscription:
        await publish(client, 1)
        message = await anext(subscription)
        with pytest.raises(zaichik.NotInFlight):
            await subscription.commit(message._replace(offset=5))
        assert await settled(client) == 0
        await subscription.commit(message)


async def test_a_refused_commit_changes_nothing():
    async with fake_broker(
        {Commit: lambda f: Error(f.id, ErrorCode.NOT_IN_FLIGHT, 6, "", 0, "") if f.id else None}
    ) as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
        ):
            await broker.messages(0, b"0", b"1")
            await anext(subscription)
            with pytest.raises(zaichik.NotInFlight):
                await subscription.commit(await anext(subscription))
        assert broker.commits == [2, 1]


# -- when commits travel -------------------------------------------------------------------------


async def test_a_commit_follows_when_the_loop_has_come_to_wait_for_more():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"0", b"1", b"2")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(offsets, subscription)
            assert (await broker.has_received(Commit)).next == 3
            tasks.cancel_scope.cancel()
        assert broker.commits == [3], "and once only"


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
async def test_one_commit_is_for_all_that_is_settled_within_5_milliseconds():
    """By trio's clock for tests, which jumps when everybody waits."""
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(offsets, subscription)
            began = anyio.current_time()
            for base in range(10):
                await broker.messages(base, b"x")
                await client.ping()  # all have come, and no time has passed
            await broker.has_received(Commit)
            assert anyio.current_time() - began == pytest.approx(0.005)
            tasks.cancel_scope.cancel()
        assert broker.commits == [10]


@pytest.mark.parametrize(
    "options", [{"name": "n"}, {"credit_bytes": 2**20}, {"credit": 1}, {"credit": 3}]
)
async def test_a_commit_that_the_broker_may_need_is_sent_before_waiting(options, monkeypatch):
    """RET-9, CMT-1: the fake broker's largest message has 2**20 bytes."""
    monkeypatch.setattr(client_module, "WAITING_SECONDS", 3600)
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", **options) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(offsets, subscription)
        for base in range(3):
            await broker.messages(base, b"x")
            assert (await broker.has_received(Commit, base + 1)).next == base + 1
        tasks.cancel_scope.cancel()


async def test_leaving_sends_the_commit_that_was_put_off(monkeypatch):
    monkeypatch.setattr(client_module, "WAITING_SECONDS", 3600)
    async with fake_broker() as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
        ):
            await broker.messages(0, b"0", b"1")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(offsets, subscription)
                await client.ping()
                await anyio.wait_all_tasks_blocked()
                assert broker.commits == []
                tasks.cancel_scope.cancel()
        assert broker.commits == [2]


@pytest.mark.parametrize(("credit", "every"), [(1, 1), (2, 1), (3, 1), (10, 5), (11, 5)])
async def test_a_commit_is_sent_when_half_the_credit_is_settled(credit, every):
    """CMT-1."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", credit=credit) as subscription,
    ):
        await broker.messages(0, *[b"x"] * 40)
        async for message in subscription:
            await client.ping()
            assert broker.commits == list(range(every, message.offset + 1, every))
            if message.offset == 39:
                break


async def test_a_commit_is_sent_when_half_the_bytes_are_settled():
    """CMT-1: bytes are settled with the last message of their frame."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", credit_bytes=1000) as subscription,
    ):
        for base in range(0, 20, 2):
            await broker.messages(base, b"x" * 50, b"x" * 50)
        await client.ping()
        async for message in subscription:
            await client.ping()
            assert broker.commits == list(range(10, message.offset + 1, 10))
            if message.offset == 19:
                break


async def test_commits_are_sent_while_there_is_work_in_hand():
    """Not only when the loop comes to wait: the broker can send on before the reader runs dry."""
    async with real_client() as client, client.subscribe("t", credit=10) as subscription:
        await publish(client, 1000)
        async for message in subscription:
            if message.offset == 500:
                break
        (state,) = await client.subscriptions()
        assert state["committed"] == 500
        assert state["delivered"] > 501


async def test_a_busy_loop_sends_its_commits():
    """A loop that awaits nothing and always finds work must not keep them to itself."""
    async with fake_client() as (broker, client), client.subscribe("t", credit=10) as subscription:
        await broker.messages(0, *[b"x"] * 40)
        async for message in subscription:
            assert len(client._connection._transport._outbox) <= 1
            if message.offset == 39:
                break


async def test_a_slow_program_commits_regularly(monkeypatch):
    monkeypatch.setattr(client_module, "COMMIT_SECONDS", 0.001)
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"0", b"1", b"2")
        await anext(subscription)
        await anext(subscription)
        assert (await broker.has_received(Commit)).next == 1
        await anext(subscription)
        assert (await broker.has_received(Commit, 2)).next == 2
        await client.ping()
        assert broker.commits == [1, 2], "nothing is sent without news"


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0.05)})], ids=["trio"]
)
async def test_the_regular_commit_comes_ten_times_a_second():
    """By trio's clock for tests, which jumps when everybody waits."""
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"0", b"1")
        await anext(subscription)
        began = anyio.current_time()
        await anext(subscription)
        await broker.has_received(Commit)
        assert anyio.current_time() - began <= 0.1


async def test_an_ended_subscription_still_gets_regular_commits(monkeypatch):
    monkeypatch.setattr(client_module, "COMMIT_SECONDS", 0.001)
    async with fake_client() as (broker, client), client.subscribe("t", until=2) as subscription:
        await broker.messages(0, b"0", b"1")
        await broker.send(ended(2))
        await offsets(subscription)
        assert (await broker.has_received(Commit)).next == 2


async def test_regular_commits_are_each_subscriptions_own(monkeypatch):
    monkeypatch.setattr(client_module, "COMMIT_SECONDS", 0.001)
    async with (
        fake_client() as (broker, client),
        client.subscribe("a") as a,
        client.subscribe("b", start=5) as b,
    ):
        await broker.messages(0, b"0", b"1", subscription=1)
        await broker.messages(5, b"0", b"1", subscription=2)
        for subscription in (a, b):
            await anext(subscription)
            await anext(subscription)
        await broker.has_received(Commit, 2)
        assert {(frame.subscription, frame.next) for frame in broker.of(Commit)} == {(1, 1), (2, 6)}


# -- in pieces -----------------------------------------------------------------------------------


def offsets_of(piece):
    return [message.offset for message in piece]


async def test_a_piece_is_what_came_together():
    async with fake_client() as (broker, client), client.subscribe("t", until=4) as subscription:
        await broker.messages(0, b"0")
        await broker.messages(1, b"1", b"2", b"3")
        await broker.send(ended(4))
        pieces = [piece async for piece in subscription.pieces()]
        assert [[message.payload for message in piece] for piece in pieces] == [
            [b"0"],
            [b"1", b"2", b"3"],
        ]
        assert [piece async for piece in subscription.pieces()] == [], "it stays ended"
    assert broker.commits == [4]


async def test_a_piece_is_at_most_half_the_credit():
    """CMT-1: so that the broker can send on while the program works."""
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 25)
        async with client.subscribe("t", credit=10, until=25) as subscription:
            pieces = [offsets_of(piece) async for piece in subscription.pieces()]
    assert [offset for piece in pieces for offset in piece] == list(range(25))
    assert max(map(len, pieces)) <= 5


async def test_a_step_settles_the_piece_before_never_the_one_in_hand():
    """CMT-2."""
    async with fake_client() as (broker, client), client.subscribe("t", credit=4) as subscription:
        await broker.messages(0, b"0", b"1", b"2", b"3")
        await broker.messages(4, b"4", b"5")
        async for piece in subscription.pieces():
            subscription.commit_settled()
            await client.ping()
            assert broker.commits == list(range(2, piece[0].offset + 1, 2))
            if piece[-1].offset == 5:
                break
    assert broker.commits == [2, 4]


async def test_a_part_of_a_piece_can_be_settled():
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 6)
        async with client.subscribe("t", name="n") as subscription:
            async for piece in subscription.pieces():
                await subscription.commit(piece[3])
                assert await settled(client) == 4
                break
        async with client.subscribe("t", name="n") as subscription:
            assert subscription.start == 4
            assert offsets_of(await anext(subscription.pieces())) == [4, 5]
            assert subscription.redelivered


async def test_between_pieces_comes_lag():
    """LAG-1."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=6, events=True) as subscription,
    ):
        await broker.messages(0, b"0", b"1")
        await broker.send(WireLagged(SUBSCRIPTION, 2, 5))
        await broker.messages(5, b"5")
        await broker.send(ended(6))
        one, lagged, other = [item async for item in subscription.pieces()]
        assert (offsets_of(one), lagged, offsets_of(other)) == ([0, 1], Lagged("t", 2, 5), [5])


async def test_without_events_lag_is_counted_between_pieces_and_not_yielded():
    async with fake_client() as (broker, client), client.subscribe("t", until=6) as subscription:
        await broker.send(WireLagged(SUBSCRIPTION, 0, 5))
        await broker.messages(5, b"5")
        await broker.send(ended(6))
        assert [offsets_of(piece) async for piece in subscription.pieces()] == [[5]]
        assert subscription.lagged == 5


async def test_a_program_may_change_from_messages_to_pieces_and_back():
    async with fake_client() as (broker, client), client.subscribe("t", until=6) as subscription:
        await broker.messages(0, b"0", b"1", b"2")
        await broker.messages(3, b"3", b"4", b"5")
        await broker.send(ended(6))
        assert (await anext(subscription)).offset == 0
        pieces = subscription.pieces()
        assert offsets_of(await anext(pieces)) == [1, 2]
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == [1]
        assert (await anext(subscription)).offset == 3
        subscription.commit_settled()
        await client.ping()
        assert broker.commits == [1, 3]
        assert offsets_of(await anext(pieces)) == [4, 5]
        with pytest.raises(StopAsyncIteration):
            await anext(pieces)


async def test_pieces_that_come_again_are_given_out_without_what_the_program_has_had():
    answers = {Subscribe: lambda frame: Subscribed(frame.id, 1, 0, 9, 0)}
    async with (
        fake_client(answers) as (broker, client),
        client.subscribe("t", name="n") as subscription,
    ):
        await broker.messages(0, b"0", b"1", b"2")
        assert offsets_of(await anext(subscription.pieces())) == [0, 1, 2]
        await broker.hang_up()
        await broker.has_received(Subscribe, 2)
        await client.ping()
        await broker.messages(0, b"0", b"1")
        await broker.messages(2, b"2", b"3")
        assert offsets_of(await anext(subscription.pieces())) == [3]


async def test_a_cancelled_wait_for_a_piece_loses_nothing():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        pieces = subscription.pieces()
        with anyio.move_on_after(0) as scope:
            await anext(pieces)
        assert scope.cancelled_caught
        await broker.messages(0, b"0", b"1")
        assert offsets_of(await anext(pieces)) == [0, 1]


async def test_pieces_end_with_their_subscription():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        await broker.messages(0, b"0")
        await broker.send(cut_off(EndCode.FORBIDDEN, "no more"))
        assert offsets_of(await anext(subscription.pieces())) == [0]
        with pytest.raises(zaichik.SubscriptionLost):
            await anext(subscription.pieces())


# -- several loops -------------------------------------------------------------------------------


async def test_two_loops_over_one_subscription_share_its_messages():
    """Each message is given once, also when both wait and several frames come at once."""
    async with fake_client() as (broker, client), client.subscribe("t", until=27) as subscription:
        got = []

        async def loop():
            async for message in subscription:
                got.append(message.offset)
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(loop)
            tasks.start_soon(loop)
            for base in range(0, 27, 9):
                await anyio.wait_all_tasks_blocked()
                await broker.send(*(frame_of_three(base + more) for more in (0, 3, 6)))
            await anyio.wait_all_tasks_blocked()
            await broker.send(ended(27))
        assert sorted(got) == list(range(27))


def frame_of_three(base):
    return Messages(SUBSCRIPTION, base, 0, Batch.of([(b"", b"x")] * 3))


async def test_all_loops_over_a_subscription_are_told_of_its_end():
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=0) as subscription,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(3):
            tasks.start_soon(offsets, subscription)
        await anyio.wait_all_tasks_blocked()
        await broker.send(ended(0))


async def test_all_loops_over_a_subscription_are_told_of_its_loss():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:

        async def lost():
            with pytest.raises(zaichik.SubscriptionLost):
                await offsets(subscription)

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(lost)
            await anyio.wait_all_tasks_blocked()
            await broker.send(cut_off(EndCode.FORBIDDEN, "no more"))


async def test_a_cancelled_step_loses_nothing():
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscription.__anext__)
            await anyio.wait_all_tasks_blocked()
            await broker.messages(0, b"0", b"1")
            tasks.cancel_scope.cancel()
        await client.ping()
        first = await anext(subscription)
        assert first.offset in (0, 1), "unless it was just given out"
        assert broker.commits in ([], [1])
        with anyio.CancelScope() as scope:
            scope.cancel()
            for _ in range(3):
                await anext(subscription)
        assert scope.cancelled_caught


# -- a slow handler ------------------------------------------------------------------------------


async def test_waiting_messages_never_exceed_the_credit():
    """CMT-1: delivered - settled <= credit, at every step, whatever has been published."""
    async with real_client() as client, client.subscribe("t", credit=7, until=100) as subscription:
        await publish(client, 100)
        async for message in subscription:
            (state,) = await client.subscriptions()
            assert state["delivered"] - state["committed"] <= 7
            assert state["committed"] <= message.offset
            waiting = sum(
                frame.batch.count
                for frame in subscription._inbox.events
                if isinstance(frame, Messages)
            )
            assert waiting <= 7
        assert subscription.lagged == 0


async def test_a_slow_handler_is_not_a_slow_consumer():
    """LAG-3: the socket is read at all times, so the broker's write timeout does not come."""
    async with (
        real_broker(write_timeout=5) as broker,
        zaichik.connect(port=broker.port) as client,
        zaichik.connect(port=broker.port) as other,
        client.subscribe("t", credit_bytes=2**30, until=400) as subscription,
    ):
        for _ in range(400):
            await other.publish("t", b"x" * 64 * 1024)
        async for message in subscription:
            if (
                message.offset == 0
            ):  # the handler does not come back until all 25 MiB have left the broker
                delivered = 0
                while delivered < 400:
                    (state,) = await other.subscriptions()
                    delivered = state["delivered"]
        assert message.offset == 399


async def test_requests_are_answered_while_a_handler_is_slow():
    async with real_client() as client, client.subscribe("t", until=50) as subscription:
        await publish(client, 50)
        async for message in subscription:
            result = await client.publish("other", message.payload)
            assert result.offset == message.offset


async def test_the_requested_credit_is_the_credit_sent():
    async with fake_client() as (broker, client):
        async with client.subscribe("t", credit=17, credit_bytes=1234):
            pass
        async with client.subscribe("t"):
            pass
        one, two = broker.of(Subscribe)
    assert (one.credit, one.credit_bytes) == (17, 1234)
    assert (two.credit, two.credit_bytes) == (1000, 8 * 2**20)


async def test_a_tiny_byte_credit_still_makes_progress():
    """CMT-1: one message is always allowed when nothing is in flight."""
    async with (
        real_client() as client,
        client.subscribe("t", credit_bytes=1, until=20) as subscription,
    ):
        await publish(client, 20)
        assert await offsets(subscription) == list(range(20))


async def test_it_starts_from_the_brokers_committed_offset():
    answers = {Subscribe: lambda frame: Subscribed(frame.id, 1, 40, 50, 40)}
    async with fake_broker(answers) as broker:
        async with (
            zaichik.connect(port=broker.port) as client,
            client.subscribe("t") as subscription,
        ):
            assert (subscription.start, subscription.live) == (40, 50)
        assert broker.commits == []


# -- tables --------------------------------------------------------------------------------------


def forget_tombstones(broker):
    """Have their minute pass."""
    broker.clock.advance(60)
    broker.broker.sweep()


async def test_holes_of_a_table_are_no_lag():
    """TAB-2."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        for number in range(30):
            await client.publish("t", b"%d" % number, key=str(number % 3))
        async with client.subscribe("t", until=30) as subscription:
            assert [message.payload async for message in subscription] == [b"27", b"28", b"29"]
            assert (subscription.table, subscription.lagged) == (True, 0)
        async with client.subscribe("u", until=0) as subscription:
            assert not subscription.table


async def test_a_reader_of_a_table_reaches_an_end_in_a_hole():
    """TAB-2: and has settled it, also under a name."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        for number in range(5):
            await client.publish("t", b"%d" % number, key="k")
        async with client.subscribe("t", name="n", until=3) as subscription:
            assert await offsets(subscription) == []
        async with client.subscribe("t", name="n", until=5) as subscription:
            assert await offsets(subscription) == [4]
        async with client.subscribe("t", name="n") as subscription:
            assert subscription.start == 5


async def test_a_tombstone_is_read_as_one():
    """TAB-5."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        await client.publish("t", b"1", key="k")
        await client.publish("t", None, key="k")
        async with client.subscribe("t", until=2) as subscription:
            (message,) = [message async for message in subscription]
    assert (message.offset, message.key, message.is_tombstone) == (1, b"k", True)


async def test_a_table_refuses_an_empty_payload_that_is_not_none():
    """TAB-6."""
    async with real_client() as client:
        await client.create_topic("t", table=True)
        with pytest.raises(zaichik.InvalidField):
            await client.publish("t", b"", key="k")
        with pytest.raises(zaichik.InvalidField):
            await client.publish_batch("t", [("k", b"")])
        assert (await client.topic("t"))["stored"] == 0


async def test_missed_deletions_are_logged_and_with_events_yielded(caplog):
    """TAB-5."""
    async with fake_client() as (broker, client):
        for events in (False, True):
            async with client.subscribe("t", until=1, events=events) as subscription:
                number = broker.of(Subscribe)[-1].id
                await broker.send(WireDeletionsMissed(number, 7))
                await broker.messages(0, b"x", subscription=number)
                await broker.send(SubscriptionEnded(number, EndCode.UNTIL, 1, "it has ended"))
                items = [item async for item in subscription]
                assert items[:-1] == [DeletionsMissed("t", 7)] * events
                assert items[-1].payload == b"x"
                assert subscription.lagged == 0
    assert [record.getMessage() for record in caplog.records] == [
        "t: keys may have been deleted unseen (before offset 7)"
    ] * 2


async def test_between_pieces_come_missed_deletions():
    """TAB-5."""
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=2, events=True) as subscription,
    ):
        await broker.messages(0, b"a")
        await broker.send(WireDeletionsMissed(SUBSCRIPTION, 7))
        await broker.messages(1, b"b")
        await broker.send(ended(2))
        first, missed, second = [piece async for piece in subscription.pieces()]
        assert ([m.payload for m in first], [m.payload for m in second]) == ([b"a"], [b"b"])
        assert missed == DeletionsMissed("t", 7)


async def test_a_reader_that_has_missed_deletions_starts_over():
    """TAB-5: then it holds what the table holds, and nothing else."""
    held = {}
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic("t", table=True, tombstones=60)
        await client.publish_batch("t", [(str(number), b"x") for number in range(10)])
        async with client.subscribe("t", credit=2, events=True) as subscription:
            held[(await anext(subscription)).key] = b"x"
            for key in "037":
                await client.publish("t", None, key=key)
            await client.publish("t", b"x", key="last")
            forget_tombstones(broker)
            while isinstance(event := await anext(subscription), Message):
                held[event.key] = event.payload
            assert event == DeletionsMissed("t", 13)
            assert b"0" in held
            held.clear()
            await subscription.start_over()
            async for message in subscription:
                held[message.key] = message.payload
                if message.offset == subscription.live - 1:
                    break
            assert subscription.lagged == 0
    assert sorted(held) == [b"1", b"2", b"4", b"5", b"6", b"8", b"9", b"last"]


async def test_starting_over_drops_what_has_arrived_and_asks_for_the_earliest():
    async with fake_client() as (broker, client):
        async with client.subscribe("t", start=5, until=20, credit=7, events=True) as subscription:
            first = broker.of(Subscribe)[0]
            await broker.messages(5, b"old", b"old")
            assert (await anext(subscription)).payload == b"old"
            await subscription.start_over()
            # It was on its way.
            await broker.messages(7, b"old")
            second = broker.of(Subscribe)[1]
            await broker.messages(0, b"new", subscription=second.id)
            assert (await anext(subscription)).payload == b"new"
            assert (subscription.start, subscription.live, subscription.lagged) == (0, 0, 0)
        await client.ping()
        assert second == replace(first, id=2, start=Start.EARLIEST, value=0, epoch=1)
        assert [(end.subscription, end.forget) for end in broker.of(Unsubscribe)] == [
            (1, False),
            (2, False),
        ]
        assert broker.commits == []


async def test_a_name_that_starts_over_is_forgotten_first():
    async with real_client() as client:
        await client.create_topic("t", table=True)
        await client.publish_batch("t", [(str(number), b"x") for number in range(4)])
        async with client.subscribe("t", name="n", until=4) as subscription:
            assert await offsets(subscription) == [0, 1, 2, 3]
            await subscription.start_over()
            assert not subscription.resumed
            assert await offsets(subscription) == [0, 1, 2, 3]
        async with client.subscribe("t", name="n") as subscription:
            assert subscription.start == 4


async def test_one_that_starts_over_after_its_end_reads_on():
    """The end may have arrived by the time the program is told of the deletions."""
    async with real_client() as client:
        await client.create_topic("t", retention_ttl="forever")
        await publish(client, 3)
        async with client.subscribe("t", until=3) as subscription:
            assert await offsets(subscription) == [0, 1, 2]
            for _ in range(2):
                await subscription.start_over()
                assert await offsets(subscription) == [0, 1, 2]
            assert await subscription.fetch() == []
            await subscription.start_over()
            assert not subscription.ended
            assert [frame.base for frame in await subscription.fetch()] == [0]
        assert await client.subscriptions() == []


async def test_a_loop_that_waits_goes_on_when_another_task_starts_over():
    async with (
        fake_client() as (broker, client),
        client.subscribe("t", until=1) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(subscription.__anext__)
        await anyio.wait_all_tasks_blocked()
        await subscription.start_over()
        await broker.messages(0, b"new", subscription=2)


async def test_what_another_task_takes_meanwhile_is_dropped_as_well():
    async with (
        fake_client({Unsubscribe: lambda _: None}) as (broker, client),
        client.subscribe("t", start=5, until=9) as subscription,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(subscription.start_over)
        end = await broker.has_received(Unsubscribe)
        await broker.messages(5, b"old", b"old", b"old")
        assert (await anext(subscription)).payload == b"old"
        await broker.send(Unsubscribed(end.id))
        await broker.has_received(Subscribe, 2)
        await broker.messages(0, b"new", subscription=2)
        assert (await anext(subscription)).payload == b"new"
        assert subscription.in_hand.offset == 0


async def test_one_that_the_broker_does_not_have_any_more_starts_over():
    """It had ended before its connection was lost, and was not made again."""
    async with fake_client() as (broker, client), client.subscribe("t") as subscription:
        broker.answers[Unsubscribe] = lambda frame: (
            Error(frame.id, ErrorCode.NO_SUCH_SUBSCRIPTION, Unsubscribe.TYPE, "", 0, "none here")
            if frame.id
            else None
        )
        await subscription.start_over()
        await broker.messages(0, b"new", subscription=2)
        assert (await anext(subscription)).payload == b"new"


async def test_a_topic_that_was_made_anew_is_not_read_from_its_beginning():
    """TOP-5."""
    answers = {Subscribe: lambda frame: Subscribed(frame.id, 1, 0, 9, 0)}
    async with fake_client(answers) as (broker, client), client.subscribe("t") as subscription:
        broker.answers[Subscribe] = lambda frame: Error(
            frame.id, ErrorCode.EPOCH_CHANGED, Subscribe.TYPE, "epoch", 0, "another"
        )
        with pytest.raises(zaichik.EpochChanged):
            await subscription.start_over()
        for _ in range(2):
            with pytest.raises(zaichik.SubscriptionLost, match="was to start over, and failed"):
                await anext(subscription)
        with pytest.raises(zaichik.SubscriptionLost):
            await subscription.start_over()
    assert [end.subscription for end in broker.of(Unsubscribe)] == [1]


@pytest.mark.parametrize(("kind", "ends"), [(Unsubscribe, [1, 1]), (Subscribe, [1, 2])])
async def test_one_that_is_cancelled_while_it_starts_over_has_ended(kind, ends):
    async with fake_client() as (broker, client):
        async with client.subscribe("t") as subscription:
            answer = broker.answers[kind]
            broker.answers[kind] = lambda _: None
            count = len(broker.of(kind))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(subscription.start_over)
                await broker.has_received(kind, count + 1)
                tasks.cancel_scope.cancel()
            with pytest.raises(zaichik.SubscriptionLost, match="was to start over"):
                await anext(subscription)
            broker.answers[kind] = answer
        await client.ping()
        assert [end.subscription for end in broker.of(Unsubscribe)] == ends


async def test_one_that_the_broker_has_ended_does_not_start_over():
    """CMT-3: a name that another reader has by now is not taken back."""
    async with (
        real_client() as client,
        client.subscribe("t", name="n") as first,
        client.subscribe("t", name="n") as second,
    ):
        with pytest.raises(zaichik.TakenOver):
            await anext(first)
        with pytest.raises(zaichik.TakenOver):
            await first.start_over()
        assert second.failure is None
