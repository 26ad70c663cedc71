"""A subscription's inbox: events that were received and not read yet, and the offsets from which it can resume.

    committed        delivered         taken
    ────┬───────────────┬────────────────┬─────────▶ offsets
        │ may be settled│ redelivered    │ waiting in `events`, or still to be sent

After a lost connection the subscription is made again under the same number. An anonymous one resumes at `taken`;
events that waited here will be sent again, so they are dropped. A named one resumes at the position below which the
broker knows everything to be settled, which is `taken` at most: messages in between are redelivered, and `Subscription`
leaves them out.
"""

import secrets
from collections import deque
from dataclasses import replace

from zaichik.client.errors import BrokerError, SubscriptionLost, TakenOver, name_of
from zaichik.client.outcome import Lost
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    OWNER,
    EndCode,
    Error,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

Event = Messages | Lagged | SubscriptionEnded


class Inbox:
    """The events of one subscription that were not read yet, in order.

    Args:
        request: the Subscribe that was sent, or is about to be.

    Attributes:
        events: those events; a `SubscriptionEnded` stays here, for every loop to see.
        taken: all offsets below were taken from here, and are never given out again.
        delivered: all offsets below were delivered by this connection; commits may go no further.
        committed: all offsets below are known to be settled.
        times: how often the subscription was made: once, and once more after each loss.
        is_live: whether the broker has it, or will once there is a connection again.
        lost: makes the error that says why no more will come.
    """

    def __init__(self, request: Subscribe) -> None:
        self.events: deque[Event] = deque()
        self.taken = self.delivered = self.committed = 0
        self.times = 0
        self.is_live = True
        self.lost: Lost | None = None
        self._request = request
        self._epoch = request.epoch
        self._owner = secrets.randbelow(2**64 - 1) + 1  # of its name
        self._attempts = 0  # to get the name
        self._end: SubscriptionEnded | None = None  # one that the program did not ask for
        self._arrived = Wakeup()

    def put(self, event: Event) -> None:
        """Add an event and wake the tasks that wait for one."""
        match event:
            case Messages():
                self.delivered = end_of(event)
            case Lagged():
                self.delivered = event.to_offset
            case SubscriptionEnded(code=EndCode.UNTIL):  # commits are accepted after it, up to where it stood (RET-4)
                self.delivered = max(self.delivered, event.next)
            case SubscriptionEnded():
                self._end = event
        self.events.append(event)
        self._arrived.set()

    def close(self, lost: Lost) -> None:
        """Note that no more events will come, and wake the tasks that wait for one."""
        self.lost = self.lost or lost
        self._arrived.set()

    async def wait(self) -> None:
        """Wait for an event, without taking it: of several waiting tasks, any may be the first to take it.

        Raises:
            ZaichikError: there is none, and no more will come.
        """
        if not self.events:
            if self.lost is not None:
                raise self.lost()
            await self._arrival()

    async def wait_delivered(self, offset: int) -> None:
        """Wait until everything below that offset, if it was taken before a loss, has been delivered again.

        Raises:
            Exception: why it never will be, in most cases a `ZaichikError`.
        """
        while self.delivered < offset <= self.taken:
            if self._end is not None:
                raise self.failure(self._end)
            if self.lost is not None:
                raise self.lost()
            await self._arrival()

    @property
    def known_failure(self) -> Exception | None:
        """Why no more will come, if that is known already and the program did not ask for it."""
        if self._end is not None:
            return self.failure(self._end)
        return None if self.lost is None else self.lost()

    def failure(self, end: SubscriptionEnded) -> SubscriptionLost:
        """Returns the error for an end that the program did not ask for."""
        topic, name = self._request.topic, self._request.name
        if end.code == EndCode.TAKEN_OVER:
            problem = f"another subscription has taken over the name {name!r} in {topic}: {end.text}"
            return TakenOver(Error(end.id, ErrorCode.TAKEN_OVER, Subscribe.TYPE, "", 0, problem))
        return SubscriptionLost(f"the subscription to {topic} was ended: {end.text}", name_of(EndCode, end.code))

    async def _arrival(self) -> None:
        if self._arrived.is_set():
            self._arrived = Wakeup()  # otherwise another task waits for this one already
        await self._arrived.wait()

    # -- being made, and made again --------------------------------------------------------------------------

    def owned(self, request: Subscribe, features: int) -> Subscribe:
        """Returns the request as its owner's next attempt to get the name, if the broker knows owners (CMT-3)."""
        if not request.name or not features & OWNER:
            return replace(request, owner=0, attempt=0, owned=False)
        self._attempts += 1
        return replace(request, owner=self._owner, attempt=self._attempts, owned=True)

    def again(self) -> Subscribe | None:
        """Returns the request that makes the subscription again; None if it has ended."""
        if self.times == 0:
            return None  # the first request still waits for its reply, and will be sent again as it was
        if self._has_ended():
            self.is_live = False
        if not self.is_live:
            return None
        self.delivered = 0  # by the new connection: a commit sent right after the request would be refused (CMT-2)
        first = self._request
        # The broker may have forgotten the name by now. Then the name starts again, at the first message not settled:
        # anything later could lose one.
        value = self.committed if first.name else self.taken
        return Subscribe(
            first.id, first.topic, first.name, Start.OFFSET, value, self._epoch,
            first.until, first.credit, first.credit_bytes,
        )  # fmt: skip

    def answer(self, reply: Frame | Lost) -> None:
        """Handle the outcome of a Subscribe. What waits here is given out even if one after a loss is refused."""
        match reply:
            case Subscribed():
                if self.times:
                    self.events.clear()  # they are sent again
                self.times += 1
                self._epoch = reply.epoch
                self.taken = max(self.taken, reply.start)
                self.delivered, self.committed = reply.start, reply.committed
                self._arrived.set()
            case Error() if self.times:
                self.is_live = False
                self.close(lambda: BrokerError.of(reply))
            case _:
                pass  # a first refusal is raised in `Client.subscribe`, a loss everywhere

    def _has_ended(self) -> bool:
        """Returns whether nothing more will come, and the broker has no use for further commits."""
        if not self.events or not isinstance(end := self.events[-1], SubscriptionEnded):
            return False
        return end.code != EndCode.UNTIL or not self._request.name


def end_of(frame: Messages) -> int:
    """Returns the offset after the last message of a frame."""
    return frame.base + (frame.deltas[-1] if frame.holes else frame.batch.count - 1) + 1
