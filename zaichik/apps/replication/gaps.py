"""Gaps: offsets that have no message, because the broker had lost it before it could be read.

Of a lossless topic there are none. Kafka has a record of each gap; a summary goes on from round to
round, because whoever waits for a message to be replicated must not take a gap for one.
"""

import json
from dataclasses import dataclass, replace
from typing import Any

MOST = 100  # a summary stays small, however much a topic loses


@dataclass(frozen=True, slots=True)
class Gaps:
    """The newest gaps of a topic.

    Attributes:
        ranges: of each gap its first offset and the offset after its last one, in order.
        complete_from: the offset from which all gaps are known; those below it may be left out.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    complete_from: int = 0

    def __bool__(self) -> bool:
        """Returns whether there is anything to know."""
        return bool(self.ranges) or self.complete_from > 0

    def with_gap(self, start: int, end: int) -> "Gaps":
        """Returns these and one more, which comes after them all.

        Args:
            start: its first offset.
            end: the offset after its last one.
        """
        ranges = [*self.ranges]
        if ranges and ranges[-1][1] == start:
            start, _ = ranges.pop()
        ranges.append((start, end))
        if len(ranges) <= MOST:
            return replace(self, ranges=tuple(ranges))
        _, complete_from = ranges[-MOST - 1]
        return Gaps(tuple(ranges[-MOST:]), complete_from)

    def encoded(self) -> bytes:
        """Returns them as JSON, for a header of a record."""
        found: dict[str, Any] = {"gaps": self.ranges}
        if self.complete_from:
            found["gaps_from"] = self.complete_from
        return json.dumps(found, separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, text: bytes) -> "Gaps":
        """Returns what `encoded` has made JSON of.

        Raises:
            ValueError: it is something else.
        """
        try:
            found = json.loads(text)
            ranges = tuple((int(start), int(end)) for start, end in found["gaps"])
            return cls(ranges, int(found.get("gaps_from", 0)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{text!r} is not a list of gaps") from error
