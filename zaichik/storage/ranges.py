"""Ranges of offsets, as pairs: the first, and the one after the last."""

from collections.abc import Iterable

OffsetRange = tuple[int, int]


def joined(ranges: Iterable[OffsetRange], least: int = 0) -> tuple[OffsetRange, ...]:
    """Returns the same offsets as few ranges in order: none is empty, and none meets the next.

    Args:
        ranges: those ranges, in any order.
        least: what lies below is left out.
    """
    found: list[OffsetRange] = []
    for begin, end in sorted(ranges):
        begin = max(begin, least)
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            first, last = found[-1]
            found[-1] = first, max(last, end)
        else:
            found.append((begin, end))
    return tuple(found)
