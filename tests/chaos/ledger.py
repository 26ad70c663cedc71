"""What clients know for certain, written down on their side and compared in the end.

Writers number their messages. A ledger holds which numbers were acknowledged, and checks everything
that comes to a reader at once: no number twice, none before one that was sent earlier, no offset
left out unless that was told. What was sent and never acknowledged may have been stored or not;
nothing is claimed about it, except that it comes once.
"""

from collections import defaultdict
from collections.abc import Iterable

from zaichik import Lagged, Message


def numbered(writer: str, number: int, size: int = 0) -> bytes:
    """A payload that tells whose and which it is, of at least that many bytes."""
    return f"{writer} {number} ".encode().ljust(size, b".")


class Ledger:
    """Of one topic and one reader of all of it.

    Attributes:
        next: the offset that must come next, unless the reader is told that it has lagged.
        lagged: how many messages it was told to have missed.
    """

    def __init__(self) -> None:
        self.next = 0
        self.lagged = 0
        self._acknowledged: dict[str, set[int]] = defaultdict(set)
        self._came: dict[str, set[int]] = defaultdict(set)
        self._last: dict[str, int] = defaultdict(lambda: -1)

    def acknowledge(self, writer: str, numbers: Iterable[int]) -> None:
        """The broker says that these are stored."""
        self._acknowledged[writer].update(numbers)

    def take(self, item: Message | Lagged) -> None:
        """A reader was given this."""
        if isinstance(item, Lagged):
            assert item.start == self.next < item.end
            self.lagged += item.count
            self.next = item.end
            return
        writer, number, _ = item.payload.decode().split(" ")
        assert item.offset == self.next, (
            f"{item.offset} came, and {self.next} is missing: nobody has told"
        )
        assert int(number) > self._last[writer], (
            f"{writer}'s {number} came after {self._last[writer]}"
        )
        self.next = item.offset + 1
        self._last[writer] = int(number)
        self._came[writer].add(int(number))

    @property
    def acknowledged(self) -> int:
        """How many were, of all writers."""
        return sum(map(len, self._acknowledged.values()))

    @property
    def came(self) -> int:
        """How many came to the reader."""
        return sum(map(len, self._came.values()))

    @property
    def missing(self) -> int:
        """How many were acknowledged and did not come."""
        return sum(
            len(numbers - self._came[writer]) for writer, numbers in self._acknowledged.items()
        )

    def check(self) -> None:
        """All that was acknowledged has come, or was told as lag.

        Raises:
            AssertionError: something is missing.
        """
        assert self.missing <= self.lagged, (
            f"{self.missing} acknowledged messages are missing, {self.lagged} were told"
        )
