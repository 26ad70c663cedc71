"""The tables of measurements of zaichik alone: a row for each thing instead of each peer."""

from collections.abc import Iterator

from benchmarks.outcomes import Outcome, Table, middle, shown
from benchmarks.tail import FIGURES, bars

GROWTH = {
    "publish": "awaited publish, µs",
    "broker": "the broker's processor, µs",
    "batch": "the same for a batch of 100, µs",
}
TARGETS = {"idle connection": 20 * 1024, "stored message": 30, "topic": 8 * 1024}  # bytes
MEANING = {
    "stored message": "stored message of 100 B, in batches of 100, over its payload",
    "stored message of 1 KiB": "stored message of 1 KiB, in batches of 100, over its payload",
    (
        "stored message published alone"
    ): "stored message of 100 B, in a batch of its own, over its payload",
}


def points(outcome: Outcome) -> list[str]:
    """How far an axis went, in steps."""
    return list(dict.fromkeys(figure.rpartition(" ")[0] for figure in outcome.figures))


def ratios(outcome: Outcome, point: str, figure: str) -> list[float]:
    """Of each run, what a point costs in comparison with the first one."""
    runs, first = (
        outcome.figures.get(f"{name} {figure}", []) for name in (point, points(outcome)[0])
    )
    return [own / other for own, other in zip(runs, first, strict=True)]


def growth_rows(table: Table) -> list[list[str]]:
    """A row for each point, and beside each figure its ratio to the first point, run by run."""
    found = [
        ["what grows", "to", *(text for name in GROWTH.values() for text in (name, ": first"))]
    ]
    for outcome in table.outcomes:
        for point in points(outcome):
            row = [outcome.cell, point]
            for figure in GROWTH:
                runs = outcome.figures.get(f"{point} {figure}", [])
                row += [middle(runs), shown(ratios(outcome, point, figure), ".2f")]
            found.append(row)
    return found


def pauses(table: Table) -> Iterator[tuple[str, str, dict[str, list[float]]]]:
    """Returns, for each ring and rate, its figures by name."""
    for outcome in table.outcomes:
        found: dict[tuple[str, str], dict[str, list[float]]] = {}
        for figure, runs in outcome.figures.items():
            ring, rate, name = figure.split(" ", 2)
            found.setdefault((ring, rate), {})[name] = runs
        for (ring, rate), figures in found.items():
            yield ring, rate, figures


def tail_rows(table: Table) -> list[list[str]]:
    """A row for each ring at each rate: quantiles, and the number of messages of all runs in each
    bar.
    """
    found = [["messages in the ring", "rate", *(f"{name}, ms" for name in FIGURES), *bars()]]
    for ring, rate, figures in pauses(table):
        quantiles = [shown(figures[name], ",.2f") for name in FIGURES]
        found.append([ring, rate, *quantiles, *(f"{sum(figures[name]):,.0f}" for name in bars())])
    return found


def memory_rows(table: Table) -> list[list[str]]:
    """A row for each kind of thing; for messages also the memory per byte of their payloads."""
    found = [["one", "bytes", "target", "bytes for each byte kept"]]
    for outcome in table.outcomes:
        name = outcome.cell
        target = f"≤ {TARGETS[name]:,}" if name in TARGETS else ""
        kept = outcome.figures.get("per byte", [])
        each = shown(outcome.figures.get("each", []))
        found.append([MEANING.get(name, name), each, target, shown(kept, ".2f") if kept else ""])
    return found


def burst_rows(table: Table) -> list[list[str]]:
    """A row for each size of messages."""
    figures = ["before", "at its peak", "5 s after"]
    found = [["burst of", "payloads, MiB", *(f"{figure}, MiB" for figure in figures)]]
    for outcome in table.outcomes:
        size = 1024 if "KiB" in outcome.cell else 100
        row = [outcome.cell, f"{outcome.messages * size / 2**20:,.0f}"]
        found.append([*row, *(shown(outcome.figures.get(figure, [])) for figure in figures)])
    return found


def startup_rows(table: Table) -> list[list[str]]:
    """A row for each thing that starts."""
    return [
        ["what", "ms"],
        *([outcome.cell, shown(outcome.figures.get("ms", []))] for outcome in table.outcomes),
    ]
