"""Tables of durable topics beside other promises, and what the documents show of them."""

import json
import re
import statistics
from dataclasses import asdict
from pathlib import Path

from benchmarks.durable_scenarios import SYNCS
from benchmarks.measures import RATE
from benchmarks.outcomes import Table, heading, ratio, shown
from benchmarks.peers.zaichik_durable import PEER as SUBJECT
from benchmarks.peers.zaichik_memory import PEER as MEMORY
from benchmarks.report import RESULTS, Results, load
from benchmarks.tables import SURVIVES, failures, markdown, text

FOLDER = RESULTS / "durable"
SPREAD = re.compile(r" \([\d,.]+ to [\d,.]+\)$")
BESIDE_OTHERS = {"publishing", "work"}  # a row for each peer
HINT = (
    "Syncs are flushes of the whole disk, as the system counts them. Before each run everything "
    "that others have left "
    "unwritten is written."
)


def rows(table: Table) -> list[list[str]]:
    """Returns the cells of a table, heading first."""
    return publishing_rows(table) if table.name in BESIDE_OTHERS else compared_rows(table)


def publishing_rows(table: Table) -> list[list[str]]:
    """Returns the peers, and the durable topic as a multiple of the memory topic and of the best
    other of each kind.
    """
    columns, peers = table.columns(), table.peers(limits=False)
    found = [[table.unit, *(heading(*column) for column in columns), SURVIVES]]
    found += [
        [peer, *(shown(table.runs(peer, *it)) for it in columns), table.keeps[peer]]
        for peer in peers
    ]
    others = [peer for peer in peers if peer not in (SUBJECT.label, MEMORY.label)]
    kinds = {
        "memory topic": [MEMORY.label],
        "the best that keep the same": [
            peer for peer in others if table.keeps[peer] == SUBJECT.keeps
        ],
        "the best that keep less": [peer for peer in others if table.keeps[peer] != SUBJECT.keeps],
    }
    for kind, those in kinds.items():
        row = [f"durable topic : {kind}"]
        for cell, figure in columns:
            rates = [
                runs
                for peer in those
                if (runs := table.runs(peer, cell, figure)) and figure == RATE
            ]
            best = max(rates, key=statistics.median, default=[])
            row.append(
                ratio(table.runs(SUBJECT.label, cell, figure), best) if figure != SYNCS else ""
            )
        found.append([*row, ""])
    return found


def compared_rows(table: Table) -> list[list[str]]:
    """Returns a row for each cell, with each figure and its ratio to the first one, run by run."""
    figures = list(dict.fromkeys(figure for _, figure in table.columns()))
    names = (
        [figures[0], *(it for name in figures[1:] for it in (name, f"{name} : {figures[0]}"))]
        if figures
        else []
    )
    found = [[table.unit, *names]]
    for outcome in table.outcomes:
        first, *others = [outcome.figures.get(figure, []) for figure in figures] or [[]]
        row = [outcome.cell, shown(first)] if figures else [outcome.cell]
        for runs in others:
            row += [
                shown(runs),
                shown([one / base for one, base in zip(runs, first, strict=True)], ".2f"),
            ]
        found.append(row)
    return found


def printed(table: Table) -> str:
    """Returns a table for the terminal."""
    return text(table, rows(table))


# -- on disk -------------------------------------------------------------------------------------


def write(folder: Path, results: Results) -> None:
    """Write results.json and results.md."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"about": results.about, "scenarios": [asdict(table) for table in results.tables]}
    (folder / "results.json").write_text(
        json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (folder / "results.md").write_text(page(results), encoding="utf-8")


def page(results: Results) -> str:
    """Returns the whole of results.md."""
    sync = f"A write of 4 KiB with its sync takes {results.about['sync_us']:,.0f} µs here. {HINT}"
    when = f"{results.intro()} Made by `make bench-durable`, {results.about['when'][:10]}."
    parts = ["# Durable topics, and what others do on a disk", when, sync]
    for table in results.tables:
        parts += [f"## {table.title}", "\n\n".join([markdown(rows(table)), *failures(table)])]
    if used := results.about["used"]:
        lines = [[label, batching, versions] for label, _, batching, versions in used]
        parts += [
            "## How each is used",
            markdown([["", "batching and linger", "versions"], *lines]),
        ]
    return "\n\n".join(parts) + "\n"


def excerpt(folder: Path = FOLDER) -> str:
    """Returns the section of docs/run/durability.md, which cog puts there.

    Before anything was measured, it is empty.
    """
    if not (folder / "results.json").exists():
        return ""
    results = load(folder)
    sync = f"A write of 4 KiB with its sync takes {results.about['sync_us']:,.0f} µs."
    more = (
        "Made by `make bench-durable`; [with spreads](../../benchmarks/results/durable/results.md)."
    )
    parts = ["## Figures", f"{results.intro(spread='')} {sync} {more}"]
    for table in results.tables:
        medians = [[SPREAD.sub("", cell) for cell in row] for row in rows(table)]
        parts += [f"**{table.title}**", markdown(medians)]
    return "\n\n".join(parts)
