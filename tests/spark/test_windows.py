"""What-if: the walk, the fold, a slow oracle and the broker itself agree on every number."""

import random
from datetime import timedelta

import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FOREVER_US, NUMBERS, Event, by_policy, histories, random_topics

from zaichik.spark import fold, windows
from zaichik.spark.events import EVENTS
from zaichik.spark.windows import Chain, length_us

LENGTHS = [1, 3, 10, FOREVER_US]  # in units of the test


def table(topics):
    """The kernel's columns, in an order that is not theirs."""
    rows = [
        {"topic": topic, "epoch": 5, "position": number, **event._asdict()}
        for topic, events in topics.items()
        for number, event in enumerate(events)
    ]
    random.Random(1).shuffle(rows)
    schema = [(name, pa.int64()) for name in ("epoch", "position", "accepted_us", "hash", "size")]
    return pa.Table.from_pylist(rows, pa.schema([("topic", pa.string()), *schema, ("key", pa.binary())]))


@settings(deadline=None)  # the first call loads what numpy and pyarrow load late
@given(histories, histories)
def test_the_walk_gives_the_oracles_numbers(one, other):
    """COM-1, COM-5: for two topics with the same keys."""
    chain = Chain(table({"one": one, "other": other}))
    for length, opens in zip(LENGTHS, chain.opens(LENGTHS), strict=True):
        for winner in ("first", "last"):
            sums = chain.sums(opens, winner)
            for topic, events in (("one", one), ("other", other)):
                number = chain.topics.index(topic)
                found = {name: sums[name][number] for name in NUMBERS}
                assert found == oracle.what_if(events, length, winner)


@given(histories, st.sampled_from(LENGTHS))
def test_the_broker_keeps_what_the_oracle_keeps(events, length):
    """COM-1, COM-2: with an injected clock; a unit is a millisecond, the finest window a broker has."""
    events = [event._replace(accepted_us=event.accepted_us * 1000) for event in events]
    length = min(length * 1000, FOREVER_US)
    topic, decisions = oracle.of_broker(events, length)
    expected = oracle.what_if(events, length, "first")
    assert (topic.published, topic.ring.next_offset) == (expected["messages"], expected["kept"])
    dropped = [(events[n], winner) for n, (offset, winner) in enumerate(decisions) if offset < 0]
    stored = {offset: events[n] for n, (offset, _) in enumerate(decisions)}
    assert sum(event.hash != stored[winner].hash for event, winner in dropped) == expected["differing"]


def test_a_window_does_not_outlive_the_broker():
    """The same topic under two epochs, with the same offsets: the second broker knows no windows of the first."""
    one, other = ([Event(time, b"k", 1, 1) for time in times] for times in ((0, 1), (2, 3)))
    both = pa.concat_tables([table({"t": one}), table({"t": other}).set_column(1, "epoch", pa.array([6, 6]))])
    chain = Chain(both.select(["topic", "epoch", "position", "accepted_us", "key", "hash", "size"]))
    (opens,) = chain.opens([FOREVER_US])
    assert (chain.topics, chain.sums(opens, "first")["kept"]) == (["t"], [2])


def test_positions_too_far_apart_for_one_integer_are_sorted_all_the_same():
    events = {"t": [Event(time, key, 1, 1) for time, key in ((0, b"a"), (1, b"b"), (2, b"a"))]}
    far = table(events)
    positions = pc.multiply(far.column("position"), 2**60)
    chain = Chain(far.set_column(2, "position", positions))
    (opens,) = chain.opens([3])
    assert chain.sums(opens, "first")["kept"] == [2]


@pytest.fixture(scope="module")
def topics():
    return random_topics(60)


@pytest.fixture(scope="module")
def events(spark, topics):
    rows = [
        (topic, 5, number, event.accepted_us, event.key, event.hash, event.size, 0, None, None)
        for topic, history in topics.items()
        for number, event in enumerate(history)
    ]
    random.Random(1).shuffle(rows)
    return spark.createDataFrame(rows, EVENTS).cache()


LENGTHS_OF_SPARK = [timedelta(microseconds=3), timedelta(microseconds=10), "forever"]


@pytest.mark.parametrize("what_if", [windows.what_if, fold.what_if], ids=["walk", "fold"])
def test_spark_gives_the_oracles_numbers(events, topics, what_if):
    """COM-1: the walk with a shuffle, and its twin in SQL."""
    assert by_policy(what_if(events, LENGTHS_OF_SPARK)) == {
        (topic, length_us(window), winner): oracle.what_if(history, length_us(window), winner)
        for topic, history in topics.items()
        for window in LENGTHS_OF_SPARK
        for winner in ("first", "last")
    }


def test_without_a_shuffle_where_a_partition_has_all_of_its_keys(events):
    here = windows.what_if(events.coalesce(1), LENGTHS_OF_SPARK, ["first"], partitioned=True)
    shuffled = windows.what_if(events, LENGTHS_OF_SPARK, ["first"])
    shuffles = ["RepartitionByExpression" in one._jdf.queryExecution().logical().toString() for one in (here, shuffled)]
    assert shuffles == [False, True]
    assert by_policy(here) == by_policy(shuffled)


@pytest.mark.parametrize("window", [timedelta(0), timedelta(seconds=-1)])
def test_a_window_of_nothing_is_refused(events, window):
    with pytest.raises(ValueError, match="longer than nothing"):
        windows.what_if(events, [window])
