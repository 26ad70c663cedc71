"""What is not known is told, and never guessed."""

from dataclasses import replace

import pytest
from made_up import MINUTE, row, statistics

from zaichik.apps.statistics.chain import FOREVER_US, NUMBERS, TABLE
from zaichik.apps.statistics.tally import Span, Tally
from zaichik.apps.statistics.truth import LOSSES, caveats, statistics_of
from zaichik_protocol import FOREVER


class Source:
    """A topic somewhere."""

    def __init__(
        self, *windows_ms, is_journaled=False, counters=None, journal_bytes=0, ends=None, left_out=0
    ):
        self.name, self.place, self.is_journaled, self.counters = (
            "t",
            "here",
            is_journaled,
            counters,
        )
        self.ends = {0: 90} if ends is None else ends
        self.left_out = left_out
        self.gone_of_table = (0, 0)
        self.settings = {
            epoch: None
            if window is None
            else {"compaction_window_ms": window, "journal_bytes": journal_bytes}
            for epoch, window in enumerate(windows_ms or (0,))
        }

    def gone(self, rows):
        return self.gone_of_table


COUNTS = {
    "published": 90,
    "stored": 90,
    "compacted": 0,
    "bytes": 900,
    "stored_bytes": 900,
    "compacted_bytes": 0,
    "windows": 80,
    "keyed": 80,
    "differing": 0,
    "unknown": 0,
    "superseded": 0,
}
COUNTERS = {"published": 500, "stored": 90, "compacted": 410}


def tally(*spans):
    what_if = {
        (length, winner): dict.fromkeys(NUMBERS, 7) | {"messages": 90, "bytes": 900, "kept": 30}
        for length in (MINUTE, 5 * MINUTE, 15 * MINUTE)
        for winner in ("first", "last")
    }
    what_if[TABLE] = dict.fromkeys(NUMBERS, 7) | {"messages": 90, "bytes": 900, "kept": 30}
    hot = [{"key": b"k"} | COUNTS]
    spans = spans or (Span(0, 89, 90, 0, 60 * MINUTE),)
    return Tally([], 10, COUNTS, hot, what_if, dict(enumerate(spans)))


def test_a_topic_without_a_window_is_known_altogether():
    one = statistics_of(Source(0, counters=COUNTERS), tally())
    assert one.is_exact
    assert caveats(one) == []
    assert (one.account["published"], one.account["ratio"], one.account["per_window"]) == (
        90,
        1.0,
        1.0,
    )
    assert {row["ratio"] for row in one.what_if} == {30 / 90}
    assert one.hot_keys[0]["share"] == 1.0


def test_a_window_with_a_journal_is_known_altogether():
    one = statistics_of(Source(60_000_000, is_journaled=True), tally())
    assert (one.is_exact, one.own_us, one.account["differing"]) == (True, 1000 * MINUTE, 0)


def test_a_window_without_a_journal_hides_what_it_has_dropped():
    """The broker's counters say how many there were; of other windows nothing is known, of losses
    neither.
    """
    one = statistics_of(Source(300_000, counters=COUNTERS), tally())
    assert not one.is_exact
    assert {
        name: one.account[name] for name in ("published", "stored", "compacted", "ratio")
    } == COUNTERS | {"ratio": 0.18}
    assert [
        one.account[name]
        for name in ("bytes", "compacted_bytes", "differing", "unknown", "per_window")
    ] == [None] * 5
    for tried in one.what_if:
        unknown = set(NUMBERS) if tried["window_us"] != 5 * MINUTE else {"bytes", *LOSSES}
        if tried["winner"] == "last":
            unknown |= {"kept_bytes"}
        assert {name for name in NUMBERS if tried[name] is None} == unknown
        if tried["window_us"] == 5 * MINUTE:
            assert (tried["messages"], tried["kept"], tried["ratio"]) == (500, 30, 0.06)
    assert (one.hot_keys[0]["published"], one.hot_keys[0]["stored"]) == (None, 90)
    assert "A journal would tell: zaichik create" in caveats(one)[0]


def a_table(**more):
    source = Source(**more)
    source.settings[0]["table"] = 1
    return source


def test_a_table_with_a_journal_is_known_altogether():
    one = statistics_of(a_table(is_journaled=True), tally())
    assert (one.is_table, one.is_exact, caveats(one)) == (True, True, [])
    assert one.as_table["kept"] == 30


def test_a_table_without_a_journal_hides_what_was_superseded():
    """TAB-7: of 200 messages 90 are there. The offsets between them are holes, and not missing."""
    counters = COUNTERS | {"superseded": 110}
    source = a_table(ends={0: 200}, counters=counters)
    one = statistics_of(source, tally(Span(9, 199, 90, 0, 60 * MINUTE)))
    assert (one.missing, one.before, one.is_exact) == (0, 0, False)
    assert one.hot_keys == []
    known = {name: value for name, value in one.account.items() if value is not None}
    assert known == {"published": 200, "stored": 200, "compacted": 0, "superseded": 110}
    for tried in one.what_if:
        known = {name for name in NUMBERS if tried[name] is not None}
        if tried["winner"] == "newest":
            assert known == {"messages", "kept", "kept_bytes"}
        else:
            assert known == set()
    assert "it is a table, and what newer messages superseded was not recorded" in caveats(one)[0]
    assert "zaichik create TOPIC --table --journal 64MiB" in caveats(one)[0]


