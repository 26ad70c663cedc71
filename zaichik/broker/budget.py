"""The bytes that all rings of a broker may hold together.

Each ring has bounds of its own, but ten thousand topics of 64 MiB are more than any machine has. So there is one more
bound, on what is really held. When it is reached, whoever publishes pays first: the oldest messages of the same topic
go. If there are no others left, those of the topic that holds most go. Readers that had not got them yet are told, as
ever (LAG-1).

To find that topic is to look at all of them. So it is looked for once and stays the one that pays until half of what it
held is gone: a large batch that takes the place of a thousand small ones costs some looks and not a thousand.

A topic that may lose nothing (RET-9) must not pay for others: what its ring may hold is set aside for it when it is
made.
"""

from typing import Protocol

from zaichik_protocol import ErrorCode, Refused


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
        limit: likewise, less what was set aside.
        used: bytes of batches held now.
    """

    def __init__(self, limit: int = 2**63) -> None:
        self.limit = limit
        self._half = limit // 2
        self.used = 0
        self._holders: dict[Holder, None] = {}  # a set that keeps order, so that everything is repeatable
        self._payer: Holder | None = None
        self._pays_down_to = 0  # bytes

    def add(self, holder: Holder) -> None:
        """From now on, this one may be asked to make room. It counts what it holds in `used` by itself."""
        self._holders[holder] = None

    def set_aside(self, holder: Holder, size: int) -> "Budget":
        """A budget of that size for one holder alone, taken from this one. It must hold nothing yet.

        If the others hold too much now, their oldest go at once: otherwise all together could be beyond the whole.

        Raises:
            Refused: `NO_MEMORY`: half of the whole stays with the others.
        """
        if self.limit - size < self._half:
            raise Refused(
                ErrorCode.NO_MEMORY,
                f"a topic that may lose nothing has its {size} bytes set aside for it, and of the broker's only "
                f"{self.limit - self._half} are left for that. Ask for a smaller max_bytes.",
                "settings",
            )
        self.limit -= size
        self._holders.pop(holder, None)
        self._payer = None
        self.relieve(holder)
        return Budget(size)

    def remove(self, holder: Holder) -> None:
        """Never ask this one again; it holds nothing any more."""
        self._holders.pop(holder, None)

    def give_back(self, size: int) -> None:
        """Let all have again what was set aside for one that is gone."""
        self.limit += size

    def relieve(self, publisher: Holder) -> None:
        """Have older messages dropped until the limit holds; the publisher's last batch stays, if it fits at all."""
        while self.used > self.limit:
            if not publisher.evict_oldest(leaving=1):
                self._payer_beside(publisher).evict_oldest(leaving=0)

    def _payer_beside(self, publisher: Holder) -> Holder:
        """One of the others that holds much; the publisher itself if nobody else holds anything."""
        payer = self._payer
        if payer is None or payer is publisher or payer.bytes <= self._pays_down_to:
            payer = max(self._holders, key=lambda holder: 0 if holder is publisher else holder.bytes)
            self._payer, self._pays_down_to = payer, payer.bytes // 2
        return payer if payer.bytes else publisher
