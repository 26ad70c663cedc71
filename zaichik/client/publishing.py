"""Publishing of one client: each batch goes to its topic's sequencer, and none is stored twice.

A lone message is a batch, sent by the call that makes it. With others in flight, it joins the batch
that is gathering for its topic (see `coalescing`). Batches are numbered by their topic's sequencer
(see `sequencer`), unless the program has numbered them itself.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice

import anyio
from anyio.abc import TaskGroup

from zaichik.client.coalescing import CoalescedBatch
from zaichik.client.connection import BrokerConnection
from zaichik.client.epochs import Epochs
from zaichik.client.messages import PublishResult, check_size, publish_results
from zaichik.client.outcome import Lost, OnReply, Outcome, expected
from zaichik.client.sequencer import Sequencer, retry_waits
from zaichik_protocol import TABLES, Batch, Deleted, Error, Frame, Publish, Published

# Seconds after which an unused producer id is given up; the broker forgets it after twice as long.
IDLE_SECONDS = 300.0


class Publishing:
    """All publishing of one client.

    Args:
        connection: the connection to the broker.
        tasks: the group for the tasks that wait before a retry, until `close`.
        epochs: of the topics.
        clock: seconds, to measure for how long a sequencer was unused.

    Attributes:
        connection: see above.
        is_numbered: whether new sequencers assume that the broker knows numbered batches.
        tasks: see above; None after `close`.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        tasks: TaskGroup,
        epochs: Epochs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self.is_numbered = True
        self.tasks: TaskGroup | None = tasks
        self._epochs = epochs
        self._clock = clock
        self._retries: list[tuple[float, Callable[[], None]]] = []
        self._retry_asked = anyio.Event()
        # By topic: batches that more messages may join.
        self._gathering: dict[str, CoalescedBatch] = {}
        # By topic, in the order of their last use.
        self._sequencers: OrderedDict[str, Sequencer] = OrderedDict()
        # By the request's id: batches that the program has numbered.
        self._foreign: dict[int, Outcome] = {}
        epochs.in_flight = self._in_flight
        connection.on_resend = self._resend
        connection.on_lost = self._lose
        tasks.start_soon(self._start_retries, tasks)

    # -- single messages -------------------------------------------------------------------------

    async def publish(
        self, topic: str, key: bytes, payload: bytes, *, is_tombstone: bool = False
    ) -> PublishResult:
        """Store one message and wait until it is readable (PUB-1).

        Args:
            topic: where to.
            key: b"" for none.
            payload: empty in a tombstone.
            is_tombstone: whether it is meant to delete its key.

        Raises:
            MessageTooLarge: more bytes than the broker accepts.
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
        """
        limits = self.connection.welcome
        size = len(key) + len(payload)
        if size > limits.max_message:
            check_size(1, size, limits)
        batch = self._gathering.get(topic)
        # A lone call: nothing would join its batch.
        if batch is None and self.connection.is_quiet:
            lone = Batch.of_columns((key,), (payload,))
            reply = await self.store(topic, lone, tombstones=is_tombstone)
            return publish_results(reply, 1)[0]
        tombstones: bool | None = None
        if key and not payload:
            tombstones = is_tombstone
        if batch is not None and batch.has_room(
            size, limits.max_batch, limits.max_message, tombstones=tombstones
        ):
            number = batch.add(key, payload, is_tombstone=is_tombstone)
        else:
            batch = CoalescedBatch(topic)
            number = batch.add(key, payload, is_tombstone=is_tombstone)
            self.connection.call_soon(partial(self._send_coalesced, batch))
            # Only now: if that call failed, what joined would never be sent.
            self._gathering[topic] = batch
        outcome = await batch.wait_as(number)
        if isinstance(outcome, Error) and batch.may_be_split:
            batch = CoalescedBatch(topic)
            number = batch.add(key, payload, is_tombstone=is_tombstone)
            self._send_coalesced(batch)
            outcome = await batch.wait_as(number)
        reply = expected(Published, Publish, outcome)
        return batch.result(reply, number)

    def _send_coalesced(self, batch: CoalescedBatch) -> None:
        if self._gathering.get(batch.topic) is batch:
            del self._gathering[batch.topic]
        # All calls may have been cancelled meanwhile.
        if not batch.count:
            return
        try:
            batch.withdraw = self.post(
                batch.topic, batch.batch(), batch.settle, tombstones=bool(batch.tombstones)
            )
        except Exception as error:
            # Each of the callers raises it, and each a copy of its own.
            batch.settle(partial(copy, error))

    # -- batches ---------------------------------------------------------------------------------

    async def store(self, topic: str, batch: Batch, *, tombstones: bool = False) -> Published:
        """Store a batch and wait until it is readable.

        Args:
            topic: where to.
            batch: the messages.
            tombstones: whether its empty payloads with a key are tombstones.

        Raises:
            BrokerError: the broker refused it.
            ConnectionLost: there was no reply.
            EpochChanged: see `post`.
        """
        outcome = Outcome()
        withdraw = self.post(topic, batch, outcome.settle, tombstones=tombstones)
        try:
            answer = await outcome.wait()
        except BaseException:
            # A batch that was sent keeps its number until it is answered.
            withdraw()
            raise
        return expected(Published, Publish, answer)

    def post(
        self, topic: str, batch: Batch, on_reply: OnReply, *, tombstones: bool = False
    ) -> Callable[[], None]:
        """Send a batch as soon as its sequencer has room.

        Args:
            topic: where to.
            batch: the messages.
            on_reply: called once, with the outcome; must not fail.
            tombstones: whether its empty payloads with a key are tombstones.

        Returns:
            A function that withdraws the batch: if it was not sent yet, it never will be.

        Raises:
            ConnectionLost: it was not sent.
            EpochChanged: it was not sent, because the topic is another one.
        """
        if topic not in self._epochs.settled:
            self._epochs.check(topic)
        now = self._clock()
        sequencer = self._sequencers.get(topic)
        if sequencer is None or (now - sequencer.used > IDLE_SECONDS and sequencer.is_empty):
            self._drop_idle(now)
            sequencer = Sequencer(self, topic)
            self._sequencers[topic] = sequencer
        sequencer.used = now
        self._sequencers.move_to_end(topic)
        return sequencer.post(batch, on_reply, tombstones=tombstones)

    def _drop_idle(self, now: float) -> None:
        """Drop up to two idle sequencers, for the one that is added.

        So the table shrinks in time.
        """
        oldest = list(islice(self._sequencers.items(), 2))
        for topic, sequencer in oldest:
            if now - sequencer.used > IDLE_SECONDS and sequencer.is_empty:
                del self._sequencers[topic]

    async def send_numbered(
        self, topic: str, batch: Batch, producer: int, number: int, *, tombstones: bool = False
    ) -> Published:
        """Send a batch that its program has numbered, and retry while it is refused temporarily.

        Its number is never changed, whatever becomes of the topic: it may have been used before
        this client began.

        Args:
            topic: where to.
            batch: the messages.
            producer: the program's number for itself.
            number: the batch's.
            tombstones: whether its empty payloads with a key are tombstones.

        Raises:
            BrokerError, ConnectionLost: it was refused, or there was no reply.
        """
        waits: Iterator[float] | None = None
        while True:
            self._epochs.check(topic)
            request_id = self.connection.next_id()
            request = Publish(
                request_id,
                topic,
                batch,
                producer=producer,
                sequence=number,
                tombstones=tombstones and self.knows_tables,
            )
            outcome = Outcome()
            self.connection.post(request, partial(self._settle_foreign, request_id))
            self._foreign[request_id] = outcome
            reply = await outcome.wait()
            is_temporary = isinstance(reply, Error) and reply.retryable and not reply.fatal
            if not isinstance(reply, Error) or not is_temporary or self.tasks is None:
                return expected(Published, Publish, reply)
            if waits is None:
                waits = retry_waits(reply.retry_after_ms / 1000)
            await anyio.sleep(next(waits))

    @property
    def knows_tables(self) -> bool:
        """Whether a Publish may have the flag TOMBSTONES.

        A broker that doesn't know the flag has no table in which it would mean something.
        """
        return bool(self.connection.welcome.features & TABLES)

    def _settle_foreign(self, request_id: int, outcome: Frame | Lost) -> None:
        foreign = self._foreign.pop(request_id, None)
        if foreign is not None:
            foreign.settle(outcome)

    # -- deleted topics --------------------------------------------------------------------------

    def deleted(self, topic: str, outcome: Frame | Lost) -> None:
        """Note the outcome of the program's Delete."""
        if isinstance(outcome, Deleted):
            self.forget(topic)
        elif isinstance(outcome, Error):
            self._epochs.not_deleted(topic)

    def forget(self, topic: str) -> None:
        """Forget a topic that the program has deleted."""
        self._epochs.forget(topic)
        sequencer = self._sequencers.get(topic)
        if sequencer is not None:
            sequencer.forget_offsets()

    # -- retries ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop retrying: from now on a temporary refusal is an outcome like any other."""
        self.tasks = None

    def retry_later(self, seconds: float, retry: Callable[[], None]) -> None:
        """Call `retry` after that time."""
        self._retries.append((seconds, retry))
        self._retry_asked.set()

    async def _start_retries(self, tasks: TaskGroup) -> None:
        """Start a task for each retry.

        Its refusal came in a callback of the event loop, where anyio may start none.
        """
        while True:
            await self._retry_asked.wait()
            self._retry_asked = anyio.Event()
            retries = self._retries
            self._retries = []
            for seconds, retry in retries:
                tasks.start_soon(_call_later, seconds, retry)

    # -- after a lost socket ---------------------------------------------------------------------

    def gone_back(self, topic: str) -> Error | None:
        """Note that the topic has gone back to an earlier state.

        Returns why nothing can be published to it any more; None in most cases.
        """
        self._epochs.gone_back(topic)
        return self._epochs.failure(topic)

    def _in_flight(self) -> set[str]:
        """Returns the topics with batches that have no reply."""
        found: set[str] = set()
        for topic, sequencer in self._sequencers.items():
            if not sequencer.is_empty:
                found.add(topic)
        return found

    def _resend(
        self,
        requests: list[Frame],
        is_new: bool,  # noqa: FBT001 (see BrokerConnection)
    ) -> list[Frame | None]:
        """Returns what to send instead of each request (see `BrokerConnection.on_resend`)."""
        for topic, sequencer in self._sequencers.items():
            error = self._epochs.failure(topic)
            if error is not None:
                sequencer.end(error)
            else:
                sequencer.resume(
                    is_new=is_new,
                    is_same=self._epochs.is_same(topic),
                    is_restored=self._epochs.is_restored(topic, sequencer.end_of_stored),
                )
        self._epochs.accept()
        if is_new:
            self.is_numbered = True
        current: list[Frame | None] = []
        for request in requests:
            if isinstance(request, Publish):
                current.append(self._current(request))
            else:
                current.append(request)
        return current

    def _current(self, request: Publish) -> Publish | None:
        if request.id not in self._foreign:
            return self._sequencers[request.topic].current(request)
        error = self._epochs.failure(request.topic)
        if error is None:
            return self.as_granted(request)
        self._settle_foreign(request.id, error)
        return None

    def as_granted(self, request: Publish) -> Publish:
        """Returns the request without TOMBSTONES if the broker is one without tables by now."""
        if request.tombstones and not self.knows_tables:
            return replace(request, tombstones=False)
        return request

    def _lose(self, lost: Lost) -> None:
        for sequencer in self._sequencers.values():
            sequencer.end(lost)


async def _call_later(seconds: float, call: Callable[[], None]) -> None:
    await anyio.sleep(seconds)
    call()
