"""What is remembered of idempotent producers, so that no batch is stored twice.

Clients have five requests in flight and send all of them again after a lost connection. So the
last five batches of each producer and topic are remembered, with their answers: a repeat gets its
first answer. Any other batch must follow the last one.

A producer that starts over raises its epoch and numbers from 0 again. What an older epoch sends is
refused: it is the past.

    answer_of(batch) ─▶ an answer of before, or None: store it, then `store_done` or `store_failed`

This is lost with the gateway. A producer that it does not know may begin anywhere, so across a
crash of the gateway the guarantee is *at least once*.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import anyio

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.compression import BadBatch
from zaichik.apps.kafka.records import Produced

# Kafka's clients allow no more requests in flight for idempotent producers.
REMEMBERED = 5
SEQUENCES = 2**31  # after the last one comes 0
# Pairs of a producer and a topic. The one that was used least lately is forgotten first.
MAX_PRODUCERS = 10_000


@dataclass(frozen=True, slots=True)
class Remembered:
    """A batch that was stored.

    Attributes:
        sequence: its number.
        count: how many records it has.
        first_offset: where it begins.
        end: the offset after its last record that was stored; 0: it is not stored to its end.
        topic_epoch: of the topic that has it, or its first record; 0: nobody has asked.
    """

    sequence: int
    count: int
    first_offset: int
    end: int = 0
    topic_epoch: int = 0


@dataclass(slots=True)
class Producer:
    """One producer's batches in one topic.

    Attributes:
        epoch: the newest one that has come.
        batches: the last ones that were stored.
        next: the number of the batch that must come next. If the first one has failed, it is that
            one: those after it were sent already, and would take its place. None: any may come.
        begun: of a batch that was stored in part, before an error: its number, how many of its
            rows are stored, and the offset of the first.
        lock: held while a batch is checked and stored: the same batch may come over several
            connections at once.
    """

    epoch: int = -1
    batches: deque[Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    next: int | None = None
    begun: Remembered | None = None
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    def answer_of(self, batch: Produced) -> Remembered | None:
        """Returns what was answered if the batch is a repeat; None if it is to be stored.

        Raises:
            BadBatch: a batch before it is missing, or its epoch is over.
        """
        if batch.epoch < self.epoch:
            problem = f"producer {batch.producer} has epoch {self.epoch} by now"
            raise BadBatch(problem, Code.INVALID_PRODUCER_EPOCH)
        if batch.epoch > self.epoch:
            is_new = self.epoch < 0
            if not is_new and batch.sequence != 0:
                raise _out_of_order(batch, 0)
            return None
        for known in self.batches:
            if known.sequence == batch.sequence and known.count == len(batch.rows):
                return known
        if self.next is not None and batch.sequence != self.next:
            raise _out_of_order(batch, self.next)
        return None

    def stored_of(self, batch: Produced) -> Remembered | None:
        """Returns which rows of the batch are stored already, before an error."""
        begun = self.begun
        if begun is None or batch.epoch != self.epoch or begun.sequence != batch.sequence:
            return None
        return begun

    def store_begun(
        self, batch: Produced, count: int, first_offset: int, topic_epoch: int = 0
    ) -> None:
        """Note that so many of its rows are stored, the first one at that offset."""
        self._enter(batch.epoch)
        self.begun = Remembered(batch.sequence, count, first_offset, 0, topic_epoch)

    def store_done(self, batch: Produced, stored: Remembered) -> None:
        """Note that all of it is stored, and where: a repeat is answered with that."""
        self._enter(batch.epoch)
        self.begun = None
        self.next = (batch.sequence + len(batch.rows)) % SEQUENCES
        self.batches.append(stored)

    def store_failed(self, batch: Produced) -> None:
        """Note that it is not stored, or in part, so that it is the next one all the same."""
        self._enter(batch.epoch)
        self.next = batch.sequence

    def _enter(self, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next = None
            self.begun = None


def _out_of_order(batch: Produced, expected: int) -> BadBatch:
    problem = f"producer {batch.producer} sent batch {batch.sequence}, and {expected} is next"
    return BadBatch(problem, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)


class Producers:
    """All producers, each with its batches in each topic."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, str], Producer] = OrderedDict()

    def of(self, user: str, producer: int, topic: str) -> Producer:
        """Returns that user's producer of that id in that topic, which may be a new one."""
        key = (user, producer, topic)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Producer()
            self._forget_oldest()
        self._known.move_to_end(key)
        return found

    def forget_topic(self, topic: str) -> None:
        """Forget what was sent to a topic that is deleted."""
        for key in [key for key in self._known if key[2] == topic]:
            del self._known[key]

    def _forget_oldest(self) -> None:
        if len(self._known) <= MAX_PRODUCERS:
            return
        for key, producer in self._known.items():
            # One that is being stored would be forgotten, and its repeat stored again.
            if not producer.lock.statistics().locked:
                del self._known[key]
                return
