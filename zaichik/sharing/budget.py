"""The memory that all topics of a broker may hold together.

Each ring has bounds of its own, but ten thousand topics of 64 MiB are more than any machine has. So there is one more
bound, on what everything that topics keep really costs (`prices`). When it is reached, the topic that holds most loses
its oldest messages, whoever publishes: a topic that fills the budget does not keep it. Readers that had not got those
messages yet are told, as ever (LAG-1).

To find that topic is to look at all of them. So it is looked for once and goes on losing until half of what it held is
gone: a large batch that takes the place of a thousand small ones costs some looks and not a thousand.

A topic that may lose nothing (RET-9) must not pay for others: what its ring may cost is reserved when it is made. What
else it holds (the windows of its keys) counts like that of all others.
"""

from typing import Protocol

from zaichik.sharing import prices
from zaichik_protocol import ErrorCode, Refused


class Holder(Protocol):
    """A topic, as the budget sees it.

    Attributes:
        unreserved: bytes that it holds and that are not reserved for it.
    """

    unreserved: int

    def can_evict(self, *, leaving: int) -> bool:
        """Returns whether it has anything to lose besides so many batches."""

    def evict_oldest(self, *, leaving: int) -> None:
        """Drop the oldest of what it has, besides so many batches."""


class Budget:
    """What is held by all of them.

    Args:
        limit: bytes.

    Attributes:
        limit: bytes that may be held, without what is reserved.
        used: bytes held now, without what is reserved.
        reserved: bytes that belong to topics that may lose nothing.
    """

    def __init__(self, limit: int = 2**63) -> None:
        self.limit = limit
        self._half = limit // 2
        self.used = self.reserved = 0
        self._holders: dict[Holder, None] = {}  # a set that keeps order, so that everything is repeatable
        self._largest: Holder | None = None
        self._loses_down_to = 0  # bytes

    def add(self, holder: Holder) -> None:
        """From now on, this one may have to lose something for others."""
        self._holders[holder] = None

    def remove(self, holder: Holder) -> None:
        """This one loses nothing for others any more."""
        self._holders.pop(holder, None)
        if self._largest is holder:
            self._largest = None

    def reserve(self, size: int) -> None:
        """Reserve what the ring of a lossless topic may cost, at the cost of what others hold.

        Raises:
            Refused: `NO_MEMORY`: half of the whole stays with the others.
        """
        if self.limit - size < self._half:
            raise Refused(
                ErrorCode.NO_MEMORY,
                f"a lossless topic reserves what its ring may cost: {size} bytes, max_bytes and {prices.ENTRY} "
                f"for each message of its capacity. Only {self.limit - self._half} bytes can still be reserved. "
                "Ask for a smaller max_bytes or capacity.",
                "settings",
            )
        self.limit -= size
        self.reserved += size
        self.evict_over_limit(None)

    def give_back(self, size: int) -> None:
        """Let all have again what was reserved for one that is gone."""
        self.limit += size
        self.reserved -= size

    def evict_over_limit(self, publisher: Holder | None) -> None:
        """Evict until the limit holds. The publisher's last batch stays, and so does what nobody can evict."""
        while self.used > self.limit and (holder := self._loser(publisher)) is not None:
            holder.evict_oldest(leaving=int(holder is publisher))

    def _loser(self, publisher: Holder | None) -> Holder | None:
        """Returns the topic that holds most, or one that did a while ago, of those that have anything to lose."""
        largest = self._largest
        if largest is None or largest.unreserved <= self._loses_down_to or not _can_evict(largest, publisher):
            able = [holder for holder in self._holders if _can_evict(holder, publisher)]
            largest = self._largest = max(able, key=lambda holder: holder.unreserved, default=None)
            self._loses_down_to = 0 if largest is None else largest.unreserved // 2
        return largest


def _can_evict(holder: Holder, publisher: Holder | None) -> bool:
    return holder.can_evict(leaving=int(holder is publisher))
