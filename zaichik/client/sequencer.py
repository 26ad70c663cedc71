"""Numbered publishing: a batch that is sent again is never stored twice, and none overtakes another.

    answered          in flight, 32 at most           not sent
    ────────────────┬──────────────────────────────┬───────────────────▶ batches of one topic
     … 4   5   6    │  7   8   9   10   11   …     │ no number yet

Each topic has a *sequencer*: a producer id, drawn at random, and a counter. The broker remembers the results of a
producer's last 64 batches, so a batch that is sent again under its number, after a lost connection, is stored once and
answered again. A number belongs to its batch until the reply has come, even if the task that published it was
cancelled. It is never given to another batch: what an old connection still carries may arrive later than what the new
one does.

If the broker was restarted, the topic's epoch decides (see `epochs`), for a durable topic keeps its epoch and its
producers. After a restart it is

* the same: batches keep their numbers, as after any lost connection.
* another one, or gone: nothing that was sent is stored in it. Batches are renumbered from 0, under a new id.
* unknown, because no answer has told: batches keep their numbers. If the broker then refuses the producer as unknown,
  nothing was stored, and batches are renumbered once all of them have come back.

A broker refuses a batch permanently, which uses up its number, or temporarily: `TOPIC_FULL`, `NO_MEMORY`. After a
temporary refusal the batches after it are refused as well, as a gap, and all of them come back to the sequencer. It
retries with one batch, and with one more after each success; the wait between retries grows exponentially, up to a
second. This is back-pressure: publishers of a topic that must not lose anything are as fast as its slowest reader.

A broker without numbered producers refuses them. It is sent batches without numbers, which are lost with their
connection.
"""

import logging
import math
import secrets
import time
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import anyio
from anyio.abc import TaskGroup

from zaichik.client.backoff import backoff
from zaichik.client.connection import Connection
from zaichik.client.epochs import Epochs
from zaichik.client.errors import BrokerError
from zaichik.client.outcome import Lost, OnOutcome, Outcome, expected
from zaichik_protocol import Batch, Error, ErrorCode, Frame, Publish, Published

logger = logging.getLogger(__name__)

WINDOW = 32  # batches of a sequencer in flight: half as many as the broker remembers, and more than enough
IDLE_SECONDS = 300.0  # after which an unused id is given up; the broker forgets it after twice as long
FIRST_WAIT = 0.01  # seconds until a refused batch is tried again, at most, if the broker does not say
LONGEST_WAIT = 1.0  # where the doubling ends: a topic that stays full costs no more than a batch a second

_Sent = tuple[Publish, OnOutcome]
_Unsent = tuple[Batch, OnOutcome]


