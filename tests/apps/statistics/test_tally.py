"""All numbers of a topic: equal to the broker's own, and the same whether counted whole or in
parts.
"""

from collections import Counter
from dataclasses import asdict

import oracle
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import FOREVER_US, Event, histories

from zaichik.apps.demo.departures import read_departures
from zaichik.apps.statistics.events import SCHEMA
from zaichik.apps.statistics.partitions import parts
from zaichik.apps.statistics.tally import Span, Tally

SIX_HOURS_US = 6 * 3_600_000_000


def table(happened, decisions=None, epoch=1, start=0):
    """Events of a topic; without decisions, all of them are stored."""
    rows = []
    for number, event in enumerate(happened, start):
        offset, winner = (number, -1) if decisions is None else decisions[number]
        rows.append(
            {"epoch": epoch, "position": number, "status": int(offset < 0), **event._asdict()}
            | {"offset": None if offset < 0 else offset, "winner": None if winner < 0 else winner}
        )
    return pa.Table.from_pylist(rows, SCHEMA)


def tallied(*tables, lengths=(3, FOREVER_US), keys=10):
    tally = Tally(list(lengths), keys)
    for one in tables:
        tally.add(one)
    return tally


@pytest.fixture(scope="module")
def happened():
    """The flights of three days; the payload is what was told of the flight."""
    return [
        Event(
            one.scheduled_us,
            one.tail and one.tail.encode(),
            oracle.blake(one.payload),
            len(one.payload),
        )
        for one in read_departures(days=3)
    ]


@pytest.fixture(scope="module")
def decided(happened):
    return oracle.of_broker(happened, SIX_HOURS_US)


def test_the_account_is_the_brokers_own(happened, decided):
    """JRN-2."""
    topic, decisions = decided
    counts = tallied(table(happened, decisions)).counts
    expected = oracle.what_if(happened, SIX_HOURS_US, "first")
    keyless = sum(event.key is None for event in happened)
    assert counts == {
        "published": topic.published,
        "stored": topic.retained.ring.next_offset,
        "compacted": topic.compacted,
        "bytes": expected["bytes"],
        "stored_bytes": expected["kept_bytes"],
        "compacted_bytes": expected["bytes"] - expected["kept_bytes"],
        "windows": topic.retained.ring.next_offset - keyless,
        "keyed": len(happened) - keyless,
        "differing": expected["differing"],
        "unknown": 0,
        "superseded": 0,
    }


@given(histories)
def test_what_other_windows_would_do_is_the_oracles(events):
    """COM-1, COM-5."""
    found = tallied(table(events)).what_if
    assert found == {key: oracle.what_if(events, *key) for key in found}


@pytest.mark.parametrize("memory", [10_000, 100_000])
def test_counted_in_parts_it_is_the_same(happened, decided, memory):
    whole = table(happened, decided[1])
    lengths = (60_000_000, SIX_HOURS_US, FOREVER_US)
    pieces = list(parts(whole.to_batches(max_chunksize=700), len(whole), memory))
    assert len(pieces) > 5
    keys = [set(piece.column("key").unique().to_pylist()) - {None} for piece in pieces]
    assert sum(map(len, keys)) == len(set().union(*keys)), "no key is in two parts"
    assert asdict(tallied(*pieces, lengths=lengths)) == asdict(tallied(whole, lengths=lengths))


def test_a_small_topic_is_one_part(happened):
    whole = table(happened)
    (part,) = parts(whole.to_batches(), len(whole), 2**30)
    assert part == whole


def test_the_hottest_keys_come_first_and_ties_in_the_order_of_keys():
    events = [Event(0, key, 1, 10) for key in (b"b", b"a", None, b"c", b"c", b"d")]
    hot = tallied(table(events), keys=3).hot_keys
    assert [(row["key"], row["published"], row["bytes"]) for row in hot] == [
        (b"c", 2, 20),
        (b"a", 1, 10),
        (b"b", 1, 10),
    ]


def test_hot_keys_are_those_of_a_plain_count(happened):
    counts = Counter(event.key for event in happened if event.key)
    hot = tallied(table(happened), keys=5).hot_keys
    assert [(row["key"], row["published"]) for row in hot] == sorted(
        counts.items(), key=lambda one: (-one[1], one[0])
    )[:5]


def test_a_winner_that_is_not_among_the_events_is_unknown(happened, decided):
    whole = table(happened, decided[1])
    dropped = whole.filter(pa.compute.equal(whole.column("status"), 1))
    counts = tallied(dropped).counts
    assert (counts["stored"], counts["unknown"], counts["differing"]) == (0, len(dropped), 0)
    first = next(number for number, (offset, _) in enumerate(decided[1]) if offset < 0)
    some = tallied(pa.concat_tables([whole.slice(0, 1), dropped])).counts
    assert (some["stored"], some["unknown"]) == (1, len(dropped) - (decided[1][first][1] == 0))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50)), min_size=1, max_size=30, unique=True)
)
def test_spans_tell_what_lies_where(places):
    events = [Event(position, b"k", 1, 1) for _, position in places]
    tables = [
        table([event], epoch=epoch, start=position)
        for event, (epoch, position) in zip(events, places, strict=True)
    ]
    spans = tallied(*tables, lengths=[1]).spans
    for epoch in {epoch for epoch, _ in places}:
        mine = [position for one, position in places if one == epoch]
        assert spans[epoch] == Span(min(mine), max(mine), len(mine), min(mine), max(mine))
    assert len(spans) == len({epoch for epoch, _ in places})
