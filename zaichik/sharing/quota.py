"""What clients may have of a table that they share: dynamic thresholds (Choudhury and Hahne, 1998).

A limit for all together is not enough: one client could use up the table, and others would find it full. A fixed share
for each would waste most of it, since nobody knows how many clients will come. So a client may hold a multiple of what
is *left*. Alone it gets nearly all; the next one still finds room, and so does the one after it.

    what one client may hold = SHARE * (limit - used by all + 1)

The 1 lets a single client fill a table of a few entries.
"""

from collections import Counter

SHARE = 32  # one client alone gets 32 of 33 parts; of two that want everything, each gets 32 of 65


class Quota:
    """A table of limited size.

    Args:
        limit: entries, or bytes, of all clients together.

    Attributes:
        limit: see above.
        used: by all of them now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._held: Counter[str] = Counter()

    def has_room(self, client: str, amount: int = 1) -> bool:
        """Returns whether the client may have so much more."""
        return self._held.get(client, 0) + amount <= self._share(self.limit - self.used - amount)

    def take(self, client: str, amount: int = 1) -> None:
        """Count it as that client's; a negative amount is given back."""
        self.used += amount
        self._held[client] += amount
        if not self._held[client]:
            del self._held[client]

    def is_over(self, client: str) -> bool:
        """Returns whether the client holds more than it may: what cannot be refused must wait."""
        return self._held.get(client, 0) > self._share(self.limit - self.used)

    @staticmethod
    def _share(left: int) -> int:
        """Returns what one client may hold if so much is left."""
        return SHARE * max(left + 1, 0)


class Holding:
    """What one connection holds of its client's part of a quota in bytes, which goes up and down all the time.

    Args:
        quota: the table.
        client: whose connection it is.

    Attributes:
        amount: bytes that it holds.
        is_over: whether its client held too much, when that was found out last.
    """

    def __init__(self, quota: Quota, client: str) -> None:
        self._quota = quota
        self._client = client
        self.amount = 0
        self.is_over = False

    def update(self, amount: int) -> None:
        """Count what it holds now."""
        if amount or self.amount:
            self._quota.take(self._client, amount - self.amount)
            self.amount = amount
            self.check()

    def check(self) -> None:
        """Find out again: it may be another connection of the client that has let go."""
        self.is_over = self._quota.is_over(self._client)
