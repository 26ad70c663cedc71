"""Which columns of a table a terminal has room for: `zaichik topics`, and the table of `watch`."""

from collections.abc import Iterable, Mapping


def that_fit(
    widths: Mapping[str, int], first_to_go: Iterable[str], room: int, gap: int
) -> list[str]:
    """Returns the names of the columns that fit, in their order.

    Args:
        widths: of all columns, by name; of a column that can be cut, what it needs at least.
        first_to_go: names of columns that can be left out, the least important first.
        room: letters in a line.
        gap: letters between two columns.
    """
    names = list(widths)
    for name in first_to_go:
        needed = sum(widths[name] for name in names) + gap * (len(names) - 1)
        if needed <= room:
            break
        if name in names:
            names.remove(name)
    return names
