"""The advice that `zaichik stats` gives, in a sentence, and how numbers are written in it."""

from datetime import timedelta

from zaichik.apps.statistics.chain import FOREVER_US
from zaichik.apps.statistics.tally import Row
from zaichik.apps.statistics.truth import Statistics
from zaichik.base.escapes import shown

MOST_LOST = 0.01  # of the messages: saves space, and loses next to nothing
LEAST_SAVED = 0.01  # of the messages: less is not worth a setting
MOST_IN_TABLE = 0.5  # of the messages: with more, nearly every key is new, and a table only grows


def recommended(statistics: Statistics, most_lost: float = MOST_LOST) -> Row | None:
    """Returns the window that saves most, keeps first messages, and loses at most this part of all.

    What is lost is information: messages dropped whose payload is not that of the message which
    stayed.

    Returns:
        Its row of `what_if`; None if there is no such window, or what windows lose is unknown.
    """
    allowed = [
        row
        for row in _known(statistics)
        if row["differing"] <= most_lost * row["messages"] and row["kept"] < row["messages"]
    ]
    return max(allowed, key=lambda row: (-int(row["kept"]), -int(row["window_us"])), default=None)


def _known(statistics: Statistics) -> list[Row]:
    return [row for row in statistics.of_winner("first") if row["differing"] is not None]


def better_as_table(statistics: Statistics, most_lost: float = MOST_LOST) -> Row | None:
    """Returns what a table would do, if no window is worth it and a table may well be.

    Returns:
        Its row of `what_if`; None if there is a window to advise, the topic is a table already, or
        a table would keep most messages.
    """
    best = recommended(statistics, most_lost)
    row = statistics.as_table
    if statistics.is_table or row is None or row["differing"] is None:
        return None
    if best is not None and is_worth(best):
        return None
    if row["kept"] > MOST_IN_TABLE * row["messages"]:
        return None
    return row


def is_worth(row: Row) -> bool:
    """Returns whether a window saves enough to be worth setting."""
    return bool(row["kept"] <= (1 - LEAST_SAVED) * row["messages"])


def sentence(statistics: Statistics, most_lost: float = MOST_LOST) -> str:
    """The advice for a topic, for a person."""
    return f"{shown(statistics.topic)}: {verdict(statistics, most_lost)}"


def verdict(statistics: Statistics, most_lost: float = MOST_LOST) -> str:
    """The advice alone."""
    if statistics.is_table:
        return _of_table(statistics)
    table = better_as_table(statistics, most_lost)
    about_windows = _about_windows(statistics, most_lost)
    if table is None:
        return about_windows
    return (
        f"{about_windows} If the newest message of each key is all that matters, make it a table: "
        f"{_in_table(table, 'it would keep')}"
    )


def _of_table(statistics: Statistics) -> str:
    """What a topic that is a table keeps."""
    row = statistics.as_table
    if row is None or row["messages"] is None:
        return "it is a table, and how much of what was published it keeps is not known."
    return f"it is a table. {_in_table(row, 'It keeps')}"


def _in_table(row: Row, it_keeps: str) -> str:
    """What a table keeps, and what that costs."""
    messages = row["messages"]
    text = f"{it_keeps} {percent(row['kept'], messages)} of the messages"
    if row["bytes"]:
        text += f" ({percent(row['kept_bytes'], row['bytes'])} of the bytes)"
    if row["differing"]:
        text += (
            f"; {percent(row['differing'], messages)} of the messages are updates that reach only "
            "the readers that keep up"
        )
    return f"{text}."


def _about_windows(statistics: Statistics, most_lost: float) -> str:
    best, first = recommended(statistics, most_lost), _known(statistics)
    if not first:
        return "no window can be advised, because what its own has dropped was not recorded."
    if best is not None and is_worth(best):
        return _would(best)
    if best is not None:
        return (
            f"no window that loses at most {most_lost:.1%} of the messages saves enough: "
            f"{_would(best)}"
        )
    if all(row["kept"] == row["messages"] for row in first):
        return (
            "no window of these would save anything: no key comes twice within the longest of them."
        )
    mildest = min(
        (row for row in first if row["kept"] < row["messages"]),
        key=lambda row: int(row["window_us"]),
    )
    return (
        f"every window loses more than {most_lost:.1%} of the messages. The mildest: "
        f"{_would(mildest)}"
    )


def _would(row: Row) -> str:
    messages = row["messages"]
    window = f"of {show_length(row['window_us'])}"
    if row["window_us"] == FOREVER_US:
        window = "that never closes"
    text = f"a window {window} would keep {percent(row['kept'], messages)} of the messages"
    if row["bytes"]:
        text += f" ({percent(row['kept_bytes'], row['bytes'])} of the bytes)"
    if not row["differing"]:
        return f"{text}, and lose no update."
    if row["delayed"]:
        mean, most = row["delay_us"] / row["delayed"], row["max_delay_us"]
        text += (
            f"; {percent(row['delayed'], messages)} of the messages are updates that readers would "
            "see late, "
            f"by {show_time(mean)} on average and {show_time(most)} at most"
        )
    if row["unseen"]:
        text += f"; {percent(row['unseen'], messages)} are updates that they would never see"
    return f"{text}."


def percent(part: int | None, whole: int | None) -> str:
    """Returns a percentage, "?" if a number is unknown.

    It is rounded so that only nothing is 0 % and only all is 100 %.
    """
    if part is None or whole is None:
        return "?"
    if not whole:
        return "-"
    shown = f"{part / whole:.1%}"
    if shown == "0.0%" and part:
        return "<0.1%"
    return ">99.9%" if shown == "100.0%" and part < whole else shown


def show_count(number: int | None) -> str:
    """A number; "?" if it is unknown."""
    return "?" if number is None else f"{number:,}"


def show_length(window_us: int) -> str:
    """A window as people write it: 15m, 6h, forever."""
    if window_us == FOREVER_US:
        return "forever"
    for name, unit in (
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
    ):
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
