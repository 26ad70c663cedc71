"""What a worker iterates over: the messages of a shared name that are handed out to it (SHR).

A message is the program's from the moment in which the loop gives it out, *opened*, until it is
settled. Nothing else settles it: asking for the next message does not. So a program may have many
open at a time, as many as its credit, and any task may settle any of them.

What waits here behind a long job would time out unopened. So it is extended, again and again, as
long as the program is within the time of what it has. A program that hangs gets nothing extended:
what waits behind it goes to other workers (SHR-4). Here it stays until the program asks for the
next message, and so uses the worker's credit: a program that hangs is handed out nothing more.
"""

import logging
from contextlib import suppress
from typing import Self

from zaichik.client.connection import BrokerConnection
from zaichik.client.errors import ZaichikError
from zaichik.client.work.inbox import WorkInbox
from zaichik.client.work.message import WorkMessage
from zaichik.client.work.settling import Settling
from zaichik.client.work.verdict import (
    RELEASED,
    Cancellations,
    Verdict,
)
from zaichik_protocol import Outcome, Subscribe, Subscribed, Unsubscribe

logger = logging.getLogger(__name__)

# What waits is extended when a third of its time is over, so that a look that comes late, or is
# sent again over another connection, is still in time.
LOOKS_IN_TIMEOUT = 3
# A program is to have all of its time for a message. Less than a tenth of it is not missed.
MISSED_PART = 0.1
# Seconds between two looks at what waits here, at most and at least.
LONGEST_LOOK_SECONDS = 1.0
SHORTEST_LOOK_SECONDS = 0.05


class WorkSubscription:
    """An asynchronous iterator over the messages that this worker is handed out.

    `Client.subscribe` makes one, with `shared=True`. Any number of tasks may iterate over it at
    once; each message goes to one of them.

    Attributes:
        topic: the topic's name.
        epoch: the topic's identity.
        name: the shared name.
        timeout: seconds that the program has for each message; `math.inf`: for ever.
        is_draining: whether it takes no more messages: see `drain`.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        request: Subscribe,
        reply: Subscribed,
        inbox: WorkInbox,
        settling: Settling,
        timeout: float,
    ) -> None:
        self.topic = request.topic
        self.epoch = reply.epoch
        self.name = request.name
        self.timeout = timeout
        self.is_draining = False
        self._connection = connection
        self._inbox = inbox
        self._settling = settling
        self._extension = Verdict(Outcome.EXTEND, request.timeout_ms)

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be handed out (SHR-7).

        Each is told to one worker of the name.
        """
        return self._inbox.lagged

    @property
    def failure(self) -> Exception | None:
        """Why no more messages will come; None if more may."""
        return self._inbox.known_failure

    # -- iterating -------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        """Returns itself. Loops over it share its messages."""
        return self

    async def __anext__(self) -> WorkMessage:
        """Returns the next message. It is open until it is settled, whatever is asked for next.

        Raises:
            StopAsyncIteration: it is draining.
            SubscriptionLost: the broker ended the subscription; its topic was deleted, say.
            EpochChanged, BrokerError: the connection was lost, and the broker refused to resume the
                subscription.
            ConnectionLost: the connection is lost.
        """
        while not self.is_draining:
            message = self._next_waiting()
            if message is not None:
                return message
            await self._inbox.wait()
        raise StopAsyncIteration

    def _next_waiting(self) -> WorkMessage | None:
        """Open the next message that waits here; returns None if none does."""
        settling = self._settling
        waiting = self._inbox.waiting
        while waiting:
            message = waiting.popleft()
            if settling.is_over(message):
                # It is with another worker. Late or not, this gives its credit back.
                settling.settle_soon([message], RELEASED)
                continue
            settling.open(message)
            # It has waited behind others.
            if settling.has_lost_time(message, MISSED_PART):
                settling.settle_soon([message], self._extension)
            return message
        return None

    def drain(self) -> None:
        """Take no more messages: loops end, and what waits here is released to other workers.

        What the program has stays open, and is settled as ever; then leave the block.
        """
        self.is_draining = True
        self._release_waiting()
        self._inbox.wake()

    def _release_waiting(self) -> None:
        waiting = self._inbox.take_all()
        if waiting:
            self._settling.settle_soon(waiting, RELEASED)

    # -- in the background -----------------------------------------------------------------------

    @property
    def look_seconds(self) -> float:
        """Seconds between two calls of `look`."""
        seconds = min(self.timeout / LOOKS_IN_TIMEOUT / 2, LONGEST_LOOK_SECONDS)
        return max(seconds, SHORTEST_LOOK_SECONDS)

    def look(self) -> None:
        """Look after what waits here; called regularly.

        It is extended if its program is within its time. While draining, it is released. That is
        done here, and not at once: if there is no other worker, the broker hands it out again.
        A message that the program has had for too long is told in the log.
        """
        settling = self._settling
        self._log_overdue()
        if self.is_draining:
            self._release_waiting()
            return
        if not self._inbox.waiting or not settling.is_in_time:
            return
        extended = [
            message
            for message in self._inbox.waiting
            # What is over is with another worker.
            if settling.has_lost_time(message, 1 / LOOKS_IN_TIMEOUT)
            and not settling.is_over(message)
        ]
        if extended:
            settling.settle_soon(extended, self._extension)

    def _log_overdue(self) -> None:
        for message in self._settling.unsettled:
            if self._settling.is_over(message) and not message.is_logged:
                message.is_logged = True
                logger.warning(
                    "%s: the message at offset %d has been open for longer than its time-out, so "
                    "another worker gets it. Settle it, or extend its time.",
                    self.topic,
                    message.offset,
                )

    # -- leaving ---------------------------------------------------------------------------------

    async def answered(self) -> None:
        """Wait until the broker has answered all that the program has settled.

        Raises:
            ConnectionLost: there will be no answer.
        """
        await self._settling.answered()

    async def leave(self, error: BaseException | None, cancellations: Cancellations) -> None:
        """Settle what the program still has, and end the subscription; do not wait for the broker.

        The end and a cancellation give back what is open; an exception is its failure, unless it
        is known to be that of another message (SHR-4a, SHR-6). What was not opened is released by
        the broker. The second time, this does nothing.

        Args:
            error: the exception that ends the block; None for none.
            cancellations: the kinds of exception that are a cancellation.
        """
        settling = self._settling
        unsettled = settling.unsettled
        if unsettled:
            verdict = settling.verdict_on_rest(error, cancellations)
            settling.settle_soon(unsettled, verdict)
        settling.send()
        self._unsubscribe()

    def _unsubscribe(self) -> None:
        inbox = self._inbox
        if not inbox.is_live:
            return
        inbox.is_live = False
        # A request, so that it comes after what is settled also if that waits for a connection.
        request = Unsubscribe(self._connection.next_id(), inbox.id)
        # If the connection is lost, so is the subscription.
        with suppress(ZaichikError, RuntimeError):
            self._connection.post(request, _ignore)


def _ignore(_outcome: object) -> None:
    """Ignores the answer to an Unsubscribe: whichever it is, the subscription has ended."""
