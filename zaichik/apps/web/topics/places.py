"""Places for what may last, which no user can take all of: see `zaichik.apps.users.shares`."""

from collections.abc import Iterator
from contextlib import contextmanager

from zaichik.apps.users.shares import Shares
from zaichik.apps.web.topics.statuses import RETRY_S, Refusal


class Places:
    """A number of places.

    Args:
        most: how many there are.
        error: the name of the refusal when there is none.
        what: what takes one, for a person.
    """

    def __init__(self, most: int, error: str, what: str) -> None:
        self._shares = Shares(most)
        self._error = error
        self._what = what

    @property
    def taken(self) -> int:
        """How many are taken."""
        return self._shares.taken

    @contextmanager
    def taking(self, user: str) -> Iterator[None]:
        """Take a place for as long as the block lasts.

        Args:
            user: who takes it; "": everybody, where nobody logs in.

        Raises:
            Refusal: all are taken, or this user has as many as are free.
        """
        shares = self._shares
        if not shares.free:
            problem = f"there are {shares.most} {self._what}, which is the limit"
            raise Refusal(self._error, problem, RETRY_S)
        if not shares.may_take(user):
            problem = (
                f"you have {shares.of(user)} {self._what}, and {shares.free} more are left for "
                "other users"
            )
            raise Refusal(self._error, problem, RETRY_S)
        shares.take(user)
        try:
            yield
        finally:
            shares.give_back(user)
