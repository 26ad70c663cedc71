"""Plots of tables, as SVG.

Brokers side by side are bars on a logarithmic scale, the median with a line from the lowest run to
the highest, and the limits are strokes above them. Growth is a panel for each axis: what a point
costs in comparison with the first one. Pauses are a histogram for each rate. The overview is a
panel for each column of the table in docs/understand/performance.md.
"""

import math
import statistics
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.alone import GROWTH, pauses, points, ratios
from benchmarks.outcomes import SUBJECT, Table, heading
from benchmarks.overview import COLUMNS, best_ratio, brokers, found, rounded
from benchmarks.tail import bars

mpl = import_module("matplotlib")
mpl.use("svg")  # needs no screen
mpl.rcParams["svg.hashsalt"] = "zaichik"  # the same results give the same file
mpl.rcParams["svg.fonttype"] = "none"  # text stays text
plt = import_module("matplotlib.pyplot")

Colour = tuple[float, float, float, float]  # red, green, blue, opacity
LEGEND = {"fontsize": 8, "frameon": False}
STROKES = ["-", ":", "--"]
COLOURS = [
    mpl.colormaps["tab20"](index) for index in (*range(0, 20, 2), *range(1, 20, 2))
]  # dark ones, then light
TOLERANCE = 0.1


def draw(table: Table, path: Path, colours: dict[str, Colour]) -> None:
    """Write the plot of a table. It has a white ground, so that it can be read on a dark page."""
    match table.name:
        case "growth":
            save(growth(table), path)
        case "tail":
            save(tail(table), path)
        case _:
            save(comparison(table, colours), path)


def draw_overview(tables: Sequence[Table], path: Path, colours: dict[str, Colour]) -> None:
    """Writes the plot of docs/understand/performance.md."""
    save(overview(tables, colours), path)


