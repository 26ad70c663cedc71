"""Results on disk: results.json, and what is made from it: results.md, the plots, the table of
docs/understand/performance.md.
"""

import importlib.util
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import overview
from benchmarks.outcomes import Outcome, Table
from benchmarks.peers.peer import Peer
from benchmarks.processes import say
from benchmarks.tables import failures, markdown, rows
from zaichik.base.build import build, interpreter

RESULTS = Path(__file__).parent / "results"
NO_PLOT = {"memory", "burst", "startup"}
OVERVIEW = "overview.svg"
USED = (
    "All programs in Python, clients and `zaichik serve`, run on one interpreter and on the event "
    "loop named above (a "
    "peer whose fastest client blocks uses that in a thread). Servers keep their defaults, except "
    "where said here. A "
    "topic has one partition; nothing is replicated."
)


@dataclass(frozen=True, slots=True)
class Results:
    """What `python -m benchmarks` has found.

    Attributes:
        about: where, when and how.
        tables: one for each scenario.
    """

    about: dict[str, Any]
    tables: list[Table]

    def intro(self, spread: str = " (lowest to highest)") -> str:
        """How these figures came about, in a line or two."""
        about = self.about
        quick = (
            " Measured with --quick: this shows that it works, not how fast."
            if about["quick"]
            else ""
        )
        return f"Median of {about['runs']} runs in turns{spread}. {about['machine']}.{quick}"


def gather(tables: list[Table], runs: int, peers: Iterable[Peer], *, quick: bool) -> Results:
    """The tables and what there is to say about them; of the peers, those that took part."""
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio's event loop"
    python = f"Python {platform.python_version()} ({interpreter()})"
    where = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    machine = f"{where}, {python}, zaichik {build()}, clients on {loop}"
    when, load = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", round(os.getloadavg()[0], 2)
    shown = {outcome.peer for table in tables for outcome in table.outcomes}
    used = [
        [peer.label, peer.keeps, peer.batching, peer.versions()]
        for peer in peers
        if peer.label in shown
    ]
    about = {
        "machine": machine,
        "runs": runs,
        "quick": quick,
        "when": when,
        "load": load,
        "used": used,
    }
    return Results(about, tables)


def write(directory: Path, results: Results) -> None:
    """Write results.json, results.md and the plots."""
    directory.mkdir(parents=True, exist_ok=True)
    data = {"about": results.about, "scenarios": [asdict(table) for table in results.tables]}
    (directory / "results.json").write_text(
        json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (directory / "results.md").write_text(page(results), encoding="utf-8")
    if importlib.util.find_spec("matplotlib") is None:
        say("no plots: the Python package matplotlib is not installed")
        return
    from benchmarks import plot

    colours = plot.colours_of(results.tables)
    for table in results.tables:
        if table.name not in NO_PLOT and table.columns():
            plot.draw(table, directory / f"{table.name}.svg", colours)
    if overview.brokers(results.tables):
        plot.draw_overview(results.tables, directory / OVERVIEW, colours)


def load(directory: Path) -> Results:
    """Returns what `write` has written.

    Raises:
        FileNotFoundError: there are no results in the folder.
    """
    data = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    tables = [
        Table(**{**scenario, "outcomes": [Outcome(**item) for item in scenario["outcomes"]]})
        for scenario in data["scenarios"]
    ]
    return Results(data["about"], tables)


def section(table: Table, runs: int) -> list[str]:
    """Returns one table with its plot, if it has one, and the number of its runs, if it has fewer
    than others.
    """
    fewer = [f"Median of {table.most_runs} runs."] if 0 < table.most_runs < runs else []
    image = [] if table.name in NO_PLOT else [f"![{table.title}]({table.name}.svg)"]
    return [
        f"## {table.title}",
        *fewer,
        *image,
        "\n\n".join([markdown(rows(table)), *failures(table)]),
    ]


def page(results: Results) -> str:
    """The whole of results.md."""
    parts = [
        "# zaichik and its peers",
        f"{results.intro()} Made by `make bench`, {results.about['when'][:10]}.",
    ]
    for table in results.tables:
        parts += section(table, results.about["runs"])
    if used := results.about.get("used"):
        parts += [
            "## How each is used",
            USED,
            markdown([["", "kept", "batching and linger", "versions"], *used]),
        ]
    return "\n\n".join(parts) + "\n"


def excerpt(directory: Path = RESULTS) -> str:
    """What docs/understand/performance.md shows: cog puts it there."""
    if not (directory / "results.json").exists():
        return "There are no results yet; `make bench` measures and writes them."
    results = load(directory)
    link = "../../benchmarks/results/"
    return "\n\n".join(
        [
            f"{results.intro(spread='')} All scenarios, with spreads: [results]({link}results.md).",
            f"![zaichik and its peers]({link}{OVERVIEW})",
            markdown(overview.rows(results.tables)),
        ]
    )
