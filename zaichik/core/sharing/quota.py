"""Each client's share of a limited resource: dynamic thresholds (Choudhury and Hahne, 1998).

One limit for all clients is not enough: a single client could use all of it, and others would find
nothing left. A fixed share for each would waste most of it, since the number of clients is not
known beforehand. So a client may hold a multiple of what is *left*. A single client gets nearly
all; the next one still finds room, and so does the one after.

    what one client may hold = SHARE * (limit - used by all + 1)

The 1 lets a single client use all of a small limit.
"""

from collections import Counter

SHARE = 32  # a single client gets 32 of 33 parts; two that want everything get 32 of 65 each


class Quota:
    """A limited resource that clients share.

    Args:
        limit: entries, or bytes, of all clients together.

    Attributes:
        limit: see above.
        used: entries, or bytes, that all clients hold now.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._held: Counter[str] = Counter()

    def has_room(self, client: str, amount: int = 1) -> bool:
        """Returns whether the client may take this amount."""
        held = self._held.get(client, 0) + amount
        left = self.limit - self.used - amount
        return held <= self._share(left)

    def take(self, client: str, amount: int = 1) -> None:
        """Charge an amount to a client; a negative amount is released."""
        self.used += amount
        self._held[client] += amount
        if not self._held[client]:
            del self._held[client]

    def is_over(self, client: str) -> bool:
        """Returns whether the client is over its share.

        That happens where a charge cannot be refused.
        """
        held = self._held.get(client, 0)
        left = self.limit - self.used
        return held > self._share(left)

    @staticmethod
    def _share(left: int) -> int:
        """Returns the most that one client may hold if this much is left."""
        return SHARE * max(left + 1, 0)


class Holding:
    """The bytes that one connection holds of its client's share, which change all the time.

    Args:
        quota: the resource.
        client: the client that is charged. It may be another one while nothing is held.

    Attributes:
        client: see above.
        amount: bytes that the connection holds.
        is_over: whether the client was over its share at the last `update` or `check`.
    """

    def __init__(self, quota: Quota, client: str) -> None:
        self._quota = quota
        self.client = client
        self.amount = 0
        self.is_over = False

    def update(self, amount: int) -> None:
        """Charge the bytes held now instead of those held before."""
        if amount or self.amount:
            self._quota.take(self.client, amount - self.amount)
            self.amount = amount
            self.check()

    def check(self) -> None:
        """Work out `is_over` again: another connection of the client may have released some."""
        self.is_over = self._quota.is_over(self.client)
