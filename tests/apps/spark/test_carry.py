"""A history cut into micro-batches gives the numbers of the whole; and little is carried from one
to the next.
"""

import random
from itertools import pairwise

import oracle
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import FOREVER_US, NUMBERS, Event, histories
from pyspark.sql.pandas.types import to_arrow_schema

from zaichik.apps.spark import carry
from zaichik.apps.spark.carry import CARRIED, RAN_US
from zaichik.apps.spark.forgetting import Turns
from zaichik.apps.statistics.chain import SUMS, TABLE

LENGTHS = [3, FOREVER_US]  # in units of the test
POLICIES = oracle.policies(LENGTHS)
EVER = 10**9  # longer than any history


def rows(topic, events, start, statuses=None):
    """Events as new rows, from that position on."""
    return [
        {"topic": topic, "epoch": 0, "position": number, "count": 1, "behind_us": 0}
        | {"status": 0 if statuses is None else statuses[number]}
        | event._asdict()
        for number, event in enumerate(events, start)
    ]


def step(carried, new, policies, turns, remember_us=EVER, max_keys=EVER):
    """What a micro-batch carries on, and how it changes the sums; `turns` are updated."""
    mixed = carried + new
    random.Random(1).shuffle(mixed)
    latest = {}
    for row in new:
        latest[row["topic"]] = max(row["accepted_us"], latest.get(row["topic"], 0))
    table = pa.RecordBatch.from_pylist(mixed, to_arrow_schema(CARRIED))
    kept = {"remember_us": remember_us, "max_keys": max_keys}
    counted = carry.count(iter([table]), policies, latest, turns, **kept)
    found = [row for batch in counted for row in batch.to_pylist()]
    come = [row for row in found if row["turns"] is not None]
    turns |= {row["topic"]: Turns(row["turns"], row["floor"], row["now_us"]) for row in come}
    return [row for row in found if row["messages"] is None], [
        row for row in found if row["messages"] is not None
    ]


def walk(micro_batches, policies, remember_us=EVER, max_keys=EVER):
    """The sums by topic and policy after all micro-batches, and what each has carried on."""
    carried, sums, sizes, turns = [], {}, [], {}
    for new in micro_batches:
        carried, changes = step(carried, new, policies, turns, remember_us, max_keys)
        sizes.append(len(carried))
        for change in changes:
            mine = sums.setdefault(
                (change["topic"], change["window_us"], change["winner"]), dict.fromkeys(NUMBERS, 0)
            )
            mine |= {name: mine[name] + change[name] for name in SUMS}
            mine["max_delay_us"] = max(mine["max_delay_us"], change["max_delay_us"])
    return sums, sizes


def cut(topic, events, edges, statuses=None):
    """The rows of the events between each two edges."""
    edges = [0, *sorted(min(edge, len(events)) for edge in edges), len(events)]
    return [rows(topic, events[start:end], start, statuses) for start, end in pairwise(edges)]


cuts = st.lists(st.integers(0, 40), min_size=3, max_size=3)


@settings(max_examples=20)
@given(histories, cuts, histories, cuts)
def test_micro_batches_give_the_oracles_numbers(one, one_cut, other, other_cut):
    """COM-1, COM-5: for two topics with the same keys, cut anywhere."""
    micro_batches = [
        a + b for a, b in zip(cut("one", one, one_cut), cut("other", other, other_cut), strict=True)
    ]
    sums, _ = walk(micro_batches, POLICIES)
    for topic, events in (("one", one), ("other", other)):
        for length, winner in POLICIES:
            assert sums[topic, length, winner] == oracle.what_if(events, length, winner)


@settings(max_examples=40)
@given(histories, cuts, histories, cuts, st.integers(1, 3))
def test_windows_that_are_forgotten_give_the_oracles_numbers(
    one, one_cut, other, other_cut, max_keys
):
    """COM-6: what one topic forgets is no matter of the other's; and a batch may be cut in two."""
    micro_batches = [
        a + b for a, b in zip(cut("one", one, one_cut), cut("other", other, other_cut), strict=True)
    ]
    policies = [(FOREVER_US, winner) for winner in ("first", "last")]
    sums, _ = walk(micro_batches, policies, max_keys=max_keys)
    for topic, events in (("one", one), ("other", other)):
        for length, winner in policies:
            assert sums[topic, length, winner] == oracle.what_if(events, length, winner, max_keys)


