"""Numbered producers: a batch that is sent again is answered again, and not stored again (PUB-4).

A client whose connection broke does not know whether its last batches were stored. Sending them again could store them
twice, not sending them could lose them. So it counts its batches and gives each its number, and the broker remembers
for every producer which number comes next and what it answered to the last ones. (Kafka calls this an idempotent
producer.)

    answered, remembered          next
    ────┬─────────────────────────┬────────────▶ sequence
        │ again: the same answer  │  beyond: SEQUENCE_GAP

A refusal that would be the same another time is an answer like any other and uses its number up. After one that may
pass, such as `TOPIC_FULL`, the number stays the next: what was sent behind it is a gap, nothing overtakes, and the
client sends all of them again, later, as they are. No batch ever changes its number, so a copy that was on its way
through an old connection does no harm while its producer is remembered; and after that only number 0 does, which looks
like a new beginning.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from sys import getsizeof

from zaichik.broker.settings import BrokerSettings
from zaichik.sharing import prices
from zaichik.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Publish, Published, Refused

REMEMBERED = 64  # answers of a producer: as many batches may be on their way


class _Producer:
    """What is known of one."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.next = 0
        self.answers: deque[Published | Refused] = deque(maxlen=REMEMBERED)
        self.used_us = 0
        self.memory = prices.PRODUCER  # bytes


class Producers:
    """All producers the broker remembers, by their number, which the clients choose at random.

    Args:
        settings: `max_producers` and `producer_ttl` are used.
        memory: what clients may make the broker keep.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota) -> None:
        self._settings = settings
        self._memory = memory
        self._quota = Quota(settings.max_producers)
        self._known: OrderedDict[int, _Producer] = OrderedDict()  # in the order of their last use

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)

    def once(
        self, request: Publish, now_us: int, publish: Callable[[Publish, int], Published], client: str = ""
    ) -> Published:
        """What `publish` answers, or has answered when the batch of that number came first.

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
                f"batch {known.next} of this producer is missing; {sequence} can be stored after it. "
                f"Send all from {known.next} on again, in order.",
                "sequence",
            )
        if sequence < known.next:
            return replace(_answered(known, sequence), id=request.id, duplicate=True)
        try:
            answer = publish(request, now_us)
        except Refused as refusal:
            if not refusal.code.retryable:
                self._remember(known, _again(refusal))
            raise
        self._remember(known, answer)
        return answer

    def sweep(self, now_us: int) -> None:
        """Forget who has been silent for too long. Called once a second."""
        ttl_us = self._settings.producer_ttl * 1_000_000
        while self._known and now_us - next(iter(self._known.values())).used_us >= ttl_us:
            _, known = self._known.popitem(last=False)
            self._quota.take(known.client, -1)
            self._memory.take(known.client, -known.memory)

    def _remember(self, known: _Producer, answer: Published | Refused) -> None:
        """Keep an answer; the oldest goes for it."""
        grown = _size(answer) - (_size(known.answers[0]) if len(known.answers) == REMEMBERED else 0)
        known.next += 1
        known.answers.append(answer)
        known.memory += grown
        self._memory.take(known.client, grown)

    def _of(self, producer: int, sequence: int, client: str) -> _Producer:
        known = self._known.get(producer)
        if known is not None:
            return known
        if sequence:
            raise Refused(
                ErrorCode.PRODUCER_UNKNOWN,
                f"this broker knows no producer {producer:016x}, so it cannot tell whether batch {sequence} was stored "
                "before. Look into the topic, or publish it with a new producer if twice does no harm.",
                "producer",
            )
        if not self._quota.has_room(client) or not self._memory.has_room(client, prices.PRODUCER):
            raise Refused(
                ErrorCode.NO_MEMORY,
                f"the broker remembers {len(self._known)} producers, each until it has been silent for "
                f"{self._settings.producer_ttl:g} s; its limit (max_producers) is {self._quota.limit}, of which no "
                "client may use up the rest. Try again later.",
                "producer",
            )
        self._quota.take(client)
        self._known[producer] = known = _Producer(client)
        self._memory.take(client, known.memory)
        return known


def _answered(known: _Producer, sequence: int) -> Published:
    first = known.next - len(known.answers)
    if sequence < first:
        raise Refused(
            ErrorCode.INVALID_FIELD,
            f"batch {sequence} of this producer was answered long ago; only the answers since {first} are kept",
            "sequence",
        )
    answer = known.answers[sequence - first]
    if isinstance(answer, Refused):
        raise _again(answer)
    return answer


def _size(answer: Published | Refused) -> int:
    """Returns the bytes of an answer that may be large: which messages were dropped, or a text with a topic's name."""
    return len(answer.dropped) if isinstance(answer, Published) else getsizeof(answer.message)


def _again(refusal: Refused) -> Refused:
    """The same without the traceback of the first time, which would hold the batch in memory."""
    return Refused(refusal.code, refusal.message, refusal.field)
