"""Idempotent producers: a batch that is retried is not stored again (PUB-4).

It gets its first reply again. (Kafka's idempotent producer is the same idea.)

A client whose connection broke does not know whether its last batches were stored. A retry could
store them twice; no retry could lose them. So it gives each batch a sequence number, and the broker
remembers, for every producer, the next number and its replies to the last ones.

    answered, remembered          next
    ────┬─────────────────────────┬────────────▶ sequence
        │ again: the same reply   │  beyond: SEQUENCE_GAP

A permanent refusal is a reply like any other and uses up its number. After a retryable one, such as
`TOPIC_FULL`, the number is still the next: batches sent after it are a gap, none overtakes it, and
the client retries all of them later, unchanged. No batch ever changes its number. So a late copy
from an old connection does no harm while its producer is remembered; after that only number 0 can,
because it looks like a new producer.

In a durable topic a producer's numbers count in that topic alone: they are stored and recovered
with it, and if the disk has no room, they are taken back with it (DUR-3). A batch that was refused
for good meanwhile, because a right was withdrawn, keeps its number: its client sends it no more.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from sys import getsizeof

from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.core.pending import Pending
from zaichik.core.rights import User
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Publish, Published, Refused

REMEMBERED_ANSWERS = 64  # replies per producer, which is how many of its batches may be in flight


# Published's fields after the id, as a tuple: the garbage collector stops visiting tuples of
# integers and bytes, and there may be 64 for each of ten thousand producers.
Stored = tuple[int, int, int, int, bytes]
Answer = Stored | Refused | Pending


class _Producer:
    """One producer: its next sequence number and its last replies."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.next = 0
        self.answers: deque[Answer] = deque(maxlen=REMEMBERED_ANSWERS)
        # Refusals of batches after the next one, by their numbers: see `Producers._take_back`.
        self.later: dict[int, Refused] | None = None
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
        """Returns a numbered batch as one of a producer that is this user's alone (ACC-3).

        The second value is where its number counts. That scope reveals that a durable topic exists,
        which must stay hidden from users without the right to publish to it, unless they have
        published to it before.
        """
        both = f"{user.name} {request.producer}"
        digest = blake2b(both.encode(), digest_size=8).digest()
        # 0 would be a batch without a number.
        producer = int.from_bytes(digest) or 1
        key = scope, producer
        if key not in self._known and not user.may("publish", request.topic):
            scope = ""
        return replace(request, producer=producer), scope

    def answered(
        self, request: Publish, scope: str, now_us: int, client: str = "", *, durable: bool = False
    ) -> Published | Pending | None:
        """Returns the reply to a retry: that of the first time. None if the batch is the next one.

        Then it is to be published, and `remember` called with what became of it.

        Args:
            request: a numbered batch.
            scope: where its number counts: see `Retained.scope`.
            now_us: the clock's reading.
            client: the client that a new producer is charged to.
            durable: whether a remembered reply is marked as being on the disk (DUR-1).

        Raises:
            Refused: `SEQUENCE_GAP`, `PRODUCER_UNKNOWN`, `NO_MEMORY`, `INVALID_FIELD`, or what
                publishing the batch raised the first time.
        """
        sequence = request.sequence
        key = scope, request.producer
        known = self._of(key, sequence, client)
        known.used_us = now_us
        self._known.move_to_end(key)
        if sequence == known.next:
            return None
        if sequence > known.next:
            if known.later is not None and sequence in known.later:
                raise _again(known.later[sequence])
            problem = (
                f"batch {known.next} of this producer is missing, so batch {sequence} cannot be "
                f"stored yet. Send all batches from {known.next} on again, in order."
            )
            raise Refused(ErrorCode.SEQUENCE_GAP, problem, "sequence")
        answer = _answered(known, sequence)
        if isinstance(answer, Pending):
            return answer.followed_by(lambda reply: replace(reply, duplicate=True))
        return Published(request.id, *answer, durable=durable, duplicate=True)

    def remember(
        self, request: Publish, scope: str, outcome: Published | Pending | Refused
    ) -> None:
        """Remember what became of a producer's next batch.

        After a retryable refusal, its number is still the next.
        """
        key = scope, request.producer
        known = self._known[key]
        answer: Answer
        if isinstance(outcome, Published):
            # As `_settled` and `_size` do: a call for each batch costs.
            grown = len(outcome.dropped)
            answer = (
                outcome.first_offset,
                outcome.stored,
                outcome.compacted,
                outcome.subscribers,
                outcome.dropped,
            )
        elif isinstance(outcome, Pending):
            grown = 0  # until its size is known
            answer = outcome
        elif outcome.code.retryable:
            return
        else:
            answer = _again(outcome)
            grown = _size(answer)
        # The new reply evicts the oldest if there are `REMEMBERED_ANSWERS` already.
        if len(known.answers) == REMEMBERED_ANSWERS:
            grown -= _size(known.answers[0])
        known.next += 1
        known.answers.append(answer)
        if grown:
            known.memory += grown
            self._memory.take(known.client, grown)
        if known.later is not None:
            self._pass_later(known)
        if isinstance(outcome, Pending):
            outcome.then(partial(self._settle, key, known, request.sequence))

    def _pass_later(self, known: _Producer) -> None:
        """Pass the numbers that are used up already."""
        while known.later and known.next in known.later:
            if len(known.answers) == REMEMBERED_ANSWERS:
                grown = -_size(known.answers[0])
                known.memory += grown
                self._memory.take(known.client, grown)
            known.answers.append(known.later.pop(known.next))
            known.next += 1
        if not known.later:
            known.later = None

    def _settle(
        self, key: tuple[str, int], known: _Producer, sequence: int, answer: Published | Refused
    ) -> None:
        """Note the answer of a batch that waited for the disk.

        If there is no room, its number is the next again.
        """
        if isinstance(answer, Refused) and answer.code.retryable:
            self._take_back(known, sequence)
            return
        index = sequence - known.next + len(known.answers)
        if index < 0:
            # Later replies have evicted it.
            return
        reply = _settled(answer)
        known.answers[index] = reply
        size = _size(reply)
        known.memory += size
        # It may have been forgotten meanwhile.
        if self._known.get(key) is known:
            self._memory.take(known.client, size)

    def _take_back(self, known: _Producer, sequence: int) -> None:
        """Make that number the next again.

        What waits is taken back the newest first, so each batch after this one was refused for
        good, and at once. Its number stays used up.
        """
        for number in range(known.next - 1, sequence, -1):
            if not known.answers:
                break
            kept = known.answers.pop()
            if isinstance(kept, Refused):
                known.later = known.later or {}
                known.later[number] = kept
        if known.answers:
            known.answers.pop()
        known.next = sequence

    def restore(
        self, scope: str, producer: int, number: int, answers: Iterable[Answer], used_us: int
    ) -> None:
        """Restore a producer as the log of that topic has it.

        Call this in the order of `used_us`.
        """
        known = _Producer("")
        self._known[scope, producer] = known
        known.next = number
        known.used_us = used_us
        known.answers.extend(answers)
        for answer in known.answers:
            known.memory += _size(answer)
        self._quota.take("")
        self._memory.take("", known.memory)

    def forget_all_of(self, scope: str) -> None:
        """Forget the producers of a durable topic that is deleted."""
        # A list, because they are deleted meanwhile.
        for key in list(self._known):
            if key[0] == scope:
                known = self._known.pop(key)
                self._drop(known)

    def sweep(self, now_us: int) -> None:
        """Forget producers that have been silent for `producer_ttl`. Called once a second."""
        ttl_us = self._settings.producer_ttl * SECOND_US
        while self._known:
            oldest = next(iter(self._known.values()))
            if now_us - oldest.used_us < ttl_us:
                break
            self._known.popitem(last=False)
            self._drop(oldest)

    def _drop(self, known: _Producer) -> None:
        self._quota.take(known.client, -1)
        self._memory.take(known.client, -known.memory)

    def _of(self, key: tuple[str, int], sequence: int, client: str) -> _Producer:
        known = self._known.get(key)
        if known is not None:
            return known
        if sequence:
            problem = (
                "this broker does not know this producer, so it cannot tell whether batch "
                f"{sequence} was stored before. Check the topic, or publish the batch with a new "
                "producer if storing it twice would do no harm."
            )
            raise Refused(ErrorCode.PRODUCER_UNKNOWN, problem, "producer")
        if not self._quota.has_room(client):
            problem = (
                f"the broker remembers {counted(len(self._known), 'producer')}; its limit "
                f"(max_producers) is {self._quota.limit}, and no single client may take all that "
                "is left. A producer is forgotten when it has been silent for "
                f"{self._settings.producer_ttl:g} s. Try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "producer")
        if not self._memory.has_room(client, prices.PRODUCER):
            problem = (
                f"a new producer needs {prices.PRODUCER} bytes, and this client has used up its "
                f"share of the broker's memory (max_client_bytes is {self._memory.limit}). "
                "Unsubscribe from a topic, or try again later."
            )
            raise Refused(ErrorCode.NO_MEMORY, problem, "producer")
        self._quota.take(client)
        known = _Producer(client)
        self._known[key] = known
        self._memory.take(client, known.memory)
        return known


def _settled(answer: Published | Refused) -> Stored | Refused:
    if isinstance(answer, Refused):
        return _again(answer)
    return answer.first_offset, answer.stored, answer.compacted, answer.subscribers, answer.dropped


def _answered(known: _Producer, sequence: int) -> Stored | Pending:
    first = known.next - len(known.answers)
    if sequence < first:
        problem = (
            f"batch {sequence} of this producer was answered long ago; replies are remembered from "
            f"batch {first} on"
        )
        raise Refused(ErrorCode.INVALID_FIELD, problem, "sequence")
    answer = known.answers[sequence - first]
    if isinstance(answer, Refused):
        raise _again(answer)
    return answer


def _size(answer: Answer) -> int:
    """Returns the bytes of a reply's variable part.

    That is the bitmap of dropped messages, or the text of a refusal.
    """
    if isinstance(answer, Pending):
        return 0
    if isinstance(answer, Refused):
        return getsizeof(answer.message)
    return len(answer[-1])


def _again(refusal: Refused) -> Refused:
    """Returns a copy without the first traceback, which would keep the batch in memory."""
    return Refused(refusal.code, refusal.message, refusal.field)
