"""The bytes that all rings of a broker may hold together.

Each ring has bounds of its own, but ten thousand topics of 64 MiB are more than any machine has. So there is one more
bound, on what is really held. When it is reached, whoever publishes pays first: the oldest messages of the same topic
go. If there are no others left, those of the topic that holds most go. Readers that had not got them yet are told, as
ever (LAG-1).
"""

from typing import Protocol


class Holder(Protocol):
    """A ring, as the budget sees it."""

    bytes: int

    def evict_oldest(self, *, leaving: int) -> bool:
        """Drop the oldest batch if there are more than so many; whether there were."""


class Budget:
    """What is held by all of them.

    Args:
        limit: bytes.

    Attributes:
        limit: likewise.
        used: bytes of batches held now.
    """

    def __init__(self, limit: int = 2**63) -> None:
        self.limit = limit
        self.used = 0
        self._holders: list[Holder] = []

    def add(self, holder: Holder) -> None:
        """From now on, this one may be asked to make room. It counts what it holds in `used` by itself."""
        self._holders.append(holder)

    def relieve(self, publisher: Holder) -> None:
        """Have older messages dropped until the limit holds; the last batch of the publisher stays."""
        while self.used > self.limit:
            if not publisher.evict_oldest(leaving=1):
                others = (holder for holder in self._holders if holder is not publisher)
                max(others, key=lambda holder: holder.bytes).evict_oldest(leaving=0)
