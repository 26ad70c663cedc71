"""Places for what may last, which no user can take all of.

A user may have as many as are still free (dynamic thresholds, Choudhury and Hahne 1998): half of
them if nobody else has one, a third if another one has as many. So a user who comes later always
finds some, and no number has to be chosen. Where nobody logs in, all are one user, who may have
all.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from zaichik.apps.web.topics.statuses import RETRY_S, Refusal


class Places:
    """A number of places.

    Args:
        most: how many there are.
        error: the name of the refusal when there is none.
        what: what takes one, for a person.

    Attributes:
        taken: how many are taken.
    """

    def __init__(self, most: int, error: str, what: str) -> None:
        self.taken = 0
        self._most = most
        self._error = error
        self._what = what
        self._users: Counter[str] = Counter()

    @contextmanager
    def taking(self, user: str) -> Iterator[None]:
        """Take a place for as long as the block lasts.

        Args:
            user: who takes it; "": everybody, where nobody logs in.

        Raises:
            Refusal: all are taken, or this user has as many as are free.
        """
        free = self._most - self.taken
        if not free:
            raise Refusal(
                self._error, f"there are {self._most} {self._what}, which is the limit", RETRY_S
            )
        mine = self._users[user]
        if user and mine >= free:
            raise Refusal(
                self._error,
                f"you have {mine} {self._what}, and {free} more are left for other users",
                RETRY_S,
            )
        self.taken += 1
        self._users[user] += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]
