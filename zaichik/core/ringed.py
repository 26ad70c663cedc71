"""What a topic retains if its newest messages are in a ring: they are read from there.

What lies below the ring's head, if anything does, is what makes the difference: see `InMemory`,
where it is gone, and `Durable`, where it is on a disk.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING

from zaichik.core.retained import Piece, Retained, Wake
from zaichik.core.ring import BroadcastRing, Entry
from zaichik.core.search import Found, nearest
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing import prices
from zaichik_protocol import Batch

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController


class Ringed(Retained):
    """What a topic retains, with the newest of it in a ring.

    Args:
        topic: the topic.
        settings: those that it is given now.
        scope: see `Retained`.

    Attributes:
        ring: the newest messages.
    """

    def __init__(self, topic: "TopicController", settings: TopicSettings, scope: str) -> None:
        super().__init__(topic, scope)
        self.ring = BroadcastRing(settings.capacity, settings.max_bytes)
        self.most_messages = settings.capacity
        self.most_bytes = settings.max_bytes

    def limit_bytes(self, max_bytes: int) -> None:
        """Give the ring another limit in bytes, which holds from the next batch on."""
        self.ring.max_bytes = max_bytes
        self.most_bytes = max_bytes

    @abstractmethod
    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """Returns the batch with that offset, which lies below the ring's head.

        None if it has to be read first, after which `wake` is called, or if it has just expired.

        Raises:
            Refused: `DAMAGED`.
        """

    @abstractmethod
    def ring_has_expired(self) -> None:
        """Note that messages in the ring have expired: nothing below its head is readable."""

    # -- writing and reading ---------------------------------------------------------------------

    def append(self, batch: Batch, accepted_us: int) -> None:
        """See `Retained`."""
        self.ring.append(batch, accepted_us)

    @property
    def end(self) -> int:
        """See `Retained`."""
        return self.ring.next_offset

    def lost_until(self, offset: int) -> int:
        """See `Retained`: a ring has no holes."""
        return self.readable_from(offset)

    def read(
        self,
        offset: int,
        before: int,
        messages: int,
        max_bytes: int,
        wake: Wake,
        *,
        at_least: int,
    ) -> Piece | None:
        """See `Retained`. They are from one batch."""
        ring = self.ring
        entry: Entry | None
        if offset >= ring.head:
            entry = ring.entry(offset)
        else:
            entry = self.entry(offset, wake)
            if entry is None:
                return None
        batch = entry.batch
        first = offset - entry.base
        stop = min(first + messages, before - entry.base, batch.count)
        if batch.size > max_bytes:
            fitting = batch.fitting(first, stop, max_bytes)
            stop = max(fitting, first + at_least)
            if stop == first:
                return None
        return entry.accepted_us, batch.cut(first, stop), ()

    def wait(self, waiter: object, wake: Wake) -> None:
        """See `Retained`."""
        self.ring.wait(waiter, wake)

    def stop_waiting(self, waiter: object) -> None:
        """See `Retained`."""
        self.ring.stop_waiting(waiter)

    # -- what goes -------------------------------------------------------------------------------

    def expire(self, limit_us: int) -> bool:
        """See `Retained`."""
        ring = self.ring
        before = ring.head
        ring.expire_accepted_until(limit_us)
        if ring.head == before:
            return False
        self.ring_has_expired()
        return True

    def evict_oldest(self, cause: int) -> None:
        """See `Retained`."""
        self.ring.evict_oldest(cause)

    def drop_all(self) -> None:
        """See `Retained`."""
        self.ring.expire_below(self.ring.next_offset)

    # -- what it takes ---------------------------------------------------------------------------

    @property
    def batches(self) -> int:
        """See `Retained`."""
        return self.ring.batches

    def held(self) -> tuple[int, int]:
        """See `Retained`."""
        ring = self.ring
        size = ring.bytes
        return size, size + prices.ENTRY * ring.batches + self.waiting_memory

    # -- what `describe` and `explain` report ----------------------------------------------------

    @property
    def resident(self) -> int:
        """See `Retained`."""
        return self.ring.next_offset - self.head

    @property
    def superseded(self) -> int:
        """See `Retained`: a ring keeps every message until its time."""
        return 0

    @property
    def head_in_memory(self) -> int:
        """See `Retained`."""
        return self.ring.head

    def accepted_us(self, offset: int) -> int | None:
        """See `Retained`."""
        return self.ring.accepted_us(max(offset, self.head))

    def marks(self, most: int) -> list[tuple[int, int]]:
        """See `Retained`: the first offsets of batches."""
        return self.ring.marks(most)

    def successor(self, offset: int) -> int:
        """See `Retained`."""
        return -1

    def nearest(self, key: bytes, at_us: int) -> Found:
        """See `Retained`. A bounded number of messages is searched."""
        return nearest(self.ring, key, at_us)
