"""What goes over the connections of a gateway: counted for each, and so for all together.

A connection counts in an object of its own, which its log line at the end shows. The sum over all
is what has ended, and what is open now: so nothing is counted twice on the way of a message.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Traffic:
    """Of one connection, or of several.

    Attributes:
        received_bytes, sent_bytes: of the protocol, without TLS.
        received_messages: published by clients, stored or not.
        sent_messages: to clients, repetitions included.
        refused_messages: of those received, those that were not stored.
    """

    received_bytes: int = 0
    sent_bytes: int = 0
    received_messages: int = 0
    sent_messages: int = 0
    refused_messages: int = 0

    def add(self, other: "Traffic") -> None:
        """Add what another one has counted."""
        self.received_bytes += other.received_bytes
        self.sent_bytes += other.sent_bytes
        self.received_messages += other.received_messages
        self.sent_messages += other.sent_messages
        self.refused_messages += other.refused_messages


class Connections:
    """The traffic of all connections of a gateway.

    Attributes:
        accepted: how many there were.
    """

    def __init__(self) -> None:
        self.accepted = 0
        self._open: dict[Traffic, None] = {}
        self._ended = Traffic()
        # Held while a connection ends: a thread that asks then would find it twice, or not at all,
        # and a total that has once been less is taken for that of a new start.
        self._ending = threading.Lock()

    def __len__(self) -> int:
        """Returns how many are open."""
        return len(self._open)

    @contextmanager
    def counted(self) -> Iterator[Traffic]:
        """Returns what a connection counts in, which is open during the block."""
        traffic = Traffic()
        self.accepted += 1
        self._open[traffic] = None
        try:
            yield traffic
        finally:
            with self._ending:
                del self._open[traffic]
                self._ended.add(traffic)

    def total(self) -> Traffic:
        """Returns what all of them have counted. Another thread may ask."""
        total = Traffic()
        with self._ending:
            for traffic in (self._ended, *list(self._open)):
                total.add(traffic)
        return total


@dataclass(frozen=True, slots=True)
class Figures:
    """What a gateway has to report at some moment.

    Attributes:
        connections: see there.
        turned_away: how many more connections there would have been, without the limit.
        missed: messages that were not delivered, or not taken as they were, by the reason.
        sessions: what goes on without its client, or has several: sessions, consumer groups; None
            if the protocol has nothing of the kind.
        unacknowledged: messages that clients have and have not acknowledged; None if the protocol
            has no acknowledgements of single messages.
        are_calls: whether a library has the connections for itself, so that calls are counted
            instead, and no bytes.
    """

    connections: Connections
    missed: Mapping[str, int] = field(default_factory=dict)
    turned_away: int = 0
    sessions: int | None = None
    unacknowledged: int | None = None
    are_calls: bool = False
