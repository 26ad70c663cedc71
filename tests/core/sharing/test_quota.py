"""Shares of a table: a client may have a multiple of what is left."""

import pytest
from conversation import Conversation, batch, broker_with
from hypothesis import given
from hypothesis import strategies as st

from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import SHARE, Holding, Quota
from zaichik_protocol import (
    CreateTopic,
    Describe,
    Error,
    ErrorCode,
    Kind,
    Publish,
    Published,
    Subscribe,
)

LIMITS = st.integers(1, 3_000)


def fill(quota, clients):
    """Each takes one after the other, until none gets any more: what each holds."""
    held = dict.fromkeys(clients, 0)
    while any(quota.has_room(client) for client in clients):
        for client in clients:
            if quota.has_room(client):
                quota.take(client)
                held[client] += 1
    return held


@given(LIMITS, st.integers(1, 12))
def test_clients_that_want_everything_get_equal_shares(limit, count):
    """Each of k gets 32 parts of 32 k + 1, to within one entry."""
    held = fill(Quota(limit), [f"client {number}" for number in range(count)])
    fair = limit * SHARE / (SHARE * count + 1)
    assert all(abs(entries - fair) <= 1 for entries in held.values())
    assert sum(held.values()) <= limit


@given(st.integers(100, 3_000))
def test_beside_one_client_that_wants_everything_there_is_room_for_another(limit):
    quota = Quota(limit)
    fill(quota, ["greedy"])
    assert quota.has_room("newcomer")


@given(st.integers(1, SHARE))
def test_a_small_table_can_be_filled_by_one_client(limit):
    assert fill(Quota(limit), ["one"]) == {"one": limit}


@pytest.mark.parametrize(("limit", "entries"), [(33, 32), (66, 64), (99, 96), (10_000, 9_697)])
def test_a_single_client_gets_32_of_33_parts(limit, entries):
    assert fill(Quota(limit), ["one"]) == {"one": entries}


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=60),
    st.integers(1, 300),
)
def test_amounts_are_charged_and_released(takes, limit):
    """And a client that has just been given room is not over its share."""
    quota, held = Quota(limit), []
    for client, amount in takes:
        if quota.has_room(client, amount):
            quota.take(client, amount)
            held.append((client, amount))
            assert not quota.is_over(client)
        elif held:
            name, size = held.pop(0)
            quota.take(name, -size)
        assert quota.used == sum(size for _, size in held) <= limit
    for name, size in held:
        quota.take(name, -size)
    assert (quota.used, quota._held) == (0, {}), "a client that holds nothing is forgotten"


def test_a_connection_that_holds_nothing_is_not_over_its_share():
    assert not Holding(Quota(0), "a").is_over


def test_what_a_connection_holds_is_charged_as_it_changes():
    """And it is over its share at the first byte too many, until some are released."""
    quota = Quota(99)
    holdings = [Holding(quota, "a"), Holding(quota, "a")]
    assert [holding.amount for holding in holdings] == [0, 0]
    for amounts, is_over in (
        ((40, 0), False),
        ((40, 56), False),
        ((40, 57), True),
        ((0, 57), False),
    ):
        for holding, amount in zip(holdings, amounts, strict=True):
            holding.update(amount)
        assert quota.used == sum(amounts)
        assert holdings[1].amount == amounts[1]
        holdings[1].check()
        assert holdings[1].is_over is is_over
    holdings[1].update(0)
    assert (quota.used, quota._held) == (0, {})


def test_charges_that_cannot_be_refused_may_exceed_the_share_and_delay_the_client():
    quota = Quota(100)
    quota.take("a", 97)
    assert not quota.is_over("a")
    quota.take("a", 1)
    assert quota.is_over("a")
    assert not quota.is_over("b"), "it holds nothing"
    quota.take("a", 50)
    assert quota.is_over("a")
    assert not quota.has_room("b")


# -- the tables of a broker ----------------------------------------------------------------------


def refused(client, requests):
    """The first refusal of these, and how many were carried out before."""
    for done, request in enumerate(requests):
        (reply, *_) = client.ask(request)
        if isinstance(reply, Error):
            return ErrorCode(reply.code), done
    return None, done + 1


def topics(client, count=1_000):
    return refused(
        client, [CreateTopic(2, f"{client.manager.number} {number}") for number in range(count)]
    )


def names(client, count=1_000):
    def requests():
        for number in range(client.last + 1, client.last + count + 1):
            client.last = number
            yield Subscribe(number, "t", f"{client.manager.number} {number}")

    client.last = getattr(client, "last", 1)
    return refused(client, requests())


