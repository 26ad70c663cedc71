"""What the handlers of requests work with: the gateway's state, and one connection's."""

import logging
from dataclasses import dataclass, field

from zaichik import Client
from zaichik.apps.gateways.traffic import Traffic
from zaichik.apps.kafka.coordinator import Coordinator
from zaichik.apps.kafka.memory import Memories, NoMemory, Taken
from zaichik.apps.kafka.positions import Positions
from zaichik.apps.kafka.producers import Producers
from zaichik.apps.kafka.readings import MAX_ALL_READINGS, Readings
from zaichik.apps.kafka.topics import Topics
from zaichik.apps.users.shares import Shares
from zaichik.client.messages import AckedBy

logger = logging.getLogger("zaichik.kafka.session")

MAX_CONNECTIONS = 256


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
        topics, positions, coordinator, producers, memory, counts: see their classes.
        connections: those of each user.
        subscriptions: those behind fetches, of each user.
    """

    host: str
    port: int
    topics: Topics
    positions: Positions
    coordinator: Coordinator = field(default_factory=Coordinator)
    producers: Producers = field(default_factory=Producers)
    memory: Memories = field(default_factory=Memories)
    connections: Shares = field(default_factory=lambda: Shares(MAX_CONNECTIONS))
    subscriptions: Shares = field(default_factory=lambda: Shares(MAX_ALL_READINGS))
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
        response: memory of the response that is being made and sent; None if it needs none.
    """

    shared: Shared
    peer: str
    client: Client
    user: str
    readings: Readings
    traffic: Traffic
    client_id: str = ""
    response: Taken | None = None

    @property
    def counts(self) -> Counts:
        """The gateway's."""
        return self.shared.counts

    async def room_for_response(self, size: int) -> int:
        """Returns how many bytes a response may have, when there is memory for it.

        Args:
            size: what it would have. If there is no memory, it is 0.
        """
        try:
            self.response = await self.shared.memory.responses.take(self.user, size)
        except NoMemory as error:
            self.warn("a response is empty", error)
            return 0
        return size

    def response_sent(self) -> None:
        """Give the memory of a response back, whether it was sent or not."""
        if self.response is not None:
            self.response.shrink(0)
            self.response = None

    def warn(self, what: str, reason: object) -> None:
        """Log that something was refused or lost."""
        logger.warning("%s: %s: %s", self.peer, what, reason)
