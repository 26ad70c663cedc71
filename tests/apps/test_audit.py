"""The conservation laws, from what a broker tells of itself: they hold under load, and a wrong
counter breaks them.
"""

import anyio
import pytest

import zaichik
from zaichik.apps.audit import Sum, audit

pytestmark = pytest.mark.anyio

GUARD = 60
TOPICS = [f"t{number:02}" for number in range(20)]  # a page has 8
ROUNDS = 15
FATES = {
    "stored",
    "compacted",
    "resident",
    "evicted",
    "delivered",
    "skipped",
    "ahead",
    "settled",
    "in flight",
}
TOPIC = {
    "name": "t",
    "published": 12,
    "stored": 10,
    "compacted": 2,
    "resident": 4,
    "expired": 5,
    "evicted": 1,
}
READER = {
    "name": "t#1.2",
    "connection": 1,
    "start": 3,
    "committed": 6,
    "cursor": 8,
    "next_offset": 10,
    "delivered": 4,
    "skipped": 1,
    "ahead": 2,
    "in_flight": 2,
}


def wrong(sums):
    return [each for each in sums if each.difference]


def test_sums_are_lines_that_a_person_can_follow():
    assert [f"{each.kind} {each.name}: {each}" for each in audit([TOPIC], [READER])] == [
        "topic t: published 12 = stored 10 + compacted 2",
        "topic t: stored 10 = resident 4 + expired 5 + evicted 1",
        "subscription t#1.2: since its start 7 = delivered 4 + skipped 1 + ahead 2",
        "subscription t#1.2: delivered 4 = settled 2 + in flight 2",
    ]
    assert (
        str(Sum("topic", "t", ("published", 1500), (("stored", 1000),)))
        == "published 1,500 ≠ stored 1,000"
    )


@pytest.mark.parametrize(
    "counter", ["published", "stored", "compacted", "resident", "expired", "evicted"]
)
@pytest.mark.parametrize("slip", [-1, 1])
def test_a_wrong_counter_of_a_topic_is_a_difference(counter, slip):
    found = wrong(audit([TOPIC | {counter: TOPIC[counter] + slip}]))
    assert {abs(each.difference) for each in found} == {1}


@pytest.mark.parametrize(
    ("counter", "slip"),
    [
        (name, slip)
        for name in ("start", "next_offset", "delivered", "skipped", "ahead")
        for slip in (-1, 1)
    ]
    + [("in_flight", 3), ("in_flight", -2), ("committed", -2)],
)
def test_a_wrong_counter_of_a_subscription_is_a_difference(counter, slip):
    """What was committed may have been lag: so of the last two, not every slip can be seen."""
    assert wrong(audit([], [READER | {counter: READER[counter] + slip}]))


def test_damaged_messages_are_told_only_where_there_are_some():
    """DUR-7."""
    _, stored = audit([TOPIC | {"resident": 3, "damaged": 1}])
    assert (str(stored), stored.difference) == (
        "stored 10 = resident 3 + expired 5 + evicted 1 + damaged 1",
        0,
    )


def test_an_older_broker_tells_less():
    reader = {name: value for name, value in READER.items() if name != "next_offset"}
    assert wrong(audit([TOPIC | {"damaged": 0}], [reader])) == []
    assert wrong(audit([], [reader | {"skipped": 2}]))


def test_a_name_whose_reader_is_away_has_no_law():
    assert audit([], [READER | {"connection": 0, "skipped": 99}]) == []


async def busy(port, number):
    """Publishes and reads: with windows, a ring that is too small, a credit that lags, and topics
    that come and go.
    """
    async with zaichik.connect(port=port) as client:
        while True:
            for topic in TOPICS[number::4]:
                await client.create_topic(
                    topic, retention_ttl=3600, compaction_window=60, capacity=50
                )
                async with client.subscribe(
                    topic, credit=20, name="n" if number % 2 else ""
                ) as subscription:
                    for _ in range(3):
                        await client.publish_batch(
                            topic, [(None if n % 2 else str(n), b"x") for n in range(40)]
                        )
                        await anext(subscription)
                if number == 3:
                    await client.delete_topic(topic)


async def test_a_busy_broker_is_never_accused():
    """Pages are of different moments: rows are each of one."""
    rounds, seen = 0, set()
    with anyio.fail_after(GUARD):
        async with zaichik.running_broker() as broker, anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(busy, broker.port, number)
            async with zaichik.connect(port=broker.port) as client:
                while (rounds := rounds + 1) < ROUNDS or seen < FATES:
                    sums = audit(await client.topics(), await client.subscriptions())
                    assert wrong(sums) == []
                    seen |= {fate for each in sums for fate, number in each.parts if number}
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("counter", ["compacted", "published"])
async def test_a_wrong_counter_in_a_broker_is_found(counter):
    async with zaichik.running_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.publish("t", b"x")
        (topic,) = broker.broker.registry
        setattr(topic, counter, getattr(topic, counter) + 1)
        (found,) = wrong(audit(await client.topics()))
    assert (found.name, found.whole[0], abs(found.difference)) == ("t", "published", 1)


@pytest.mark.parametrize("counter", ["delivered", "skipped", "in_flight"])
async def test_a_wrong_counter_of_a_reader_is_found(counter):
    async with zaichik.running_broker() as broker, zaichik.connect(port=broker.port) as client:
        await client.create_topic("t", retention_ttl="forever")
        await client.publish("t", b"x")
        async with client.subscribe("t") as subscription:
            await anext(subscription)
            (topic,) = broker.broker.registry
            (reader,) = topic.readers
            setattr(reader, counter, getattr(reader, counter) + 7)
            assert {each.kind for each in wrong(audit([], await client.subscriptions()))} == {
                "subscription"
            }
