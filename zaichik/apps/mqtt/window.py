"""What a client was sent with QoS 1 or 2 and has not acknowledged, by packet identifier (MQ-7).

    QoS 1:  PUBLISHED ──PUBACK──▶ settled
    QoS 2:  PUBLISHED ──PUBREC──▶ RELEASED ──PUBCOMP──▶ settled

It is a part of the session, not of the connection: a client that comes back is sent all of it
again, under the same identifiers. It is bounded in messages and in bytes.

After the gateway itself has ended, what was in flight is not known any more. A client may have
taken messages of QoS 2 that it was not told to forget, and a message under one of their identifiers
would be no news to it: it would be lost. So a session that is restored has no identifiers for QoS 2
at first. A few are *cleared*, by PUBREL, which a client always answers with PUBCOMP, and serve
again and again; more are cleared when all of these are in flight.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from zaichik.apps.mqtt.tail import Entry

if TYPE_CHECKING:
    from zaichik.apps.mqtt.groups import Group

MOST_MESSAGES = 256
MOST_BYTES = 1024 * 1024
MOST_IDENTIFIERS = 65_535
# That are cleared at once.
CLEARED_AT_ONCE = 32
# No more are needed than there are messages in flight.
MOST_CLEARED = MOST_MESSAGES + CLEARED_AT_ONCE


class Stage(Enum):
    """How far a message is."""

    PUBLISHED = auto()
    # The client has it (PUBREC), and was told that its identifier is free (PUBREL).
    RELEASED = auto()


@dataclass(slots=True, eq=False)
class InFlight:
    """A message that was sent and is not settled.

    Attributes:
        entry: the message.
        qos: 1 or 2.
        retain: the retain flag that it was sent with.
        identifiers: those of the subscriptions that it was sent for.
        group: the group that shares it; None if it is the session's own.
        is_retained: whether it came from the retained messages, and not from a topic.
        stage: see there.
    """

    entry: Entry
    qos: int
    retain: bool
    identifiers: tuple[int, ...] = ()
    group: "Group | None" = None
    is_retained: bool = False
    stage: Stage = Stage.PUBLISHED


class Window:
    """The messages in flight of one session, in the order in which they were sent.

    Attributes:
        most: how many there may be: the client's receive maximum, and `MOST_MESSAGES` at most.
        clearing: identifiers that are being cleared.
    """

    def __init__(self) -> None:
        self.most = MOST_MESSAGES
        self.clearing: set[int] = set()
        # Up to this one, a client takes what is new for new.
        self._cleared = MOST_IDENTIFIERS
        self._messages: dict[int, InFlight] = {}
        self._bytes = 0
        self._last = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether the client must acknowledge something before it is sent more."""
        return len(self._messages) >= self.most or self._bytes >= MOST_BYTES

    def forget_all(self) -> None:
        """Begin with a client that may have messages of QoS 2 of which nothing is known here."""
        self._cleared = 0

    @property
    def lacks_identifiers(self) -> bool:
        """Whether more must be cleared before another message of QoS 2 can be sent."""
        if self._cleared == MOST_IDENTIFIERS:
            return False
        return sum(identifier <= self._cleared for identifier in self._messages) >= self._cleared

    def clear_more(self) -> list[int]:
        """Returns identifiers that the client is to be told to forget; none if it was told."""
        if self.clearing:
            return []
        first = self._cleared + 1
        self.clearing = set(range(first, first + CLEARED_AT_ONCE))
        return sorted(self.clearing)

    def cleared(self, identifier: int) -> bool:
        """Note that the client has forgotten an identifier; returns whether it was asked to."""
        if identifier not in self.clearing:
            return False
        self.clearing.discard(identifier)
        if not self.clearing:
            self._cleared += CLEARED_AT_ONCE
        return True

    def items(self) -> list[tuple[int, InFlight]]:
        """Returns all identifiers and their messages, in the order in which they were sent."""
        return list(self._messages.items())

    def messages(self) -> list[InFlight]:
        """Returns all messages, in the order in which they were sent."""
        return list(self._messages.values())

    def get(self, identifier: int) -> InFlight | None:
        """Returns the message of that identifier, if there is one."""
        return self._messages.get(identifier)

    def add(self, message: InFlight) -> int:
        """Add a message; returns its identifier, which no other has."""
        first, last = 1, MOST_IDENTIFIERS
        if self._cleared < MOST_IDENTIFIERS and message.qos == 2:
            last = self._cleared
        elif self._cleared < MOST_IDENTIFIERS:
            first += MOST_CLEARED
        identifier = self._last
        if not first <= identifier < last:
            identifier = first - 1
        identifier += 1
        while identifier in self._messages:
            identifier = first + (identifier - first + 1) % (last - first + 1)
        self._last = identifier
        self._messages[identifier] = message
        self._bytes += message.entry.size
        return identifier

    def settle(self, identifier: int) -> InFlight | None:
        """Remove a message; returns it, or None if there was none."""
        message = self._messages.pop(identifier, None)
        if message is not None:
            self._bytes -= message.entry.size
        return message

    def lowest(self, space: str) -> int | None:
        """Returns the lowest offset in flight of a topic, of the session's own; None if none is."""
        # Those of a group count for the group, and retained messages are in a table.
        offsets = [
            message.entry.offset
            for message in self._messages.values()
            if message.entry.space == space and message.group is None and not message.is_retained
        ]
        return min(offsets, default=None)
