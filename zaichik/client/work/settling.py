"""What a program has of a shared name, and what it says of that: verdicts gather, and go together.

    given out ──▶ opened ──verdict──▶ gathering ──one turn later──▶ in flight ──▶ answered

What many tasks settle within one turn of the event loop goes in one request for each verdict, the
messages in the order in which they were handed out. So a worker that handles a hundred at a time
costs a few requests, and of what is given back together, the broker knows that it was together
(SHR-6).

A message is the program's until the broker has answered. After a lost connection all of these are
named, so that the broker leaves them here, and the requests without an answer are sent again. Then
a ticket may be late only because the first attempt was carried out. So of such a request, late is
no error (SHR-3).
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from copy import copy
from functools import partial

import anyio.lowlevel

from zaichik.base.counted import counted
from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import ZaichikError
from zaichik.client.outcome import Lost, expected
from zaichik.client.work.message import WorkMessage
from zaichik.client.work.verdict import (
    GIVEN_BACK,
    LOST,
    Cancellations,
    Verdict,
    failures,
    verdict_of,
)
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import Error, ErrorCode, Frame, Outcome, Settle, Settled

logger = logging.getLogger(__name__)

# Seconds after which a program that never waits for anything lets the event loop send what it has
# said.
GATHER_SECONDS = 0.001


class Settlement:
    """One request: messages with one verdict, and the broker's answer.

    Args:
        verdict: what is said of the messages.

    Attributes:
        verdict: see above.
        messages: those that it is said of.
        may_be_repeated: whether it was sent, and the connection was lost before the answer.
        sent: when it was last sent, or may have been: seconds, by the clock of `Settling`.
        late: the tickets for which it came too late, once that is known.
    """

    _outcome: Frame | Lost

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.messages: list[WorkMessage] = []
        self.may_be_repeated = False
        self.sent = 0.0
        self.late: frozenset[int] = frozenset()
        self._answered = Wakeup()

    @property
    def is_extension(self) -> bool:
        """Whether the messages stay the program's."""
        return self.verdict.outcome == Outcome.EXTEND

    @property
    def tickets(self) -> tuple[int, ...]:
        """Those of the messages, in the order in which they were handed out."""
        return tuple(sorted(message.ticket for message in self.messages))

    def request(self, number: int, subscription: int) -> Settle:
        """Returns the request with that id, for that subscription."""
        outcome, delay_ms, reason = self.verdict
        tickets = self.tickets
        if delay_ms is None:
            return Settle(number, subscription, outcome, reason=reason, tickets=tickets)
        return Settle(
            number,
            subscription,
            outcome,
            delay_ms=delay_ms,
            reason=reason,
            tickets=tickets,
            delayed=True,
        )

    def answer(self, outcome: Frame | Lost) -> None:
        """Take the answer, and wake those that wait for it."""
        self._outcome = outcome
        # The first attempt to settle it may have counted. An extension leaves the ticket open, so
        # there late means what it says.
        is_ambiguous = self.may_be_repeated and not self.is_extension
        if isinstance(outcome, Settled) and not is_ambiguous:
            self.late = frozenset(outcome.late)
        self._answered.set()

    @property
    def is_accepted(self) -> bool:
        """Whether the broker has accepted the request, which may be late all the same."""
        return isinstance(self._outcome, Settled)

    @property
    def refusal(self) -> str:
        """Why the broker has refused it; "" if it has not."""
        if isinstance(self._outcome, Error):
            return self._outcome.message
        return ""

    async def counts(self, message: WorkMessage) -> bool:
        """Returns whether the verdict counts for that message, once that is known.

        Raises:
            BrokerError: the request was refused.
            ConnectionLost: there was no answer.
        """
        await self._answered.wait()
        expected(Settled, Settle, self._outcome)
        return message.ticket not in self.late

    async def answered(self) -> None:
        """Wait for the answer, whichever it is.

        Raises:
            ConnectionLost: there was none.
        """
        await self._answered.wait()
        if not isinstance(self._outcome, Frame):
            raise self._outcome()


