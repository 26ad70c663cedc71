"""The memory budget of all topics together: over its limit, the largest topic is evicted from.

Each ring has bounds of its own, but ten thousand topics of 64 MiB are more than any machine has. So
there is one more bound, on the real cost of everything that topics hold (`prices`). When it is
reached, the oldest messages of the largest topic are evicted, whichever topic is published to: a
topic that fills the budget cannot keep it. Readers that had not yet received those messages are
sent a lag report, as always (LAG-1).

Finding the largest topic is O(n). So the topic that is found is evicted from until it holds half of
what it held: a large batch that displaces a thousand small ones costs a few searches, not a
thousand.

A lossless topic (RET-9) must not be evicted for others: the most that its ring can cost is reserved
when the topic is created. Everything else that it holds (its compaction windows) counts as it does
for any other topic.
"""

from typing import Protocol

from zaichik.core.sharing import prices
from zaichik_protocol import ErrorCode, Refused


class Holder(Protocol):
    """A topic, as the budget sees it.

    Attributes:
        unreserved: bytes that it holds, beyond those reserved for it.
    """

    unreserved: int

    def can_evict(self, *, leaving: int) -> bool:
        """Returns whether anything can be evicted if its last `leaving` batches must stay."""

    def evict_oldest(self, *, leaving: int) -> None:
        """Evict its oldest batch or windows, but not its last `leaving` batches."""


class Budget:
    """The bytes held by all topics.

    Args:
        limit: bytes.

    Attributes:
        limit: unreserved bytes that may be held; a reservation lowers it.
        half: what is never reserved, but by tables for what was superseded in them.
        used: unreserved bytes held now.
        reserved: bytes reserved for lossless topics.
        stored: bytes of the batches in all topics, as they came in; for `describe`.
    """

    def __init__(self, limit: int = 2**63) -> None:
        self.limit = limit
        self.half = limit // 2
        self.used = 0
        self.reserved = 0
        self.stored = 0
        # A set that keeps order, so that everything is repeatable.
        self._holders: dict[Holder, None] = {}
        self._largest: Holder | None = None
        self._loses_down_to = 0  # bytes

    def add(self, holder: Holder) -> None:
        """Add a topic that may be evicted from."""
        self._holders[holder] = None

    def remove(self, holder: Holder) -> None:
        """Remove a topic: it is no longer evicted from."""
        self._holders.pop(holder, None)
        if self._largest is holder:
            self._largest = None

    def reserve(self, size: int) -> None:
        """Reserve bytes for the ring of a lossless topic.

        Other topics are evicted from to make room.

        Raises:
            Refused: `NO_MEMORY`: no more than half of the budget can be reserved.
        """
        if not self.has_room(size):
            left = self.limit - self.half
            problem = (
                f"a lossless topic reserves the most that its ring can cost: {size} bytes, which "
                f"is max_bytes and {prices.ENTRY} for each batch that fits into it. "
                f"Only {left} bytes can still be reserved. "
                "Ask for a smaller max_bytes or capacity."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "settings")
        self.limit -= size
        self.reserved += size
        self.evict_over_limit(None)

    def has_room(self, size: int) -> bool:
        """Returns whether that many bytes more can be reserved: no more than half ever are."""
        return self.limit - size >= self.half

    def adjust(self, size: int) -> None:
        """Reserve so many bytes more for a table, or give back -`size` (TAB-1).

        It is the table that asks first whether there is room: what updates it without making it
        larger is stored even if there is none.
        """
        self.limit -= size
        self.reserved += size
        if self.used > self.limit:
            self.evict_over_limit(None)

    def give_back(self, size: int) -> None:
        """Release the bytes that were reserved for a topic that is deleted."""
        self.limit += size
        self.reserved -= size

    def evict_over_limit(self, publisher: Holder | None) -> None:
        """Evict until the limit holds, or nothing can be evicted any more.

        The publisher's last batch always stays.
        """
        while self.used > self.limit:
            holder = self._loser(publisher)
            if holder is None:
                break
            holder.evict_oldest(leaving=int(holder is publisher))

    def _loser(self, publisher: Holder | None) -> Holder | None:
        """Returns the largest topic that can be evicted from.

        Or the last one found, while it is above half the size that it had then.
        """
        largest = self._largest
        if largest is not None:
            is_large = largest.unreserved > self._loses_down_to
            if is_large and _can_evict(largest, publisher):
                return largest
        able = [holder for holder in self._holders if _can_evict(holder, publisher)]
        largest = max(able, key=lambda holder: holder.unreserved, default=None)
        self._largest = largest
        self._loses_down_to = 0
        if largest is not None:
            self._loses_down_to = largest.unreserved // 2
        return largest


def _can_evict(holder: Holder, publisher: Holder | None) -> bool:
    return holder.can_evict(leaving=int(holder is publisher))