def producers(client, count=1_000):
    first = client.manager.number * 10_000
    return refused(
        client,
        [
            Publish(3, "t", batch(b""), producer=first + number, sequence=0)
            for number in range(count)
        ],
    )


LIMITED = [
    (topics, "max_topics", ErrorCode.TOO_MANY_TOPICS),
    (names, "max_sessions", ErrorCode.TOO_MANY_SUBSCRIPTIONS),
    (producers, "max_producers", ErrorCode.NO_MEMORY),
]


@pytest.mark.parametrize(
    ("take", "limit", "code"), LIMITED, ids=lambda value: getattr(value, "__name__", None)
)
def test_one_client_cannot_use_up_a_table(take, limit, code):
    """TOP-8, CMT-3, PUB-4: from any number of connections; another address still gets some."""
    broker = broker_with(**{limit: 330})
    hogs = [Conversation(broker, client="hog") for _ in range(2)]
    assert take(hogs[0], 200) == (None, 200)
    found, done = take(hogs[1])
    assert (found, 200 + done) == (code, 320)
    other = Conversation(broker, client="other")
    assert take(other, 5) == (None, 5)
    assert take(hogs[1])[0] == code


@pytest.mark.parametrize("connections", [1, 100])
def test_one_client_cannot_use_up_what_clients_may_hold(connections):
    """LAG-6: a subscription is refused, and another client gets one."""
    broker = broker_with(
        max_client_bytes=330 * prices.SUBSCRIPTION + connections * prices.CONNECTION
    )
    hogs = [Conversation(broker, client="hog") for _ in range(connections)]
    found, _ = refused(hogs[0], [Subscribe(number, "t") for number in range(2, 1_000)])
    assert found == ErrorCode.NO_MEMORY
    other = Conversation(broker, client="other")
    assert refused(other, [Subscribe(2, "t")]) == (None, 1)
    client_bytes = broker.settings.max_client_bytes
    assert broker.memory.used <= client_bytes
    assert broker.memory._held["hog"] <= client_bytes * SHARE / (SHARE + 1)


def test_a_clients_holdings_are_released_when_it_leaves():
    """CLO-3: connections and subscriptions; names and producers in their time."""
    broker = broker_with(session_ttl=1.0, producer_ttl=600.0)
    client = Conversation(broker, client="a")
    client.ask(
        Subscribe(2, "t", "name"),
        Subscribe(3, "t"),
        Publish(0, "t", batch(b""), producer=1, sequence=0),
    )
    assert (
        broker.memory.used
        == prices.CONNECTION + 2 * prices.SUBSCRIPTION + prices.NAME + prices.PRODUCER
    )
    broker.disconnect(client.manager, "GONE")
    assert broker.memory.used == prices.NAME + prices.PRODUCER
    broker.sweep()
    broker.clock.advance(600)
    broker.sweep()
    assert (broker.memory.used, broker.memory._held) == (0, {})


def test_a_producer_is_not_forgotten_before_its_time_for_another_client():
    """PUB-4: or what it sends again would be stored twice."""
    broker = broker_with(max_producers=10, producer_ttl=600.0)
    one, hog = Conversation(broker, client="one"), Conversation(broker, client="hog")
    first = Publish(3, "t", batch(b"x"), producer=1, sequence=0)
    (stored,) = one.ask(first)
    assert isinstance(stored, Published)
    producers(hog)
    broker.clock.advance(599)
    broker.sweep()
    assert producers(hog)[0] == ErrorCode.NO_MEMORY
    assert one.ask(first)[0].duplicate


def test_a_journal_is_charged_to_the_client_of_its_topic():
    """JRN-2: of those that are made by first use and get their settings later."""
    broker = broker_with(max_topics=33)
    one, other = Conversation(broker, client="one"), Conversation(broker, client="other")
    one.ask(Publish(0, "t", batch(b"", b"")))
    one.ask(*[Subscribe(number, f"{number}") for number in range(2, 40)])
    code, _ = refused(other, [CreateTopic(2, "5", ((6, 1000),))])
    assert code == ErrorCode.TOO_MANY_TOPICS
    assert other.ask(CreateTopic(3, "mine"))[0].created


def test_describe_needs_no_room():
    """A broker that is full can still be described."""
    broker = broker_with(max_client_bytes=prices.CONNECTION)
    assert not isinstance(Conversation(broker, client="a").ask(Describe(2, Kind.BROKER))[0], Error)
