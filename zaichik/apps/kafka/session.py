"""What the handlers of requests work with: the gateway's state, and one connection's."""

import logging
from dataclasses import dataclass, field

from zaichik import Client
from zaichik.apps.gateways.traffic import Traffic
from zaichik.apps.kafka.coordinator import Coordinator
from zaichik.apps.kafka.positions import Positions
from zaichik.apps.kafka.producers import Producers
from zaichik.apps.kafka.readings import Readings, Room
from zaichik.apps.kafka.topics import Topics
from zaichik.client.messages import AckedBy

logger = logging.getLogger("zaichik.kafka.session")


@dataclass(slots=True)
class Counts:
    """What was lost or refused since the gateway began; see `docs/use/kafka.md`.

    Attributes:
        headers: of records, which are not kept.
        evicted: messages that were gone before a consumer could fetch them.
        beyond: fetches beyond the end of a topic, or of one that was deleted and made again.
        skipped: offsets in the middle of topics that no message has.
        refused: batches that were not stored.
        unknown: requests that the gateway does not know.
        malformed: connections that ended because of what they sent.
    """

    headers: int = 0
    evicted: int = 0
    beyond: int = 0
    skipped: int = 0
    refused: int = 0
    unknown: int = 0
    malformed: int = 0


@dataclass(slots=True)
class Shared:
    """The state of the gateway.

    Attributes:
        host, port: what clients are told to connect to.
        acked_by: what has to have records before `acks=all` is answered; None: the broker alone.
        topics, coordinator, positions, producers, room, counts: see their classes.
    """

    host: str
    port: int
    topics: Topics
    positions: Positions
    coordinator: Coordinator = field(default_factory=Coordinator)
    producers: Producers = field(default_factory=Producers)
    room: Room = field(default_factory=Room)
    counts: Counts = field(default_factory=Counts)
    acked_by: AckedBy | None = None


@dataclass(slots=True)
class Session:
    """One connection, as handlers see it.

    Attributes:
        shared: the gateway's state.
        peer: the client's address, for the log.
        client: the broker's client that acts for it.
        user: whose groups and producers are meant; "" without logins.
        readings: the subscriptions that its fetches go on in.
        traffic: where what it sends and is sent is counted.
        client_id: what the client calls itself, in the request at hand.
    """

    shared: Shared
    peer: str
    client: Client
    user: str
    readings: Readings
    traffic: Traffic
    client_id: str = ""

    @property
    def counts(self) -> Counts:
        """The gateway's."""
        return self.shared.counts

    def warn(self, what: str, reason: object) -> None:
        """Log that something was refused or lost."""
        logger.warning("%s: %s: %s", self.peer, what, reason)