def save(figure: Any, path: Path) -> None:
    """Writes it; the same results give the same bytes."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def colours_of(tables: Sequence[Table]) -> dict[str, Colour]:
    """A colour for each broker, the same in all plots."""
    brokers = dict.fromkeys(peer for table in tables for peer in table.peers(limits=False))
    return dict(zip(brokers, COLOURS, strict=False))


def comparison(table: Table, colours: dict[str, Colour]) -> Any:
    """A group of bars for each column."""
    columns, brokers = table.columns(), table.peers(limits=False)
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    width = 0.84 / len(brokers)
    for index, peer in enumerate(brokers):
        for place, column in enumerate(columns):
            if runs := table.runs(peer, *column):
                median = statistics.median(runs)
                axes.bar(
                    place - 0.42 + width * (index + 0.5), median, width * 0.92, color=colours[peer],
                    yerr=[[median - min(runs)], [max(runs) - median]], error_kw={"linewidth": 1},
                )  # fmt: skip
        axes.bar(
            0, 0, color=colours[peer], label=peer
        )  # one entry of the legend, whatever was measured
    for stroke, limit in zip(STROKES, table.peers(limits=True), strict=False):
        for place, column in enumerate(columns):
            if runs := table.runs(limit, *column):
                axes.hlines(
                    statistics.median(runs),
                    place - 0.44,
                    place + 0.44,
                    color="black",
                    linestyle=stroke,
                )
        axes.plot([], [], color="black", linestyle=stroke, label=f"limit: {limit}")
    axes.set_xticks(range(len(columns)), [heading(*column, separator="\n") for column in columns])
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_yscale("log")
    axes.set_ylim(
        bottom=10 ** math.floor(math.log10(axes.dataLim.minposy * 0.8))
    )  # so that no bar vanishes
    axes.set_ylabel(f"{table.unit} (logarithmic)")
    title = f"{table.title}; {'less' if table.less_is_better else 'more'} is better"
    axes.set_title(textwrap.fill(title, 70), fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", **LEGEND)
    return figure


def growth(table: Table) -> Any:
    """A panel for each axis, a line for each figure, and the range in which a cost counts as not
    growing.
    """
    axes_of = [outcome for outcome in table.outcomes if outcome.figures]
    figure, panels = plt.subplots(
        1, len(axes_of), figsize=(11, 3.6), layout="constrained", sharey=True, squeeze=False
    )  # fmt: skip
    for panel, outcome in zip(panels[0], axes_of, strict=True):
        steps = points(outcome)
        for index, (name, label) in enumerate(GROWTH.items()):
            runs = [ratios(outcome, point, name) for point in steps]
            if all(runs):
                medians = [statistics.median(values) for values in runs]
                below = [median - min(values) for median, values in zip(medians, runs, strict=True)]
                above = [max(values) - median for median, values in zip(medians, runs, strict=True)]
                places = [place + 0.08 * (index - 1) for place in range(len(steps))]
                panel.errorbar(
                    places,
                    medians,
                    [below, above],
                    marker="o",
                    markersize=4,
                    linewidth=1.2,
                    capsize=2,
                    color=f"C{index}",
                    label=label if panel is panels[0][0] else None,
                )
        panel.axhspan(1 - TOLERANCE, 1 + TOLERANCE, color="grey", alpha=0.15, linewidth=0)
        short = [step.replace(",000,000", "M").replace(",000", "k") for step in steps]
        panel.set_xticks(range(len(steps)), short, fontsize=8)
        panel.set_xlim(-0.4, len(steps) - 0.6)
        panel.set_title(textwrap.fill(outcome.cell, 24), fontsize=9)
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    low, high = panels[0][0].get_ylim()
    panels[0][0].set_ylim(min(low, 0.7), max(high, 1.3))
    panels[0][0].set_ylabel("cost : cost at the first point")
    figure.suptitle(f"{table.title}; grey: within 10 %", fontsize=11)
    figure.legend(loc="outside lower center", ncols=len(GROWTH), **LEGEND)
    return figure


def tail(table: Table) -> Any:
    """A panel for each rate: a histogram of latencies for each ring, on a logarithmic scale."""
    found_at = list(pauses(table))
    rates = list(dict.fromkeys(rate for _, rate, _ in found_at))
    figure, panels = plt.subplots(
        1, len(rates), figsize=(11, 3.6), layout="constrained", sharey=True, squeeze=False
    )
    for panel, rate in zip(panels[0], rates, strict=True):
        rings = [(ring, figures) for ring, its_rate, figures in found_at if its_rate == rate]
        width = 0.84 / len(rings)
        for index, (ring, figures) in enumerate(rings):
            counts = [sum(figures[name]) for name in bars()]
            places = [place - 0.42 + width * (index + 0.5) for place in range(len(counts))]
            label = f"ring of {ring} messages" if panel is panels[0][0] else None
            panel.bar(places, counts, width * 0.92, color=f"C{index}", label=label)
        panel.set_xticks(
            range(len(bars())), [name.removesuffix(" ms") for name in bars()], fontsize=8
        )
        panel.set_yscale("log")
        panel.set_title(f"{rate} single messages", fontsize=9)
        panel.set_xlabel("ms")
        panel.grid(axis="y", alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("messages (logarithmic)")
    figure.suptitle(textwrap.fill(table.title, 90), fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, **LEGEND)
    return figure


def overview(tables: Sequence[Table], colours: dict[str, Colour]) -> Any:
    """A panel for each column, a bar for each broker: the median, with its number beside it."""
    columns = [(column, runs) for column in COLUMNS if (runs := found(tables, column))]
    names = brokers(tables)
    figure, panels = plt.subplots(
        1,
        len(columns),
        figsize=(12, 0.9 + 0.26 * len(names)),
        layout="constrained",
        sharey=True,
        squeeze=False,
    )
    for panel, (column, runs) in zip(panels[0], columns, strict=True):
        for place, peer in enumerate(names):
            if values := runs.get(peer):
                panel.barh(place, statistics.median(values), 0.75, color=colours[peer])
                panel.text(
                    statistics.median(values), place, f" {rounded(values)}", va="center", fontsize=7
                )
        words = f"{column.heading}{'; less is better' if column.less_is_better else ''}"
        panel.set_title(textwrap.fill(words, 20), fontsize=8)
        panel.set_xlabel(f"{SUBJECT} : the best peer  {best_ratio(runs, column)}", fontsize=7)
        panel.set_xticks([])
        panel.margins(x=0.35)
        panel.spines[["top", "right", "bottom"]].set_visible(False)
    panels[0][0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0][0].invert_yaxis()
    return figure
