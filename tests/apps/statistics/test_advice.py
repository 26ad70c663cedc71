"""The advice, and how numbers are written, from numbers made up here."""

from dataclasses import replace

import pytest
from made_up import MINUTE, row, statistics

from zaichik.apps.statistics.advice import (
    better_as_table,
    percent,
    recommended,
    sentence,
    show_count,
    show_length,
    show_time,
    verdict,
)
from zaichik.apps.statistics.chain import FOREVER_US, NUMBERS


def test_the_window_that_saves_most_of_those_that_lose_little_is_advised():
    one = statistics(row(MINUTE, 800), row(15 * MINUTE, 410, 7, 4), row(60 * MINUTE, 300, 50, 40))
    assert recommended(one)["window_us"] == 15 * MINUTE
    assert sentence(one) == (
        "t: a window of 15m would keep 41.0% of the messages (41.0% of the bytes); 0.4% of the "
        "messages are "
        "updates that readers would see late, by 2m on average and 9m at most; 0.3% are updates "
        "that they would never "
        "see."
    )
    assert recommended(one, most_lost=0.1)["window_us"] == 60 * MINUTE


def test_of_windows_that_save_as_much_the_shortest_is_advised():
    assert recommended(statistics(row(MINUTE, 800), row(2 * MINUTE, 800)))["window_us"] == MINUTE


def test_a_window_that_loses_nothing():
    assert sentence(statistics(row(MINUTE, 800))).endswith(
        "(80.0% of the bytes), and lose no update."
    )


@pytest.mark.parametrize(
    ("what_if", "words"),
    [
        ([row(MINUTE, 1000)], "no key comes twice"),
        (
            [row(MINUTE, 900, 50, 0)],
            "every window loses more than 1.0% of the messages. The mildest: a window of 1m",
        ),
        (
            [row(MINUTE, 995, 5, 5)],
            "no window that loses at most 1.0% of the messages saves enough",
        ),
    ],
)
def test_when_there_is_nothing_to_advise_it_says_why(what_if, words):
    assert words in sentence(statistics(*what_if))


TABLE_ROW = row(FOREVER_US, 30, 780, winner="newest")
COSTLY = row(MINUTE, 900, 50)


def test_where_windows_lose_too_much_and_keys_repeat_a_table_is_proposed():
    """With the figures that say why."""
    assert verdict(statistics(COSTLY, TABLE_ROW)).endswith(
        "If the newest message of each key is all that matters, make it a table: it would keep "
        "3.0% of the messages (3.0% of the bytes); 78.0% of the messages are updates that reach "
        "only the readers that keep up."
    )


@pytest.mark.parametrize(
    "what_if",
    [
        [row(MINUTE, 800), TABLE_ROW],
        [COSTLY, row(FOREVER_US, 501, 10, winner="newest")],
        [COSTLY, TABLE_ROW | dict.fromkeys(NUMBERS)],
        [COSTLY],
    ],
    ids=["a window is worth it", "most keys are new", "unknown", "not tried"],
)
def test_where_it_would_not_help_no_table_is_proposed(what_if):
    one = statistics(*what_if)
    assert better_as_table(one) is None
    assert "table" not in verdict(one)


def test_of_a_table_it_is_said_what_it_keeps():
    one = replace(statistics(row(MINUTE, 800), TABLE_ROW), is_table=True)
    assert verdict(one).startswith("it is a table. It keeps 3.0% of the messages")
    unknown = TABLE_ROW | dict.fromkeys(NUMBERS)
    one = replace(statistics(unknown), is_table=True)
    assert verdict(one).endswith("how much of what was published it keeps is not known.")


def test_only_nothing_is_0_percent_and_only_all_100():
    assert [percent(n, 10_000) for n in (0, 1, 5000, 9999, 10_000)] == [
        "0.0%",
        "<0.1%",
        "50.0%",
        ">99.9%",
        "100.0%",
    ]
    assert percent(0, 0) == "-"


def test_what_is_unknown_is_a_question_mark():
    assert (percent(None, 5), percent(5, None), show_count(None), show_count(1234)) == (
        "?",
        "?",
        "?",
        "1,234",
    )


def test_where_nobody_knows_what_is_lost_nothing_is_advised():
    unknown = row(MINUTE, 800) | dict.fromkeys(set(NUMBERS) - {"kept"})
    one = statistics(unknown)
    assert recommended(one) is None
    assert (
        verdict(one)
        == "no window can be advised, because what its own has dropped was not recorded."
    )


def test_times_and_lengths_as_people_write_them():
    lengths = [show_length(us) for us in (1, 5000, 90 * MINUTE, 1440 * MINUTE, FOREVER_US)]
    assert lengths == ["1µs", "5ms", "90m", "1d", "forever"]
    times = [show_time(us) for us in (1500, 61_000_000, 90_061_000_000, 1440 * MINUTE)]
    assert times == ["1.5ms", "1m 1s", "1d 1h", "1d"]
