"""Numbered publishing: a batch sent again is never stored twice, and none overtakes another.

    answered          in flight, 32 at most           not sent
    ────────────────┬──────────────────────────────┬───────────────────▶ batches of one topic
     … 4   5   6    │  7   8   9   10   11   …     │ no number yet

Each topic has a *sequencer*: a producer id, drawn at random, and a counter. The broker remembers
the results of a producer's last 64 batches, so a batch that is sent again under its number, after a
lost connection, is stored once and answered again. A number belongs to its batch until the reply
has come, even if the task that published it was cancelled. It is never given to another batch: what
an old connection still carries may arrive later than what the new one does.

If the broker was restarted, the topic's epoch decides (see `epochs`), for a durable topic keeps its
epoch and its producers. After a restart it is

* the same: batches keep their numbers, as after any lost connection.
* another one, or gone: nothing that was sent is stored in it. Batches are renumbered from 0, under
  a new id.
* unknown, because no answer has said so: batches keep their numbers. If the broker then refuses the
  producer as unknown, nothing was stored, and batches are renumbered once all of them are refused.

If it is the same, but was restored from elsewhere, it has forgotten all producers, and may have
what is in flight: each of these batches ends with an error, as if it had refused the producer.

A durable topic may have gone back to an earlier state, if somebody restored an older copy of it.
There are two proofs. It refuses a batch as a gap, although all batches before it were answered:
none of those in flight is stored, and they are renumbered from 0, under a new id. Or it stores a
batch at an offset that it gave before its restart. Either way, what the copy lacks is lost, and the
program is told, once after each restart: a copy can only be restored while no broker runs. A gap at
any other time is the program's to hear of, or a broken broker could have it repeat everything, and
believe that all is well.

A broker refuses a batch permanently, which uses up its number, or temporarily: `TOPIC_FULL`,
`NO_MEMORY`. After a temporary refusal the batches after it are refused as well, as a gap, and the
sequencer keeps all of them. It retries with one batch, and with one more after each success; the
wait between retries grows exponentially, up to a second. This is back-pressure: publishers of a
topic that must not lose anything are as fast as its slowest reader.

A broker without numbered producers refuses them. It is sent batches without numbers, which are lost
with their connection.
"""

import logging
import secrets
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zaichik.client.backoff import backoff
from zaichik.client.errors import BrokerError
from zaichik.client.outcome import Lost, OnReply
from zaichik_protocol import DURABLE, Batch, Error, ErrorCode, Frame, Publish, Published

if TYPE_CHECKING:
    from zaichik.client.publishing import Publishing

logger = logging.getLogger(__name__)

# Batches of a sequencer in flight: half as many as the broker remembers, and more than enough.
WINDOW = 32
# Seconds until a refused batch is retried, at most, if the broker does not say.
FIRST_RETRY_SECONDS = 0.01
# Where the doubling ends: a topic that stays full costs no more than a batch a second.
LONGEST_RETRY_SECONDS = 1.0

_Sent = tuple[Publish, OnReply]
# With whether its empty payloads with a key are tombstones.
_Unsent = tuple[Batch, bool, OnReply]