@pytest.mark.parametrize("winner", ["first", "last"])
def test_windows_that_never_close_are_carried_until_they_are_forgotten(winner):
    """Thirty keys, each with two different updates; ten are remembered, and that of the batch
    which may go on.
    """
    events = [
        event
        for key in range(30)
        for event in (Event(key, b"%d" % key, 1, 1), Event(key, b"%d" % key, 2, 1))
    ]
    micro_batches = [rows("t", events[at : at + 2], at) for at in range(0, 60, 2)]
    _, sizes = walk(micro_batches, [(FOREVER_US, winner)], remember_us=1, max_keys=10)
    assert max(sizes) == 2 * (10 + 1)


@settings(max_examples=20)
@given(histories, cuts, st.sampled_from(LENGTHS))
def test_the_policy_that_ran_is_told_by_its_decisions(events, edges, length):
    events = [event._replace(accepted_us=event.accepted_us * 1000) for event in events]
    length = min(length * 1000, FOREVER_US)
    topic, decisions = oracle.of_broker(events, length)
    statuses = [int(offset < 0) for offset, _ in decisions]
    sums, _ = walk(cut("t", events, edges, statuses), [(RAN_US, "first")])
    assert sums["t", RAN_US, "first"] == oracle.what_if(events, length, "first")
    assert (topic.published, topic.retained.ring.next_offset) == (
        len(events),
        sums["t", RAN_US, "first"]["kept"],
    )


@pytest.mark.parametrize(("winner", "most"), [("first", 5), ("last", 4)])
def test_keys_leave_when_their_windows_are_over(winner, most):
    """Thirty keys, each with two different updates a unit apart; a window has three units."""
    events = [
        event
        for key in range(30)
        for event in (Event(key, b"%d" % key, 1, 1), Event(key, b"%d" % key, 1, 1))
    ]
    micro_batches = [rows("t", [event], number) for number, event in enumerate(events)]
    _, sizes = walk(micro_batches, [(3, winner)])
    assert max(sizes) <= most


def test_a_hot_key_is_carried_as_two_rows():
    """However many messages its window has, keeping first messages."""
    events = [Event(number, b"hot", number, 1) for number in range(200)]
    _, sizes = walk(
        [rows("t", events[:100], 0), rows("t", events[100:], 100)], [(FOREVER_US, "first")]
    )
    assert sizes == [2, 2]


def test_of_a_table_a_row_is_carried_for_each_key_that_is_not_deleted():
    """However many updates it has had; a message without a key is never superseded."""
    events = [Event(number, b"%d" % (number % 5), number, 1) for number in range(100)]
    deletions = [Event(100, b"%d" % key, 7, 0) for key in range(4)]
    alone = [Event(101, None, 7, 0)]
    micro_batches = [rows("t", events, 0), rows("t", deletions, 100), rows("t", alone, 104)]
    _, sizes = walk(micro_batches, [TABLE], remember_us=1)
    assert sizes == [5, 1, 1]


def test_what_waits_too_long_is_given_up():
    """The update at 1 waits for the window's end at 10 and is remembered for 5 more; seen at 20, or
    never.
    """
    micro_batches = [
        rows("t", [Event(0, b"a", 1, 1), Event(1, b"a", 2, 1)], 0),
        rows("t", [Event(15, b"b", 1, 1)], 2),
        rows("t", [Event(20, b"a", 1, 1)], 3),
    ]
    for remember_us, seen_late in ((5, 0), (6, 1)):
        sums, _ = walk(micro_batches, [(10, "first")], remember_us)
        mine = sums["t", 10, "first"]
        assert (mine["kept"], mine["differing"], mine["delayed"], mine["unseen"]) == (
            3,
            1,
            seen_late,
            1 - seen_late,
        )


def test_messages_dropped_by_an_unknown_one_are_not_kept():
    """As when a journal's beginning is gone: what it says was dropped stays dropped."""
    events = [Event(time, b"a", time, 1) for time in range(4)]
    sums, _ = walk(cut("t", events, [1, 2, 3], [1, 1, 0, 1]), [(RAN_US, "first")])
    mine = sums["t", RAN_US, "first"]
    assert (mine["messages"], mine["kept"], mine["kept_bytes"]) == (4, 1, 1)
