"""The statistics as one HTML page that needs nothing else, and as plots.

The plots are SVG inside the page: they stay sharp, can be searched, and there is no file beside the page to lose.
On a dark screen the page is dark, and the plots, whose colours are in them, are turned round with it.
"""

import html
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zaichik.escapes import shown
from zaichik.spark.advice import MOST_LOST, Statistics, caveat, percent, sentence, show_length, show_time
from zaichik.spark.windows import FOREVER_US

# Letters stay letters, the same data gives the same picture, and a key such as $x$ is no formula.
_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "zaichik", "text.parse_math": False,
    "axes.spines.top": False, "axes.spines.right": False, "font.size": 9,
}  # fmt: skip

_FEWEST_BARS = 4  # that a plot has room for: one bar alone would be a wall

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Compaction statistics</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1, h2, p { overflow-wrap: anywhere }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884 }
td { white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.advice { padding: .8rem 1rem; background: #4a42; border-left: 4px solid #4a4 }
.wide { overflow-x: auto; margin: 1rem 0 }
svg { width: 100%; min-width: 45rem; height: auto }
@media (prefers-color-scheme: dark) { svg { filter: invert(.93) hue-rotate(180deg) } }
</style>
</head>
<body>
<h1>Compaction statistics</h1>
$topics
</body>
</html>
""")


def page(statistics: Sequence[Statistics], most_lost: float = MOST_LOST) -> str:
    """The page."""
    return _PAGE.substitute(topics="\n".join(_topic(one, most_lost) for one in statistics))


def write_page(path: Path, statistics: Sequence[Statistics], most_lost: float = MOST_LOST) -> None:
    """Write the page; it appears when it is complete."""
    _appear(path, page(statistics, most_lost).encode())


def write_plots(path: Path, statistics: Sequence[Statistics]) -> list[Path]:
    """Write a picture for each topic, in the format that the name ends with; beside it, if there are several topics.

    Returns:
        The files.
    """
    files = []
    for number, one in enumerate(statistics):
        file = path if number == 0 else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
        _appear(file, _drawn(one, file.suffix.removeprefix(".")))
        files.append(file)
    return files


def _appear(path: Path, data: bytes) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _topic(one: Statistics, most_lost: float) -> str:
    account = one.account
    parts = [
        f"<h2>{html.escape(shown(one.topic))}</h2>",
        f'<p class="advice">{html.escape(" ".join(filter(None, (sentence(one, most_lost), caveat(one)))))}</p>',
        _wide(_drawn(one, "svg").decode()),
        "<h3>What another window would do</h3>",
        _table(WHAT_IF_COLUMNS, one.what_if),
        "<h3>What the policy that ran has done</h3>",
        _table(ACCOUNT_COLUMNS, [account]),
    ]
    if one.hot_keys:
        parts += ["<h3>Hot keys</h3>", _table(HOT_KEY_COLUMNS, one.hot_keys)]
    return "\n".join(parts)


Columns = Sequence[tuple[str, Callable[[dict[str, Any]], str]]]


def key(value: bytes | None) -> str:
    """A key for people."""
    return "-" if value is None else shown(bytes(value))


def _late(row: dict[str, Any]) -> str:
    return show_time(row["delay_us"] / row["delayed"]) if row["delayed"] else "-"


WHAT_IF_COLUMNS: Columns = (
    ("window", lambda row: show_length(row["window_us"])),
    ("keeps", lambda row: row["winner"]),
    ("messages", lambda row: f"{row['kept']:,}"),
    ("part", lambda row: percent(row["kept"], row["messages"])),
    ("of bytes", lambda row: percent(row["kept_bytes"], row["bytes"])),
    ("updates lost", lambda row: percent(row["differing"], row["messages"])),
    ("late", lambda row: percent(row["delayed"], row["messages"])),
    ("by, on average", _late),
    ("at most", lambda row: show_time(row["max_delay_us"]) if row["delayed"] else "-"),
    ("never seen", lambda row: percent(row["unseen"], row["messages"])),
)
ACCOUNT_COLUMNS: Columns = (
    ("topic", lambda row: shown(row["topic"])),
    ("published", lambda row: f"{row['published']:,}"),
    ("stored", lambda row: f"{row['stored']:,}"),
    ("compacted", lambda row: f"{row['compacted']:,}"),
    ("part stored", lambda row: percent(row["stored"], row["published"])),
    ("of bytes", lambda row: percent(row["stored_bytes"], row["bytes"])),
    ("windows", lambda row: f"{row['windows']:,}"),
    ("messages a window", lambda row: "-" if row["per_window"] is None else f"{row['per_window']:.2f}"),
    ("updates lost", lambda row: f"{row['differing']:,}"),
)
HOT_KEY_COLUMNS: Columns = (
    ("key", lambda row: key(row["key"])),
    ("published", lambda row: f"{row['published']:,}"),
    ("part of all", lambda row: f"{row['share']:.1%}"),
    ("stored", lambda row: f"{row['stored']:,}"),
    ("bytes", lambda row: f"{row['bytes']:,}"),
)


def _table(columns: Columns, rows: Sequence[dict[str, Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in columns)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(show(row))}</td>" for _, show in columns) + "</tr>" for row in rows
    )
    return _wide(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>")


def _wide(content: str) -> str:
    """What may be wider than a screen: it scrolls by itself, and the page does not."""
    return f'<div class="wide">{content}</div>'


# -- plots ---------------------------------------------------------------------------------------------------


def _drawn(one: Statistics, form: str) -> bytes:
    """The three plots of a topic, side by side, as a picture of that format."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12, 3.6), layout="constrained")
        kept, per_window, hot = figure.subplots(1, 3)
        _plot_kept(kept, one)
        _plot_per_window(per_window, one)
        _plot_hot_keys(hot, one)
        drawn = io.BytesIO()
        metadata = {"Date": None} if form == "svg" else None  # the same data, the same picture
        figure.savefig(drawn, format=form, metadata=metadata, dpi=150)
    data = drawn.getvalue()
    return data[data.index(b"<svg") :] if form == "svg" else data


def _plot_kept(axes: Axes, one: Statistics) -> None:
    rows = one.of_winner("first")
    names = [show_length(row["window_us"]) for row in rows]
    axes.plot(names, [100 * row["kept"] / row["messages"] for row in rows], "o-", label="messages kept")
    axes.plot(names, [100 * row["differing"] / row["messages"] for row in rows], "s--", label="updates lost")
    axes.set_ylim(0, 105)
    axes.set_title("Kept and lost, by window")
    axes.set_ylabel("% of the messages")
    axes.legend(frameon=False)


def _plot_per_window(axes: Axes, one: Statistics) -> None:
    rows = [row for row in one.of_winner("first") if row["window_us"] != FOREVER_US]
    axes.bar([show_length(row["window_us"]) for row in rows], [row["messages"] / row["kept"] for row in rows])
    axes.set_xlim(-0.6, max(len(rows), _FEWEST_BARS) - 0.4)
    axes.set_title("Messages for each one kept")


def _plot_hot_keys(axes: Axes, one: Statistics) -> None:
    rows = one.hot_keys[::-1]
    # By number: two keys may look the same when they are shortened.
    axes.barh(range(len(rows)), [100 * row["share"] for row in rows])
    axes.set_yticks(range(len(rows)), [key(row["key"])[:20] for row in rows])
    axes.set_ylim(len(rows) - max(len(rows), _FEWEST_BARS) - 0.6, len(rows) - 0.4)
    axes.set_title("Hot keys")
    axes.set_xlabel("% of the messages")
