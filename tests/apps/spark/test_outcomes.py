"""The account of the policy that ran: read out of a journal, equal to the broker's own counters."""

import struct
from collections import Counter
from datetime import timedelta

import oracle
import pyarrow as pa
import pytest
from oracle import Event
from pyspark.sql import functions as fn

from zaichik.apps.demo.departures import read_departures
from zaichik.apps.spark import events as journal_events
from zaichik.apps.spark import outcomes, windows
from zaichik.apps.spark.columns import MESSAGES

HOUR_US = 3_600_000_000
SIX_HOURS_US = 6 * HOUR_US


def record(accepted_us, offset, winner, payload):
    """A journal's payload, written down field by field."""
    hash_ = oracle.blake(payload) % 2**64
    return struct.pack("<qqqQIB3x", accepted_us, offset, winner, hash_, len(payload), offset < 0)


@pytest.fixture(scope="module")
def departures():
    return read_departures(days=3)


@pytest.fixture(scope="module")
def happened(departures):
    """The flights of three days as events; the payload is what was told of the flight."""
    return [
        Event(
            one.scheduled_us,
            one.tail and one.tail.encode(),
            oracle.blake(one.payload),
            len(one.payload),
        )
        for one in departures
    ]


@pytest.fixture(scope="module")
def decided(happened):
    """What a broker with a window of six hours made of them: the topic, and each one's (offset,
    winner).
    """
    return oracle.of_broker(happened, SIX_HOURS_US)


@pytest.fixture(scope="module")
def journal(spark, departures, decided):
    """The journal of that topic as Spark reads any topic."""
    table = pa.table(
        {
            "topic": ["$journal/flights"] * len(departures),
            "offset": range(len(departures)),
            "timestamp": pa.array(
                [one.scheduled_us for one in departures], pa.timestamp("us", "UTC")
            ),
            "key": pa.array([one.tail and one.tail.encode() for one in departures], pa.binary()),
            "payload": [
                record(one.scheduled_us, *decision, one.payload)
                for one, decision in zip(departures, decided[1], strict=True)
            ],
        }
    )
    return spark.createDataFrame(table, MESSAGES)


@pytest.fixture(scope="module")
def events(journal):
    return journal_events.from_journal(journal).cache()


def test_a_journal_says_what_happened_to_every_message(events, happened, decided):
    rows = events.orderBy("position").collect()
    assert [
        (row["accepted_us"], row["key"] and bytes(row["key"]), row["hash"], row["size"])
        for row in rows
    ] == happened
    assert [(row["offset"], row["winner"]) for row in rows] == [
        tuple(None if number < 0 else number for number in decision) for decision in decided[1]
    ]
    assert {row["topic"] for row in rows} == {"flights"}


@pytest.fixture(scope="module")
def account(events):
    (row,) = outcomes.account(events).collect()
    return row


def test_the_account_is_the_brokers_own(account, happened, decided):
    (topic, _), row = decided, account
    assert (row["published"], row["stored"], row["compacted"]) == (
        topic.published,
        topic.retained.ring.next_offset,
        topic.compacted,
    )
    expected = oracle.what_if(happened, SIX_HOURS_US, "first")
    assert (row["bytes"], row["stored_bytes"]) == (expected["bytes"], expected["kept_bytes"])
    assert row["compacted_bytes"] == row["bytes"] - row["stored_bytes"]
    assert (row["differing"], row["unknown"]) == (expected["differing"], 0)
    keyless = sum(event.key is None for event in happened)
    assert row["windows"] == topic.retained.ring.next_offset - keyless
    assert row["per_window"] == (len(happened) - keyless) / row["windows"]
    assert row["ratio"] == row["stored"] / row["published"]


def test_the_account_by_hour_and_by_key(events, happened):
    hours = {
        int(row["hour"].timestamp()): row["published"]
        for row in outcomes.account(events, "hour").collect()
    }
    assert hours == Counter(event.accepted_us // HOUR_US * 3600 for event in happened)
    keys = {
        row["key"] and bytes(row["key"]): row["published"]
        for row in outcomes.account(events, "key").collect()
    }
    assert keys == Counter(event.key for event in happened)


def test_the_hottest_keys_of_each_topic_come_first(events, happened):
    counts = Counter(event.key for event in happened if event.key)
    quiet = events.where("key IS NOT NULL").limit(1).withColumn("topic", fn.lit("quiet"))
    *rows, last = outcomes.hot_keys(events.unionByName(quiet), 5).collect()
    assert (last["topic"], last["published"], last["share"]) == ("quiet", 1, 1.0)
    assert [row["published"] for row in rows] == sorted(counts.values(), reverse=True)[:5]
    assert all(counts[bytes(row["key"])] == row["published"] for row in rows)
    assert rows[0]["share"] == rows[0]["published"] / len(happened)


def test_windows_by_how_many_messages_they_had(events, happened, decided):
    found = {
        row["messages"]: row["windows"] for row in outcomes.messages_per_window(events).collect()
    }
    won = [winner if offset < 0 else offset for offset, winner in decided[1]]
    keyed = [winner for winner, event in zip(won, happened, strict=True) if event.key]
    assert found == Counter(Counter(keyed).values())


def test_where_the_messages_lie_shows_what_is_missing(events):
    holes = events.where("position NOT IN (0, 3, 4)").withColumn("topic", fn.lit("holes"))
    rows = outcomes.spans(events.unionByName(holes)).collect()
    whole = events.count()
    assert {row["topic"]: (row["first"], row["last"], row["count"]) for row in rows} == {
        "flights": (0, whole - 1, whole), "holes": (1, whole - 1, whole - 3),
    }  # fmt: skip


def test_a_winner_that_is_not_among_the_events_is_unknown(events):
    (row,) = outcomes.account(events.where("status = 1")).collect()
    assert (row["stored"], row["unknown"]) == (0, row["published"])
    assert row["per_window"] is None


def test_what_if_agrees_with_the_policy_that_ran(events, decided, account):
    """On real events: the walk's answer for six hours is what the broker did with six hours."""
    topic, _ = decided
    (row,) = (
        windows.what_if(events, ["forever", timedelta(hours=6)], ["first"])
        .where(f"window_us = {SIX_HOURS_US}")
        .collect()
    )
    assert (row["messages"], row["kept"]) == (topic.published, topic.retained.ring.next_offset)
    assert (row["differing"], row["kept_bytes"]) == (account["differing"], account["stored_bytes"])
