"""Exclusive positions: how far a reader has committed in a topic.

    committed           delivered
    ────┬──────────────────┬──────────────▶ offsets
        │ redelivered to   │ new
        │ the next reader  │

An anonymous one ends with its subscription. A named one is kept
(other systems call such subscriptions durable), and a reader that returns under the name continues
after the last message it has committed. Messages that were delivered and not committed are
redelivered, marked as such: only the reader can know whether they were handled.

A name has one position, and so one reader. A second reader takes over, and the first is sent
`SubscriptionEnded`: a client that reconnects must not have to wait until the broker finds out that
its old connection is dead.

But then a reader that hung, was replaced, and wakes up would take over in turn, and end the reader
that replaced it. So a client may send an owner id and an attempt number with its request: an owner
that was replaced does not get the name again (this is called fencing).
"""

from collections import deque
from typing import TYPE_CHECKING

from zaichik.core.position import Position
from zaichik_protocol import ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.core.reader import Reader

REMEMBERED_OWNERS = 64  # replaced owners per position


class ExclusivePosition(Position):
    """A position that has one reader at a time.

    Args:
        offset: where it begins.
        key, client: see `Position`.

    Attributes:
        committed: every offset below is settled.
        delivered: every offset below was delivered at least once.
        is_fresh: whether it began at the earliest message, and nothing was delivered yet.
        reader: the live subscription; None if there is none.
    """

    def __init__(self, offset: int, key: str = "", client: str = "") -> None:
        super().__init__(key, client)
        self.committed = offset
        self.delivered = offset
        self.is_fresh = False
        self.reader: Reader | None = None
        # Of the latest request for the name; owner 0 is a request without an owner.
        self._owner = 0
        self._attempt = 0
        self._replaced: deque[int] = deque(maxlen=REMEMBERED_OWNERS)

    def claim(self, owner: int, attempt: int) -> None:
        """Give the name to that owner (CMT-3); owner 0 always gets it.

        Raises:
            Refused: `TAKEN_OVER`: the owner was replaced, or has made a later attempt.
        """
        if owner in self._replaced:
            problem = (
                f"another reader has taken over the name {self.name!r}: to take it back, "
                "subscribe again"
            )
            raise Refused(ErrorCode.TAKEN_OVER, problem, "owner")
        if owner and owner == self._owner and attempt <= self._attempt:
            problem = (
                f"this is attempt {attempt} to claim the name {self.name!r}; its owner has "
                "made a later one"
            )
            raise Refused(ErrorCode.TAKEN_OVER, problem, "attempt")
        if self._owner not in (0, owner):
            self._replaced.append(self._owner)
        self._owner = owner
        self._attempt = attempt

    @property
    def has_reader(self) -> bool:
        """See `Position`."""
        return self.reader is not None

    @property
    def needed(self) -> int:
        """See `Position`. For a name, that includes redelivery."""
        if self.name or self.reader is None:
            return self.committed
        return self.reader.cursor

    @property
    def description(self) -> str:
        """See `Position`."""
        reader = self.reader
        if reader is not None and not self.name:
            return reader.description
        which = f"the named subscription {self.name!r}"
        # Other users must not learn a user's names.
        if self.user:
            which = "a named subscription"
        if reader is None:
            return f"{which}, whose reader is away,"
        return f"{which}, read by {reader.description},"
