"""The watermark of a topic: how far it is replicated, as the only message of `replicated/TOPIC`.

    {"format": 1, "by": "kafka", "epoch": 1764460800000000, "next": 42, "gaps": [[7, 9]]}

Of the topic with that epoch, Kafka has all offsets below `next`, except those of the gaps: messages
that were gone before the bridge could read them. A reader of the watermark is sent the newest one
only, so it has to have all gaps, or say from where on it has them: only the newest `MOST_GAPS` fit,
and `gaps_from` is the offset from which they are complete. What is below that is not known to be
replicated. So a watermark never hides a gap.
"""

# Not compiled: it is read some times a second.

import json
from dataclasses import dataclass
from typing import Any, Literal, Self

KAFKA = "kafka"
PREFIX = "replicated/"
FORMAT = 1
MOST_GAPS = 100
MOST_NAME = 200  # bytes of a topic's name
# With which `create_topic` makes the topic of a watermark.
CAPACITY = 1
RETENTION: Literal["forever"] = "forever"

Gap = tuple[int, int]


class UnreadableWatermark(ValueError):
    """A message is no watermark, or one of a later version."""


def topic_of(topic: str) -> str:
    """Returns the name of the topic that has the watermark of this one.

    Raises:
        ValueError: its name would be too long.
    """
    name = PREFIX + topic
    if len(name.encode()) > MOST_NAME:
        most = MOST_NAME - len(PREFIX)
        raise ValueError(
            f"a topic that is replicated has a name of at most {most} bytes, for {PREFIX} comes "
            "before it; use a shorter name"
        )
    return name


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a topic is replicated.

    Attributes:
        epoch: of the topic.
        next: the offset after the last one that is replicated.
        gaps: the offsets below that are not, each from one up to, not including, another; in order.
        gaps_from: the offset from which the gaps are complete.
        by: what has the messages.
    """

    epoch: int
    next: int
    gaps: tuple[Gap, ...] = ()
    gaps_from: int = 0
    by: str = KAFKA

    def first_missing(self, start: int, end: int) -> int | None:
        """Returns the first offset of these that is not known to be replicated; None: all are.

        Args:
            start: the first of them.
            end: the offset after the last of them; none are asked about if it is `start`.
        """
        if start >= end:
            return None
        if start < self.gaps_from:
            return start
        for gap_start, gap_end in self.gaps:
            if gap_start < end and start < gap_end:
                return max(start, gap_start)
        if end > self.next:
            return max(start, self.next)
        return None

    def encoded(self) -> bytes:
        """Returns the watermark as the payload of its message, with the newest gaps."""
        gaps = self.gaps[-MOST_GAPS:]
        gaps_from = self.gaps_from
        if len(gaps) < len(self.gaps):
            _, gaps_from = self.gaps[-MOST_GAPS - 1]
        told: dict[str, Any] = {
            "format": FORMAT,
            "by": self.by,
            "epoch": self.epoch,
            "next": self.next,
            "gaps": gaps,
        }
        if gaps_from:
            told["gaps_from"] = gaps_from
        return json.dumps(told).encode()

    @classmethod
    def of(cls, payload: bytes) -> Self:
        """Returns the watermark that a payload says.

        Raises:
            UnreadableWatermark: it says none, or one of a later version.
        """
        try:
            told = json.loads(payload)
        except (ValueError, RecursionError):
            raise UnreadableWatermark("it is not JSON") from None
        if not isinstance(told, dict):
            raise UnreadableWatermark("it is not a JSON object")
        number = told.get("format")
        if number != FORMAT or isinstance(number, bool):
            raise UnreadableWatermark(f"its format is not {FORMAT}")
        by = told.get("by")
        if not isinstance(by, str):
            raise UnreadableWatermark("by is no text")
        end = _offset(told, "next")
        gaps_from = 0
        if "gaps_from" in told:
            gaps_from = _offset(told, "gaps_from")
        return cls(_offset(told, "epoch"), end, _gaps(told.get("gaps"), end), gaps_from, by)


def _offset(told: dict[str, Any], name: str) -> int:
    value: Any = told.get(name)
    if not _is_offset(value):
        raise UnreadableWatermark(f"{name} is no number from 0 to 2^64 - 1")
    return int(value)


def _is_offset(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _gaps(told: Any, end: int) -> tuple[Gap, ...]:
    """Returns gaps that are in order and end at `end` at most."""
    if not isinstance(told, list):
        raise UnreadableWatermark("gaps is no list")
    gaps: list[Gap] = []
    least = 0
    for pair in told:
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(_is_offset, pair)):
            raise UnreadableWatermark("a gap is no pair of offsets")
        first, after = pair
        if not least <= first < after <= end:
            raise UnreadableWatermark("gaps are out of order")
        gaps.append((first, after))
        least = after
    return tuple(gaps)
