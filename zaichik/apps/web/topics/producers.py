"""Numbers for what is published, so that a request which is given up leaves nothing behind.

The client's own `publish` keeps a batch that a full topic has refused until it is stored, even if
nobody waits for that any longer. An HTTP client that has had its 503 would find its message stored
an hour later. So each request has a producer of its own while it lasts (PUB-4): what it gives up is
not sent again. A producer that has had its answer serves the next request, so there are no more of
them than requests at a time.
"""

import secrets
from collections import deque
from dataclasses import dataclass

import anyio

from zaichik import BatchResult, Client
from zaichik_protocol import Batch

IDLE_S = 300.0  # the broker forgets a producer after twice as long
MOST_IDLE = 256


@dataclass(frozen=True, slots=True)
class Number:
    """The number of one batch: sent twice, it is stored once.

    Attributes:
        topic: where it counts.
        producer: 64 random bits.
        sequence: how many batches came before it.
    """

    topic: str
    producer: int
    sequence: int

    @classmethod
    def fresh(cls, topic: str) -> "Number":
        """Returns the first number of a new producer."""
        return cls(topic, secrets.randbits(63) + 1, 0)


class Producers:
    """The producers of one connection.

    Args:
        client: publishes.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        # The next number of each producer without a request, and since when it has none.
        self._idle: deque[tuple[float, Number]] = deque(maxlen=MOST_IDLE)

    def take(self, topic: str) -> Number:
        """Returns a number that no other request has."""
        oldest = anyio.current_time() - IDLE_S
        while self._idle and self._idle[0][0] < oldest:
            self._idle.popleft()
        for place in reversed(range(len(self._idle))):
            _, number = self._idle[place]
            if number.topic == topic:
                del self._idle[place]
                return number
        return Number.fresh(topic)

    async def publish(self, number: Number, batch: Batch, *, tombstones: bool) -> BatchResult:
        """Store a batch under its number, and wait for the result.

        Raises:
            ProducerUnknown: it was not stored under this number, as far as the broker remembers.
            ZaichikError: it was not stored; or, if the connection is lost, that is not known.
        """
        result = await self._client.publish_batch(
            number.topic,
            batch,
            producer=number.producer,
            number=number.sequence,
            tombstones=tombstones,
        )
        following = Number(number.topic, number.producer, number.sequence + 1)
        self._idle.append((anyio.current_time(), following))
        return result
