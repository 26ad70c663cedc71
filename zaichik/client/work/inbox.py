"""What has arrived of a shared name and was not taken yet, and what is named after a loss (SHR-4a).

Messages come in any order of offsets, because some come again, and others go to other workers. What
is in order is their tickets.

When the connection is lost, what waits here is dropped: nobody has begun with it. The broker gives
the name two seconds for its owner to come back. The owner then names what the program has, and the
broker hands out the rest again. To hand the rest to the program meanwhile would be wrong: if the
owner comes too late, it is with another worker by then.
"""

import logging
from collections import deque
from dataclasses import replace

from zaichik.client.messages import messages_of
from zaichik.client.outcome import Lost
from zaichik.client.receiver import NOT_NOW, Event, Receiver
from zaichik.client.work.message import WorkMessage
from zaichik.client.work.settling import Settling
from zaichik_protocol import (
    DeletionsMissed,
    Lagged,
    Messages,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

logger = logging.getLogger(__name__)


class WorkInbox(Receiver):
    """The messages of one worker that its program has not taken yet.

    Args:
        request: the Subscribe that was sent, or is about to be.
        settling: what the program has taken.

    Attributes:
        waiting: those messages, in the order in which they came.
        lagged: the number of messages that were gone before they could be handed out (SHR-7).
    """

    def __init__(self, request: Subscribe, settling: Settling) -> None:
        super().__init__(request)
        self.waiting: deque[WorkMessage] = deque()
        self.lagged = 0
        self._settling = settling
        # Whether the broker has made the subscription on this socket, and it has not ended.
        self._is_made = False
        # The greatest ticket that came over this socket.
        self._ticket = -1

    # -- events ----------------------------------------------------------------------------------

    def put(self, event: Event) -> None:
        """See `Receiver`."""
        if not self._is_made:
            raise self._wrong(NOT_NOW)
        match event:
            case Messages():
                self._put_messages(event)
            case Lagged():
                self._put_lag(event)
            case DeletionsMissed():
                # It says nothing of jobs.
                return
            case SubscriptionEnded():
                self._is_made = False
                self._end = event
                # They are handed out to others.
                self.waiting.clear()
        self._wake()

    def _put_messages(self, frame: Messages) -> None:
        if not frame.tickets:
            raise self._wrong("is to a shared name, and was sent messages without tickets")
        if frame.ticket <= self._ticket:
            raise self._wrong(f"was sent ticket {frame.ticket} after {self._ticket}")
        self._ticket = frame.ticket + frame.batch.count - 1
        messages = [
            WorkMessage(self._settling, message, ticket, frame.number, again=frame.redelivered)
            for ticket, message in enumerate(messages_of(frame, self._request.topic), frame.ticket)
        ]
        self._settling.start_time(messages)
        self.waiting.extend(messages)

    def _put_lag(self, event: Lagged) -> None:
        count = event.to_offset - event.from_offset
        if count <= 0:
            raise self._wrong(f"was told that nothing is missing, from {event.from_offset}")
        self.lagged += count
        logger.warning(
            "%s: %d of the messages of %r were gone before they could be handed out"
            " (offsets %d to %d)",
            self._request.topic,
            count,
            self._request.name,
            event.from_offset,
            event.to_offset - 1,
        )

    def drop(self) -> None:
        """See `Receiver`."""
        self.waiting.clear()

    def close(self, lost: Lost) -> None:
        """See `Receiver`. Nothing that waits could be settled any more."""
        self.waiting.clear()
        super().close(lost)

    async def wait(self) -> None:
        """Wait for a message, without taking it. There may be none: another task may be quicker.

        Raises:
            SubscriptionLost, BrokerError, ConnectionLost: no more will come.
        """
        if self.waiting:
            return
        failure = self.known_failure
        if failure is not None:
            raise failure
        await self._arrival()

    def wake(self) -> None:
        """Wake the tasks that wait, for another reason than a message."""
        self._wake()

    def take_all(self) -> deque[WorkMessage]:
        """Takes and returns everything that waits."""
        waiting = self.waiting
        self.waiting = deque()
        return waiting

    # -- being made, and made again --------------------------------------------------------------

    def interrupted(self) -> None:
        """See `Receiver`."""
        self._is_made = False
        self._ticket = -1
        self.waiting.clear()
        self._settling.interrupted()

    def _has_ended(self) -> bool:
        return self._end is not None

    def _next_request(self) -> Subscribe:
        return replace(self._request, epoch=self._epoch, tickets=self._settling.tickets)

    def _made(self, reply: Subscribed) -> None:
        self._is_made = True
        if self.times:
            self._settling.kept()
