"""Where the holes of a table are: offsets whose messages were superseded, or deleted.

    marks      10    12       20    20 can be read, and so on: see kind 6 of `describe`
    readable   1     3        1     of 12 to 19, three can be read, 12 among them

Of a small table every message is marked, so this is exact. Of a large one only the newest are; of
the others it is known how many there are between two marks, and they are taken to be spread evenly.
"""

from collections.abc import Sequence
from itertools import pairwise

HOLES, SPARSE, WHOLE = "holes", "sparse", "resident"


class Holes:
    """How much of a range of offsets can be read.

    Args:
        marks: offsets of messages, ascending, each with when it was accepted.
        readable: for each mark, how many messages from it up to the next one can be read.
        end: the offset after the last message.
    """

    def __init__(self, marks: Sequence[tuple[int, int]], readable: Sequence[int], end: int) -> None:
        offsets = [offset for offset, _ in marks]
        # The newest message was the last mark a moment ago; what has come since then can be read.
        ranges = pairwise([*offsets, max(end, offsets[-1] + 1)] if offsets else ())
        self._ranges = [
            (first, stop, count) for (first, stop), count in zip(ranges, readable, strict=False)
        ]
        if self._ranges:
            first, stop, _ = self._ranges[-1]
            self._ranges[-1] = first, stop, stop - first

    def share(self, first: int, end: int) -> float:
        """Returns how much of first .. end - 1 can be read, from 0.0 to 1.0."""
        found = 0.0
        for begin, stop, count in self._ranges:
            if begin >= end:
                break
            if stop <= first:
                continue
            # The mark itself, and a part of the others.
            found += first <= begin
            others = min(end, stop) - max(first, begin + 1)
            if count > 1:
                found += (count - 1) * others / (stop - begin - 1)
        return found / (end - first)

    def kind(self, kind: str, share: float) -> str:
        """Returns the kind of mark of a range that would be of this kind if it had no holes."""
        if not share:
            return HOLES
        if share < 1 and kind == WHOLE:
            return SPARSE
        return kind
