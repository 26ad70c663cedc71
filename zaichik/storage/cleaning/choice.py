"""Which files of a table's log are worth rewriting.

    ≥ half dead      alone, or with neighbours of which half is dead as well
    many and small   neighbours that would fit one file, and are more than a few
    in the way       a file below a tombstone that may go as soon as no older message of its key
                     can be left there

What a file would have after it is an estimate, from what the table has in memory. A file of which
half is dead pays for its reading by what it frees: the log is at most about twice as large as what
is live in it.
"""

from collections.abc import Callable, Sequence

from zaichik.storage.cleaning.kept import COLUMNS
from zaichik.storage.record import HEADER
from zaichik.storage.segment import HEAD_SIZE, Segment

MOST_SMALL = 8  # neighbours that fit one file: so many are merged

# Returns how many messages from an offset up to another are live, and about what they take.
Live = Callable[[int, int], tuple[int, int]]


def worth_rewriting(
    segments: Sequence[Segment], below: int, live: Live, most: int, *, is_full: bool
) -> list[Segment]:
    """Returns neighbours to be rewritten as one; nothing if there are none.

    Args:
        segments: of the log, the oldest first; the last one is being written.
        below: only those that begin below that offset may be.
        live: see `Live`.
        most: bytes of a segment.
        is_full: whether there is so little room that less than half suffices.
    """
    sizes = [size_after(segments, index, live) for index in range(len(segments) - 1)]
    share = 2.0
    if is_full:
        share = 1.1
    dead: list[bool] = []
    able: list[bool] = []
    for segment, size in zip(segments, sizes, strict=False):
        is_able = segment.base < below and segment.is_rewritable
        able.append(is_able)
        dead.append(is_able and size * share <= segment.size)
    found = _run(segments, sizes, dead, most, least=1)
    if not found:
        found = _run(segments, sizes, able, most, least=MOST_SMALL)
    if not found:
        found = _in_the_way(segments, sizes, able)
    return found


def size_after(segments: Sequence[Segment], index: int, live: Live) -> int:
    """Returns about how many bytes one of the segments, not the last one, would have after it."""
    segment = segments[index]
    messages, size = live(segment.base, segments[index + 1].base)
    size += HEAD_SIZE + HEADER.size + COLUMNS * messages
    if segment.stuck_below > clean_below(segments[:index]):
        size += segment.stuck_bytes
    return size


def clean_below(segments: Sequence[Segment]) -> int:
    """Returns the offset below which nothing supersedes any message of these segments.

    A tombstone below it has nothing left to delete in them.
    """
    least = 2**63 - 1
    for segment in segments:
        least = min(least, segment.clean_below)
    return least


def _run(
    segments: Sequence[Segment], sizes: Sequence[int], are: Sequence[bool], most: int, least: int
) -> list[Segment]:
    """Returns the first neighbours that are so, and fit one segment, if there are enough."""
    run: list[Segment] = []
    room = most
    # Of their heads, one is enough.
    contents = [size - HEAD_SIZE for size in sizes]
    for segment, size, is_so in zip(segments, contents, are, strict=False):
        if is_so and (size <= room or not run):
            run.append(segment)
            room -= size
            continue
        if len(run) >= least:
            return run
        run = []
        room = most
        if is_so:
            run = [segment]
            room -= size
    if len(run) >= least:
        return run
    return []


def _in_the_way(
    segments: Sequence[Segment], sizes: Sequence[int], able: Sequence[bool]
) -> list[Segment]:
    """Returns the first segment that keeps tombstones from going which take half of another."""
    for index, size in enumerate(sizes):
        stuck = segments[index]
        if (size - stuck.stuck_bytes) * 2 > stuck.size:
            continue
        for before, is_able in zip(segments[:index], able, strict=False):
            if is_able and before.clean_below < stuck.stuck_below:
                return [before]
    return []
