"""The statistics as one HTML page that needs nothing else, and as plots.

The plots are SVG inside the page: they stay sharp, can be searched, and there is no other file to
lose. On a dark screen the page is dark, and the plots, whose colours are in them, are turned round
with it.
"""

import html
import shlex
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from string import Template

from zaichik.apps.statistics.advice import (
    MOST_LOST,
    better_as_table,
    is_worth,
    percent,
    recommended,
    show_count,
    show_length,
    show_time,
    verdict,
)
from zaichik.apps.statistics.plots import drawn
from zaichik.apps.statistics.tally import Row
from zaichik.apps.statistics.truth import Statistics, caveats
from zaichik.base.calendar_time import calendar_time
from zaichik.base.counted import counted
from zaichik.base.escapes import harmless, shown, shown_key

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Compaction statistics</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1, h2, p, dd { overflow-wrap: anywhere }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #8884 }
td { white-space: nowrap }
th:first-child, td:first-child { text-align: left }
tr.unknown { background: repeating-linear-gradient(135deg, #8883 0 2px, transparent 2px 9px) }
tr.own td:first-child { font-weight: bold; border-left: 4px solid #b8690f }
tr.advised { background: #4a42 }
.advice { padding: .8rem 1rem; border-left: 4px solid; font-size: 1.1rem }
.save { background: #4a42; border-color: #4a4 }
.nothing { background: #8882; border-color: #888 }
.costly { background: #c922; border-color: #c92 }
.unknown-verdict, .caveat { background: #c442; border-color: #c44 }
.caveat { padding: .4rem 1rem; border-left: 4px solid #c44 }
.wide { overflow-x: auto; margin: 1rem 0 }
.source, dl { color: color-mix(in srgb, currentColor 75%, transparent) }
dt { font-weight: bold }
svg { width: 100%; min-width: 52rem; height: auto }
@media (prefers-color-scheme: dark) { svg { filter: invert(.93) hue-rotate(180deg) } }
</style>
</head>
<body>
<h1>Which compaction window?</h1>
<p>A topic with a compaction window stores the first message of a key and drops the key's later ones
until the window is over. A longer window saves more, and loses more: an update is <em>lost</em> if
a message was dropped that said something different from the one that stayed.</p>
$topics
<h2>What the words mean</h2>
<dl>$legend</dl>
<p class="source">Made by zaichik stats, $now.</p>
</body>
</html>
""")

LEGEND = {
    "window": (
        "for how long a key's first message keeps later ones out; an orange mark is the "
        "window the topic has"
    ),
    "keeps": (
        "which message of a window stays: the first, which is what the broker does, or the last; "
        "or, in a table, the newest of each key"
    ),
    "messages": "how many would be stored",
    "part, of bytes": "of all messages that were published, and of their payloads' bytes",
    "updates lost": (
        "messages dropped although their payload is not that of the message that "
        "stayed; in % of all"
    ),
    "late": (
        "lost updates after which the key's next message was stored: until then readers saw "
        "the older value"
    ),
    "by, on average; at most": "for how long they did",
    "never seen": "lost updates after which nothing of their key was stored, as far as the data go",
    "published, stored, compacted": (
        "what the topic's own window has done: published = stored + compacted"
    ),
    "superseded": "messages of a table that were replaced by newer ones of their keys",
    "messages a window": "of messages with a key, those of one window together",
    "hot keys": "the keys with the most messages; a key that is not text is shown in hex (0x…)",
    "?": "not known. A number that is not known is never guessed",
}


def page(statistics: Sequence[Statistics], most_lost: float = MOST_LOST) -> str:
    """The page."""
    in_order = sorted(statistics, key=lambda one: one.is_hidden)
    topics = [_topic(one, most_lost) for one in in_order]
    legend = [f"<dt>{word}</dt><dd>{html.escape(meaning)}</dd>" for word, meaning in LEGEND.items()]
    return _PAGE.substitute(
        topics="\n".join(topics),
        legend="\n".join(legend),
        now=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def write_page(path: Path, statistics: Sequence[Statistics], most_lost: float = MOST_LOST) -> None:
    """Write the page; it appears when it is complete."""
    _appear(path, page(statistics, most_lost).encode())


def write_plots(
    path: Path, statistics: Sequence[Statistics], most_lost: float = MOST_LOST
) -> list[Path]:
    """Write a picture for each topic, in the format of the suffix; all but the first are numbered.

    Returns:
        The files.
    """
    files = []
    for number, one in enumerate(statistics):
        file = path if number == 0 else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")
        _appear(file, drawn(one, file.suffix.removeprefix("."), most_lost))
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
    words = harmless(verdict(one, most_lost))
    sentence = words[:1].upper() + words[1:]
    mark = partial(_mark, one, recommended(one, most_lost))
    parts = [
        f"<h2>{html.escape(shown(one.topic))}</h2>",
        f'<p class="source">{html.escape(harmless(described(one)))}</p>',
        f'<p class="advice {_meaning(one, most_lost)}">{html.escape(sentence)}</p>',
    ]
    parts += _command(one, most_lost)
    for caveat in caveats(one):
        parts.append(f'<p class="caveat">{html.escape(harmless(caveat))}</p>')
    parts.append(_wide(drawn(one, "svg", most_lost).decode()))

    parts.append("<h3>What another window would do</h3>")
    parts.append(_table(WHAT_IF_COLUMNS, one.of_winner("first"), mark))
    parts.append(
        "<details><summary>If the last message of a window stayed instead, which the broker cannot "
        "do</summary>"
    )
    parts.append(_table(WHAT_IF_COLUMNS, one.of_winner("last"), mark))
    parts.append("</details>")
    as_table = one.as_table
    if as_table is not None:
        heading = "What a table would do, which keeps the newest message of each key"
        if one.is_table:
            heading = "What the topic does, which is a table"
        parts.append(f"<h3>{heading}</h3>")
        parts.append(_table(WHAT_IF_COLUMNS, [as_table], mark))

    own = {"own_us": one.own_us} | one.account
    parts.append("<h3>What the topic's own window has done</h3>")
    parts.append(_table(ACCOUNT_COLUMNS, [own]))
    if one.hot_keys:
        parts.append("<h3>Hot keys</h3>")
        parts.append(_table(HOT_KEY_COLUMNS, one.hot_keys))
    return "\n".join(parts)


def _command(one: Statistics, most_lost: float) -> list[str]:
    """Returns how to create a topic with the window that is advised."""
    create = f"zaichik create {shlex.quote(shown(one.topic))}"
    if better_as_table(one, most_lost) is not None:
        words = f"{create} --table"
        return [f"<p>A topic is a table from the beginning: <code>{html.escape(words)}</code></p>"]
    best = recommended(one, most_lost)
    if one.is_table or best is None or not is_worth(best) or best["window_us"] == one.own_us:
        return []
    words = f"{create} --compaction-window {show_length(best['window_us'])}"
    return [f"<p>A topic has its window from the beginning: <code>{html.escape(words)}</code></p>"]


def described(one: Statistics) -> str:
    """Returns the source of the numbers, in a line."""
    what = counted(one.count, "message") + ", from its journal" * one.is_journaled
    return (
        f"{what}, in {one.source}, accepted from {_moment(one.first_us)} to "
        f"{_moment(one.last_us)} UTC."
    )


def _moment(us: float) -> str:
    """Returns a time; one that no calendar has is the number it is."""
    moment = calendar_time(us)
    if moment is None:
        return f"{int(us)} µs"
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _meaning(one: Statistics, most_lost: float) -> str:
    """Returns the verdict's class, and so its colour."""
    if one.is_table:
        return "unknown-verdict" if one.is_hidden else "nothing"
    if better_as_table(one, most_lost) is not None:
        return "save"
    best = recommended(one, most_lost)
    if best is not None:
        return "save" if is_worth(best) else "nothing"
    rows = one.of_winner("first")
    if all(row["differing"] is None for row in rows):
        return "unknown-verdict"
    return "nothing" if all(row["kept"] == row["messages"] for row in rows) else "costly"


def _mark(one: Statistics, best: Row | None, row: Row) -> str:
    """Returns the classes of a window's row; `best` marks the recommended window, if any."""
    is_own = row["window_us"] == one.own_us and row["winner"] == "first"
    if one.is_table:
        is_own = row["winner"] == "newest"
    marks = {
        "own": is_own,
        "advised": best is not None and row is best and is_worth(best),
        "unknown": row["differing"] is None,
    }
    return " ".join(name for name, holds in marks.items() if holds)


Columns = Sequence[tuple[str, Callable[[Row], str]]]


def _known_lost(row: Row) -> str:
    if row["differing"] is None or not row["unknown"]:
        return show_count(row["differing"])
    return f"{row['differing']:,} or more ({row['unknown']:,} unknown)"


def _late(row: Row) -> str:
    if not row["delayed"]:
        return percent(row["delayed"], 0)
    return show_time(row["delay_us"] / row["delayed"])


def _latest(row: Row) -> str:
    if not row["delayed"]:
        return percent(row["delayed"], 0)
    return show_time(row["max_delay_us"])


def _window(row: Row) -> str:
    if row["winner"] == "newest":
        return "none"
    return show_length(row["window_us"])


WHAT_IF_COLUMNS: Columns = (
    ("window", _window),
    ("keeps", lambda row: row["winner"]),
    ("messages", lambda row: show_count(row["kept"])),
    ("part", lambda row: percent(row["kept"], row["messages"])),
    ("of bytes", lambda row: percent(row["kept_bytes"], row["bytes"])),
    ("updates lost", lambda row: percent(row["differing"], row["messages"])),
    ("late", lambda row: percent(row["delayed"], row["messages"])),
    ("by, on average", _late),
    ("at most", _latest),
    ("never seen", lambda row: percent(row["unseen"], row["messages"])),
)


def _own_window(row: Row) -> str:
    if row["own_us"] is None:
        return "?"
    if row["own_us"] == 0:
        return "none"
    return show_length(row["own_us"])


def _per_window(row: Row) -> str:
    if row["windows"] is None:
        return "?"
    if row["windows"] == 0:
        return "-"
    return f"{row['per_window']:.2f}"


def _share(row: Row) -> str:
    if row["share"] is None:
        return "?"
    return f"{row['share']:.1%}"


ACCOUNT_COLUMNS: Columns = (
    ("window", _own_window),
    ("published", lambda row: show_count(row["published"])),
    ("stored", lambda row: show_count(row["stored"])),
    ("compacted", lambda row: show_count(row["compacted"])),
    ("part stored", lambda row: percent(row["stored"], row["published"])),
    ("of bytes", lambda row: percent(row["stored_bytes"], row["bytes"])),
    ("windows", lambda row: show_count(row["windows"])),
    ("superseded", lambda row: show_count(row["superseded"])),
    ("messages a window", _per_window),
    ("updates lost", _known_lost),
)
HOT_KEY_COLUMNS: Columns = (
    ("key", lambda row: shown_key(row["key"])),
    ("published", lambda row: show_count(row["published"])),
    ("part of all", _share),
    ("stored", lambda row: show_count(row["stored"])),
    ("bytes", lambda row: show_count(row["bytes"])),
)


def _table(
    columns: Columns, rows: Sequence[Row], mark: Callable[[Row], str] = lambda row: ""
) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name, _ in columns)
    body = "\n".join(
        f'<tr class="{mark(row)}">'
        + "".join(f"<td>{html.escape(show(row))}</td>" for _, show in columns)
        + "</tr>"
        for row in rows
    )
    return _wide(f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>")


def _wide(content: str) -> str:
    """Wraps what may be wider than a screen, so that it scrolls and the page does not."""
    return f'<div class="wide">{content}</div>'
