"""Which files of a table's log are worth rewriting.

    ≥ half dead      alone, or with neighbours of which half is dead as well
    many and small   neighbours that would fit one file, and are more than a few
    in the way       a file below tombstones that may go as soon as no older message of their keys
                     can be left there, if they are many enough

What a file would have after it is an estimate, from what the table has in memory. The first
rewriting of a file tells what else there is in it, such as positions, so the next estimate is
right, and it is not rewritten again before something in it has changed. A file of which half is
dead pays for its reading by what it frees: the log is at most about twice as large as what is live
in it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from zaichik.storage.cleaning.kept import COLUMNS
from zaichik.storage.record import HEADER
from zaichik.storage.segment import HEAD_SIZE, Segment
from zaichik_protocol import FOREVER

MOST_SMALL = 8  # neighbours that fit one file: so many are merged
# Bytes that are read for each byte of tombstones that can go then. Files take up to twice what is
# live, so that much is half of what is live at most: the log stays within its bound.
READ_FOR_STUCK = 4

# Returns how many messages from an offset up to another are live, and what they take.
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
    sizes = sizes_after(segments, live)
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


def sizes_after(segments: Sequence[Segment], live: Live) -> list[int]:
    """Returns about how many bytes each of the segments but the last one would have after it."""
    sizes: list[int] = []
    clean = FOREVER  # as `clean_below` of those before
    for segment, after in pairwise(segments):
        messages, size = live(segment.base, after.base)
        size += COLUMNS * messages
        size += segment.besides or HEAD_SIZE + HEADER.size
        if segment.stuck_below > clean:
            size += segment.stuck_bytes
        sizes.append(size)
        clean = min(clean, segment.clean_below)
    return sizes


def clean_below(segments: Sequence[Segment]) -> int:
    """Returns the offset below which nothing supersedes any message of these segments.

    A tombstone below it has nothing left to delete in them.
    """
    return min((segment.clean_below for segment in segments), default=FOREVER)


def _run(
    segments: Sequence[Segment], sizes: Sequence[int], chosen: Sequence[bool], most: int, least: int
) -> list[Segment]:
    """Returns the first neighbours that are chosen, and fit one segment, if there are enough."""
    run: list[Segment] = []
    room = most
    # Of their heads, one is enough.
    contents = [size - HEAD_SIZE for size in sizes]
    for segment, size, is_chosen in zip(segments, contents, chosen, strict=False):
        if is_chosen and (size <= room or not run):
            run.append(segment)
            room -= size
            continue
        if len(run) >= least:
            return run
        run = []
        room = most
        if is_chosen:
            run = [segment]
            room -= size
    if len(run) >= least:
        return run
    return []


def _in_the_way(
    segments: Sequence[Segment], sizes: Sequence[int], able: Sequence[bool]
) -> list[Segment]:
    """Returns the first segment that keeps tombstones from going, if they are worth its rewriting.

    Those count that take half of their file, if it and all files before it can be rewritten.
    They pay for the reading of all files that are in their way.
    """
    clean = FOREVER  # as `clean_below` of those before
    stuck_below = 0
    stuck_bytes = 0
    before = 0  # how many files are before the last one with such tombstones
    for index, (segment, size) in enumerate(zip(segments, sizes, strict=False)):
        if not able[index]:
            break
        frees_half = (size - segment.stuck_bytes) * 2 <= segment.size
        if segment.stuck_below > clean and frees_half:
            stuck_below = max(stuck_below, segment.stuck_below)
            stuck_bytes += segment.stuck_bytes
            before = index
        clean = min(clean, segment.clean_below)
    in_the_way = [it for it in segments[:before] if it.clean_below < stuck_below]
    if stuck_bytes * READ_FOR_STUCK < sum(segment.size for segment in in_the_way):
        return []
    return in_the_way[:1]
