"""A plot of a table: medians as bars, the spread as a line on each, on a logarithmic scale."""

import statistics
from importlib import import_module
from pathlib import Path

from benchmarks.report import Table, heading

mpl = import_module("matplotlib")
mpl.use("svg")  # needs no screen
mpl.rcParams["svg.hashsalt"] = "zaichik"  # the same results give the same file
mpl.rcParams["svg.fonttype"] = "none"  # text stays text
plt = import_module("matplotlib.pyplot")


def draw(table: Table, path: Path) -> None:
    """Write the plot: a group of bars for each column, a colour for each peer."""
    columns, peers = table.columns(), table.peers()
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    width = 0.84 / len(peers)
    for index, peer in enumerate(peers):
        for place, column in enumerate(columns):
            runs = table.runs(peer, *column)
            if not runs:
                continue
            median = statistics.median(runs)
            axes.bar(
                place - 0.42 + width * (index + 0.5), median, width * 0.92, color=f"C{index}",
                yerr=[[median - min(runs)], [max(runs) - median]], error_kw={"linewidth": 1},
            )  # fmt: skip
        axes.bar(0, 0, color=f"C{index}", label=peer)  # one entry of the legend, whatever was measured
    axes.set_xticks(range(len(columns)), [heading(*column) for column in columns])
    axes.set_yscale("log")
    axes.set_ylabel(f"{table.unit} (logarithmic)")
    axes.set_title(f"{table.title}, {'less' if table.unit == 'µs' else 'more'} is better", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
