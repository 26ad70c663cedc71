"""A subscription's inbox: events received and not read yet, and the offsets to resume from.

    committed        delivered         taken
    ────┬───────────────┬────────────────┬─────────▶ offsets
        │ may be settled│ redelivered    │ waiting in `events`, or still to be sent

After a lost connection the subscription is made again under the same number. An anonymous one
resumes at `taken`; events that waited here will be sent again, so they are dropped. A named one
resumes at the position below which the broker knows everything to be settled, which is `taken` at
most: messages in between are redelivered, and `Subscription` leaves them out. So does an anonymous
one with explicit commits, whose program may still hold what is not settled: it counts as in flight.

Every offset arrives in its place: messages begin where the last event ended, and what is missing
is reported as lag. So a reader may count on `until - start - lagged` messages, except in a table,
which has holes. A broker, or a proxy before it, that sends anything else breaks the protocol, and
the connection ends: a wrong count in silence would be worse.
"""

from collections import deque
from functools import partial

from zaichik.client.errors import TopicShrunk
from zaichik.client.receiver import NOT_NOW, Event, Receiver
from zaichik_protocol import (
    DeletionsMissed,
    EndCode,
    Lagged,
    Messages,
    Start,
    Subscribe,
    Subscribed,
    SubscriptionEnded,
)

# In the place of the next offset: no event may come.
NOTHING = -1


class Inbox(Receiver):
    """The events of one subscription that were not read yet, in order.

    Args:
        request: the Subscribe that was sent, or is about to be.
        explicit: whether the program says what is settled.

    Attributes:
        events: those events; a `SubscriptionEnded` stays here, for every loop to see.
        taken: all offsets below were taken from here, and are never given out again.
        delivered: all offsets below were delivered by this connection; commits may go no further.
        committed: all offsets below are known to be settled.
    """

    def __init__(self, request: Subscribe, *, explicit: bool = False) -> None:
        super().__init__(request)
        self._resumes_at_committed = explicit or bool(request.name)
        self.events: deque[Event] = deque()
        # Where they arrive; see `HeldInbox`.
        self._incoming = self.events
        self.taken = 0
        self.delivered = 0
        self.committed = 0
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

    @property
    def is_made(self) -> bool:
        """Whether the broker has made the subscription on this socket, and not ended it."""
        return self._next != NOTHING

    def put(self, event: Event) -> None:
        """See `Receiver`."""
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
                    raise self._wrong(NOT_NOW)
            case SubscriptionEnded():
                self._take_end(event)
        self._incoming.append(event)
        self._arrived.set()
        # Not by `_wake`: this is called for each frame of a conversation.
        if self.on_news is not None:
            self.on_news()

    def _check(self, first: int, end: int) -> None:
        """Refuse offsets that are not the next ones."""
        if self._next == NOTHING:
            raise self._wrong(NOT_NOW)
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

    def finish(self, text: str) -> None:
        """End it as it would at `until`: the program has asked for that in another way."""
        self.is_live = False
        self._next = NOTHING
        self.events.clear()
        end = SubscriptionEnded(self._request.id, EndCode.UNTIL, self.taken, text)
        self.events.append(end)
        self._wake()

    def drop(self) -> None:
        """See `Receiver`."""
        self.events.clear()

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
            # The program has ended it: nothing comes any more, and the broker will say so.
            if not self.is_live:
                return
            await self._arrival()

    # -- being made, and made again --------------------------------------------------------------

    def interrupted(self) -> None:
        """See `Receiver`."""
        self._next = NOTHING

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

    def _has_ended(self) -> bool:
        return bool(self.events) and self._is_over(self.events[-1])

    def _is_over(self, last: Event) -> bool:
        """Returns whether the last event is an end after which nothing is asked for."""
        if not isinstance(last, SubscriptionEnded):
            return False
        # Commits are accepted after `until`, if there is a position to keep.
        return last.code != EndCode.UNTIL or not self._request.name

    def _next_request(self) -> Subscribe:
        # Nothing by the new connection: a commit right after the request would be refused (CMT-2).
        self.delivered = 0
        first = self._request
        # The broker may have forgotten the name by now. Then the name starts again, at the first
        # message not settled: anything later could lose one.
        value = self.taken
        if self._resumes_at_committed:
            value = self.committed
        return Subscribe(
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

    def check(self, reply: Subscribed) -> None:
        """See `Receiver`."""
        super().check(reply)
        asked = self._asked
        # The broker knows better where a name resumes.
        resumes = bool(asked.name) and reply.resumed
        if asked.start == Start.OFFSET and not resumes and reply.start != asked.value:
            raise self._wrong(f"is to begin at offset {asked.value}, not at {reply.start}")

    def _made(self, reply: Subscribed) -> None:
        if self.times:
            # They are sent again.
            self.events.clear()
            self._check_length(reply.live)
        self.taken = max(self.taken, reply.start)
        self.delivered = reply.start
        self._next = reply.start
        self._may_skip = self._may_skip or reply.table
        self._live = reply.live
        self.committed = reply.committed

    def _check_length(self, live: int) -> None:
        """Fail if what was to be read was there, and is not there any more.

        The topic has gone back to an earlier state, as after the restore of an older copy. What
        takes these offsets later is not what was to be read.
        """
        if live < self._until <= self._live:
            self._is_shrunk = True
            self.close(partial(shrunk, self._request.topic, live, self._until))


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
