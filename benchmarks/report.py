"""Results on disk: results.json, and what is made of it, results.md, the plots and the README's part."""

import importlib.util
import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.outcomes import Outcome, Table
from benchmarks.processes import say
from benchmarks.tables import markdown

RESULTS = Path(__file__).parent / "results"
IN_README = ("throughput", "growth", "memory")
NO_PLOT = {"memory"}


@dataclass(frozen=True, slots=True)
class Results:
    """What `python -m benchmarks` has found.

    Attributes:
        about: where, when and how.
        tables: one for each scenario.
    """

    about: dict[str, Any]
    tables: list[Table]

    def intro(self) -> str:
        """How these figures came about, in a line or two."""
        about = self.about
        quick = " Measured with --quick: this shows that it works, not how fast." if about["quick"] else ""
        return f"Median of {about['runs']} runs in turns (lowest to highest). {about['machine']}.{quick}"


def gather(tables: list[Table], runs: int, *, quick: bool) -> Results:
    """The tables and what there is to say about them."""
    loop = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio's event loop"
    python = f"Python {platform.python_version()}, clients on {loop}"
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, {python}"
    when, load = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", round(os.getloadavg()[0], 2)
    return Results({"machine": machine, "runs": runs, "quick": quick, "when": when, "load": load}, tables)


def write(directory: Path, results: Results) -> None:
    """Everything that there is to write."""
    directory.mkdir(parents=True, exist_ok=True)
    data = {"about": results.about, "scenarios": [asdict(table) for table in results.tables]}
    (directory / "results.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (directory / "results.md").write_text(page(results), encoding="utf-8")
    if importlib.util.find_spec("matplotlib") is None:
        say("no plots: the Python package matplotlib is not installed")
        return
    from benchmarks import plot

    colours = plot.colours_of(results.tables)
    for table in results.tables:
        if table.name not in NO_PLOT and table.columns():
            plot.draw(table, directory / f"{table.name}.svg", colours)


def load(directory: Path) -> Results:
    """What `write` has written.

    Raises:
        FileNotFoundError: nothing has.
    """
    data = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    tables = [
        Table(**{**scenario, "outcomes": [Outcome(**item) for item in scenario["outcomes"]]})
        for scenario in data["scenarios"]
    ]
    return Results(data["about"], tables)


def section(table: Table, heading: str, plots: str) -> list[str]:
    """One table with its plot, if it has one."""
    image = [] if table.name in NO_PLOT else [f"![{table.title}]({plots}{table.name}.svg)"]
    return [f"{heading} {table.title}", *image, markdown(table)]


def page(results: Results) -> str:
    """The whole of results.md."""
    parts = ["# zaichik and its peers", f"{results.intro()} Made by `make bench`, {results.about['when'][:10]}."]
    for table in results.tables:
        parts += section(table, "##", "")
    return "\n\n".join(parts) + "\n"


def excerpt(directory: Path = RESULTS) -> str:
    """What the README shows: cog puts it there."""
    if not (directory / "results.json").exists():
        return "There are no results yet; `make bench` measures and writes them."
    results = load(directory)
    parts = [f"{results.intro()} All scenarios: [results](benchmarks/results/results.md)."]
    for table in results.tables:
        if table.name in IN_README:
            parts += section(table, "###", "benchmarks/results/")
    return "\n\n".join(parts)
