"""Results: the figures of all runs, by peer and cell, and how a figure is written."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

SUBJECT = "zaichik"
COMPILED = "zaichik (compiled)"
SUBJECTS = (SUBJECT, COMPILED)  # each is compared with the best peer


@dataclass(slots=True)
class Outcome:
    """The results of one peer in one cell.

    Attributes:
        peer: its label.
        cell: the cell's label.
        messages: published in a run; 0 where a run lasts a given time.
        limit: whether the peer is not a broker, but a limit to compare brokers with.
        figures: the figures of each run, by name.
        failures: what went wrong, in words.
        seconds: the time that all runs took, with starting and ending their processes.
    """

    peer: str
    cell: str
    messages: int
    limit: bool = False
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """The results of one scenario.

    Attributes:
        name, title: of the scenario.
        unit: of the figures.
        seconds: the time that all its runs took.
        outcomes: cell by cell, and peer by peer in each cell.
        keeps: what the server of each peer keeps, and where, in words.
    """

    name: str
    title: str
    unit: str
    seconds: float
    outcomes: list[Outcome]
    keeps: dict[str, str] = field(default_factory=dict)

    def columns(self) -> list[tuple[str, str]]:
        """Cells and figures, in order."""
        pairs = [(outcome.cell, figure) for outcome in self.outcomes for figure in outcome.figures]
        return list(dict.fromkeys(pairs))

    def peers(self, *, limits: bool) -> list[str]:
        """The brokers, or the limits, in order."""
        return list(
            dict.fromkeys(outcome.peer for outcome in self.outcomes if outcome.limit == limits)
        )

    def runs(self, peer: str, cell: str, figure: str) -> list[float]:
        """The figures of all runs; none if all have failed."""
        for outcome in self.outcomes:
            if (outcome.peer, outcome.cell) == (peer, cell):
                return outcome.figures.get(figure, [])
        return []

    @property
    def most_runs(self) -> int:
        """The number of runs, without those that failed."""
        return max(
            (len(runs) for outcome in self.outcomes for runs in outcome.figures.values()), default=0
        )

    @property
    def less_is_better(self) -> bool:
        """Whether the figures are costs."""
        return self.unit != "messages/s"


def took(tables: Sequence[Table]) -> dict[str, float]:
    """Returns the seconds that all runs of each peer took together."""
    seconds: dict[str, float] = {}
    for table in tables:
        for outcome in table.outcomes:
            seconds[outcome.peer] = seconds.get(outcome.peer, 0.0) + outcome.seconds
    return seconds


def heading(cell: str, figure: str, separator: str = " ") -> str:
    """A column's heading; a rate needs no name."""
    return cell if figure == "messages/s" else f"{cell}{separator}{figure}"


def shown(runs: list[float], form: str = ",.0f") -> str:
    """A median and its spread."""
    if not runs:
        return "-"
    spread = f" ({min(runs):{form}} to {max(runs):{form}})" if len(runs) > 1 else ""
    return f"{statistics.median(runs):{form}}{spread}"


def middle(runs: list[float]) -> str:
    """A median alone."""
    return f"{statistics.median(runs):,.0f}" if runs else "-"


def ratio(runs: list[float], others: list[float], form: str = ".2f") -> str:
    """Of two medians."""
    return (
        f"{statistics.median(runs) / statistics.median(others):{form}}" if runs and others else "-"
    )
