"""Where an offset stands: a piecewise linear map from offsets to places.

The *lens* is the range of offsets in focus. What lies beside it keeps a small part of the width, so
that the head, the next offset and every cursor stay in sight; there the axis is broken. Between two
knots lies a zone, and no zone is narrower than `smallest`, even if it is one message of a million.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import inf

from zaichik.apps.views.topic_state import JSON, TopicState

Knots = tuple[tuple[int, float], ...]
Range = tuple[int, int]

BESIDE = 1 / 8  # of the width, at most, for each range beside the lens
LARGEST = (
    16  # times `smallest`: the widest that a message may be; an almost empty topic has empty places
)
LABELLED = 8  # times `smallest`: the least width at which a message shows its key
EXACT = 1e-9  # places that rounding may make or lose
CONTEXT = 8  # one of this many messages shown is one that is gone
WHOLE = 500  # messages: a ring of at most this many is shown as a whole
# messages in the automatic lens, and then twice, four times as many: it must not move all the time
NARROWEST = 256


def place(knots: Knots, offset: int) -> float:
    """Returns where the message with that offset begins.

    For an offset beyond an end of the axis, that end.
    """
    at = bisect_right(knots, offset, key=lambda knot: knot[0])
    if at == 0 or at == len(knots):
        return knots[0 if at == 0 else -1][1]
    (first, left), (end, right) = knots[at - 1], knots[at]
    return left + (right - left) * (offset - first) / (end - first)


def lens(state: TopicState, rows: Sequence[JSON], zoom: str, most: float) -> Range:
    """Returns the range of offsets to look at, up to the next offset, or less for a single reader.

    It is never empty.

    Args:
        state: the reading.
        rows: readers that are shown.
        zoom: see `picture`.
        most: the number of zones that fit side by side: the width divided by `smallest`.
    """
    head, end = state.head, state.next_offset
    behind = end - min(
        (max(head, min(row["committed"], row["cursor"])) for row in rows), default=end
    )
    one = next((row for row in rows if row["name"] == zoom), None)
    if one is not None:
        first, last = max(head, one["committed"]), max(head, one["cursor"])
        around = max((last - first) // 2, round(most / LABELLED))
        first, last = max(head, first - around), min(end, last + around)
        if first < last < end:
            return first, last
    elif zoom == "lag":
        first = end - behind
    elif zoom == "live":
        first = end - round(most / LABELLED)
    else:
        first = head
        if zoom != "ring" and end - head > WHOLE:
            first = end - max(NARROWEST, 1 << (behind * 5 // 4).bit_length())
    return min(max(head, first), end - max(round(most / LARGEST), 1)), end


def axis(
    state: TopicState, seen: Range, first: int, cuts: set[int], width: float, smallest: float
) -> tuple[Knots, tuple[float, ...]]:
    """Returns the knots of an axis, and where it is broken.

    Args:
        state: the reading.
        seen: the lens.
        first: the first offset to have a place; the last one is before `next_offset`.
        cuts: offsets where a zone ends.
        width: places in all.
        smallest: places of the narrowest zone; it is less if there is no room for all.
    """
    leftmost = min(first, seen[0])
    readable = min(max(first, state.head), seen[0])
    ends = sorted({leftmost, readable, *seen, state.next_offset})
    parts = [
        sorted({left, right, *(cut for cut in cuts if left < cut < right)})
        for left, right in pairwise(ends)
    ]
    smallest = min(smallest, width / sum(len(part) - 1 for part in parts))
    floors = [smallest * (len(part) - 1) for part in parts]
    at = [part[0] for part in parts].index(seen[0])
    caps = [
        inf if part is parts[at] else max(width * BESIDE, floor)
        for part, floor in zip(parts, floors, strict=True)
    ]
    lengths = [part[-1] - part[0] for part in parts]
    rooms = _shares(lengths, floors, caps, width)
    knots, breaks = [(ends[0], 0.0)], []
    dense = rooms[at] / (seen[1] - seen[0])
    for part, length, room in zip(parts, lengths, rooms, strict=True):
        zones = [right - left for left, right in pairwise(part)]
        widths = _shares(zones, [smallest] * len(zones), [inf] * len(zones), room)
        if room < length * dense * 0.99:
            longest = max(range(len(zones)), key=widths.__getitem__)
            breaks.append(knots[-1][1] + sum(widths[:longest]) + widths[longest] / 2)
        for offset, wide in zip(part[1:], widths, strict=True):
            knots.append((offset, knots[-1][1] + wide))
    knots[-1] = (knots[-1][0], float(width))
    return tuple(knots), tuple(breaks)


def _shares(
    sizes: Sequence[float], floors: Sequence[float], caps: Sequence[float], total: float
) -> list[float]:
    """Returns shares of the total in proportion to sizes, none below its floor or above its cap.

    As flexible boxes in CSS: what breaks a bound is fixed there, the floors first if they cost more
    than the caps give.
    """
    shares, free, left = [0.0] * len(sizes), set(range(len(sizes))), total
    while free:
        scale = left / sum(sizes[item] for item in free)
        bounded = {item: min(max(sizes[item] * scale, floors[item]), caps[item]) for item in free}
        excess = sum(bounded.values()) - left
        fixed = set(free)  # all bounds hold as they are
        # The floors cost more than the caps give, so what stands on its floor stays there.
        if excess > EXACT:
            fixed = {item for item in free if bounded[item] > sizes[item] * scale}
        # The caps give more than the floors cost, so what has reached its cap stays there.
        elif excess < -EXACT:
            fixed = {item for item in free if bounded[item] < sizes[item] * scale}
        for item in fixed:
            shares[item] = bounded[item]
        left -= sum(bounded[item] for item in fixed)
        free = free - fixed
    return shares
