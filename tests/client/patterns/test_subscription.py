"""What a program that reads a pattern gets, settles, and is told (PAT-2)."""

import pickle
from datetime import UTC, datetime

import anyio
import pytest
from brokers import GUARD, START_US, real_broker, real_client
from proxy import cutting_proxy

import zaichik
from zaichik import Lagged, Message, TopicGone
from zaichik_protocol import Unencodable

pytestmark = pytest.mark.anyio


async def make(client, *topics, count=1):
    """Topics that keep their messages, with some."""
    for topic in topics:
        await client.create_topic(topic, retention_ttl="forever")
        await client.publish_batch(topic, [(None, b"%d" % number) for number in range(count)])


async def take(messages, count):
    """The topic and the offset of so many messages."""
    taken = [await anext(messages) for _ in range(count)]
    return [(message.topic, message.offset) for message in taken]


async def becomes(wanted, ask, *about):
    """Ask until the answer is the wanted one; if it never is, fail with what it was instead."""
    found = None
    with anyio.move_on_after(GUARD / 2):
        while found != wanted:
            found = await ask(*about)
    assert found == wanted


async def knows(client, messages, topic):
    """Whether the reader knows the topic, once it was told of what came before."""
    await client.ping()
    return topic in messages.topics


async def in_flight(client, topic):
    """How many messages of a topic each subscription was sent; they come before the reply."""
    return [state["in_flight"] for state in await client.subscriptions(topic)]


# -- which topics, and from where ----------------------------------------------------------------


async def test_it_reads_what_is_there_and_what_comes():
    async with real_client() as client:
        await make(client, "orders.de", "orders.fr", "orders.de.old", "others", count=2)
        async with client.subscribe_pattern("orders.*") as messages:
            assert messages.pattern == "orders.*"
            assert sorted(messages.topics) == ["orders.de", "orders.fr"]
            assert sorted(await take(messages, 4)) == [
                ("orders.de", 0), ("orders.de", 1), ("orders.fr", 0), ("orders.fr", 1),
            ]  # fmt: skip
            await client.publish("orders.it", b"first")
            await client.publish("others", b"not this one")
            await client.publish("orders.de", b"third")
            assert sorted(await take(messages, 2)) == [("orders.de", 2), ("orders.it", 0)]
            assert sorted(messages.topics) == ["orders.de", "orders.fr", "orders.it"]


async def test_where_to_begin_is_for_topics_that_are_there():
    async with real_client() as client:
        await make(client, "t.1", count=3)
        async with client.subscribe_pattern("t.*", start="latest") as messages:
            await make(client, "t.2", count=2)
            assert await take(messages, 2) == [("t.2", 0), ("t.2", 1)]
            await client.publish("t.1", b"new")
            assert await take(messages, 1) == [("t.1", 3)]


async def test_it_may_begin_at_a_time():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        await make(client, "t.1", count=3)
        broker.clock.advance(60)
        await client.publish("t.1", b"late")
        since = datetime.fromtimestamp(START_US / 1e6 + 30, UTC)
        async with client.subscribe_pattern("t.*", start=since) as messages:
            assert await take(messages, 1) == [("t.1", 3)]


@pytest.mark.parametrize(
    ("pattern", "start", "problem"),
    [
        ("t.*", 3, "an offset is of one topic"),
        ("t.*", "newest", "a start must be"),
        ("", "earliest", "at least one character"),
        ("$journal/*", "earliest", "can match nothing"),
    ],
)
async def test_what_means_nothing_is_refused(pattern, start, problem):
    async with real_client() as client:
        with pytest.raises(ValueError, match=problem):
            async with client.subscribe_pattern(pattern, start=start):
                pass


@pytest.mark.parametrize("how", [{"name": "x" * 70_000}, {"credit": -1}, {"credit_bytes": 2**64}])
async def test_a_value_that_does_not_fit_its_field_is_refused_at_once(how):
    """Also while there is no topic."""
    async with real_client() as client:
        with pytest.raises(Unencodable):
            async with client.subscribe_pattern("t.*", **how):
                pass


