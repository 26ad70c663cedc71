"""Positions in a topic as text: `EPOCH-OFFSET`, the id of the event that was handled last.

The epoch says which topic the offset is of: one that was deleted and made again, or lost with a
broker's memory, has another (TOP-5). Before the first message, the offset is -1.
"""

import re
from dataclasses import dataclass

from zaichik.apps.web.topics.statuses import Refusal

_WRITTEN = re.compile(r"([0-9]{1,20})-(-1|[0-9]{1,20})", re.ASCII)
MOST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a topic.

    Attributes:
        epoch: the topic's identity.
        next: the offset of the first message that was not handled.
    """

    epoch: int
    next: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.next - 1}"

    @classmethod
    def of(cls, text: str) -> "Position":
        """Returns the position that comes after the event of this id.

        Raises:
            Refusal: it is not an id of ours.
        """
        found = _WRITTEN.fullmatch(text)
        if found is not None:
            epoch, offset = map(int, found.groups())
            if 0 < epoch <= MOST and offset < MOST:
                return cls(epoch, offset + 1)
        raise Refusal("BAD_REQUEST", "the last event's id is not EPOCH-OFFSET, as events have it")
