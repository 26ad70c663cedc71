"""The plots of a topic's statistics, as one picture: saved against lost, delays, and hot keys."""

import io
import warnings
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from zaichik.apps.statistics.advice import MOST_LOST, recommended, show_length, show_time
from zaichik.apps.statistics.chain import FOREVER_US
from zaichik.apps.statistics.tally import Row
from zaichik.apps.statistics.truth import Statistics
from zaichik.base.escapes import shown_key

# Letters stay letters, the same data gives the same picture, and a key such as $x$ is no formula.
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "zaichik", "text.parse_math": False,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 9,
}  # fmt: skip
GOOD = "#2a8a4a"  # a window that is advised
PLAIN = "#3b6ea5"  # any other
OWN = "#b8690f"  # the topic's own
LIMIT = "#b03a2e"  # the most
FEWEST_BARS = 4  # that a plot has room for: one bar alone would be a wall


def drawn(one: Statistics, form: str, most_lost: float = MOST_LOST) -> bytes:
    """The plots of a topic, side by side, as a picture of that format."""
    # Not with the settings that a user has for other plots; and a key may have letters that no font
    # here has.
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from ", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        figure = Figure(figsize=(12, 3.8), layout="constrained")
        saved, delay, hot = figure.subplots(1, 3)
        _plot_saved(saved, one, most_lost)
        _plot_delay(delay, one)
        _plot_hot_keys(hot, one)
        data = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else None  # the same data, the same picture
        figure.savefig(data, format=form, metadata=metadata, dpi=150)
    picture = data.getvalue()
    return picture[picture.index(b"<svg") :] if form == "svg" else picture


def _say(axes: Axes, words: str) -> None:
    """Write words in place of a plot that cannot be drawn."""
    axes.text(
        0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color="grey", wrap=True
    )


def _plot_saved(axes: Axes, one: Statistics, most_lost: float) -> None:
    """A point for each window: how much it saves, and what that costs."""
    axes.set_title("Saved against lost, a point for each window")
    axes.set_xlabel("updates lost, % of the messages")
    axes.set_ylabel("messages saved, %")
    rows = [row for row in one.of_winner("first") if row["differing"] is not None]
    if not rows:
        axes.set_xticks([])
        axes.set_yticks([])
        what = "what the topic's own\nwindow dropped"
        if one.is_table:
            what = "what newer\nmessages superseded"
        _say(axes, f"unknown: {what} was not recorded")
        return
    best = recommended(one, most_lost)
    # By place: windows that do the same would hide each other's.
    labels: dict[tuple[int, int], list[str]] = {}
    for row in rows:
        lost, saved = (
            100 * row["differing"] / row["messages"],
            100 * (1 - row["kept"] / row["messages"]),
        )
        is_own = row["window_us"] == one.own_us
        axes.plot(
            lost,
            saved,
            "o",
            color=GOOD if row is best else PLAIN,
            markersize=9 if row is best else 6,
        )
        if is_own:
            axes.plot(lost, saved, "o", markersize=15, markerfacecolor="none", markeredgecolor=OWN)
        words = show_length(row["window_us"]) + " (its own)" * is_own
        labels.setdefault((round(lost), round(saved)), []).append(words)
    for place, several in labels.items():
        axes.annotate(", ".join(several), place, xytext=(8, -12), textcoords="offset points")
    axes.axvline(100 * most_lost, color=LIMIT, linestyle=":", linewidth=1)
    axes.annotate(
        "most that may be lost",
        (100 * most_lost, 0.02),
        xycoords=("data", "axes fraction"),
        rotation=90,
        xytext=(3, 0),
        textcoords="offset points",
        color=LIMIT,
        fontsize=7,
    )
    axes.set_ylim(-5, 105)
    axes.margins(x=0.25)
    axes.set_xlim(left=-0.02 * axes.get_xlim()[1])


def _plot_delay(axes: Axes, one: Statistics) -> None:
    """How late readers see an update, by the window's length.

    Both on logarithmic scales of time.
    """
    axes.set_title("Delay of updates, by the window's length")
    axes.set_xlabel("window")
    rows = [row for row in one.of_winner("first") if row["window_us"] != FOREVER_US]
    known = [row for row in rows if row["delayed"]]
    if not rows or not (known or one.is_hidden):
        axes.set_xticks([])
        axes.set_yticks([])
        _say(axes, "no update is delayed by any of these windows")
        return
    lengths = [row["window_us"] for row in rows]
    axes.set_xscale("log")
    axes.set_xlim(lengths[0] / 2, lengths[-1] * 2)
    axes.xaxis.set_major_locator(FixedLocator(lengths))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda length, _: show_length(round(length))))
    if one.own_us and one.own_us != FOREVER_US:
        axes.axvline(one.own_us, color=OWN, linestyle="--", linewidth=1, label="its own window")
    if one.is_hidden:
        axes.axvspan(
            *axes.get_xlim(), facecolor="none", edgecolor="grey", hatch="//", alpha=0.4, linewidth=0
        )
        axes.set_yticks([])
        _say(axes, "unknown")
        return
    at = [row["window_us"] for row in known]
    axes.plot(at, [row["max_delay_us"] for row in known], "^-", color=LIMIT, label="at most")
    axes.plot(
        at,
        [row["delay_us"] / row["delayed"] for row in known],
        "o-",
        color=PLAIN,
        label="on average",
    )
    _scale_of_times(axes, known)
    axes.legend(frameon=False)


def _scale_of_times(axes: Axes, rows: list[Row]) -> None:
    """Use a logarithmic scale whose ticks are round times: 1s, 1m, 1h."""
    axes.set_yscale("log")
    second = 1_000_000
    ticks = [
        1000,
        10_000,
        100_000,
        *(second * n for n in (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 10 * 86_400)),
    ]
    low, high = (
        min(row["delay_us"] / row["delayed"] for row in rows),
        max(row["max_delay_us"] for row in rows),
    )
    axes.set_ylim(max(low, 1) / 2, max(high, 2) * 2)
    axes.yaxis.set_major_locator(
        FixedLocator([tick for tick in ticks if low / 2 <= tick <= high * 2])
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: show_time(float(time))))


def _plot_hot_keys(axes: Axes, one: Statistics) -> None:
    name = "stored" if one.is_hidden else "published"
    rows = one.hot_keys[::-1]
    axes.set_title(f"Hot keys: messages {name}")
    # By number: two keys may look the same when they are shortened.
    axes.barh(range(len(rows)), [row[name] for row in rows], color=PLAIN)
    axes.set_yticks(range(len(rows)), [shown_key(row["key"]) for row in rows])
    axes.set_ylim(len(rows) - max(len(rows), FEWEST_BARS) - 0.6, len(rows) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    if not rows:
        axes.set_yticks([])
        axes.set_xticks([])
        words = "no message has a key"
        if one.is_table and one.is_hidden:
            words = "unknown: a table has one\nmessage of each key"
        _say(axes, words)
