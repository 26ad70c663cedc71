"""Plots of tables, as SVG.

Brokers side by side are bars on a logarithmic scale, the median with a line from the lowest run to the highest, and the
limits are strokes above them. Growth is a panel for each axis: what a point costs in comparison with the first one.
"""

import math
import statistics
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.alone import GROWTH, points, ratios
from benchmarks.outcomes import Table, heading

mpl = import_module("matplotlib")
mpl.use("svg")  # needs no screen
mpl.rcParams["svg.hashsalt"] = "zaichik"  # the same results give the same file
mpl.rcParams["svg.fonttype"] = "none"  # text stays text
plt = import_module("matplotlib.pyplot")

LEGEND = {"fontsize": 8, "frameon": False}
STROKES = ["-", ":"]
TOLERANCE = 0.1


def draw(table: Table, path: Path, colours: dict[str, str]) -> None:
    """Write the plot of a table. It has a white ground, so that it can be read on a dark page."""
    figure = growth(table) if table.name == "growth" else comparison(table, colours)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def colours_of(tables: Sequence[Table]) -> dict[str, str]:
    """A colour for each broker, the same in all plots."""
    brokers = dict.fromkeys(peer for table in tables for peer in table.peers(limits=False))
    return {peer: f"C{index}" for index, peer in enumerate(brokers)}


def comparison(table: Table, colours: dict[str, str]) -> Any:
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
        axes.bar(0, 0, color=colours[peer], label=peer)  # one entry of the legend, whatever was measured
    for stroke, limit in zip(STROKES, table.peers(limits=True), strict=False):
        for place, column in enumerate(columns):
            if runs := table.runs(limit, *column):
                axes.hlines(statistics.median(runs), place - 0.44, place + 0.44, color="black", linestyle=stroke)
        axes.plot([], [], color="black", linestyle=stroke, label=f"limit: {limit}")
    axes.set_xticks(range(len(columns)), [heading(*column, separator="\n") for column in columns])
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.set_yscale("log")
    axes.set_ylim(bottom=10 ** math.floor(math.log10(axes.dataLim.minposy * 0.8)))  # so that no bar vanishes
    axes.set_ylabel(f"{table.unit} (logarithmic)")
    title = f"{table.title}; {'less' if table.less_is_better else 'more'} is better"
    axes.set_title(textwrap.fill(title, 70), fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", **LEGEND)
    return figure


def growth(table: Table) -> Any:
    """A panel for each axis, a line for each figure, and the range in which a cost counts as not growing."""
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
                    places, medians, [below, above], marker="o", markersize=4, linewidth=1.2, capsize=2,
                    color=f"C{index}", label=label if panel is panels[0][0] else None,
                )  # fmt: skip
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
