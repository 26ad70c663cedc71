"""Tables of results, as text or Markdown."""

import statistics
from collections.abc import Iterator

from benchmarks.alone import burst_rows, growth_rows, memory_rows, startup_rows, tail_rows
from benchmarks.outcomes import SUBJECT, SUBJECTS, Table, heading, ratio, shown

KEPT = "kept"  # the column of words, the last one
SURVIVES = "survives a power cut"  # the last one of `benchmarks.durable`
WORDS = {KEPT, SURVIVES, "batching and linger", "versions"}  # columns on the left
RELATIVE = {"keepfirst", "replay"}  # whose second column is compared with the first, too
ROWS = {
    "growth": growth_rows,
    "tail": tail_rows,
    "memory": memory_rows,
    "burst": burst_rows,
    "startup": startup_rows,
}


# -- peer beside peer ----------------------------------------------------------------------------


def best_peer_row(table: Table) -> Iterator[list[str]]:
    """How the median of each build of zaichik compares with that of the best other broker."""
    others = [peer for peer in table.peers(limits=False) if not peer.startswith(SUBJECT)]
    best = min if table.less_is_better else max
    for subject in SUBJECTS:
        if subject in table.peers(limits=False) and others:
            row = [f"{subject} : the best peer"]
            for cell, figure in table.columns():
                theirs = [runs for other in others if (runs := table.runs(other, cell, figure))]
                row.append(
                    ratio(
                        table.runs(subject, cell, figure),
                        best(theirs, key=statistics.median, default=[]),
                    )
                )
            yield row


def limit_rows(table: Table) -> Iterator[list[str]]:
    """How it compares with each limit: a share of its rate, or how many times its latency."""
    form = ".2f" if table.less_is_better else ".1%"
    for limit in table.peers(limits=True):
        if SUBJECT in table.peers(limits=False):
            pairs = [
                (table.runs(SUBJECT, *column), table.runs(limit, *column))
                for column in table.columns()
            ]
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
            row.append(
                ratio(table.runs(row[0], *second), table.runs(row[0], *first))
                if row[0] in brokers
                else ""
            )
    if table.keeps:
        found[0].append(KEPT)
        for row in found[1:]:
            row.append(table.keeps.get(row[0], ""))
    return found


# -- on paper ------------------------------------------------------------------------------------


def rows(table: Table) -> list[list[str]]:
    """The cells of a table, heading first."""
    return ROWS.get(table.name, peer_rows)(table)


def failures(table: Table) -> list[str]:
    """What went wrong, a line each."""
    return [
        f"FAILED: {item.peer}, {item.cell}: {text}"
        for item in table.outcomes
        for text in item.failures
    ]


def text(table: Table, cells: list[list[str]] | None = None) -> str:
    """For the terminal: names on the left, figures on the right of their columns."""
    cells = cells or rows(table)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [index == 0 or name in WORDS for index, name in enumerate(cells[0])]
    lines = [
        "  ".join(
            cell.ljust(width) if words else cell.rjust(width)
            for cell, width, words in zip(row, widths, is_text, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join(["", table.title, *lines, *failures(table)])


def markdown(cells: list[list[str]]) -> str:
    """Rows, heading first, for the documents: words on the left, figures on the right of their
    columns.
    """
    head, *body = cells
    ruler = ["---" if index == 0 or name in WORDS else "--:" for index, name in enumerate(head)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ruler, *body])
