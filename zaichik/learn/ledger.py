"""What a subscription has been sent and has settled, as its client counts it: "2 in flight, credit 1".

The checks do not judge by it. It words their verdicts: that a message came which nobody expected is one thing to hear,
and that it was one more than the credit allows is another.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from zaichik.learn.wire import Frame, Message


@dataclass(slots=True)
class Ledger:
    """One subscription's.

    Attributes:
        credit, credit_bytes: what it asked for.
        in_flight: the size of each message that came and is not settled, by its offset.
    """

    credit: int
    credit_bytes: int
    in_flight: dict[int, int] = field(default_factory=dict)

    def delivered(self, messages: Sequence[Message]) -> None:
        """These have come."""
        self.in_flight.update({each.offset: len(each.key) + len(each.payload) for each in messages})

    def committed(self, following: int) -> None:
        """All below an offset is settled."""
        self.in_flight = {offset: size for offset, size in self.in_flight.items() if offset >= following}

    def overdrawn(self) -> str:
        """What is in flight and should not be; "" if all of it may be.

        One message may be of any size, as long as it is alone.
        """
        count, size = len(self.in_flight), sum(self.in_flight.values())
        if count > self.credit:
            return f"{count} in flight, credit {self.credit}"
        if count > 1 and size > self.credit_bytes:
            return f"{size} bytes in flight, credit {self.credit_bytes} bytes"
        return ""


@dataclass(slots=True)
class Ledgers:
    """Those of a connection."""

    _ledgers: dict[int, Ledger] = field(default_factory=dict)  # by the subscription's id
    _commits: dict[int, int] = field(default_factory=dict)  # the subscription that a commit is for, by its own id

    def asked(self, name: str, frame_id: int, fields: dict[str, Any]) -> None:
        """A request has gone out."""
        if name == "Subscribe":
            self._ledgers[frame_id] = Ledger(fields["credit"], fields["credit_bytes"])
        elif name == "Commit":
            self._commits[frame_id] = fields["subscription"]

    def came(self, frame: Frame) -> None:
        """A frame has come."""
        if frame.name == "Messages" and frame.id in self._ledgers:
            self._ledgers[frame.id].delivered(frame.messages)
        elif frame.name == "Committed" and (ledger := self._ledgers.get(self._commits.pop(frame.id, 0))):
            ledger.committed(frame["committed"])

    def overdrawn(self, subscription: int) -> str:
        """What a subscription has in flight beyond its credit; "" if nothing."""
        ledger = self._ledgers.get(subscription)
        return ledger.overdrawn() if ledger else ""
