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

In a durable topic a producer's numbers count in that topic alone: they are stored and recovered with it, and if the
disk has no room, they are taken back with it (DUR-3).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from sys import getsizeof

from zaichik.broker.pending import Pending
from zaichik.broker.rights import User
from zaichik.broker.settings import BrokerSettings
from zaichik.sharing import prices
from zaichik.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Publish, Published, Refused

REMEMBERED = 64  # replies per producer, which is how many of its batches may be in flight


# Published's fields after the id, as a tuple: the garbage collector stops visiting tuples of integers and bytes, and
# there may be 64 for each of ten thousand producers.
Stored = tuple[int, int, int, int, bytes]
Answer = Stored | Refused | Pending


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
        # By the durable topic, or "", and the id; least recently used first.
        self._known: OrderedDict[tuple[str, int], _Producer] = OrderedDict()

    def __len__(self) -> int:
        """Returns the number of producers remembered."""
        return len(self._known)

    def owned(self, user: User, request: Publish, scope: str) -> tuple[Publish, str]:
        """Returns a numbered batch as one of a producer that is this user's alone, and where its number counts (ACC-3).

        The scope reveals that a durable topic exists, which must stay hidden from users without the right to publish
        to it, unless they have published to it before.
        """
        digest = blake2b(f"{user.name} {request.producer}".encode(), digest_size=8).digest()
        producer = int.from_bytes(digest) or 1
        may_know = (scope, producer) in self._known or user.may("publish", request.topic)
        return replace(request, producer=producer), scope if may_know else ""

    def once(
        self,
        request: Publish,
        now_us: int,
        publish: Callable[[Publish, int], Published | Pending],
        client: str = "",
        scope: str = "",
        *,
        durable: bool = False,
    ) -> Published | Pending:
        """Returns the reply of `publish`; for a retry, its reply to the batch of that number the first time.

        Args:
            request: a numbered batch.
            now_us: the clock's reading.
            publish: publishes it.
            client: the client that a new producer is charged to.
            scope: the name of the topic, if that is durable.
            durable: whether a remembered reply is marked as being on the disk (DUR-1).

        Raises:
            Refused: `SEQUENCE_GAP`, `PRODUCER_UNKNOWN`, `NO_MEMORY`, `INVALID_FIELD`, or what `publish` raises or
                raised.
        """
        sequence = request.sequence
        key = scope, request.producer
        known = self._of(key, sequence, client)
        known.used_us = now_us
        self._known.move_to_end(key)
        if sequence > known.next:
            raise Refused(
                ErrorCode.SEQUENCE_GAP,
                f"batch {known.next} of this producer is missing, so batch {sequence} cannot be stored yet. "
                f"Send all batches from {known.next} on again, in order.",
                "sequence",
            )
        if sequence < known.next:
            answered = _answered(known, sequence)
            if isinstance(answered, Pending):
                return answered.followed_by(lambda answer: replace(answer, duplicate=True))
            return Published(request.id, *answered, durable=durable, duplicate=True)
        try:
            answer = publish(request, now_us)
        except Refused as refusal:
            if not refusal.code.retryable:
                self._remember(known, _again(refusal))
            raise
        if isinstance(answer, Pending):
            self._remember(known, answer)
            answer.then(partial(self._settle, key, known, sequence))
            return answer
        stored = answer.first_offset, answer.stored, answer.compacted, answer.subscribers, answer.dropped
        self._remember(known, stored)  # spelled out: a call for each batch costs
        return answer

    def _settle(self, key: tuple[str, int], known: _Producer, sequence: int, answer: Published | Refused) -> None:
        """Note the answer of a batch that waited for the disk. If there is no room, its number is the next again."""
        if isinstance(answer, Refused) and answer.code.retryable:
            known.next = sequence
            if known.answers:
                known.answers.pop()
        elif (index := sequence - known.next + len(known.answers)) >= 0:
            known.answers[index] = told = _again(answer) if isinstance(answer, Refused) else _stored(answer)
            known.memory += _size(told)
            if self._known.get(key) is known:
                self._memory.take(known.client, _size(told))

    def restore(self, scope: str, producer: int, number: int, answers: Iterable[Answer], used_us: int) -> None:
        """Restore a producer as the log of that topic has it. Call this in the order of `used_us`."""
        known = self._known[scope, producer] = _Producer("")
        known.next, known.used_us = number, used_us
        known.answers.extend(answers)
        self._quota.take("")
        known.memory += sum(map(_size, known.answers))
        self._memory.take("", known.memory)

    def forget_all_of(self, scope: str) -> None:
        """Forget the producers of a durable topic that is deleted."""
        for key in [key for key in self._known if key[0] == scope]:
            self._drop(self._known.pop(key))

    def sweep(self, now_us: int) -> None:
        """Forget producers that have been silent for `producer_ttl`. Called once a second."""
        ttl_us = self._settings.producer_ttl * 1_000_000
        while self._known and now_us - next(iter(self._known.values())).used_us >= ttl_us:
            _, known = self._known.popitem(last=False)
            self._drop(known)

    def _drop(self, known: _Producer) -> None:
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

    def _of(self, key: tuple[str, int], sequence: int, client: str) -> _Producer:
        known = self._known.get(key)
        if known is not None:
            return known
        if sequence:
            raise Refused(
                ErrorCode.PRODUCER_UNKNOWN,
                f"this broker does not know this producer, so it cannot tell whether batch {sequence} was stored "
                "before. Check the topic, or publish the batch with a new producer if storing it twice would "
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
        self._known[key] = known = _Producer(client)
        self._memory.take(client, known.memory)
        return known


def _stored(answer: Published) -> Stored:
    return answer.first_offset, answer.stored, answer.compacted, answer.subscribers, answer.dropped


def _answered(known: _Producer, sequence: int) -> Stored | Pending:
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
    if isinstance(answer, Pending):
        return 0
    return getsizeof(answer.message) if isinstance(answer, Refused) else len(answer[-1])


def _again(refusal: Refused) -> Refused:
    """Returns a copy without the first traceback, which would keep the batch in memory."""
    return Refused(refusal.code, refusal.message, refusal.field)
