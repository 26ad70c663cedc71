"""Coalescing: single publishes that are made within one turn of the event loop travel as one batch.

Many tasks that each publish one message and wait for its result would otherwise cost a frame each way for every
message, and a frame costs many times as much as a message in a batch. Coalescing delays nothing: a lone call is sent
at once; others are sent when the connection's writer has its turn, as they would be anyway.

To each caller it looks as if its message had travelled alone: it gets its own offset. If a batch is refused (one of
its messages has too long a key, or the topic's ring is smaller than the batch), nothing of it was stored, and each
caller retries its own message, alone, to get its own answer.
"""

from bisect import bisect_left, insort
from collections.abc import Callable
from copy import copy
from functools import partial

from zaichik.client.connection import Connection
from zaichik.client.messages import PublishResult, check_size, publish_results
from zaichik.client.outcome import Lost, Outcome, expected
from zaichik.client.sequencer import Sequencers
from zaichik_protocol import Batch, Error, ErrorCode, Frame, Publish, Published


class PublishCalls:
    """The calls of `Client.publish` over one connection."""

    def __init__(self, connection: Connection, sequencers: Sequencers) -> None:
        self._connection = connection
        self._sequencers = sequencers
        self._open: dict[str, _Gathered] = {}  # by topic: batches that more messages may join

    async def publish(self, topic: str, key: bytes, payload: bytes) -> PublishResult:
        """Store one message and wait until it is readable (PUB-1).

        Raises:
            MessageTooLarge: more bytes than the broker accepts.
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        limits, size = self._connection.welcome, len(key) + len(payload)
        if size > limits.max_message:
            check_size(1, size, limits)
        gathered = self._open.get(topic)
        if gathered is not None and gathered.has_room(size, limits.max_batch, limits.max_message):
            index = gathered.add(key, payload)
        else:
            gathered = _Gathered(topic)
            index = gathered.add(key, payload)
            if self._connection.is_quiet:
                self._leave(gathered)
            else:
                self._connection.call_soon(partial(self._leave, gathered))
                self._open[topic] = gathered  # only now: if that call failed, what joined would never be sent
        outcome = await gathered.wait_as(index)
        if isinstance(outcome, Error) and gathered.count > 1 and _was_not_stored(outcome):
            gathered = _Gathered(topic)
            index = gathered.add(key, payload)
            self._leave(gathered)
            outcome = await gathered.wait_as(index)
        reply = expected(Published, Publish, outcome)
        return gathered.result(reply, index)

    def _leave(self, gathered: "_Gathered") -> None:
        if self._open.get(gathered.topic) is gathered:
            del self._open[gathered.topic]
        if not gathered.count:  # all were cancelled
            return
        try:
            gathered.withdraw = self._sequencers.post(gathered.topic, gathered.batch(), gathered.settle)
        except Exception as error:  # raised again by each of the callers
            gathered.settle(partial(copy, error))


def _was_not_stored(error: Error) -> bool:
    """Returns whether a retry is safe: with an unknown producer, the batch may have been stored (see `sequencer`)."""
    return not error.fatal and error.code != ErrorCode.PRODUCER_UNKNOWN


class _Gathered(Outcome):
    """Messages for one topic that travel as one batch, and its outcome.

    A call that is cancelled before the batch is sent takes its message back. Otherwise, while there is no connection,
    a program that gives up and retries would fill its memory, and all its attempts would be stored.

    Attributes:
        withdraw: called when all waiting calls have been cancelled; None until the batch is sent.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0
        self._taken_back: list[int] = []  # numbers of messages, in order
        self._gone = 0  # calls that were cancelled after it was sent
        self.withdraw: Callable[[], None] | None = None
        self._results: list[PublishResult] = []

    @property
    def count(self) -> int:
        """Messages in it."""
        return len(self._payloads) - len(self._taken_back)

    def has_room(self, size: int, max_messages: int, max_bytes: int) -> bool:
        """Returns whether a message of that size may join."""
        return len(self._payloads) < max_messages and self._bytes + size <= max_bytes

    def add(self, key: bytes, payload: bytes) -> int:
        """Add a message; returns its number."""
        self._keys.append(key)
        self._payloads.append(payload)
        self._bytes += len(key) + len(payload)
        return len(self._payloads) - 1

    def _take_back(self, number: int) -> None:
        self._bytes -= len(self._keys[number]) + len(self._payloads[number])
        self._keys[number] = self._payloads[number] = b""
        insort(self._taken_back, number)

    def batch(self) -> Batch:
        """Returns the messages as a batch; none may join any more."""
        if not self._taken_back:
            return Batch.of_columns(self._keys, self._payloads)
        left = sorted({*range(len(self._payloads))}.difference(self._taken_back))
        return Batch.of_columns([self._keys[number] for number in left], [self._payloads[number] for number in left])

    async def wait_as(self, number: int) -> Frame | Lost:
        """Returns the outcome, to the caller with that message."""
        try:
            await self._settled.wait()
        except BaseException:
            if self.withdraw is None:
                self._take_back(number)
            else:
                self._gone += 1
                if self._gone == self.count:
                    self.withdraw()
            raise
        return self._value

    def result(self, reply: Published, number: int) -> PublishResult:
        """Returns the result of that message. If some were compacted away, all are computed for the first caller."""
        index = number - bisect_left(self._taken_back, number)
        if not reply.compacted:
            return PublishResult(reply.first_offset + index, False, reply.subscribers, reply.durable)
        if not self._results:
            self._results = publish_results(reply, self.count)
        return self._results[index]
