"""The results of `isolation` as rows: the ratios of clients beside an attack to those of the
control.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

LOWEST_RATIO, MEDIAN_RATIO, MOST_MORE_MS = 0.5, 0.9, 50.0  # the aims


@dataclass(frozen=True)
class Turn:
    """The results of the clients in one turn.

    Attributes:
        awaited: publishes per second.
        p999_ms: milliseconds that one publish in a thousand exceeded.
        worst_ms: milliseconds of the slowest publish.
        stream: messages per second.
        failures: why clients have no result.
    """

    awaited: float
    p999_ms: float
    worst_ms: float
    stream: float
    failures: Sequence[str] = ()


@dataclass(frozen=True)
class Row:
    """The turns of one attack: as many beside it as of the control."""

    attack: str
    connections: int
    beside: list[Turn] = field(default_factory=list)
    control: list[Turn] = field(default_factory=list)

    def ratios(self, figure: str) -> list[float]:
        """Returns beside ÷ control, round by round; 0 where the control got nothing, since that
        proves nothing good.
        """
        pairs = zip(self.beside, self.control, strict=True)
        rates = [(getattr(beside, figure), getattr(control, figure)) for beside, control in pairs]
        return [beside / control if control else 0.0 for beside, control in rates]

    def median(self, turns: Sequence[Turn], figure: str) -> float:
        """Returns the median of all rounds."""
        return float(statistics.median(getattr(turn, figure) for turn in turns))

    @property
    def more_ms(self) -> float:
        """How much slower the slowest publishes are than those of the control, in milliseconds."""
        return self.median(self.beside, "p999_ms") - self.median(self.control, "p999_ms")

    def figures(self) -> dict[str, Any]:
        """Returns all of it, for JSON."""
        return {
            **asdict(self),
            "ratios": {figure: self.ratios(figure) for figure in ("awaited", "stream")},
            "p999_more_ms": self.more_ms,
        }


def summary(rows: Sequence[Row]) -> dict[str, float]:
    """The figures with targets; empty if there are no rows."""
    if not rows:
        return {}
    middles = [
        statistics.median(row.ratios(figure)) for row in rows for figure in ("awaited", "stream")
    ]
    return {
        "lowest ratio": min(middles),
        "median ratio": statistics.median(middles),
        "largest p99.9 beyond control, ms": max(row.more_ms for row in rows),
    }


def table(rows: Sequence[Row]) -> str:
    """All rows, and how far they are from the aims."""
    head = (
        f"{'':24} {'':>5}  {'awaited publishes/s':^38}  {'p99.9 of one, ms':^17}  "
        f"{'slowest, ms':^17}  "
        f"{'stream, messages/s':^40}\n"
        f"{'attack':24} {'conns':>5}  {'beside':>8} {'control':>8} {'ratio (min-max)':>20}  "
        f"{'beside':>8} {'control':>8}  {'beside':>8} {'control':>8}  "
        f"{'beside':>9} {'control':>9} {'ratio (min-max)':>20}"
    )
    lines = [head, *map(_line, rows)]
    found = summary(rows)
    targets: dict[str, tuple[str, Callable[[float], bool]]] = {
        "lowest ratio": (f"at least {LOWEST_RATIO}", lambda value: value >= LOWEST_RATIO),
        "median ratio": (f"at least {MEDIAN_RATIO}", lambda value: value >= MEDIAN_RATIO),
        "largest p99.9 beyond control, ms": (
            f"at most {MOST_MORE_MS:g}",
            lambda value: value <= MOST_MORE_MS,
        ),
    }
    lines.append("")
    for name, value in found.items():
        target, is_met = targets[name]
        lines.append(
            f"{name}: {value:,.3g} (target: {target}; {'met' if is_met(value) else 'MISSED'})"
        )
    return "\n".join(lines)


def _line(row: Row) -> str:
    cells = [f"{row.attack:24} {row.connections:>5} "]
    for figure, width in (("awaited", 8), ("p999_ms", 8), ("worst_ms", 8), ("stream", 9)):
        is_ratio = not figure.endswith("_ms")
        decimals = 0 if is_ratio else 1
        middles = [row.median(turns, figure) for turns in (row.beside, row.control)]
        cells.extend(f"{middle:>{width},.{decimals}f}" for middle in middles)
        if is_ratio:
            ratios = row.ratios(figure)
            spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
            cells.append(f"{statistics.median(ratios):>6.3f} {spread:>13}")
        cells[-1] += " "
    failures = sum(len(turn.failures) for turn in (*row.beside, *row.control))
    return " ".join(cells) + (f" {failures} clients failed" if failures else "")
