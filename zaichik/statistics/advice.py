"""All statistics of some topics, collected: what `zaichik stats` shows, and the advice it gives.

Everything here is plain Python once Spark has counted: few rows, whatever the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from zaichik.escapes import shown
from zaichik.spark import outcomes, windows
from zaichik.spark.windows import FOREVER_US, Window

Row = dict[str, Any]

MOST_LOST = 0.01  # of the messages: for who wants to save, and lose nothing worth mentioning
LEAST_SAVED = 0.01  # of the messages: less is not worth a setting


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is known of one topic.

    Attributes:
        topic: its name.
        account: what the policy that ran has done; see `outcomes.account`.
        what_if: a row of `windows.WINDOWS` for each window and winner, the shortest window first.
        hot_keys: see `outcomes.hot_keys`.
        missing: messages that were not there to be counted, between others that were: without them, nothing is exact.
    """

    topic: str
    account: Row
    what_if: list[Row] = field(default_factory=list)
    hot_keys: list[Row] = field(default_factory=list)
    missing: int = 0

    def of_winner(self, winner: str) -> list[Row]:
        """The rows of one winner."""
        return [row for row in self.what_if if row["winner"] == winner]


def collect(events: DataFrame, lengths: Sequence[Window], keys: int = 10) -> list[Statistics]:
    """The statistics of every topic, in the order of names."""
    events = events.cache()
    try:
        accounts = _by_topic(outcomes.account(events))
        hot = _by_topic(outcomes.hot_keys(events, keys))
        missing = _by_topic(outcomes.missing(events))
        what_if = _by_topic(windows.what_if(events, lengths).orderBy("window_us", "winner"))
    finally:
        events.unpersist()
    return [
        Statistics(topic, account, what_if[topic], hot.get(topic, []), missing[topic][0]["missing"])
        for topic, (account,) in sorted(accounts.items())
    ]


def _by_topic(frame: DataFrame) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in frame.collect():
        found.setdefault(row["topic"], []).append(row.asDict())
    return found


def recommended(statistics: Statistics, most_lost: float = MOST_LOST) -> Row | None:
    """Of the windows that lose at most this part of the messages, keeping first ones, what saves most; None: no such.

    What is lost is information: messages dropped whose payload is not that of the message which stayed.
    """
    allowed = [
        row
        for row in statistics.of_winner("first")
        if row["differing"] <= most_lost * row["messages"] and row["kept"] < row["messages"]
    ]
    return max(allowed, key=lambda row: (-int(row["kept"]), -int(row["window_us"])), default=None)


def sentence(statistics: Statistics, most_lost: float = MOST_LOST) -> str:
    """The advice, for a person."""
    topic, best = shown(statistics.topic), recommended(statistics, most_lost)
    if best is not None and best["kept"] <= (1 - LEAST_SAVED) * best["messages"]:
        return f"{topic}: {_would(best)}"
    if best is not None:
        return f"{topic}: no window is worth while that loses at most {most_lost:.1%} of the updates: {_would(best)}"
    first = statistics.of_winner("first")
    if all(row["kept"] == row["messages"] for row in first):
        return f"{topic}: no window of these would save anything: no key comes twice within the longest of them."
    mildest = min((row for row in first if row["kept"] < row["messages"]), key=lambda row: int(row["window_us"]))
    return f"{topic}: every window loses more than {most_lost:.1%} of the updates. The mildest: {_would(mildest)}"


def caveat(statistics: Statistics) -> str:
    """What is wrong with the numbers, for a person; nothing if nothing is."""
    if not statistics.missing:
        return ""
    return f"{shown(statistics.topic)}: {statistics.missing:,} messages are missing, so that no number is exact."


def _would(row: Row) -> str:
    messages = row["messages"]
    window = "that never closes" if row["window_us"] == FOREVER_US else f"of {show_length(row['window_us'])}"
    text = f"a window {window} would keep {percent(row['kept'], messages)} of the messages"
    if row["bytes"]:
        text += f" ({percent(row['kept_bytes'], row['bytes'])} of the bytes)"
    if not row["differing"]:
        return f"{text}, and lose no update."
    if row["delayed"]:
        mean, most = row["delay_us"] / row["delayed"], row["max_delay_us"]
        text += (
            f"; {percent(row['delayed'], messages)} of the updates would be seen late, "
            f"by {show_time(mean)} on average and {show_time(most)} at most"
        )
    if row["unseen"]:
        text += f"; {percent(row['unseen'], messages)} never"
    return f"{text}."


def percent(part: int, whole: int) -> str:
    """A part of a whole, so that only nothing is 0 % and only all of it 100 %."""
    if not whole:
        return "-"
    shown = f"{part / whole:.1%}"
    if shown == "0.0%" and part:
        return "<0.1%"
    return ">99.9%" if shown == "100.0%" and part < whole else shown


def show_length(window_us: int) -> str:
    """A window as people write it: 15m, 6h, forever."""
    if window_us == FOREVER_US:
        return "forever"
    for name, unit in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if window_us % unit == 0:
            return f"{window_us // unit}{name}"
    return f"{window_us}µs"


def show_time(microseconds: float) -> str:
    """A time in its two largest units: 4m 10s, 2d 3h, 15ms."""
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.3g}ms"
    seconds = round(timedelta(microseconds=microseconds).total_seconds())
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    parts = []
    for name, unit in units:
        if seconds >= unit:
            parts.append(f"{seconds // unit}{name}")
            seconds %= unit
    return " ".join(parts[:2])