@pytest.mark.parametrize("gone", [(5, 0), (0, 7)])
def test_of_a_table_that_has_lost_messages_no_number_is_known(gone):
    source = a_table(ends={0: 200})
    source.gone_of_table = gone
    one = statistics_of(source, tally(Span(9, 199, 90, 0, 60 * MINUTE)))
    assert (one.before, one.missing) == gone
    assert one.account["superseded"] is None
    assert {tried["kept"] for tried in one.what_if} == {None}


def test_nobody_is_sent_for_a_journal_that_a_durable_topic_cannot_have():
    source = Source(300_000, counters=COUNTERS)
    source.settings[0]["durable"] = 1
    assert "a durable topic cannot have one yet" in caveats(statistics_of(source, tally()))[0]


def test_without_the_brokers_counters_nothing_is_said_of_what_was_published():
    one = statistics_of(Source(300_000), tally())
    assert (one.account["published"], one.account["compacted"], one.account["stored"]) == (
        None,
        None,
        90,
    )
    assert {row["messages"] for row in one.what_if} == {None}


def test_a_journal_that_was_not_recorded_is_what_to_record():
    one = statistics_of(Source(300_000, journal_bytes=1000), tally())
    assert "Read its journal: zaichik record '$journal/t'" in caveats(one)[0]


def test_a_window_that_changed_hides_all_others():
    """It belonged to the topic's first epoch; the second one has none."""
    one = statistics_of(Source(300_000, 0, ends={0: 90}), tally())
    assert (one.own_us, one.is_hidden) == (5 * MINUTE, True)
    assert {row["kept"] for row in one.what_if} == {None}


def test_a_window_that_never_ends_hides_everything_shorter():
    one = statistics_of(Source(FOREVER, counters=COUNTERS), tally())
    assert one.own_us == FOREVER_US
    assert {row["kept"] for row in one.what_if} == {None}


def test_counters_of_a_whole_life_are_no_measure_for_what_is_left_of_it():
    one = statistics_of(
        Source(300_000, counters=COUNTERS, ends={0: 100}), tally(Span(10, 99, 90, 1, 2))
    )
    assert (one.before, one.account["published"], one.account["stored_bytes"]) == (10, 500, None)
    assert {row["messages"] for row in one.what_if} == {None}


def test_what_was_gone_before_and_between_is_counted_for_each_epoch():
    one = statistics_of(
        Source(0, 0, ends={0: 10, 1: 91}), tally(Span(3, 9, 7, 5, 6), Span(2, 90, 83, 1, 9))
    )
    assert (one.before, one.missing, one.first_us, one.last_us) == (5, 6, 1, 9)
    assert not one.is_exact
    between, before, _ = caveats(one)
    assert between.startswith("t: 6 messages are missing among")
    assert before.startswith("t: 5 messages were gone before the first one here")


def test_one_message_that_is_missing_is_no_plural():
    one = statistics_of(Source(0, 0, left_out=1, ends={0: 11}), tally(Span(1, 9, 9, 5, 6)))
    between, before, left_out, *_ = caveats(one)
    assert between.startswith("t: 1 message is missing among")
    assert before.startswith("t: 1 message was gone before the first one here")
    assert left_out.startswith("t: 1 message of other epochs was recorded without a journal")


def test_what_was_gone_at_the_end_is_missing():
    """And an epoch of which nothing was left."""
    one = statistics_of(Source(0, 0, ends={0: 95, 1: 7}), tally())
    assert (one.missing, one.is_exact) == (12, False)


def test_messages_without_their_journal_are_told():
    one = statistics_of(Source(300_000, is_journaled=True, left_out=5), tally())
    assert not one.is_exact
    assert "5 messages of other epochs were recorded without a journal" in caveats(one)[0]


def test_a_broker_that_forgets_windows_is_told():
    """COM-6: of 90 messages, a window of 5m keeps 30; the broker has stored all of them."""
    one = statistics_of(Source(300_000, is_journaled=True), tally())
    assert (one.forgotten, one.is_exact) == (60, False)
    assert "max_keys" in caveats(one)[0]


def test_windows_longer_than_the_data_are_told():
    short, long_ = (
        statistics_of(Source(), tally(Span(0, 89, 90, 0, span)))
        for span in (5 * MINUTE, 60 * MINUTE)
    )
    assert "the messages span 0:05:00, less than the longest window tried" in caveats(short)[0]
    assert (caveats(long_), short.is_exact) == ([], True)


def test_settings_that_are_not_known_are_a_caveat():
    one = statistics_of(Source(None), tally())
    assert (one.own_us, one.is_exact) == (None, False)
    assert "its settings are not in the recording" in caveats(one)[0]


@pytest.mark.parametrize(("field", "count"), [("missing", 1234), ("before", 5)])
def test_incomplete_numbers_are_not_exact(field, count):
    one = replace(statistics(row(MINUTE, 800)), **{field: count})
    assert not one.is_exact
    assert f"{count:,}" in caveats(one)[0]
