"""The short table of docs/understand/performance.md.

It has a row for each broker, and a column for each of a few scenarios.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.outcomes import SUBJECT, SUBJECTS, Table

RATE = "messages/s"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the overview.

    Attributes:
        scenario, cell, figure: of the figures it shows.
        heading: the words above it.
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
    """Returns the figures of all runs by broker, without zaichik's other uses (its name and a
    comma).
    """
    for table in tables:
        if table.name == column.scenario:
            runs = {
                peer: table.runs(peer, column.cell, column.figure)
                for peer in table.peers(limits=False)
            }
            return {
                peer: values
                for peer, values in runs.items()
                if values and not peer.startswith(f"{SUBJECT},")
            }
    return {}


def brokers(tables: Sequence[Table]) -> list[str]:
    """Returns the brokers that have a figure in some column, in order."""
    return list(dict.fromkeys(peer for column in COLUMNS for peer in found(tables, column)))


def rounded(runs: Sequence[float]) -> str:
    """Returns the median, rounded to three significant digits; "-" if there is none."""
    if not runs:
        return "-"
    median = statistics.median(runs)
    return f"{round(median, 3 - len(str(int(median)))):,.0f}"


def best_ratio(runs: dict[str, list[float]], column: Column, subject: str = SUBJECT) -> str:
    """Returns the median of a build of zaichik divided by that of the best other broker."""
    medians = {peer: statistics.median(values) for peer, values in runs.items()}
    others = [median for peer, median in medians.items() if peer not in SUBJECTS]
    if subject not in medians or not others:
        return "-"
    return f"{medians[subject] / (min if column.less_is_better else max)(others):.2f}"


def rows(tables: Sequence[Table]) -> list[list[str]]:
    """Returns the cells of the table: headings, brokers, and the ratio of each build of zaichik to
    the best peer.
    """
    keeps = {peer: words for table in tables for peer, words in table.keeps.items()}
    columns = [found(tables, column) for column in COLUMNS]
    body = [
        [peer, *(rounded(runs.get(peer, [])) for runs in columns), keeps.get(peer, "")]
        for peer in brokers(tables)
    ]
    ratios = [
        [
            f"{subject} : the best peer",
            *(
                best_ratio(runs, column, subject)
                for runs, column in zip(columns, COLUMNS, strict=True)
            ),
            "",
        ]
        for subject in SUBJECTS
        if any(subject in runs for runs in columns)
    ]
    return [["", *(column.heading for column in COLUMNS), "kept"], *body, *ratios]
