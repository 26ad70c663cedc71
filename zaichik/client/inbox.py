"""What one subscription was sent and has not looked at yet, and where it stands, so that it can be made again.

    committed        delivered         taken
    ────┬───────────────┬────────────────┬─────────▶ offsets
        │ ours to settle│ will come again│ waiting in `events`, or still to come

After a loss the subscription is made again under the same number. One without a name goes on at `taken`; what waited
here comes a second time, so it is dropped. One with a name goes on where the broker knows it to have settled
everything, which is behind `taken`: what lies between comes again, and whoever takes it here has to leave it out.
"""

import secrets
from collections import deque
from dataclasses import replace

import anyio

from zaichik.client.errors import BrokerError, SubscriptionLost, TakenOver
from zaichik.client.outcome import Lost
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
    """The events of one subscription that were not looked at yet, in order.

    Args:
        request: what the subscription was, or is about to be, asked for with.

    Attributes:
        events: an end stays here, for all to see who look.
        taken: every offset below was taken from here, once and for all.
        delivered: every offset below was delivered by this connection: as far as may be committed.
        committed: every offset below is known to be settled.
        times: how often the subscription was made: once, and once more after each loss.
        is_live: whether the broker knows it, or will when there is a connection again.
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
        self._attempts = 0  # to get it
        self._end: SubscriptionEnded | None = None  # one that was not asked for
        self._arrived = anyio.Event()

    def put(self, event: Event) -> None:
        """Take an event in and wake whoever waits for it."""
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
        """No more events will come."""
        self.lost = self.lost or lost
        self._arrived.set()

    async def wait(self) -> None:
        """Wait for an event, without taking it: of several tasks that wait, any may be the first to do so.

        Raises:
            ZaichikError: there is none, and no more will come.
        """
        if not self.events:
            if self.lost is not None:
                raise self.lost()
            await self._arrival()

    async def wait_delivered(self, offset: int) -> None:
        """Wait until what lies below that offset, if it was taken before a loss, was delivered again.

        Raises:
            Exception: why it never will be, in most cases a `ZaichikError`.
        """
        while self.delivered < offset <= self.taken:
            if self._end is not None:
                raise self.failure(self._end)
            if self.lost is not None:
                raise self.lost()
            await self._arrival()

    def failure(self, end: SubscriptionEnded) -> SubscriptionLost:
        """Returns the error for an end that was not asked for."""
        topic, name = self._request.topic, self._request.name
        if end.code == EndCode.TAKEN_OVER:
            problem = f"another subscription goes on as {name!r} in {topic}: {end.text}"
            return TakenOver(Error(end.id, ErrorCode.TAKEN_OVER, Subscribe.TYPE, "", 0, problem))
        return SubscriptionLost(f"the subscription to {topic} was ended: {end.text}")

    async def _arrival(self) -> None:
        if self._arrived.is_set():
            self._arrived = anyio.Event()  # else another task waits for this one already
        await self._arrived.wait()

    # -- being made, and made again --------------------------------------------------------------------------

    def owned(self, request: Subscribe, features: int) -> Subscribe:
        """The request as its owner's next attempt to get the name, for a broker of these features (CMT-3)."""
        if not request.name or not features & OWNER:
            return replace(request, owner=0, attempt=0, owned=False)
        self._attempts += 1
        return replace(request, owner=self._owner, attempt=self._attempts, owned=True)

    def again(self) -> Subscribe | None:
        """The request that makes it again; None if it has come to its end."""
        if self.times == 0:
            return None  # the first request waits for its answer still, and will be sent again as it was
        if self._has_ended():
            self.is_live = False
        if not self.is_live:
            return None
        self.delivered = 0  # by this connection; a commit that came right behind the request would be refused (CMT-2)
        first = self._request
        # A name may be forgotten by now, and is made anew then: at what it has not settled, for nothing less is safe.
        value = self.committed if first.name else self.taken
        return Subscribe(
            first.id, first.topic, first.name, Start.OFFSET, value, self._epoch,
            first.until, first.credit, first.credit_bytes,
        )  # fmt: skip

    def answer(self, reply: Frame | Lost) -> None:
        """Take in what became of the Subscribe. What waits here is given out, whatever becomes of a later one."""
        match reply:
            case Subscribed():
                if self.times:
                    self.events.clear()  # it comes again
                self.times += 1
                self._epoch = reply.epoch
                self.taken = max(self.taken, reply.start)
                self.delivered, self.committed = reply.start, reply.committed
                self._arrived.set()
            case Error() if self.times:
                self.is_live = False
                self.close(lambda: BrokerError.of(reply))
            case _:
                pass  # the first one is told to who asked for it, a loss to everybody

    def _has_ended(self) -> bool:
        """Whether nothing more would come, and nothing of what came is waited for at the broker."""
        if not self.events or not isinstance(end := self.events[-1], SubscriptionEnded):
            return False
        return end.code != EndCode.UNTIL or not self._request.name


def end_of(frame: Messages) -> int:
    """The offset after the last message of a frame."""
    return frame.base + (frame.deltas[-1] if frame.holes else frame.batch.count - 1) + 1
