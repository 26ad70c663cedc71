"""Filters that leave out what need not be read: never too much, and as a rule all of it."""

import pickle
from datetime import UTC, datetime, timedelta, timezone

import pytest
from embedded import START_US
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringContains,
)

from zaichik.apps.spark.columns import MESSAGES
from zaichik.apps.spark.source import ZaichikSource

OFFSET, TIME, TOPIC = ("offset",), ("timestamp",), ("topic",)
FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
WEST = timezone(timedelta(hours=-11))
START = datetime.fromtimestamp(START_US / 1e6, UTC)


@pytest.fixture
def topics(broker):
    """Two topics with a message a second, ten of them."""
    for topic in ("t", "u"):
        broker.create(topic)
    for number in range(10):
        for topic in ("t", "u"):
            broker.publish(topic, [(None, b"%d" % number)])
        broker.clock.advance(1)
    return {"broker": broker.address, "topic": "t,u", "pushDown": "true"}


def planned(topics, *filters):
    """The offsets that are read of each topic."""
    reader = ZaichikSource(topics).reader(MESSAGES)
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark looks at each row again"
    parts = pickle.loads(pickle.dumps(reader)).partitions()
    return {part.topic: list(range(part.start, part.end)) for part in parts}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (GreaterThan(OFFSET, 6), [7, 8, 9]),
        (GreaterThanOrEqual(OFFSET, 6), [6, 7, 8, 9]),
        (LessThan(OFFSET, 2), [0, 1]),
        (LessThanOrEqual(OFFSET, 2), [0, 1, 2]),
        (EqualTo(OFFSET, 5), [5]),
        (GreaterThanOrEqual(TIME, START + timedelta(seconds=7)), [7, 8, 9]),
        (GreaterThan(TIME, START + timedelta(seconds=7)), [8, 9]),
        (LessThan(TIME, START + timedelta(seconds=2)), [0, 1]),
        (LessThanOrEqual(TIME, (START + timedelta(seconds=2)).replace(tzinfo=None)), [0, 1, 2]),
        (EqualTo(TIME, START + timedelta(seconds=3)), [3]),
        (StringContains(TOPIC, "t"), list(range(10))),
        (LessThanOrEqual(TIME, LAST), list(range(10))),
        (LessThan(TIME, LAST), list(range(10))),
        (GreaterThan(TIME, LAST), list(range(10))),  # Spark finds none of them
        (GreaterThan(TIME, FIRST), list(range(10))),
        (GreaterThanOrEqual(TIME, FIRST), list(range(10))),
        (LessThanOrEqual(TIME, LAST.astimezone(WEST)), list(range(10))),
        (LessThan(TIME, (START + timedelta(seconds=2)).astimezone(WEST)), [0, 1]),
        (LessThanOrEqual(OFFSET, 2**63 - 1), list(range(10))),
        (GreaterThanOrEqual(OFFSET, -(2**63)), list(range(10))),
    ],
)
def test_what_a_filter_leaves_out_is_not_read(topics, one, expected):
    assert planned(topics, one) == {"t": expected, "u": expected}


def test_filters_on_the_topic(topics):
    assert planned(topics, EqualTo(TOPIC, "u")).keys() == {"u"}
    assert planned(topics, In(TOPIC, ("t", "x"))).keys() == {"t"}


def test_filters_that_leave_nothing(topics):
    assert planned(topics, GreaterThan(OFFSET, 7), LessThan(OFFSET, 3)) == {"t": []}
    assert planned(topics, GreaterThan(OFFSET, 70)) == {"t": []}
    assert planned(topics, GreaterThan(OFFSET, 2**63 - 1)) == {"t": []}
    assert planned(topics, EqualTo(TIME, LAST)) == {"t": []}
    assert planned(topics, LessThan(TIME, FIRST)) == {"t": []}


def test_spark_gets_the_same_rows_from_less(topics, spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        table = spark.read.format("zaichik").options(**topics).load()
        rows = table.where("offset >= 8 AND topic = 'u'").select("topic", "offset").collect()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    assert sorted(map(tuple, rows)) == [("u", 8), ("u", 9)]
