"""What a topic retains if it is in memory only: its ring, and nothing else.

A lossless topic (RET-9) reserves the most that its ring can cost, and refuses what would evict a
message that a reader still needs.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zaichik.core.decisions import COMPACTED, Move
from zaichik.core.pending import Pending
from zaichik.core.position import no_room
from zaichik.core.retained import Wake
from zaichik.core.ring import Entry
from zaichik.core.ringed import Ringed
from zaichik.core.settings import TopicSettings
from zaichik.core.sharing import prices
from zaichik_protocol import Batch, Overflow, Published

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

SMALLEST_BATCH = len(Batch.of([(b"", b"")]).data)


class InMemory(Ringed):
    """What a topic retains in its ring.

    Args:
        topic: the topic.
        settings: those that it is given now.

    Raises:
        Refused: `NO_MEMORY`: the topic is lossless, and no more can be reserved.
    """

    def __init__(self, topic: "TopicController", settings: TopicSettings) -> None:
        super().__init__(topic, settings, "")
        if settings.overflow == Overflow.REJECT:
            # The most that its ring can cost, however small its batches are.
            batches = min(settings.capacity, settings.max_bytes // SMALLEST_BATCH)
            size = settings.max_bytes + prices.ENTRY * batches
            topic.budget.reserve(size)
            self.reserved = size
            self.may_be_full = True

    # -- writing ---------------------------------------------------------------------------------

    @property
    def has_fixed_settings(self) -> bool:
        """See `Retained`."""
        return self.ring.next_offset > 0

    def check_room(self, batch: Batch) -> None:
        """Refuse a batch if storing it would evict messages that a reader still needs (RET-9).

        Readers are examined only if the ring is full, and the slowest is found only for the error
        text. Messages that compaction would drop count as well: a refused batch must not have
        opened windows.
        """
        topic, ring = self._topic, self.ring
        head = ring.head_after(batch)
        if head > ring.head and topic.needed() < head:
            raise no_room(f"topic {topic.name!r}", ring.head, topic.positions())

    def publish(
        self,
        batch: Batch,
        kept: Sequence[int],
        dropped: bytes,
        now_us: int,
        request_id: int,
        producer: int,
        sequence: int,
        *,
        tombstones: bool,
    ) -> Published | Pending:
        """See `Retained`. It is stored at once; the numbers of producers are the broker's."""
        topic = self._topic
        first_offset = self.ring.next_offset
        compacted = batch.count - len(kept)
        # The journal comes first, so that making room for its record never evicts this batch
        # (RET-10).
        if topic.observer is not None:
            topic.observer(batch, kept, first_offset, now_us, ())
        if not compacted:
            self.ring.append(batch, now_us)
            topic.count_stored(batch.count)
        else:
            # As `count_compacted` does: where most is dropped, a call for each batch costs.
            topic.published += compacted
            topic.compacted += compacted
            topic.decisions.remember(now_us, batch, COMPACTED, first_offset, dropped)
            if kept:
                self.ring.append(batch.select(kept), now_us)
                topic.count_stored(len(kept))
        readers = len(topic.readers)
        return Published(request_id, first_offset, len(kept), compacted, readers, dropped)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def head(self) -> int:
        """See `Retained`."""
        return self.ring.head

    @property
    def next(self) -> int:
        """See `Retained`."""
        return self.ring.next_offset

    def readable_from(self, offset: int) -> int:
        """See `Retained`."""
        head = self.ring.head
        # As `max`, which is a call.
        if offset < head:
            return head
        return offset

    def entry(self, offset: int, wake: Wake) -> Entry | None:
        """See `Retained`: below the ring's head, all is gone."""
        return None

    def earliest(self) -> int | Pending:
        """See `Retained`: without retention, a new subscription begins with the next message."""
        if self._topic.settings.retention_ttl_ms == 0:
            return self.ring.next_offset
        return self.ring.head

    def first_since(self, time_us: int) -> int | Pending:
        """See `Retained`."""
        return self.ring.first_accepted_since(time_us)

    # -- what goes -------------------------------------------------------------------------------

    def ring_has_expired(self) -> None:
        """See `Retained`: there is nothing but the ring."""

    def expired_until(self, time_us: int) -> int:
        """See `Retained`: what has expired is gone."""
        return self.ring.head

    def sweep(self, now_us: int) -> None:
        """See `Retained`: without retention, drop what every reader has passed (RET-1).

        Of a new topic, nothing goes while readers may be on the way to it (PAT-3).
        """
        topic = self._topic
        if topic.settings.retention_ttl_ms == 0 and now_us >= topic.held_until_us:
            self.ring.expire_below(topic.needed())

    # -- what `describe` reports -----------------------------------------------------------------

    @property
    def expired(self) -> int:
        """See `Retained`."""
        return self.ring.expired

    @property
    def evicted(self) -> int:
        """See `Retained`."""
        return self.ring.evicted

    @property
    def moves(self) -> list[Move]:
        """See `Retained`."""
        return self.ring.moves

    def own_fields(self) -> dict[str, Any]:
        """See `Retained`."""
        return {}
