"""What two readings tell together: rates, trends, and what readers were told; and that it stays
small.
"""

import pytest
from history import SECOND, History
from test_picture import made

from zaichik.apps.views.memory import FATES, SECONDS, Fate, Memory, Rates, Trend


def test_rates_are_means_of_the_last_two_seconds():
    history = History(capacity=1000, retention_ttl_ms=1000)
    for count in (10, 10, 30, 30, 30):
        history.publish(count)
        history.reading()
        history.wait(SECOND)
    assert history.memory.rates == Rates(published=30, stored=30, expired=30)
    assert [rates.published for rates in history.memory.history] == [10, 30, 30, 30]


def test_there_is_no_rate_before_time_has_passed():
    history = History()
    history.reading()
    history.publish(5)
    history.reading()
    assert history.memory.rates == Rates()


@pytest.mark.parametrize(
    ("commits", "trend"), [(5, Trend("↗")), (10, Trend("→")), (20, Trend("↘", 3.0))]
)
def test_a_lag_grows_or_stays_or_shrinks(commits, trend):
    history = History(capacity=1000, retention_ttl_ms=60_000)
    history.subscribe("r", credit=1)
    history.publish(70)
    for _ in range(5):
        (row,) = history.reading().readers
        name = row["name"]
        for _ in range(commits):
            history.read("r")
            (row,) = history.reading().readers
            history.commit("r", row["cursor"])
        history.read("r")
        history.publish(10)
        history.wait(SECOND)
    history.reading()
    told = history.memory.trend(name)
    assert told.arrow == trend.arrow
    assert (told.clears_s is None) == (trend.clears_s is None)


def test_a_reader_that_is_caught_up_or_not_known_has_no_trend():
    history = History()
    history.subscribe("r")
    (row,) = history.reading().readers
    history.wait(SECOND)
    history.reading()
    assert history.memory.trend(row["name"]) == history.memory.trend("nobody") == Trend()


@pytest.mark.parametrize("change", ["boot", "epoch", "offsets"])
def test_another_boot_or_topic_begins_anew(change):
    memory, before = Memory(), made(0, 100, [])
    memory.seen(before)
    memory.seen(made(50, 100, []))
    assert memory.fates
    topic = {
        **before.topic,
        "epoch": 2 if change == "epoch" else 1,
        "next_offset": 90 if change == "offsets" else 100,
    }
    memory.seen(type(before)(before.now_us, 2 if change == "boot" else 1, topic))
    assert not memory.fates
    assert memory.rates == Rates()


def test_a_reading_that_was_overtaken_by_a_newer_one_changes_nothing():
    memory, state = Memory(), made(50, 100, [])
    memory.seen(state)
    memory.seen(type(state)(0, 1, {**state.topic, "head": 60}))
    assert not memory.fates


def test_runs_of_one_fate_are_one_run():
    memory = Memory()
    for head in (0, 10, 20):
        memory.seen(made(head, 100, []))
    assert [*memory.fates] == [Fate("evicted", 0, 20, 0, 20)]


def test_a_tables_head_moves_by_time_alone():
    """What it evicts are tombstones, from anywhere."""
    memory = Memory()
    settings = {**made(0, 1, []).topic["settings"], "table": 1}
    for head, expired, evicted in ((0, 0, 0), (10, 2, 3)):
        counts = {"expired": expired, "evicted": evicted, "settings": settings}
        memory.seen(made(head, 100, [], **counts))
    (fate,) = memory.fates
    assert (fate.kind, fate.first, fate.end) == ("expired", 0, 10)


def test_it_stays_small_however_long_it_looks():
    memory, state = Memory(), made(0, 1, [])
    for number in range(1, 1000):
        counts = {
            "expired": number // 2,
            "evicted": number - number // 2,
            "head": number,
            "next_offset": number + 1,
        }
        memory.seen(
            type(state)(
                number * SECOND, 1, {**state.topic, **counts}, made(0, 1, [(0, 0)] * 3).readers
            )
        )
    assert len(memory.fates) == FATES
    assert memory.fates[-1].end == 999
    assert len(memory.history) == SECONDS
