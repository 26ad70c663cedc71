"""Shares of what all users have together, such as places or memory: nobody can take all of it.

A user may have as much as is still free (dynamic thresholds, Choudhury and Hahne 1998): half of it
if nobody else has any, a third if another one has as much. So a user who comes later always finds
some, and no number has to be chosen. Where nobody logs in, all are one user, who may have all.
"""

from collections import Counter


class Shares:
    """So much of something, and how much of it each user has.

    Args:
        most: how much there is.

    Attributes:
        most: see above.
        taken: how much all users have.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0
        self._users: Counter[str] = Counter()

    @property
    def free(self) -> int:
        """How much nobody has."""
        return self.most - self.taken

    def of(self, user: str) -> int:
        """Returns how much a user has."""
        return self._users[user]

    def is_used_up(self, user: str) -> bool:
        """Returns whether a user has as much as the others leave it; "": whether all is taken."""
        if user:
            return self._users[user] >= self.free
        return self.free <= 0

    def may_take(self, user: str, amount: int = 1) -> bool:
        """Returns whether a user may have so much more."""
        return amount <= self.free and not self.is_used_up(user)

    def take(self, user: str, amount: int = 1) -> None:
        """Note that a user has so much more."""
        self.taken += amount
        self._users[user] += amount

    def give_back(self, user: str, amount: int = 1) -> None:
        """Note that a user has so much less."""
        self.taken -= amount
        self._users[user] -= amount
        if not self._users[user]:
            del self._users[user]