async def test_a_value_that_the_broker_refuses_for_each_topic_ends_it():
    async with real_client() as client:
        await make(client, "t.1")
        with pytest.raises(zaichik.InvalidField):
            async with client.subscribe_pattern("t.*", name="x" * 201):
                pass


# -- credit and turns ----------------------------------------------------------------------------


async def test_all_topics_together_have_one_credit():
    async with real_client() as client:
        await make(client, *(f"t.{number}" for number in range(10)), count=100)
        async with client.subscribe_pattern("t.*", credit=100) as messages:
            await client.ping()
            states = await client.subscriptions()
            of_topics = [state["credit"] for state in states if state["topic"] != "$topics"]
            assert len(of_topics) == 10
            assert sum(of_topics) <= 50
            assert len(await take(messages, 1000)) == 1000


async def test_a_busy_topic_delays_others_by_its_share():
    async with real_client() as client:
        await make(client, "busy", count=1000)
        async with client.subscribe_pattern("*", credit=80) as messages:
            assert await take(messages, 1) == [("busy", 0)]
            await make(client, "quiet")
            await becomes(True, knows, client, messages, "quiet")
            await becomes([1], in_flight, client, "quiet")
            taken = await take(messages, 20)
            assert ("quiet", 0) in taken


# -- settling ------------------------------------------------------------------------------------


async def test_the_message_in_hand_is_not_settled_and_all_before_it_are():
    """CMT-3."""
    async with real_client() as client:
        await make(client, "t.1", "t.2", count=5)
        async with client.subscribe_pattern("t.*", name="n") as messages:
            assert messages.name == "n"
            assert await take(messages, 7) == [*each("t.1", 5), *each("t.2", 2)]
        async with client.subscribe_pattern("t.*", name="n") as messages:
            assert await take(messages, 4) == [("t.2", offset) for offset in (1, 2, 3, 4)]
            assert messages.redelivered


def each(topic, count):
    return [(topic, offset) for offset in range(count)]


async def test_a_topic_that_came_while_the_name_was_away_is_read_from_its_beginning():
    async with real_client() as client:
        await make(client, "t.1", count=2)
        async with client.subscribe_pattern("t.*", name="n") as messages:
            await take(messages, 2)
            await messages.commit(Message("t.1", 1, 0.0, None, b""))
        await make(client, "t.2", count=2)
        async with client.subscribe_pattern("t.*", name="n") as messages:
            assert await take(messages, 2) == each("t.2", 2)


async def test_what_is_held_for_a_name_on_its_way_back_is_read():
    """PAT-3: a topic without retention that came meanwhile, and nobody reads."""
    async with real_broker() as broker, zaichik.connect(port=broker.port) as client:
        async with client.subscribe_pattern("t.*", name="n"):
            broker.sweep()
        await client.publish_batch("t.1", [(None, b"first"), (None, b"second")])
        broker.clock.advance(2)
        broker.sweep()
        async with client.subscribe_pattern("t.*", name="n", events=True) as messages:
            assert await take(messages, 2) == each("t.1", 2)


async def test_a_new_name_is_not_told_of_what_went_before():
    async with real_client() as client:
        await client.create_topic("t.1", capacity=2, retention_ttl="forever")
        for number in range(5):
            await client.publish("t.1", b"%d" % number)
        async with client.subscribe_pattern("t.*", name="n", events=True) as messages:
            assert await take(messages, 2) == [("t.1", 3), ("t.1", 4)]
            assert messages.lagged == 0


async def test_a_commit_settles_a_message_and_all_before_it_in_its_topic():
    async with real_client() as client:
        await make(client, "t.1", "t.2", count=3)
        async with client.subscribe_pattern("t.*", name="n") as messages:
            taken = [await anext(messages) for _ in range(6)]
            await messages.commit(taken[4])
            states = await client.subscriptions("t.2")
            assert [state["committed"] for state in states] == [2]
            await messages.commit(Message("t.gone", 7, 0.0, None, b""))


async def test_what_does_not_match_cannot_be_committed():
    async with real_client() as client, client.subscribe_pattern("t.*") as messages:
        with pytest.raises(ValueError, match=r"'other' does not match the pattern 't\.\*'"):
            await messages.commit(Message("other", 0, 0.0, None, b""))


