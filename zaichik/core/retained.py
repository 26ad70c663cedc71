"""What a topic retains: one interface, however the messages are kept.

    InMemory   the ring is all there is: what it evicts is gone
    Durable    a log on a disk has everything; the ring is its end, in memory
    Table      the last message of each key, in rows

A topic checks a batch (its size, its compaction) and then hands it over; a reader asks where it can
read on. Neither asks which kind of topic it is. That is decided once, where a topic is made: see
`TopicRegistry`. Another kind of topic is one more class like these. Two of them have a ring, and
share what follows from that: see `Ringed`.

What is asked about a disk is answered here, for topics that have none.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from zaichik.core.decisions import Move
from zaichik.core.pending import Pending
from zaichik.core.search import Found
from zaichik.core.settings import BrokerSettings
from zaichik_protocol import FOREVER, Batch, Frame, Published, Refused

if TYPE_CHECKING:
    from zaichik.core.topic_controller import TopicController

Wake = Callable[[], None]
# When messages were accepted, the messages, and how far each is from the first, if any offsets
# between them are missing.
Piece = tuple[int, Batch, tuple[int, ...]]


class Retained(ABC):
    """What one topic retains.

    Args:
        topic: the topic.
        scope: see below.

    Attributes:
        scope: where producers' numbers count (PUB-4): the topic's name if they are stored with the
            topic, "" if they are the broker's.
        reserved: bytes of the budget that are reserved for it (RET-9).
        waiting_bytes: bytes of the batches that were accepted and are not stored yet.
        waiting_memory: the same with what they take besides (`prices`), which counts as the topic's
            memory.
        may_be_full: whether `check_room` may ever refuse a batch.
        most_messages, most_bytes: the largest batch that it ever has room for.
        has_holes: whether offsets of messages that can be read may have others between them that
            are missing, so that a client has to know tables (TAB-3).
        deleted_below: an offset above every tombstone that is gone (TAB-5); 0 if none is.
    """

    def __init__(self, topic: "TopicController", scope: str) -> None:
        self._topic = topic
        self.scope = scope
        self.reserved = 0
        self.waiting_bytes = 0
        self.waiting_memory = 0
        self.may_be_full = False
        self.most_messages = FOREVER
        self.most_bytes = FOREVER
        self.has_holes = False
        self.deleted_below = 0

    # -- writing ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def has_fixed_settings(self) -> bool:
        """Whether the settings can no longer be replaced: something is stored under them."""

    @abstractmethod
    def check_room(self, batch: Batch) -> None:
        """Refuse a batch that cannot be stored now. Called if `may_be_full`, before compaction.

        Raises:
            Refused: `TOPIC_FULL`, `NO_MEMORY`, `DAMAGED`.
        """

    @abstractmethod
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
        """Stores what compaction keeps of a batch. Returns the reply, or one to come, with id 0.

        Args:
            batch: the whole batch, which was checked.
            kept: the indices of the messages to store.
            dropped: the bitmap of the others; b"" if there are none.
            now_us: the clock's reading.
            request_id: the request's, for the reply.
            producer: the producer of a numbered batch; else 0.
            sequence: its number; else 0.
            tombstones: whether empty payloads are meant to delete their keys (TAB-6).

        Raises:
            Refused: `TABLE_FULL`, `INVALID_FIELD`, both of tables only; then nothing was stored.
        """

    @abstractmethod
    def limit_bytes(self, max_bytes: int) -> None:
        """Give it another limit in bytes, which holds from the next batch on."""

    @abstractmethod
    def append(self, batch: Batch, accepted_us: int) -> None:
        """Store a batch that can be read at once, and call those who wait for it."""

    def record_refusal(
        self, refusal: Refused, now_us: int, producer: int, sequence: int
    ) -> Pending | None:
        """Records that a numbered batch was refused for good, if that has to survive a restart.

        Returns the refusal as an answer to come; None if nothing has to be recorded.
        """
        return None

    def when_written(self, reply: Frame) -> Frame | Pending:
        """Returns that reply; if the topic has to be stored first, as one to come."""
        return reply

    def save_names(self, now_us: int) -> None:  # noqa: B027 (in memory there is nothing to save)
        """Write down shared names as they are now, if they are to survive the broker (SHR-9)."""

    # -- reading ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def head(self) -> int:
        """The oldest offset that can be read."""

    @property
    @abstractmethod
    def end(self) -> int:
        """The offset after the last message that can be read."""

    @property
    @abstractmethod
    def next(self) -> int:
        """The offset that the next message to be accepted will get, after all that still wait."""

    @property
    def damage(self) -> str:
        """Why it is unknown what comes after the end, for a person; "" if nothing is damaged."""
        return ""

    @abstractmethod
    def readable_from(self, offset: int) -> int:
        """Returns the first offset from that one on that can be read.

        It is neither gone, nor lost, nor a hole.
        """

    @abstractmethod
    def lost_until(self, offset: int) -> int:
        """Returns where lag ends that begins at that offset; the offset itself if none does.

        Called for an offset that cannot be read. From there on to the first that can, there are
        holes (TAB-2).
        """

    @abstractmethod
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
        """Returns messages from `offset` on that were accepted at one time.

        A whole batch is returned as its stored bytes, without a copy. None means that none fits
        `max_bytes`, or that they have to be read from the disk first, or have just expired there.

        Args:
            offset: one that can be read.
            before: they have offsets below this one, which is greater than `offset`.
            messages: how many, at most; at least 1.
            max_bytes: the most bytes of keys and payloads.
            wake: called when what had to be read from the disk is there.
            at_least: 1 to return a message even if it is larger than `max_bytes`, else 0.

        Raises:
            Refused: `DAMAGED`.
        """

    @abstractmethod
    def wait(self, waiter: object, wake: Wake) -> None:
        """Call `wake` once, when the next message is stored."""

    @abstractmethod
    def stop_waiting(self, waiter: object) -> None:
        """Remove a waiter, if it is waiting."""

    def is_reading(self, wake: Wake) -> bool:
        """Returns whether something is being read for that reader."""
        return False

    def release(self, wake: Wake) -> None:  # noqa: B027 (in memory there is nothing to drop)
        """Drop what was read for that reader."""

    @abstractmethod
    def earliest(self) -> int | Pending:
        """Returns where a subscription from `earliest` begins (RET-4)."""

    @abstractmethod
    def first_since(self, time_us: int) -> int | Pending:
        """Returns the offset of the first message accepted at that time or later (RET-4)."""

    # -- what goes -------------------------------------------------------------------------------

    @abstractmethod
    def expire(self, limit_us: int) -> bool:
        """Drop what was accepted at that time or before, as far as it is in memory (RET-5).

        Returns whether that was anything.
        """

    @abstractmethod
    def evict_oldest(self, cause: int) -> None:
        """Drop the oldest batch, for that cause: see `decisions`. Called if `batches` is not 0."""

    @abstractmethod
    def drop_all(self) -> None:
        """Drop all that is in memory: the topic is deleted."""

    @abstractmethod
    def expired_until(self, time_us: int) -> int:
        """Returns an offset below which all was accepted at that time or before.

        It is the greatest that is known without reading.
        """

    @abstractmethod
    def sweep(self, now_us: int) -> None:
        """Drop what is due. Called once a second, after `expire`."""

    def delete(self) -> Pending | None:
        """Remove all of it.

        Returns what is settled when it is gone from the disk; None if it was never there.
        """
        return None

    # -- what it takes ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def batches(self) -> int:
        """How many batches can be evicted for other topics, if none are reserved for this one."""

    @abstractmethod
    def held(self) -> tuple[int, int]:
        """Returns the bytes of the batches that are held as they came in, and what they take.

        What waits for the disk is only in the latter.
        """

    # -- what `describe` and `explain` report ----------------------------------------------------

    @property
    @abstractmethod
    def resident(self) -> int:
        """How many messages are there, in memory or on the disk, damaged ones included."""

    @property
    @abstractmethod
    def superseded(self) -> int:
        """How many messages were replaced by newer ones of their keys (TAB-2)."""

    @property
    @abstractmethod
    def head_in_memory(self) -> int:
        """The oldest offset that can be read without the disk."""

    @abstractmethod
    def accepted_us(self, offset: int) -> int | None:
        """Returns when the first message from that offset on was accepted.

        None if there is none, or only on the disk.
        """

    @abstractmethod
    def marks(self, most: int) -> list[tuple[int, int]]:
        """Returns offsets spread evenly over what is in memory, and when they were accepted.

        Args:
            most: how many, at most; if it is more than 1, the oldest and the newest are among them.
        """

    @abstractmethod
    def successor(self, offset: int) -> int:
        """Returns the offset of the message that has superseded that one; -1 if it is unknown."""

    @abstractmethod
    def nearest(self, key: bytes, at_us: int) -> Found:
        """Returns the messages of that key in memory that are nearest to a time."""

    @property
    @abstractmethod
    def expired(self) -> int:
        """How many messages have expired."""

    @property
    @abstractmethod
    def evicted(self) -> int:
        """How many messages were dropped to make room."""

    @property
    def damaged(self) -> int:
        """How many messages were damaged and given up by a repair, and are not gone otherwise."""
        return 0

    @property
    @abstractmethod
    def moves(self) -> list[Move]:
        """Where the cause of the head's moves changed: see `BroadcastRing`."""

    @property
    def waiting_batches(self) -> int:
        """How many batches were accepted and are not stored yet."""
        return 0

    @abstractmethod
    def own_fields(self) -> dict[str, Any]:
        """Returns what `describe` reports of this kind of topic besides what all topics have."""

    def name_ttl_s(self, limits: BrokerSettings) -> float:
        """Returns the seconds for which a name is kept without a reader (CMT-3, DUR-5)."""
        return limits.session_ttl
