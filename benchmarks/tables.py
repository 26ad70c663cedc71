"""Results, and tables of them, as text or Markdown."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

SUBJECT = "zaichik"
RELATIVE = {"keepfirst", "replay"}  # whose second column is compared with the first, too
GROWTH = {
    "publish": "awaited publish, µs",
    "broker": "the broker's processor, µs",
    "batch": "the same for a batch of 100, µs",
}
TARGETS = {"idle connection": 20 * 1024, "stored message": 30, "topic": 8 * 1024}  # bytes
MEANING = {"stored message": "stored message of 100 B, in batches of 100, over its payload"}


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
    """

    peer: str
    cell: str
    messages: int
    limit: bool = False
    figures: dict[str, list[float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Table:
    """The results of one scenario.

    Attributes:
        name, title: of the scenario.
        unit: of the figures.
        seconds: the time that all its runs took.
        outcomes: cell by cell, and peer by peer in each cell.
    """

    name: str
    title: str
    unit: str
    seconds: float
    outcomes: list[Outcome]

    def columns(self) -> list[tuple[str, str]]:
        """Cells and figures, in order."""
        pairs = [(outcome.cell, figure) for outcome in self.outcomes for figure in outcome.figures]
        return list(dict.fromkeys(pairs))

    def peers(self, *, limits: bool) -> list[str]:
        """The brokers, or the limits, in order."""
        return list(dict.fromkeys(outcome.peer for outcome in self.outcomes if outcome.limit == limits))

    def runs(self, peer: str, cell: str, figure: str) -> list[float]:
        """The figures of all runs; none if all have failed."""
        for outcome in self.outcomes:
            if (outcome.peer, outcome.cell) == (peer, cell):
                return outcome.figures.get(figure, [])
        return []

    @property
    def less_is_better(self) -> bool:
        """Whether the figures are costs."""
        return self.unit != "messages/s"


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
    return f"{statistics.median(runs) / statistics.median(others):{form}}" if runs and others else "-"


# -- peer beside peer ----------------------------------------------------------------------------------------


def best_peer_row(table: Table) -> Iterator[list[str]]:
    """How zaichik's median compares with that of the best other broker."""
    others = [peer for peer in table.peers(limits=False) if not peer.startswith(SUBJECT)]
    best = min if table.less_is_better else max
    if SUBJECT in table.peers(limits=False) and others:
        row = [f"{SUBJECT} : the best peer"]
        for cell, figure in table.columns():
            theirs = [runs for other in others if (runs := table.runs(other, cell, figure))]
            row.append(ratio(table.runs(SUBJECT, cell, figure), best(theirs, key=statistics.median, default=[])))
        yield row


def limit_rows(table: Table) -> Iterator[list[str]]:
    """How it compares with each limit: a share of its rate, or how many times its latency."""
    form = ".2f" if table.less_is_better else ".1%"
    for limit in table.peers(limits=True):
        if SUBJECT in table.peers(limits=False):
            pairs = [(table.runs(SUBJECT, *column), table.runs(limit, *column)) for column in table.columns()]
            yield [f"{SUBJECT} : {limit}", *(ratio(ours, theirs, form) for ours, theirs in pairs)]


def peer_rows(table: Table) -> list[list[str]]:
    """Brokers, then limits, then zaichik as a share of the best of them and of each limit."""
    columns, brokers = table.columns(), table.peers(limits=False)
    found = [[table.unit, *(heading(*column) for column in columns)]]
    peers = [*brokers, *table.peers(limits=True)]
    found += [[peer, *(shown(table.runs(peer, *column)) for column in columns)] for peer in peers]
    found += [*best_peer_row(table), *limit_rows(table)]
    if table.name in RELATIVE and len(columns) > 1:
        first, second = columns[0], columns[-1]
        found[0].append(f"{second[0]} : {first[0]}")
        for row in found[1:]:
            row.append(ratio(table.runs(row[0], *second), table.runs(row[0], *first)) if row[0] in brokers else "")
    return found


# -- zaichik alone -------------------------------------------------------------------------------------------


def points(outcome: Outcome) -> list[str]:
    """How far an axis went, in steps."""
    return list(dict.fromkeys(figure.rpartition(" ")[0] for figure in outcome.figures))


def ratios(outcome: Outcome, point: str, figure: str) -> list[float]:
    """Of each run, what a point costs in comparison with the first one."""
    runs, first = (outcome.figures.get(f"{name} {figure}", []) for name in (point, points(outcome)[0]))
    return [own / other for own, other in zip(runs, first, strict=True)]


def growth_rows(table: Table) -> list[list[str]]:
    """A row for each point, and beside each figure its ratio to the first point, run by run."""
    found = [["what grows", "to", *(text for name in GROWTH.values() for text in (name, ": first"))]]
    for outcome in table.outcomes:
        for point in points(outcome):
            row = [outcome.cell, point]
            for figure in GROWTH:
                runs = outcome.figures.get(f"{point} {figure}", [])
                row += [middle(runs), shown(ratios(outcome, point, figure), ".2f")]
            found.append(row)
    return found


def memory_rows(table: Table) -> list[list[str]]:
    """A row for each kind of thing."""
    found = [["one", "bytes", "target"]]
    for outcome in table.outcomes:
        name = outcome.cell
        found.append([MEANING.get(name, name), shown(outcome.figures.get("each", [])), f"≤ {TARGETS[name]:,}"])
    return found


# -- on paper ------------------------------------------------------------------------------------------------


def rows(table: Table) -> list[list[str]]:
    """The cells of a table, heading first."""
    return {"growth": growth_rows, "memory": memory_rows}.get(table.name, peer_rows)(table)


def failures(table: Table) -> list[str]:
    """What went wrong, a line each."""
    return [f"FAILED: {item.peer}, {item.cell}: {text}" for item in table.outcomes for text in item.failures]


def text(table: Table) -> str:
    """For the terminal: names on the left, figures on the right of their columns."""
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
    return "\n\n".join([drawn, *failures(table)])
