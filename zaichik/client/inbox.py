"""A subscription's inbox: events received and not read yet, and the offsets to resume from.

    committed        delivered         taken
    ────┬───────────────┬────────────────┬─────────▶ offsets
        │ may be settled│ redelivered    │ waiting in `events`, or still to be sent

After a lost connection the subscription is made again under the same number. An anonymous one
resumes at `taken`; events that waited here will be sent again, so they are dropped. A named one
resumes at the position below which the broker knows everything to be settled, which is `taken` at
most: messages in between are redelivered, and `Subscription` leaves them out.

Every offset arrives in its place: messages begin where the last event ended, and what is missing
is reported as lag. So a reader may count on `until - start - lagged` messages, except in a table,
which has holes. A broker, or a proxy before it, that sends anything else breaks the protocol, and
the connection ends: a wrong count in silence would be worse.
"""

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from zaichik.client.errors import (
    BrokerError,
    SubscriptionLost,
    TakenOver,
    TopicShrunk,
    name_of,
)
from zaichik.client.outcome import Lost
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import (
    OWNER,
    DeletionsMissed,
    EndCode,
    Error,
    ErrorCode,
    Frame,
    Lagged,
    Messages,
    ProtocolError,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

Event = Messages | Lagged | DeletionsMissed | SubscriptionEnded

# In the place of the next offset: no event may come.
NOTHING = -1
_NOT_NOW = "has events before it was made, or after its end"


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
        on_news: called when an event has come, or no more will come; it must not fail. None: the
            tasks that wait are woken, and that is all.
    """

    def __init__(self, request: Subscribe) -> None:
        self.events: deque[Event] = deque()
        self.taken = 0
        self.delivered = 0
        self.committed = 0
        self.times = 0
        self.is_live = True
        self.lost: Lost | None = None
        self.on_news: Callable[[], None] | None = None
        # Where the next event begins: `delivered`, or NOTHING before the broker has made the
        # subscription on this socket, and after its end.
        self._next = NOTHING
        self._until = request.until
        # Whether the broker sends holes, as in a table. Then offsets may be left out also where no
        # frame shows it: after the last message of one.
        self._may_skip = False
        # Whether what comes is no more what was to be read: see `_check_length`.
        self._is_shrunk = False
        # The topic's next offset, as the broker told it last.
        self._live = 0
        self._request = request
        # The request that was sent last.
        self._asked = request
        self._epoch = request.epoch
        # The owner of its name, and how often it tried to get the name.
        self._owner = secrets.randbelow(2**64 - 1) + 1
        self._attempts = 0
        # An end that the program did not ask for.
        self._end: SubscriptionEnded | None = None
        self._arrived = Wakeup()

    @property
    def id(self) -> int:
        """The number of the subscription."""
        return self._request.id

    def put(self, event: Event) -> None:
        """Add an event and wake the tasks that wait for one.

        Raises:
            ProtocolError: it is not what comes next, or nothing may come.
        """
        if self._is_shrunk:
            return
        match event:
            case Messages():
                end = end_of(event)
                # Without holes there is one right place.
                if event.holes or event.base != self._next or end > self._until:
                    self._may_skip = self._may_skip or event.holes
                    self._check(event.base, end)
                self.delivered = end
                self._next = end
            case Lagged():
                self._check(event.from_offset, event.to_offset)
                self.delivered = event.to_offset
                self._next = event.to_offset
            case DeletionsMissed():
                if self._next == NOTHING:
                    raise self._wrong(_NOT_NOW)
            case SubscriptionEnded():
                self._take_end(event)
        self.events.append(event)
        self._arrived.set()
        # Not by `_wake`: this is called for each frame of a conversation.
        if self.on_news is not None:
            self.on_news()

    def _check(self, first: int, end: int) -> None:
        """Refuse offsets that are not the next ones."""
        if self._next == NOTHING:
            raise self._wrong(_NOT_NOW)
        if first < self._next or (first > self._next and not self._may_skip):
            raise self._wrong(f"was sent offset {first} where {self._next} comes next")
        if end <= first:
            raise self._wrong(f"was told that nothing is missing, from {first} to {end}")
        if end > self._until:
            raise self._wrong(f"ends before offset {self._until} and was sent those up to {end}")

    def _take_end(self, event: SubscriptionEnded) -> None:
        if self._next == NOTHING:
            raise self._wrong("has ended before it was made, or twice")
        # Commits are accepted after `until`, up to where it stood (RET-4).
        if event.code != EndCode.UNTIL:
            self._end = event
        elif self._may_skip and self._next <= self._until == event.next:
            self.delivered = event.next
        elif event.next != self._next or self._next < self._until:
            reached = f"ends at offset {self._until}, and has reached {self._next}"
            raise self._wrong(f"{reached}, when the broker said that it has ended there")
        self._next = NOTHING

    def _wrong(self, what: str) -> ProtocolError:
        request = self._request
        problem = f"subscription {request.id}, to {request.topic}, {what}"
        return ProtocolError(ErrorCode.MALFORMED, problem, request_id=request.id)

    def finish(self, text: str) -> None:
        """End it as it would at `until`: the program has asked for that in another way."""
        self.is_live = False
        self._next = NOTHING
        self.events.clear()
        end = SubscriptionEnded(self._request.id, EndCode.UNTIL, self.taken, text)
        self.events.append(end)
        self._wake()

    def close(self, lost: Lost) -> None:
        """Note that no more events will come, and wake the tasks that wait for one."""
        self.lost = self.lost or lost
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        if self.on_news is not None:
            self.on_news()

    async def wait(self) -> None:
        """Wait for an event, without taking it.

        Of several waiting tasks, any may be the first to take it.

        Raises:
            ZaichikError: there is none, and no more will come.
        """
        if not self.events:
            if self.lost is not None:
                raise self.lost()
            await self._arrival()

    async def wait_delivered(self, offset: int) -> None:
        """Wait until everything below that offset has been delivered again.

        That is if it was taken before a loss; otherwise this does not wait.

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
        if self.lost is not None:
            return self.lost()
        return None

    def failure(self, end: SubscriptionEnded) -> SubscriptionLost:
        """Returns the error for an end that the program did not ask for."""
        topic, name = self._request.topic, self._request.name
        if end.code == EndCode.TAKEN_OVER:
            taken_over = f"another subscription has taken over the name {name!r} in {topic}"
            problem = f"{taken_over}: {end.text}"
            return TakenOver(Error(end.id, ErrorCode.TAKEN_OVER, Subscribe.TYPE, "", 0, problem))
        ended = f"the subscription to {topic} was ended: {end.text}"
        return SubscriptionLost(ended, name_of(EndCode, end.code))

    async def _arrival(self) -> None:
        # If it is not set, another task waits for it already: share it.
        if self._arrived.is_set():
            self._arrived = Wakeup()
        await self._arrived.wait()

    # -- being made, and made again --------------------------------------------------------------

    def interrupted(self) -> None:
        """Note that the socket was lost: until it is made again, no event may come."""
        self._next = NOTHING

    def owned(self, request: Subscribe, features: int) -> Subscribe:
        """Returns the request as its owner's next attempt to get the name (CMT-3).

        If it has no name, or the broker does not know owners, it is one without an owner.
        """
        if not request.name or not features & OWNER:
            return replace(request, owner=0, attempt=0, owned=False)
        self._attempts += 1
        return replace(request, owner=self._owner, attempt=self._attempts, owned=True)

    def start_over(self, request: Subscribe) -> None:
        """Drop everything, and take the events of another subscription instead.

        Args:
            request: its Subscribe, which is about to be sent.
        """
        self.events.clear()
        self.taken = 0
        self.delivered = 0
        self.committed = 0
        self.times = 0
        self.is_live = True
        self._next = NOTHING
        self._live = 0
        self._request = request
        self._asked = request
        self._epoch = request.epoch

    def again(self) -> Subscribe | None:
        """Returns the request that makes the subscription again; None if it has ended."""
        if self.times == 0:
            # The first request still waits for its reply, and will be sent again as it was.
            return None
        if self._has_ended():
            self.is_live = False
        if not self.is_live:
            return None
        # Nothing by the new connection: a commit right after the request would be refused (CMT-2).
        self.delivered = 0
        first = self._request
        # The broker may have forgotten the name by now. Then the name starts again, at the first
        # message not settled: anything later could lose one.
        value = self.taken
        if first.name:
            value = self.committed
        self._asked = Subscribe(
            id=first.id,
            topic=first.topic,
            name=first.name,
            start=Start.OFFSET,
            value=value,
            epoch=self._epoch,
            until=first.until,
            credit=first.credit,
            credit_bytes=first.credit_bytes,
        )
        return self._asked

    def check(self, reply: Subscribed) -> None:
        """Refuse a reply that is not about what was asked for.

        Raises:
            ProtocolError: it is about another topic, or begins elsewhere.
        """
        asked = self._asked
        if asked.epoch and reply.epoch != asked.epoch:
            raise self._wrong(f"is to be of epoch {asked.epoch}, and was made of {reply.epoch}")
        # The broker knows better where a name resumes.
        resumes = bool(asked.name) and reply.resumed
        if asked.start == Start.OFFSET and not resumes and reply.start != asked.value:
            raise self._wrong(f"is to begin at offset {asked.value}, not at {reply.start}")

    def answer(self, reply: Frame | Lost) -> None:
        """Handle the outcome of a Subscribe.

        What waits here is given out even if one after a loss is refused.
        """
        match reply:
            case Subscribed():
                if self.times:
                    # They are sent again.
                    self.events.clear()
                    self._check_length(reply.live)
                self.times += 1
                self._epoch = reply.epoch
                self.taken = max(self.taken, reply.start)
                self.delivered = reply.start
                self._next = reply.start
                self._may_skip = self._may_skip or reply.table
                self._live = reply.live
                self.committed = reply.committed
                self._arrived.set()
            case Error():
                self.is_live = False
                # A first refusal is raised where it was asked for.
                if self.times:
                    self.close(lambda: BrokerError.of(reply))
            case _:
                # A loss is raised everywhere.
                pass

    def _check_length(self, live: int) -> None:
        """Fail if what was to be read was there, and is not there any more.

        The topic has gone back to an earlier state, as after the restore of an older copy. What
        takes these offsets later is not what was to be read.
        """
        if live < self._until <= self._live:
            self._is_shrunk = True
            self.close(partial(shrunk, self._request.topic, live, self._until))

    def _has_ended(self) -> bool:
        """Returns whether nothing more will come, and the broker has no use for further commits."""
        if not self.events or not isinstance(end := self.events[-1], SubscriptionEnded):
            return False
        return end.code != EndCode.UNTIL or not self._request.name


def shrunk(topic: str, live: int, end: int) -> TopicShrunk:
    """Returns the error for a topic that ends at `live` and was to be read up to `end`."""
    return TopicShrunk(
        f"{topic} ends before offset {live}, and had reached {end} a moment ago: it has gone back "
        "to an earlier state, as after the restore of an older copy"
    )


def check_end(topic: str, live: int, end: int) -> None:
    """Refuse to wait for messages that were there, as `describe` told, and are not any more.

    A subscription up to an end beyond the topic's waits for what is published next.

    Args:
        topic: its name.
        live: the topic's next offset when the subscription began.
        end: the next offset that was told before.

    Raises:
        TopicShrunk: the topic has become shorter.
    """
    if live < end:
        raise shrunk(topic, live, end)


def end_of(frame: Messages) -> int:
    """Returns the offset after the last message of a frame."""
    if frame.holes:
        return frame.base + frame.deltas[-1] + 1
    return frame.base + frame.batch.count
