"""All statistics of some topics, counted by Spark.

They are those that `zaichik.apps.statistics.counting` counts in one process.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from zaichik.apps.spark import outcomes, windows
from zaichik.apps.statistics.chain import NUMBERS, Window, length_us
from zaichik.apps.statistics.sources import Topic
from zaichik.apps.statistics.tally import COUNTS, Row, Span, Tally
from zaichik.apps.statistics.truth import Statistics, statistics_of


def collect(
    events: DataFrame, topics: Sequence[Topic], lengths: Sequence[Window], keys: int = 10
) -> list[Statistics]:
    """The statistics of each topic that has events, in the order of names.

    Args:
        events: of all the topics, see `sources`.
        topics: where they come from.
        lengths: windows to try.
        keys: how many hot keys to find.
    """
    events = events.cache()
    try:
        accounts = _by_topic(outcomes.account(events))
        hot = _by_topic(outcomes.hot_keys(events, keys))
        spans = _by_topic(outcomes.spans(events))
        what_if = _by_topic(windows.what_if(events, lengths))
    finally:
        events.unpersist()
    known = {topic.name: topic for topic in topics}
    lengths_us = sorted({length_us(length) for length in lengths})
    found = []
    for name, (account,) in sorted(accounts.items()):
        hot_keys = [_only(row, "key", *COUNTS) for row in hot.get(name, [])]
        tried = {}
        for row in what_if[name]:
            tried[row["window_us"], row["winner"]] = _only(row, *NUMBERS)
        of_epochs = {}
        for row in spans[name]:
            values = _only(row, "first", "last", "count", "first_us", "last_us")
            of_epochs[row["epoch"]] = Span(**values)
        counts = _only(account, *COUNTS)
        tally = Tally(lengths_us, keys, counts, hot_keys, tried, of_epochs)
        found.append(statistics_of(known[name], tally))
    return found


def _by_topic(frame: DataFrame) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in frame.collect():
        found.setdefault(row["topic"], []).append(row.asDict())
    return found


def _only(row: Row, *names: str) -> Row:
    return {name: bytes(row[name]) if name == "key" else row[name] for name in names}