@pytest.mark.parametrize("in_hand", [0, 1, 4])
async def test_a_message_of_an_earlier_topic_settles_nothing_of_the_one_that_is_there(in_hand):
    """Whatever of the new topic was given out; what is below the message in hand is settled."""
    async with real_client() as client:
        await make(client, "t.1", count=5)
        async with client.subscribe_pattern("t.*", name="n") as messages:
            old = [await anext(messages) for _ in range(5)]
            await client.delete_topic("t.1")
            await make(client, "t.1", count=6)
            new = [await anext(messages) for _ in range(in_hand + 1)]
            await messages.commit(pickle.loads(pickle.dumps(old[-1])))
            states = await committed(client)
            assert states["t.1"] <= in_hand
            await messages.commit(new[-1])
            assert await committed(client) == {"t.1": in_hand + 1}


async def test_regular_commits_follow_a_program_that_is_slow():
    async with real_client() as client:
        await make(client, "t.1", "t.2", count=3)
        async with client.subscribe_pattern("t.*", credit=1000) as messages:
            await take(messages, 5)
            await becomes({"t.1": 3, "t.2": 1}, committed, client)


async def committed(client):
    states = await client.subscriptions()
    return {state["topic"]: state["committed"] for state in states if state["topic"] != "$topics"}


async def test_all_is_settled_when_the_loop_waits_for_more():
    async with real_client() as client:
        await make(client, "t.1", "t.2", count=3)
        async with client.subscribe_pattern("t.*") as messages:
            await take(messages, 6)
            with anyio.move_on_after(0):
                await anext(messages)
            await becomes({"t.1": 3, "t.2": 3}, committed, client)


# -- what it is told -----------------------------------------------------------------------------


async def test_what_has_gone_is_told_after_what_came_of_it():
    async with real_client() as client:
        made = await client.create_topic("t.1", retention_ttl="forever")
        await client.publish("t.1", b"last")
        async with client.subscribe_pattern("t.*", events=True) as messages:
            await becomes([1], in_flight, client, "t.1")
            await client.delete_topic("t.1")
            assert (await anext(messages)).payload == b"last"
            assert await anext(messages) == TopicGone("t.1", made.epoch, 1)
            assert messages.topics == ()
            await make(client, "t.1")
            assert await take(messages, 1) == [("t.1", 0)]


async def test_lag_names_its_topic_and_is_counted():
    """Of eight messages one is in flight, which is the topic's share, and the last two are kept."""
    async with real_client() as client:
        await client.create_topic("t.1", capacity=2, retention_ttl="forever")
        async with client.subscribe_pattern("t.*", credit=8, events=True) as messages:
            await client.publish_batch("t.1", [(None, b"0"), (None, b"1")])
            await becomes([1], in_flight, client, "t.1")
            for number in range(2, 8, 2):
                await client.publish_batch("t.1", [(None, b"%d" % number)] * 2)
            first = await anext(messages)
            assert first.offset == 0
            assert await anext(messages) == Lagged("t.1", 1, 6)
            assert await take(messages, 2) == [("t.1", 6), ("t.1", 7)]
            assert messages.lagged == 5


async def test_without_events_they_are_in_the_log_alone(caplog):
    async with real_client() as client:
        await make(client, "t.1")
        async with client.subscribe_pattern("t.*") as messages:
            await take(messages, 1)
            await client.delete_topic("t.1")
            await make(client, "t.2")
            assert await take(messages, 1) == [("t.2", 0)]
    assert "t.1: topic gone: the next message to be read was offset 1" in caplog.messages


async def test_a_table_among_them_can_be_read_again():
    async with real_client() as client:
        await client.create_topic("t.1", table=True)
        await client.publish("t.1", b"1", key="a")
        await client.publish("t.1", b"2", key="b")
        async with client.subscribe_pattern("t.*") as messages:
            assert await take(messages, 1) == [("t.1", 0)]
            await messages.start_over("t.1")
            await messages.start_over("t.2")
            assert await take(messages, 2) == each("t.1", 2)


# -- how it ends ---------------------------------------------------------------------------------


