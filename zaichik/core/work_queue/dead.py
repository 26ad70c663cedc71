"""The dead: messages that failed too often, kept until somebody revives or forgets them (SHR-5)."""

from bisect import bisect_left, insort
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeadMessage:
    """A message that was given up.

    Attributes:
        offset: its offset.
        key: its key if keys are in order (SHR-8), else b"".
        count: its deliveries that counted.
        reason: why the last of them failed, for people.
        died_us: when.
    """

    offset: int
    key: bytes
    count: int
    reason: str
    died_us: int


class DeadMessages:
    """The dead of one name, by offset.

    Attributes:
        reason_bytes: of all reasons together.
    """

    def __init__(self) -> None:
        self._messages: dict[int, DeadMessage] = {}
        # Sorted, for pages. An insertion shifts a list of numbers, as in `Directory`.
        self._offsets: list[int] = []
        self.reason_bytes = 0

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._offsets)

    def add(self, message: DeadMessage) -> None:
        """Add one; no other has its offset."""
        self._messages[message.offset] = message
        insort(self._offsets, message.offset)
        self.reason_bytes += len(message.reason.encode())

    def get(self, offset: int) -> DeadMessage | None:
        """Returns the one with that offset; None if there is none."""
        return self._messages.get(offset)

    def remove(self, offset: int) -> DeadMessage | None:
        """Removes and returns the one with that offset; None if there is none."""
        message = self._messages.pop(offset, None)
        if message is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
            self.reason_bytes -= len(message.reason.encode())
        return message

    def page(self, first: int, most: int) -> list[DeadMessage]:
        """Returns the dead from that offset on, so many at most."""
        index = bisect_left(self._offsets, first)
        return [self._messages[offset] for offset in self._offsets[index : index + most]]