class Sequencers:
    """All publishing of one client.

    Args:
        connection: the connection to the broker.
        tasks: the group for the tasks that wait before a retry, until `close`.
        epochs: of the topics.
        clock: seconds, to measure for how long a sequencer was unused.

    Attributes:
        is_numbered: whether new sequencers assume that the broker knows numbered batches.
        tasks: see above; None after `close`.
    """

    def __init__(
        self, connection: Connection, tasks: TaskGroup, epochs: Epochs, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.connection = connection
        self._epochs = epochs
        self.is_numbered = True
        self.tasks: TaskGroup | None = tasks
        self._retries: list[tuple[float, Callable[[], None]]] = []
        self._retry_asked = anyio.Event()
        tasks.start_soon(self._start_retries, tasks)
        self._clock = clock
        self._sequencers: OrderedDict[str, Sequencer] = OrderedDict()  # by topic, in the order of their last use
        self._foreign: dict[int, Outcome] = {}  # by the request's id: batches that the program has numbered
        connection.on_resend = self._begin_again
        connection.on_lost = self._lose

    def post(self, topic: str, batch: Batch, on_outcome: OnOutcome) -> Callable[[], None]:
        """Send a batch as soon as its sequencer has room; `on_outcome`, which must not fail, is called once.

        Returns:
            A function that withdraws the batch: if it was not sent yet, it never will be.

        Raises:
            ConnectionLost: it was not sent.
            EpochChanged: it was not sent, because the topic is another one.
        """
        if error := self._epochs.failure(topic):
            raise BrokerError.of(error)
        self._epochs.publishes(topic)
        now = self._clock()
        sequencer = self._sequencers.get(topic)
        if sequencer is None or (now - sequencer.used > IDLE_SECONDS and sequencer.is_empty):
            for name, old in list(islice(self._sequencers.items(), 2)):  # two leave for each that comes
                if now - old.used > IDLE_SECONDS and old.is_empty:
                    del self._sequencers[name]
            sequencer = self._sequencers[topic] = Sequencer(self, topic)
        sequencer.used = now
        self._sequencers.move_to_end(topic)
        return sequencer.post(batch, on_outcome)

    async def send_numbered(self, topic: str, batch: Batch, producer: int, number: int) -> Published:
        """Send a batch that its program has numbered, again and again while it is refused temporarily.

        Its number is never changed, whatever becomes of the topic: it may have been used before this client began.

        Raises:
            BrokerError, ConnectionLost: it was refused, or there was no reply.
        """
        waits: Iterator[float] | None = None
        while True:
            if error := self._epochs.failure(topic):
                raise BrokerError.of(error)
            self._epochs.publishes(topic)
            request = Publish(self.connection.next_id(), topic, batch, producer=producer, sequence=number)
            outcome = Outcome()
            self.connection.post(request, partial(self._settle_foreign, request.id))
            self._foreign[request.id] = outcome
            reply = await outcome.wait()
            if not isinstance(reply, Error) or not reply.retryable or reply.fatal or self.tasks is None:
                return expected(Published, Publish, reply)
            waits = waits or _waits(reply.retry_after_ms / 1000)
            await anyio.sleep(next(waits))

    def _settle_foreign(self, number: int, outcome: Frame | Lost) -> None:
        if foreign := self._foreign.pop(number, None):
            foreign.settle(outcome)

    def close(self) -> None:
        """Stop retrying: from now on a temporary refusal is an outcome like any other."""
        self.tasks = None

    def retry_later(self, seconds: float, retry: Callable[[], None]) -> None:
        """Call `retry` after that time."""
        self._retries.append((seconds, retry))
        self._retry_asked.set()

    async def _start_retries(self, tasks: TaskGroup) -> None:
        """Start a task for each retry. Its refusal came in a callback of the event loop, where anyio may start none."""
        while True:
            await self._retry_asked.wait()
            self._retry_asked = anyio.Event()
            retries, self._retries = self._retries, []
            for seconds, retry in retries:
                tasks.start_soon(_call_later, seconds, retry)

    def _begin_again(self, requests: list[Frame], is_new: bool) -> list[Frame | None]:  # noqa: FBT001 (see Connection)
        """Returns what to send over a new socket instead of each waiting request (see `Connection.on_resend`)."""
        for topic, sequencer in self._sequencers.items():
            if error := self._epochs.failure(topic):
                sequencer.end(error)
            else:
                sequencer.begin_again(is_new=is_new, is_same=self._epochs.is_same(topic))
        self._epochs.accept()
        if is_new:
            self.is_numbered = True
        return [self._current(request) if isinstance(request, Publish) else request for request in requests]

    def _current(self, request: Publish) -> Publish | None:
        if request.id not in self._foreign:
            return self._sequencers[request.topic].current(request)
        if error := self._epochs.failure(request.topic):
            self._settle_foreign(request.id, error)
            return None
        return request

    def _lose(self, lost: Lost) -> None:
        for sequencer in self._sequencers.values():
            sequencer.end(lost)


class Sequencer:
    """The batches of one topic that have no answer yet.

    Args:
        sequencers: the client's.
        topic: the topic to publish to.

    Attributes:
        used: when the last batch was posted.
    """

    def __init__(self, sequencers: Sequencers, topic: str) -> None:
        self.used = 0.0
        self._sequencers = sequencers
        # Each sequencer finds out for itself; otherwise its next batches would overtake those that come back.
        self._is_numbered = sequencers.is_numbered
        self._connection = sequencers.connection
        self._topic = topic
        self._take_producer()
        self._window = WINDOW
        self._sent: dict[int, _Sent] = {}  # by the number of the request
        self._returned: list[_Sent] = []  # temporarily refused, in the order of their sequence
        self._unsent: deque[_Unsent] = deque()
        self._doubtful: set[int] = set()  # numbers of requests that may have been stored when a socket was lost
        self._may_be_unknown = False  # our producer may never have been known here: there was no answer since a restart
        self._is_waiting = False
        self._waits: Iterator[float] | None = None  # between retries, since the last success

    @property
    def is_empty(self) -> bool:
        """Whether all batches were answered, so that it may be dropped or take another id."""
        return not self._sent and not self._returned and not self._unsent

    def post(self, batch: Batch, on_outcome: OnOutcome) -> Callable[[], None]:
        """See `Sequencers.post`."""
        if self._returned or self._unsent or self._is_waiting or len(self._sent) >= self._window:
            entry = batch, on_outcome
            self._unsent.append(entry)
            return partial(self._withdraw, entry)
        self._number(batch, on_outcome)
        return _nothing

    def _withdraw(self, entry: _Unsent) -> None:
        if entry in self._unsent:
            self._unsent.remove(entry)

    def _number(self, batch: Batch, on_outcome: OnOutcome) -> None:
        """Send a batch for the first time; from now on it has its number."""
        connection = self._connection
        number = connection.next_id()
        if self._is_numbered:
            request = Publish(number, self._topic, batch, producer=self._producer, sequence=self._next)
        else:
            request = Publish(number, self._topic, batch)
        connection.post(request, self._settle)
        self._sent[number] = request, on_outcome
        self._next += 1

    def _send_again(self, request: Publish, on_outcome: OnOutcome) -> None:
        self._connection.post(request, self._settle)
        self._sent[request.id] = request, on_outcome

    def _send_more(self) -> None:
        while not self._is_waiting and len(self._sent) < self._window:
            if self._returned:
                request, on_outcome = self._returned.pop(0)
                if not self._is_numbered:
                    request = replace(request, producer=0, sequence=0)
                elif request.producer != self._producer:
                    request = self._numbered(request)
                self._send_again(request, on_outcome)
            elif self._unsent:
                self._number(*self._unsent.popleft())
            else:
                return

    def _settle(self, outcome: Frame | Lost) -> None:
        """Handle the outcome of a batch, or of all of them if the connection is lost for good."""
        if not isinstance(outcome, Frame):
            sent, self._sent = self._sent, {}
            for _, on_outcome in sent.values():
                on_outcome(outcome)
            return
        request, on_outcome = self._sent.pop(outcome.id)
        self._may_be_unknown = False
        if isinstance(outcome, Error) and self._comes_back(request, outcome):
            insort(self._returned, (request, on_outcome), key=_sequence)
        else:
            if isinstance(outcome, Published) and self._window < WINDOW:
                self._window += 1
                self._waits = None
            on_outcome(outcome)
        if self._returned or self._unsent:
            self._send_more()

    def _comes_back(self, request: Publish, error: Error) -> bool:
        """Returns whether a batch that was refused is sent again; if not, the refusal is its outcome."""
        if error.fatal or not request.producer:
            return False
        match error:
            case Error(code=ErrorCode.UNSUPPORTED, field="producer"):
                self._is_numbered = self._sequencers.is_numbered = False
                self._window = 1  # those after it come back first; otherwise they would overtake it
                return True
            case Error(retryable=True) if self._sequencers.tasks is not None:
                if not self._is_waiting:
                    self._is_waiting = True
                    self._waits = self._waits or _waits(error.retry_after_ms / 1000)
                    self._sequencers.retry_later(next(self._waits), self._retry)
                if self._window == WINDOW:
                    logger.info("%s: publishing waits: %s", self._topic, BrokerError.of(error))
                self._window = 1
                return True
            case Error(code=ErrorCode.SEQUENCE_GAP):
                return bool(self._returned)  # it came after one that was refused temporarily
            case Error(code=ErrorCode.PRODUCER_UNKNOWN):
                if request.producer == self._producer:
                    self._take_producer()
                self._window = 1  # as above
                # If it was sent only once, it was refused and cannot have been stored. Otherwise that is unknown.
                return request.id not in self._doubtful
        return False

    def _retry(self) -> None:
        self._is_waiting = False
        self._send_more()

    def begin_again(self, *, is_new: bool, is_same: bool | None) -> None:
        """Continue over a new socket.

        Args:
            is_new: whether the broker was restarted.
            is_same: whether the topic is still the one that batches were sent to; None if unknown.
        """
        if self._returned or self._unsent:  # batches without numbers were lost, so no reply may come that triggers this
            self._connection.call_soon(self._send_more)
        if is_new and (is_same is False or not self._is_numbered):
            self._renumber()
            return
        self._may_be_unknown |= is_new and is_same is None
        # A refused batch was not stored, and none after it either.
        first = self._returned[0][0].sequence if self._returned else math.inf
        may_be_stored = {request.id for request, _ in self._sent.values() if request.sequence < first}
        self._doubtful = set() if self._may_be_unknown else may_be_stored  # a topic that stored one knows the producer

    def _renumber(self) -> None:
        """Take a new producer for everything that is unanswered, none of which is stored."""
        self._doubtful = set()
        self._is_numbered = True  # until the broker refuses them
        self._take_producer()
        in_order = sorted([*self._sent.values(), *self._returned], key=_sequence)
        numbered = {request.id: (self._numbered(request), on_outcome) for request, on_outcome in in_order}
        self._returned = [numbered.pop(request.id) for request, _ in self._returned]
        self._sent = numbered

    def _take_producer(self) -> None:
        self._producer, self._next = _new_producer(), 0

    def current(self, request: Publish) -> Publish | None:
        """Returns the request as it is to be sent now, perhaps renumbered; None if it is no longer in flight."""
        sent = self._sent.get(request.id)
        return sent and sent[0]

    def _numbered(self, request: Publish) -> Publish:
        numbered = replace(request, producer=self._producer, sequence=self._next)
        self._next += 1
        return numbered

    def end(self, outcome: Error | Lost) -> None:
        """Give every batch this outcome and send nothing more: the connection is lost, or the topic is another one."""
        self._is_waiting = False
        unanswered = [*self._sent.values(), *self._returned, *self._unsent]
        self._sent, self._returned = {}, []
        self._unsent.clear()
        for _, on_outcome in unanswered:
            on_outcome(outcome)


async def _call_later(seconds: float, call: Callable[[], None]) -> None:
    await anyio.sleep(seconds)
    call()


def _new_producer() -> int:
    """Returns a random producer id, one of 2**64 - 1; 0 means none."""
    return secrets.randbelow(2**64 - 1) + 1


def _waits(retry_after: float) -> Iterator[float]:
    """Returns the seconds between retries: at first what the broker asks for, up to twice that, then doubling."""
    first = 2 * retry_after or FIRST_WAIT
    return backoff(first, max(first, LONGEST_WAIT))


def _sequence(sent: _Sent) -> int:
    return sent[0].sequence


def _nothing() -> None:
    """Does nothing: a batch that was sent cannot be withdrawn."""
