"""Results as a table for the terminal, as JSON, as Markdown and as plots."""

import importlib.util
import json
import os
import platform
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.turns import Outcome, say

LIMIT = "bare relay (the limit)"
RELATIVE = {"keepfirst", "replay"}  # whose second column is compared with the first, not peer with peer


@dataclass(frozen=True, slots=True)
class Table:
    """One scenario and what was found.

    Attributes:
        name: of the scenario.
        title: likewise.
        unit: of the figures.
        outcomes: cell by cell, and in each peer by peer.
    """

    name: str
    title: str
    unit: str
    outcomes: list[Outcome]

    def columns(self) -> list[tuple[str, str]]:
        """Cells and figures, in order."""
        pairs = [(outcome.cell, figure) for outcome in self.outcomes for figure in outcome.figures]
        return list(dict.fromkeys(pairs))

    def peers(self) -> list[str]:
        """The peers, in order."""
        return list(dict.fromkeys(outcome.peer for outcome in self.outcomes))

    def runs(self, peer: str, cell: str, figure: str) -> list[float]:
        """The figures of all runs; none if all have failed."""
        for outcome in self.outcomes:
            if (outcome.peer, outcome.cell) == (peer, cell):
                return outcome.figures.get(figure, [])
        return []


def heading(cell: str, figure: str) -> str:
    """A column's heading; a rate needs no name."""
    return cell if figure == "messages/s" else f"{cell} {figure}"


def shown(runs: list[float]) -> str:
    """A median and its spread."""
    if not runs:
        return "-"
    spread = f" ({min(runs):,.0f} to {max(runs):,.0f})" if len(runs) > 1 else ""
    return f"{statistics.median(runs):,.0f}{spread}"


def share_rows(table: Table) -> Iterator[list[str]]:
    """What remains of the bare relay's rate: of the same bytes, so of the same messages."""
    for peer in table.peers():
        if LIMIT in table.peers() and peer != LIMIT:
            row = [f"{peer}: share of the limit"]
            for cell, figure in table.columns():
                ours, limit = table.runs(peer, cell, figure), table.runs(LIMIT, cell, figure)
                row.append(f"{statistics.median(ours) / statistics.median(limit):.1%}" if ours and limit else "-")
            yield row


def ratio(runs: list[float], others: list[float]) -> str:
    """Of two medians."""
    return f"{statistics.median(runs) / statistics.median(others):.2f}" if runs and others else "-"


def best_peer_row(table: Table) -> Iterator[list[str]]:
    """How zaichik's median compares with that of the best other broker."""
    others = [peer for peer in table.peers() if not peer.startswith("zaichik") and peer != LIMIT]
    best = min if table.unit == "µs" else max
    for peer in table.peers():
        if peer.startswith("zaichik") and others:
            row = [f"{peer} : the best peer"]
            for cell, figure in table.columns():
                theirs = [runs for other in others if (runs := table.runs(other, cell, figure))]
                row.append(ratio(table.runs(peer, cell, figure), best(theirs, key=statistics.median, default=[])))
            yield row


def rows(table: Table) -> list[list[str]]:
    """The cells of a table, heading first."""
    columns = table.columns()
    found = [[table.unit, *(heading(*column) for column in columns)]]
    found += [[peer, *(shown(table.runs(peer, *column)) for column in columns)] for peer in table.peers()]
    if table.name in RELATIVE and len(columns) > 1:
        first, second = columns[0], columns[-1]
        found[0].append(f"{second[0]} : {first[0]}")
        for row, peer in zip(found[1:], table.peers(), strict=True):
            row.append(ratio(table.runs(peer, *second), table.runs(peer, *first)))
        return found
    return [*found, *best_peer_row(table), *share_rows(table)]


def failures(table: Table) -> list[str]:
    """What went wrong, a line each."""
    return [f"FAILED: {item.peer}, {item.cell}: {text}" for item in table.outcomes for text in item.failures]


def text(table: Table) -> str:
    """For the terminal: the peers' names on the left, figures on the right of their columns."""
    cells = rows(table)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in cells
    ]
    return "\n".join(["", table.title, *lines, *failures(table)])


def markdown(table: Table) -> str:
    """For the documents."""
    head, *body = rows(table)
    lines = [head, ["---", *("--:" for _ in head[1:])], *body]
    drawn = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([f"## {table.title}", f"![]({table.name}.svg)", drawn, *failures(table)])


def machine() -> str:
    """Where this was measured."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def write(directory: Path, tables: list[Table], runs: int) -> None:
    """Results.json, results.md and a plot of each table."""
    directory.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    about = {
        "machine": machine(), "runs": runs, "when": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "load": round(load, 2),
    }  # fmt: skip
    data = {"about": about, "scenarios": [asdict(table) for table in tables]}
    (directory / "results.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    intro = f"Median of {runs} runs in turns (lowest to highest). {machine()}. Made by `python -m benchmarks`."
    pages = ["# zaichik and its peers", intro, *map(markdown, tables)]
    (directory / "results.md").write_text("\n\n".join(pages) + "\n", encoding="utf-8")
    if importlib.util.find_spec("matplotlib") is None:
        say("no plots: the Python package matplotlib is not installed")
        return
    from benchmarks import plot

    for table in tables:
        plot.draw(table, directory / f"{table.name}.svg")
