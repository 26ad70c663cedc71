"""The short table of the README: one row for each broker, and one column each for a few scenarios."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.outcomes import SUBJECT, Table

RATE = "messages/s"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the overview.

    Attributes:
        scenario, cell, figure: which of all figures it shows.
        heading: what it says above.
        less_is_better: whether it is a cost.
    """

    scenario: str
    cell: str
    figure: str
    heading: str
    less_is_better: bool = False


COLUMNS = (
    Column("throughput", "100 B", RATE, "100 B, messages/s"),
    Column("throughput", "1 KiB", RATE, "1 KiB, messages/s"),
    Column("fanout", "1 → 64", RATE, "100 B to 64 readers, messages/s"),
    Column("acknowledged", "64 tasks", RATE, "64 tasks await each publish, messages/s"),
    Column("acknowledged", "1 task", RATE, "1 task awaits each publish, messages/s"),
    Column("roundtrip", "1,000/s", "p99", "round trip at 1,000/s, p99, µs", less_is_better=True),
)


def found(tables: Sequence[Table], column: Column) -> dict[str, list[float]]:
    """The figures of all runs by broker; other uses of zaichik (its name and a comma) are left out."""
    for table in tables:
        if table.name == column.scenario:
            runs = {peer: table.runs(peer, column.cell, column.figure) for peer in table.peers(limits=False)}
            return {peer: values for peer, values in runs.items() if values and not peer.startswith(f"{SUBJECT},")}
    return {}


def brokers(tables: Sequence[Table]) -> list[str]:
    """All that have a figure in some column, in order."""
    return list(dict.fromkeys(peer for column in COLUMNS for peer in found(tables, column)))


def rounded(runs: Sequence[float]) -> str:
    """The median with three digits that count; "-" if there is none."""
    if not runs:
        return "-"
    median = statistics.median(runs)
    return f"{round(median, 3 - len(str(int(median)))):,.0f}"


def best_ratio(runs: dict[str, list[float]], column: Column) -> str:
    """The subject's median divided by that of the best other broker."""
    medians = {peer: statistics.median(values) for peer, values in runs.items()}
    own = medians.pop(SUBJECT, None)
    if own is None or not medians:
        return "-"
    return f"{own / (min if column.less_is_better else max)(medians.values()):.2f}"


def rows(tables: Sequence[Table]) -> list[list[str]]:
    """The cells of the table, heading first; the last row compares."""
    keeps = {peer: words for table in tables for peer, words in table.keeps.items()}
    columns = [found(tables, column) for column in COLUMNS]
    body = [[peer, *(rounded(runs.get(peer, [])) for runs in columns), keeps.get(peer, "")] for peer in brokers(tables)]
    ratios = [best_ratio(runs, column) for runs, column in zip(columns, COLUMNS, strict=True)]
    return [["", *(column.heading for column in COLUMNS), "kept"], *body, [f"{SUBJECT} : the best peer", *ratios, ""]]