async def test_leaving_the_block_leaves_all_topics():
    async with real_client() as client:
        await make(client, "t.1", "t.2")
        async with client.subscribe_pattern("t.*") as messages:
            await take(messages, 1)
        await client.ping()
        assert await client.subscriptions() == []


@pytest.mark.parametrize("is_given_out", [False, True])
async def test_after_the_block_it_has_ended(is_given_out):
    async with real_client() as client:
        await make(client, "t.1")
        async with client.subscribe_pattern("t.*") as messages:
            await becomes([1], in_flight, client, "t.1")
            if is_given_out:
                await anext(messages)
        assert messages.topics == ()
        of_topic = Message("t.1", 0, 0.0, None, b"")
        for call in (
            messages.__anext__,
            messages.__anext__,
            messages.fetch,
            lambda: messages.commit(of_topic),
            lambda: messages.start_over("t.1"),
        ):
            with pytest.raises(RuntimeError, match="has ended"):
                await call()


async def test_a_topic_that_comes_as_the_block_ends_is_left_as_well():
    """Otherwise its reader would last as long as the connection, and hold up publishers (RET-9)."""
    async with real_client() as client:
        for number in range(30):
            async with client.subscribe_pattern("t.*"):
                await client.publish(f"t.{number}", b"as it ends")
            await client.ping()
        assert await client.subscriptions() == []


@pytest.mark.parametrize("is_reading", [False, True])
async def test_it_can_be_cancelled_at_any_time(is_reading):
    async with real_client() as client:
        await make(client, "t.1")
        with anyio.CancelScope() as scope:
            if not is_reading:
                scope.cancel()
            async with client.subscribe_pattern("t.*") as messages:
                async for _ in messages:
                    scope.cancel()
        assert scope.cancelled_caught
        await client.ping()
        assert await client.subscriptions() == []


async def test_a_wait_that_is_cancelled_loses_nothing():
    async with real_client() as client, client.subscribe_pattern("t.*") as messages:
        for number in range(3):
            with anyio.move_on_after(0):
                await anext(messages)
            await make(client, f"t.{number}")
        assert sorted(await take(messages, 3)) == [("t.0", 0), ("t.1", 0), ("t.2", 0)]


async def test_an_exception_of_the_block_is_raised_as_it_is():
    async with real_client() as client:
        with pytest.raises(KeyError, match="own"):
            async with client.subscribe_pattern("t.*"):
                raise KeyError("own")


async def test_another_reader_of_its_name_ends_it():
    async with real_client() as client:
        await make(client, "t.1")
        async with (
            client.subscribe_pattern("t.*", name="n") as first,
            client.subscribe_pattern("t.*", name="n") as second,
        ):
            await take(first, 1)
            with pytest.raises(zaichik.TakenOver):
                await anext(first)
            with pytest.raises(zaichik.TakenOver):
                await anext(first)
            assert await take(second, 1) == [("t.1", 0)]


async def test_a_connection_that_is_lost_for_good_ends_it_after_all_that_came():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        await make(other, "t.1", "t.2", count=2)
        async with (
            cutting_proxy(broker.port, []) as proxy,
            zaichik.connect(port=proxy.port, reconnect=0) as client,
            client.subscribe_pattern("t.*") as messages,
        ):
            await becomes([2], in_flight, client, "t.1")
            await becomes([2], in_flight, client, "t.2")
            proxy.cut()
            assert len(await take(messages, 4)) == 4
            with pytest.raises(zaichik.ConnectionLost):
                await anext(messages)


async def test_a_connection_that_is_replaced_goes_unnoticed():
    async with real_broker() as broker, zaichik.connect(port=broker.port) as other:
        await make(other, "t.1", "t.2", count=2)
        async with (
            cutting_proxy(broker.port, []) as proxy,
            zaichik.connect(port=proxy.port) as client,
            client.subscribe_pattern("t.*", events=True) as messages,
        ):
            assert len(await take(messages, 3)) == 3
            proxy.cut()
            await make(other, "t.3")
            await other.publish("t.1", b"more")
            rest = await take(messages, 3)
            assert sorted(rest) == [("t.1", 2), ("t.2", 1), ("t.3", 0)]
