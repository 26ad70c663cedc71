"""One credit, in shares for many subscriptions.

Each subscription has a credit of its own, which it keeps for as long as it lasts (credit.5). How
many topics will match is not known when the first ones are subscribed to. So each takes one of as
many parts as there are topics, but of half of what is left: shares get smaller as topics come, and
there is always something left for one more. Of those that are there at first, the last has more
than half of what the first has. All shares together are never more than the credit, except that a
share is one message at least: without credit, nothing would ever come of a topic.
"""

from dataclasses import dataclass

# The least number of shares to expect: few topics are soon joined by others.
FEW = 4


@dataclass(frozen=True, slots=True)
class CreditShare:
    """The credit of one subscription.

    Attributes:
        messages: most messages in flight.
        size: most bytes of them.
    """

    messages: int
    size: int


class DividedCredit:
    """Divides a credit.

    Args:
        messages, size: the whole: messages in flight, and bytes of them.
    """

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._size = size

    def take(self, readers: int) -> CreditShare:
        """Returns a share for one of so many subscriptions."""
        messages = _share(self._messages, readers)
        size = _share(self._size, readers)
        self._messages -= messages
        self._size -= size
        return CreditShare(messages, size)

    def give_back(self, share: CreditShare) -> None:
        """Take a share back from a subscription that has ended."""
        self._messages += share.messages
        self._size += share.size


def _share(left: int, readers: int) -> int:
    return max(1, left // (2 * max(readers, FEW)))
