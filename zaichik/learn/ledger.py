"""What a subscription was sent and has settled, as its client counts: "2 in flight, credit 1".

Checks do not depend on it. It makes their verdicts clearer: not just that an unexpected message
came, but that it was one more than the credit allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zaichik.learn.layouts import SHARING
from zaichik.learn.wire import Frame, Message


@dataclass(slots=True)
class Ledger:
    """One subscription's ledger.

    Attributes:
        credit, credit_bytes: what it requested.
        in_flight: the size of each message that came and is not settled, by its offset.
    """

    credit: int
    credit_bytes: int
    in_flight: dict[int, int] = field(default_factory=dict)

    def delivered(self, messages: Sequence[Message]) -> None:
        """Record messages that have come."""
        self.in_flight.update({each.offset: len(each.key) + len(each.payload) for each in messages})

    def committed(self, following: int) -> None:
        """Record that everything below an offset is settled."""
        self.in_flight = {
            offset: size for offset, size in self.in_flight.items() if offset >= following
        }

    def overdrawn(self) -> str:
        """What is in flight beyond the credit; "" if nothing.

        A single message may be of any size.
        """
        count, size = len(self.in_flight), sum(self.in_flight.values())
        if count > self.credit:
            return f"{count} in flight, credit {self.credit}"
        if count > 1 and size > self.credit_bytes:
            return f"{size} bytes in flight, credit {self.credit_bytes} bytes"
        return ""


@dataclass(slots=True)
class Ledgers:
    """The ledgers of a connection."""

    _ledgers: dict[int, Ledger] = field(default_factory=dict)  # by the subscription's id
    # The subscription of a commit, by the commit's id.
    _commits: dict[int, int] = field(default_factory=dict)

    def asked(self, name: str, frame_id: int, fields: dict[str, Any]) -> None:
        """Record a request."""
        # What a worker of a shared name has is settled one by one, and not by commits.
        is_shared = fields.get("flags", 0) & SHARING
        if name == "Subscribe" and not is_shared:
            self._ledgers[frame_id] = Ledger(fields["credit"], fields["credit_bytes"])
        elif name == "Commit":
            self._commits[frame_id] = fields["subscription"]

    def came(self, frame: Frame) -> None:
        """Record a frame that has come."""
        if frame.name == "Messages" and frame.id in self._ledgers:
            self._ledgers[frame.id].delivered(frame.messages)
        elif frame.name == "Committed" and (
            ledger := self._ledgers.get(self._commits.pop(frame.id, 0))
        ):
            ledger.committed(frame["committed"])

    def overdrawn(self, subscription: int) -> str:
        """What a subscription has in flight beyond its credit; "" if nothing."""
        ledger = self._ledgers.get(subscription)
        return ledger.overdrawn() if ledger else ""