class Settling:
    """The messages that a program has of one subscription.

    Args:
        connection: the connection to the broker.
        subscription: the number of the subscription.
        timeout: seconds that the program has for each; `math.inf`: for ever.
        clock: seconds, to measure how much of that is over.

    Attributes:
        opened: what the program has, by ticket, until the broker has answered what is said of it.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        subscription: int,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.opened: dict[int, WorkMessage] = {}
        self._connection = connection
        self._subscription = subscription
        self._timeout = timeout
        self._clock = clock
        self._gathered: list[Settlement] = []
        # Of these, those that have room for more.
        self._gathering: dict[Verdict, Settlement] = {}
        self._gathering_since = 0.0
        # Exceptions that came out of blocks of messages, since a message was opened.
        self._blamed: list[BaseException] = []
        # Requests without an answer; a set that keeps order.
        self._unanswered: dict[Settlement, None] = {}
        # How long it is fine that the program has nothing and takes nothing.
        self._idle_until = clock() + timeout

    # -- what the program has --------------------------------------------------------------------

    def open(self, message: WorkMessage) -> None:
        """Note that the program has a message from now on."""
        self.opened[message.ticket] = message
        # It goes on, so it has handled them. They keep much alive.
        self._blamed.clear()

    @property
    def tickets(self) -> tuple[int, ...]:
        """The tickets that the program still has, as far as the broker may know."""
        return tuple(sorted(self.opened))

    @property
    def unsettled(self) -> list[WorkMessage]:
        """What the program has and has said nothing of, in the order in which it got them."""
        return [message for message in self.opened.values() if not message.is_settled]

    @property
    def is_in_time(self) -> bool:
        """Whether the program is within the time of all that it has (SHR-4).

        If it has nothing, it must not take too long to take something either.
        """
        unsettled = self.unsettled
        if not unsettled:
            return self._clock() < self._idle_until
        return not any(map(self.is_over, unsettled))

    def start_time(self, messages: Iterable[WorkMessage]) -> None:
        """Have the time of messages begin now: they were handed out, or kept after a loss."""
        due = self._clock() + self._timeout
        for message in messages:
            message.due = due

    def is_over(self, message: WorkMessage) -> bool:
        """Returns whether a message's time is over, so that another worker may have it by now."""
        return message.due <= self._clock()

    def has_lost_time(self, message: WorkMessage, part: float) -> bool:
        """Returns whether more than that part of a message's time is over."""
        left = message.due - self._clock()
        return left < self._timeout * (1 - part)

    # -- whose fault it is -----------------------------------------------------------------------

    def blame(self, error: BaseException, cancellations: Cancellations) -> None:
        """Note that an exception has left the block of a message, whose fault it is."""
        self._blamed += failures(error, cancellations)

    def verdict_on_rest(self, error: BaseException | None, cancellations: Cancellations) -> Verdict:
        """Returns what an exception, or the end, says of what the program still has (SHR-4a).

        An exception that came out of the block of a message says nothing of the others. Otherwise
        it is their failure: that of one message is known, several are company (SHR-6).
        """
        if error is None:
            return GIVEN_BACK
        known = set(map(id, self._blamed))
        if all(id(failure) in known for failure in failures(error, cancellations)):
            return GIVEN_BACK
        if len(self.unsettled) > 1:
            return LOST
        return verdict_of(error, cancellations)

    # -- settling --------------------------------------------------------------------------------

    async def settle(self, message: WorkMessage, verdict: Verdict) -> bool:
        """Say something of a message; returns whether it counts, once the broker has answered.

        Raises:
            ConnectionLost, BrokerError: there was no answer, or another one.
        """
        settlement = self.say([message], verdict)
        return await settlement.counts(message)

    def settle_soon(self, messages: Collection[WorkMessage], verdict: Verdict) -> None:
        """Say something of messages, and do not wait for the answer. This does not fail."""
        # If the connection is lost, so are the messages.
        with suppress(ZaichikError, RuntimeError):
            self.say(messages, verdict)

    def say(self, messages: Collection[WorkMessage], verdict: Verdict) -> Settlement:
        """Add messages to those that the same is said of in this turn of the event loop.

        Raises:
            ConnectionLost: the connection is lost.
        """
        if not self._gathered:
            self._connection.call_soon(self.send)
            self._gathering_since = self._clock()
        for message in messages:
            settlement = self._with_room(verdict)
            settlement.messages.append(message)
        if not settlement.is_extension:
            self._idle_until = self._clock() + self._timeout
            for message in messages:
                message.is_settled = True
        return settlement

    def _with_room(self, verdict: Verdict) -> Settlement:
        """Returns the request that says so, and has room for another message."""
        settlement = self._gathering.get(verdict)
        # The broker refuses a longer list.
        most = self._connection.welcome.max_batch
        if settlement is None or len(settlement.messages) >= most:
            settlement = Settlement(verdict)
            self._gathering[verdict] = settlement
            self._gathered.append(settlement)
        return settlement

    async def let_send(self) -> None:
        """Let the event loop send what has gathered, if that has gathered for long."""
        if self._gathered and self._clock() - self._gathering_since > GATHER_SECONDS:
            await anyio.lowlevel.checkpoint()

    async def answered(self) -> None:
        """Wait until the broker has answered all that was said.

        Raises:
            ConnectionLost: there will be no answer.
        """
        self.send()
        for settlement in [*self._unanswered]:
            await settlement.answered()

    def send(self) -> None:
        """Send what has gathered."""
        gathered = self._gathered
        self._gathered = []
        self._gathering = {}
        for settlement in gathered:
            self._send(settlement)

    def _send(self, settlement: Settlement) -> None:
        request = settlement.request(self._connection.next_id(), self._subscription)
        try:
            self._connection.post(request, partial(self._answer, settlement))
        except Exception as error:
            # Each of those that wait raises it, and each a copy of its own.
            settlement.answer(partial(copy, error))
            return
        settlement.sent = self._clock()
        self._unanswered[settlement] = None

    def _answer(self, settlement: Settlement, outcome: Frame | Lost) -> None:
        """Handle the outcome of a request."""
        del self._unanswered[settlement]
        # After a loss it was not made again. As at one that has ended, every ticket is late.
        if isinstance(outcome, Error) and outcome.code == ErrorCode.NO_SUCH_SUBSCRIPTION:
            outcome = Settled(outcome.id, settlement.tickets)
        settlement.answer(outcome)
        if settlement.is_extension:
            self._extended(settlement)
        elif isinstance(outcome, Error):
            # A verdict that was refused was none.
            for message in settlement.messages:
                message.is_settled = False
        else:
            for message in settlement.messages:
                self.opened.pop(message.ticket, None)
        _log(settlement)

    def _extended(self, settlement: Settlement) -> None:
        """Note how much longer the program may take for messages: not at all, if it was late."""
        delay_ms = settlement.verdict.delay_ms
        if not settlement.is_accepted or delay_ms is None:
            return
        # Not from now on: the program may have been busy, and the answer have waited.
        due = settlement.sent + delay_ms / 1000
        for message in settlement.messages:
            if message.ticket in settlement.late:
                message.due = min(message.due, settlement.sent)
            else:
                message.due = due

    # -- after a lost socket ---------------------------------------------------------------------

    def interrupted(self) -> None:
        """Note that the socket was lost: what has no answer may have been carried out."""
        for settlement in self._unanswered:
            settlement.may_be_repeated = True
            settlement.sent = self._clock()

    def kept(self) -> None:
        """Note that the broker has left here what was named: its time begins anew (SHR-4a)."""
        self.start_time(self.opened.values())


def _log(settlement: Settlement) -> None:
    """Log what was refused; and what was done too late: the job may be done twice."""
    if settlement.refusal:
        # Most of those who settle do not wait for the answer.
        logger.warning(
            "the broker has refused to settle %s: %s",
            counted(len(settlement.messages), "message"),
            settlement.refusal,
        )
    if settlement.verdict.outcome != Outcome.DONE:
        return
    for message in settlement.messages:
        if message.ticket in settlement.late:
            logger.warning(
                "%s: the message at offset %d was done too late: another worker may have it now",
                message.topic,
                message.offset,
            )
