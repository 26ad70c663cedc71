"""Idempotent producers: a batch that is retried gets its first reply again, and is not stored again (PUB-4).

A client whose connection broke does not know whether its last batches were stored. A retry could store them twice; no
retry could lose them. So it gives each batch a sequence number, and the broker remembers, for every producer, the next
number and its replies to the last ones. (Kafka's idempotent producer is the same idea.)

    answered, remembered          next
    ────┬─────────────────────────┬────────────▶ sequence
        │ again: the same reply   │  beyond: SEQUENCE_GAP

A permanent refusal is a reply like any other and uses up its number. After a retryable one, such as `TOPIC_FULL`, the
number is still the next: batches sent after it are a gap, none overtakes it, and the client retries all of them later,
unchanged. No batch ever changes its number. So a late copy from an old connection does no harm while its producer is
remembered; after that only number 0 can, because it looks like a new producer.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from sys import getsizeof

from zaichik.broker.settings import BrokerSettings
from zaichik.sharing import prices
from zaichik.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Publish, Published, Refused

REMEMBERED = 64  # replies per producer, which is how many of its batches may be in flight


# Published's fields after the id, as a tuple: the garbage collector stops visiting tuples of integers and bytes, and
# there may be 64 for each of ten thousand producers.
Stored = tuple[int, int, int, int, bytes]
Answer = Stored | Refused


class _Producer:
    """One producer: its next sequence number and its last replies."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.next = 0
        self.answers: deque[Answer] = deque(maxlen=REMEMBERED)
        self.used_us = 0
        self.memory = prices.PRODUCER  # bytes


class Producers:
    """The producers that the broker remembers, by their ids, which clients choose at random.

    Args:
        settings: `max_producers` and `producer_ttl` are used.
        memory: the bytes that clients may make the broker hold.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota) -> None:
        self._settings = settings
        self._memory = memory
        self._quota = Quota(settings.max_producers)
        self._known: OrderedDict[int, _Producer] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        """Returns the number of producers remembered."""
        return len(self._known)

    def once(
        self, request: Publish, now_us: int, publish: Callable[[Publish, int], Published], client: str = ""
    ) -> Published:
        """Returns the reply of `publish`; for a retry, its reply to the batch of that number the first time.

        Raises:
            Refused: `SEQUENCE_GAP`, `PRODUCER_UNKNOWN`, `NO_MEMORY`, `INVALID_FIELD`, or what `publish` raises or
                raised.
        """
        sequence = request.sequence
        known = self._of(request.producer, sequence, client)
        known.used_us = now_us
        self._known.move_to_end(request.producer)
        if sequence > known.next:
            raise Refused(
                ErrorCode.SEQUENCE_GAP,
                f"batch {known.next} of this producer is missing, so batch {sequence} cannot be stored yet. "
                f"Send all batches from {known.next} on again, in order.",
                "sequence",
            )
        if sequence < known.next:
            return Published(request.id, *_answered(known, sequence), duplicate=True)
        try:
            answer = publish(request, now_us)
        except Refused as refusal:
            if not refusal.code.retryable:
                self._remember(known, _again(refusal))
            raise
        stored = (answer.first_offset, answer.stored, answer.compacted, answer.subscribers, answer.dropped)
        self._remember(known, stored)
        return answer

    def sweep(self, now_us: int) -> None:
        """Forget producers that have been silent for `producer_ttl`. Called once a second."""
        ttl_us = self._settings.producer_ttl * 1_000_000
        while self._known and now_us - next(iter(self._known.values())).used_us >= ttl_us:
            _, known = self._known.popitem(last=False)
            self._quota.take(known.client, -1)
            self._memory.take(known.client, -known.memory)

    def _remember(self, known: _Producer, answer: Answer) -> None:
        """Remember a reply; it evicts the oldest if there are `REMEMBERED` already."""
        grown = _size(answer) - (_size(known.answers[0]) if len(known.answers) == REMEMBERED else 0)
        known.next += 1
        known.answers.append(answer)
        if grown:
            known.memory += grown
            self._memory.take(known.client, grown)

    def _of(self, producer: int, sequence: int, client: str) -> _Producer:
        known = self._known.get(producer)
        if known is not None:
            return known
        if sequence:
            raise Refused(
                ErrorCode.PRODUCER_UNKNOWN,
                f"this broker does not know producer {producer:016x}, so it cannot tell whether batch {sequence} was "
                "stored before. Check the topic, or publish the batch with a new producer if storing it twice would "
                "do no harm.",
                "producer",
            )
        if not self._quota.has_room(client):
            problem = (
                f"the broker remembers {len(self._known)} producers; its limit (max_producers) is {self._quota.limit}, "
                "and no single client may take all that is left. A producer is forgotten when it has been silent for "
                f"{self._settings.producer_ttl:g} s. Try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "producer")
        if not self._memory.has_room(client, prices.PRODUCER):
            problem = (
                f"a new producer needs {prices.PRODUCER} bytes, and this client has used up its share of the broker's "
                f"memory (max_client_bytes is {self._memory.limit}). Unsubscribe from a topic, or try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "producer")
        self._quota.take(client)
        self._known[producer] = known = _Producer(client)
        self._memory.take(client, known.memory)
        return known


def _answered(known: _Producer, sequence: int) -> Stored:
    first = known.next - len(known.answers)
    if sequence < first:
        raise Refused(
            ErrorCode.INVALID_FIELD,
            f"batch {sequence} of this producer was answered long ago; replies are remembered from batch {first} on",
            "sequence",
        )
    answer = known.answers[sequence - first]
    if isinstance(answer, Refused):
        raise _again(answer)
    return answer


def _size(answer: Answer) -> int:
    """Returns the bytes of a reply's variable part: the bitmap of dropped messages, or the text of a refusal."""
    return getsizeof(answer.message) if isinstance(answer, Refused) else len(answer[-1])


def _again(refusal: Refused) -> Refused:
    """Returns a copy without the first traceback, which would keep the batch in memory."""
    return Refused(refusal.code, refusal.message, refusal.field)