class Sequencer:
    """The batches of one topic that have no answer yet.

    Args:
        publishing: the client's.
        topic: the topic to publish to.

    Attributes:
        used: when the last batch was posted.
    """

    def __init__(self, publishing: "Publishing", topic: str) -> None:
        self.used = 0.0
        self._publishing = publishing
        self._connection = publishing.connection
        self._topic = topic
        # Each sequencer finds out for itself whether the broker knows numbered batches; otherwise
        # its next batches would overtake those that are refused.
        self._is_numbered = publishing.is_numbered
        # Whether the topic may be in an earlier state than our producer knows: the broker was
        # restarted since that was taken, and there was no proof of it yet.
        self._may_be_older = False
        # Whether the broker has said that the topic is not durable.
        self._is_in_memory = False
        self._take_producer()
        # The most batches that may be in flight now.
        self._window = WINDOW
        # Batches in flight, by the number of the request.
        self._sent: dict[int, _Sent] = {}
        # Batches that were refused temporarily, in the order of their sequence.
        self._refused: list[_Sent] = []
        # Batches that have no number yet, in order.
        self._unsent: deque[_Unsent] = deque()
        # The numbers of requests that may have been stored when a socket was lost.
        self._ambiguous: set[int] = set()
        # Whether the broker may never have known our producer: no answer since it was restarted.
        self._may_be_unknown = False
        # Whether the next retry is scheduled: until then, nothing is sent.
        self._is_waiting = False
        # The seconds between retries, since the last success.
        self._waits: Iterator[float] | None = None
        # The offset after the last message that was stored.
        self._end = 0
        # The topic gave all offsets below to our messages, before the broker was restarted.
        self._given = 0

    @property
    def is_empty(self) -> bool:
        """Whether all batches were answered, so that it may be dropped or take another id."""
        return not self._sent and not self._refused and not self._unsent

    @property
    def end_of_stored(self) -> int:
        """The offset after the last message that is known to be stored; 0: there is none."""
        return self._end

    # -- sending ---------------------------------------------------------------------------------

    def post(
        self, batch: Batch, on_reply: OnReply, *, tombstones: bool = False
    ) -> Callable[[], None]:
        """See `Publishing.post`."""
        if self._refused or self._unsent or self._is_waiting or len(self._sent) >= self._window:
            unsent = (batch, tombstones, on_reply)
            self._unsent.append(unsent)
            return partial(self._withdraw, unsent)
        self._number(batch, on_reply, tombstones=tombstones)
        return _nothing

    def _withdraw(self, unsent: _Unsent) -> None:
        if unsent in self._unsent:
            self._unsent.remove(unsent)

    def _number(self, batch: Batch, on_reply: OnReply, *, tombstones: bool) -> None:
        """Send a batch for the first time; from now on it has its number."""
        connection = self._connection
        number = connection.next_id()
        flagged = tombstones and self._publishing.knows_tables
        if self._is_numbered:
            request = Publish(
                number,
                self._topic,
                batch,
                producer=self._producer,
                sequence=self._next,
                tombstones=flagged,
            )
        else:
            request = Publish(number, self._topic, batch, tombstones=flagged)
        connection.post(request, self._settle)
        self._sent[number] = request, on_reply
        self._next += 1

    def _resend(self, request: Publish, on_reply: OnReply) -> None:
        """Send a refused batch again, under its number unless the producer has changed."""
        request = self._publishing.as_granted(request)
        if not self._is_numbered:
            request = replace(request, producer=0, sequence=0)
        elif request.producer != self._producer:
            request = self._numbered(request)
        self._connection.post(request, self._settle)
        self._sent[request.id] = request, on_reply

    def _send_more(self) -> None:
        while not self._is_waiting and len(self._sent) < self._window:
            if self._refused:
                request, on_reply = self._refused.pop(0)
                self._resend(request, on_reply)
            elif self._unsent:
                batch, tombstones, on_reply = self._unsent.popleft()
                self._number(batch, on_reply, tombstones=tombstones)
            else:
                return

    # -- replies ---------------------------------------------------------------------------------

    def _settle(self, outcome: Frame | Lost) -> None:
        """Handle the outcome of a batch, or of all of them if the connection is lost for good."""
        if not isinstance(outcome, Frame):
            sent = self._sent
            self._sent = {}
            for _, on_reply in sent.values():
                on_reply(outcome)
            return
        sent_batch = self._sent.pop(outcome.id, None)
        # Another outcome was given to it by `end`.
        if sent_batch is None:
            return
        request, on_reply = sent_batch
        self._may_be_unknown = False
        if isinstance(outcome, Error) and self._is_proof(request, outcome):
            failure = self._publishing.gone_back(self._topic)
            if failure is not None:
                self._sent[request.id] = sent_batch
                self.end(failure)
                return
            self._take_producer()
            self._given = 0
        if isinstance(outcome, Error) and self._is_retried(request, outcome):
            insort(self._refused, (request, on_reply), key=_sequence)
        else:
            if isinstance(outcome, Published):
                self._stored(outcome)
            on_reply(outcome)
        if self._refused or self._unsent:
            self._send_more()

    def _stored(self, reply: Published) -> None:
        if self._window < WINDOW:
            self._window += 1
            self._waits = None
        if not reply.duplicate:
            if reply.first_offset < self._given:
                self._publishing.gone_back(self._topic)
                self._may_be_older = False
            self._given = 0
            is_told = self._connection.welcome.features & DURABLE
            self._is_in_memory = bool(is_told) and not reply.durable
            self._end = reply.first_offset + reply.stored

    def _is_proof(self, request: Publish, error: Error) -> bool:
        """Returns whether a refusal proves that the topic has gone back to an earlier state.

        The first one does; those of the batches after it come under the producer of before. A
        topic in memory has no earlier state.
        """
        is_gap = error.code == ErrorCode.SEQUENCE_GAP and request.producer == self._producer
        if not is_gap or not self._may_be_older or self._is_in_memory:
            return False
        return not self._follows_refused(request) and bool(request.sequence)

    def _follows_refused(self, request: Publish) -> bool:
        if not self._refused:
            return False
        first, _ = self._refused[0]
        return first.sequence < request.sequence

    def _is_retried(self, request: Publish, error: Error) -> bool:
        """Returns whether a batch that was refused is sent again.

        If not, the refusal is its outcome.
        """
        if error.fatal or not request.producer:
            return False
        # While the first refused batch is retried, a window of one keeps those after it in order.
        match error:
            case Error(code=ErrorCode.UNSUPPORTED, field="producer"):
                self._is_numbered = False
                self._publishing.is_numbered = False
                self._window = 1
                return True
            case Error(retryable=True) if self._publishing.tasks is not None:
                if not self._is_waiting:
                    self._schedule_retry(error.retry_after_ms / 1000)
                if self._window == WINDOW:
                    self._say_why_it_waits(error)
                self._window = 1
                return True
            case Error(code=ErrorCode.SEQUENCE_GAP):
                # It came after one that was refused, or it is the first of those that a topic in an
                # earlier state refuses.
                if self._follows_refused(request):
                    return True
                self._window = 1
                return request.producer != self._producer
            case Error(code=ErrorCode.PRODUCER_UNKNOWN):
                if request.producer == self._producer:
                    self._take_producer()
                self._window = 1
                # If it was sent only once, it was refused and cannot have been stored. Otherwise
                # that is unknown.
                return request.id not in self._ambiguous
        return False

    def _say_why_it_waits(self, error: Error) -> None:
        # Slow readers fill a lossless topic again and again: that is what it is for. Whatever else
        # publishing waits for may last for ever, and nobody should have to guess what it is.
        level = logging.INFO if error.code == ErrorCode.TOPIC_FULL else logging.WARNING
        logger.log(level, "%s: publishing waits: %s", self._topic, BrokerError.of(error))

    def _schedule_retry(self, retry_after: float) -> None:
        self._is_waiting = True
        if self._waits is None:
            self._waits = retry_waits(retry_after)
        self._publishing.retry_later(next(self._waits), self._retry)

    def _retry(self) -> None:
        self._is_waiting = False
        self._send_more()

    # -- after a lost socket ---------------------------------------------------------------------

    def resume(self, *, is_new: bool, is_same: bool | None, is_restored: bool = False) -> None:
        """Continue over a new socket.

        Args:
            is_new: whether the broker was restarted.
            is_same: whether the topic is still the one that batches were sent to; None if unknown.
            is_restored: whether it was restored from elsewhere: see `Epochs.is_restored`.
        """
        # Batches without numbers were lost with the socket, so that perhaps no reply will come
        # that sends the next ones.
        if self._refused or self._unsent:
            self._connection.call_soon(self._send_more)
        if is_new:
            self._given = 0
        if is_new and is_same:
            self._given = self._end
        if is_new and (is_same is False or not self._is_numbered):
            self._renumber()
            return
        if is_new and is_restored:
            self._end_ambiguous()
            self._renumber()
            return
        if is_new:
            self._may_be_older = True
        if is_new and is_same is None:
            self._may_be_unknown = True
        # A topic that stored one batch knows the producer; as long as it may never have known it,
        # its refusal says that nothing was stored.
        if self._may_be_unknown:
            self._ambiguous = set()
            return
        were_sent = self._connection.were_sent
        sent = [request for request, _ in self._sent.values() if request.id in were_sent]
        # A refused batch was not stored, and none after it either.
        if self._refused:
            first_refused = self._refused[0][0].sequence
            sent = [request for request in sent if request.sequence < first_refused]
        self._ambiguous = {request.id for request in sent}

    def _end_ambiguous(self) -> None:
        """Give an error to what was in flight: a restored topic may have it, and cannot tell."""
        for number in self._sent.keys() & self._connection.were_sent:
            request, on_reply = self._sent.pop(number)
            text = (
                f"topic {self._topic!r} was restored while batch {request.sequence} was in flight, "
                "so nobody can tell whether it was stored before. Check the topic, or publish the "
                "batch again if storing it twice would do no harm."
            )
            code = ErrorCode.PRODUCER_UNKNOWN
            on_reply(Error(number, code, Publish.TYPE, "producer", 0, text))

    def _renumber(self) -> None:
        """Take a new producer for everything that is unanswered, none of which is stored."""
        self._ambiguous = set()
        self._is_numbered = True  # until the broker refuses them
        self._take_producer()
        refused_ids = {request.id for request, _ in self._refused}
        in_order = sorted([*self._sent.values(), *self._refused], key=_sequence)
        self._sent = {}
        self._refused = []
        for request, on_reply in in_order:
            numbered = self._numbered(request)
            if request.id in refused_ids:
                self._refused.append((numbered, on_reply))
            else:
                self._sent[request.id] = numbered, on_reply

    def forget_offsets(self) -> None:
        """Note that the topic was deleted: the next of its name gives its offsets anew."""
        self._end = 0
        self._given = 0

    def _take_producer(self) -> None:
        self._producer = _new_producer()
        self._next = 0
        self._may_be_older = False

    def _numbered(self, request: Publish) -> Publish:
        numbered = replace(request, producer=self._producer, sequence=self._next)
        self._next += 1
        return numbered

    def current(self, request: Publish) -> Publish | None:
        """Returns the request as it is to be sent now, perhaps renumbered.

        None if it is no longer in flight.
        """
        sent = self._sent.get(request.id)
        if sent is None:
            return None
        current, _ = sent
        return self._publishing.as_granted(current)

    def end(self, outcome: Error | Lost) -> None:
        """Give every batch this outcome and send nothing more.

        Either the connection is lost, or the topic is another one.
        """
        self._is_waiting = False
        callbacks = [on_reply for _, on_reply in self._sent.values()]
        callbacks += [on_reply for _, on_reply in self._refused]
        callbacks += [on_reply for _, _, on_reply in self._unsent]
        self._sent = {}
        self._refused = []
        self._unsent.clear()
        for on_reply in callbacks:
            on_reply(outcome)


def retry_waits(retry_after: float) -> Iterator[float]:
    """Returns the seconds between retries.

    The first is what the broker asks for, up to twice that; then they double.
    """
    first = 2 * retry_after
    if not first:
        first = FIRST_RETRY_SECONDS
    return backoff(first, max(first, LONGEST_RETRY_SECONDS))


def _new_producer() -> int:
    """Returns a random producer id, one of 2**64 - 1; 0 means none."""
    return secrets.randbelow(2**64 - 1) + 1


def _sequence(sent: _Sent) -> int:
    request, _ = sent
    return request.sequence


def _nothing() -> None:
    """Does nothing: a batch that was sent cannot be withdrawn."""
