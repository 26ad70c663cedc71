"""Coalescing: single publishes that are made within one turn of the event loop travel as one batch.

Many tasks that each publish one message and wait for its result would otherwise cost a frame each
way for every message, and a frame costs many times as much as a message in a batch. Coalescing
delays nothing: a lone call is sent at once; others are sent when the connection's writer has its
turn, as they would be anyway (see `publishing`).

To each caller it looks as if its message had travelled alone: it gets its own offset. If a batch is
refused (one of its messages has too long a key, or the topic's ring is smaller than the batch),
nothing of it was stored, and each caller retries its own message, alone, to get its own answer.
Tombstones don't travel with empty payloads that are not meant as such: one flag holds for a batch.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from zaichik.client.messages import PublishResult, publish_results
from zaichik.client.outcome import Lost, Outcome
from zaichik_protocol import Batch, Error, ErrorCode, Frame, Published


class CoalescedBatch(Outcome):
    """Messages for one topic that travel as one batch, and its outcome.

    A call that is cancelled before the batch is sent takes its message back. Otherwise, while there
    is no connection, a program that gives up and retries would fill its memory, and all its
    attempts would be stored.

    Attributes:
        topic: the topic they are for.
        tombstones: whether its empty payloads with a key are tombstones; None if it has none.
        withdraw: called when all waiting calls have been cancelled; None until the batch is sent.
    """

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.tombstones: bool | None = None
        self.withdraw: Callable[[], None] | None = None
        self._keys: list[bytes] = []
        self._payloads: list[bytes] = []
        self._bytes = 0
        # The numbers of messages whose calls were cancelled before the batch was sent, in order.
        self._taken_back: list[int] = []
        # How many calls were cancelled after that.
        self._abandoned = 0
        self._results: list[PublishResult] = []

    @property
    def count(self) -> int:
        """Messages in it."""
        return len(self._payloads) - len(self._taken_back)

    def has_room(
        self, size: int, max_messages: int, max_bytes: int, *, tombstones: bool | None
    ) -> bool:
        """Returns whether a message of that size may join.

        It needs the batch's flag to be `tombstones`; None: either will do.
        """
        if tombstones is not None and self.tombstones not in {None, tombstones}:
            return False
        return len(self._payloads) < max_messages and self._bytes + size <= max_bytes

    def add(self, key: bytes, payload: bytes, *, is_tombstone: bool = False) -> int:
        """Add a message; returns its number."""
        if key and not payload:
            self.tombstones = is_tombstone
        self._keys.append(key)
        self._payloads.append(payload)
        self._bytes += len(key) + len(payload)
        return len(self._payloads) - 1

    def batch(self) -> Batch:
        """Returns the messages as a batch; none may join any more."""
        if not self._taken_back:
            return Batch.of_columns(self._keys, self._payloads)
        # The messages taken back keep their places, so that the others keep their numbers.
        keys: list[bytes] = []
        payloads: list[bytes] = []
        taken_back = set(self._taken_back)
        for number, payload in enumerate(self._payloads):
            if number not in taken_back:
                keys.append(self._keys[number])
                payloads.append(payload)
        return Batch.of_columns(keys, payloads)

    async def wait_as(self, number: int) -> Frame | Lost:
        """Returns the outcome, to the caller with that message."""
        try:
            await self._settled.wait()
        except BaseException:
            self._cancel(number)
            raise
        return self._value

    def _cancel(self, number: int) -> None:
        """Handle the cancellation of one call: take its message back if that is still possible."""
        if self.withdraw is None:
            self._bytes -= len(self._keys[number]) + len(self._payloads[number])
            self._keys[number] = b""
            self._payloads[number] = b""
            insort(self._taken_back, number)
            return
        self._abandoned += 1
        if self._abandoned == self.count:
            self.withdraw()

    @property
    def may_be_split(self) -> bool:
        """Whether each message may be retried by itself.

        The batch was refused, and nothing of it stored. If the broker does not know the producer,
        the batch may have been stored (see `sequencer`).
        """
        outcome = self._value
        if self.count == 1 or not isinstance(outcome, Error):
            return False
        return not outcome.fatal and outcome.code != ErrorCode.PRODUCER_UNKNOWN

    def result(self, reply: Published, number: int) -> PublishResult:
        """Returns the result of that message.

        If some were compacted away, all are computed for the first caller.
        """
        index = number - bisect_left(self._taken_back, number)
        if not reply.compacted:
            offset = reply.first_offset + index
            return PublishResult(offset, False, reply.subscribers, reply.durable)
        if not self._results:
            self._results = publish_results(reply, self.count)
        return self._results[index]
