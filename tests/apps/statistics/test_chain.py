"""What-if: the loop, its fast twin, a slow oracle and the broker itself agree on every number."""

import random
from datetime import timedelta

import numpy as np
import oracle
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import FOREVER_US, NUMBERS, Event, histories

from zaichik.apps.statistics import chain
from zaichik.apps.statistics.chain import (
    WINNERS,
    Chain,
    length_us,
    opening,
    policies,
    walk,
)

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
    return pa.Table.from_pylist(
        rows, pa.schema([("topic", pa.string()), *schema, ("key", pa.binary())])
    )


@given(histories, histories)
def test_the_walk_gives_the_oracles_numbers(one, other):
    """COM-1, COM-5: for two topics with the same keys."""
    chain = Chain(table({"one": one, "other": other}))
    told = dict(chain.tried(policies(LENGTHS, WINNERS)))
    assert sorted(told) == sorted(oracle.policies(LENGTHS))
    for policy, sums in told.items():
        for topic, events in (("one", one), ("other", other)):
            number = chain.topics.index(topic)
            found = {name: sums[name][number] for name in NUMBERS}
            assert found == oracle.what_if(events, *policy)


@given(histories)
def test_a_table_has_what_the_oracle_has_whenever_a_reader_comes(events):
    """TAB-1, TAB-5, TAB-7: after each batch, what a late reader would get."""
    times = {event.accepted_us for event in events}
    for now_us in times:
        until_now = [event for event in events if event.accepted_us <= now_us]
        kept, told = oracle.table_of_broker(until_now)
        expected = oracle.as_table(until_now)
        assert kept.messages == expected["kept"]
        superseded = [offset for offset in told if offset >= 0]
        assert len(superseded) == len(set(superseded)) == kept.superseded
        differing = [
            (offset, by)
            for by, offset in enumerate(told)
            if offset >= 0
            and until_now[offset].size
            and until_now[offset].hash != until_now[by].hash
        ]
        assert len(differing) == expected["differing"]


@given(histories, st.sampled_from(LENGTHS))
def test_the_broker_keeps_what_the_oracle_keeps(events, length):
    """COM-1, COM-2: with an injected clock; a unit is a millisecond, the finest window a broker
    has.
    """
    events = [event._replace(accepted_us=event.accepted_us * 1000) for event in events]
    length = min(length * 1000, FOREVER_US)
    topic, decisions = oracle.of_broker(events, length)
    expected = oracle.what_if(events, length, "first")
    assert (topic.published, topic.retained.ring.next_offset) == (
        expected["messages"],
        expected["kept"],
    )
    dropped = [(events[n], winner) for n, (offset, winner) in enumerate(decisions) if offset < 0]
    stored = {offset: events[n] for n, (offset, _) in enumerate(decisions)}
    assert (
        sum(event.hash != stored[winner].hash for event, winner in dropped) == expected["differing"]
    )


def test_a_window_does_not_outlive_the_broker():
    """The same topic under two epochs, with the same offsets: the second broker knows no windows of
    the first.
    """
    one, other = ([Event(time, b"k", 1, 1) for time in times] for times in ((0, 1), (2, 3)))
    both = pa.concat_tables(
        [table({"t": one}), table({"t": other}).set_column(1, "epoch", pa.array([6, 6]))]
    )
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


def gaps_of(runs):
    """Messages of several keys, a run each: the gap before the first of a key is endless."""
    return np.array([gap for run in runs for gap in (FOREVER_US, *run)], np.int64)


plain = st.lists(st.lists(st.integers(0, 6), max_size=30), min_size=1, max_size=12)


@given(plain, st.sampled_from([1, 2, 3, 7, 20, FOREVER_US]), st.sampled_from([0, 1, 32]))
def test_the_fast_way_opens_the_windows_that_the_loop_opens(runs, window, few):
    """COM-1: whether runs are searched in rounds or walked one by one."""
    gaps = gaps_of(runs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain, "FEW", few)
        assert opening(gaps, window).tolist() == walk(gaps, window).tolist()


def test_a_long_chain_is_walked_in_pieces(monkeypatch):
    monkeypatch.setattr(chain, "CHUNK", 7)
    gaps = gaps_of([[1] * 100])
    assert opening(gaps, 10).tolist() == list(range(0, 101, 10))


def test_times_too_far_apart_for_one_axis_are_walked_all_the_same():
    """Six keys that come every century, for centuries: the sum of all gaps is no 64-bit integer."""
    window = 2**61
    gaps = gaps_of([[2**59] * 5] * 6)
    assert (
        opening(gaps, window).tolist()
        == walk(gaps, window).tolist()
        == [n * 6 + more for n in range(6) for more in (0, 4)]
    )


@pytest.mark.parametrize("window", [timedelta(0), timedelta(seconds=-1)])
def test_a_window_of_nothing_is_refused(window):
    with pytest.raises(ValueError, match="longer than nothing"):
        length_us(window)


def test_a_group_stands_for_epoch_and_key():
    """As Spark sends it: a number instead of a topic's, an epoch's and a key's bytes."""
    events = {
        "t": [Event(time, key, 1, 1) for time, key in ((0, b"a"), (1, b"b"), (2, b"a"), (9, b"a"))]
    }
    named = table(events)
    group = pa.array(
        [{b"a": -(2**63), b"b": 2**63 - 1}[key] for key in named.column("key").to_pylist()]
    )
    numbered = named.drop_columns(["key", "epoch"]).append_column("group", group)
    found = [
        one.sums(next(one.opens([3])), "first")["kept"] for one in (Chain(named), Chain(numbered))
    ]
    assert found == [[3], [3]]
