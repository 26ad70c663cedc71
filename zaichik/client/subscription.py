"""Reading a topic: messages out of frames, and commits at the right moments.

The step to the next message settles the one before: a program that fails, or leaves the loop, never settles
the message it was handling. Commits travel seldom and nobody waits for them. One is sent

* when half of either credit is settled, so that the broker can send on before the reader runs dry;
* before waiting for more;
* every 100 ms, for slow programs;
* when the subscription ends.
"""

import logging
from collections.abc import Iterator
from typing import Generic, Self, TypeVar, cast

import anyio
import anyio.lowlevel

import zaichik_protocol as wire
from zaichik.client.connection import Connection, Inbox
from zaichik.client.errors import SubscriptionLost
from zaichik.client.messages import Lagged, Message, messages_of

logger = logging.getLogger(__name__)

Item = TypeVar("Item")  # Message, or Message | Lagged with events=True


class Subscription(Generic[Item]):
    """An asynchronous iterator over a topic's messages; `Client.subscribe` makes one.

    Attributes:
        topic: the topic's name.
        epoch: the topic's identity, for subscribing again later.
        start: the first offset that could come.
        live: the topic's next offset when the subscription began: what lies below is history (RET-3).
        lagged: messages that were gone before they could be delivered, in all.
    """

    def __init__(
        self,
        connection: Connection,
        request: wire.Subscribe,
        reply: wire.Subscribed,
        inbox: Inbox,
        *,
        events: bool,
    ) -> None:
        self.topic = request.topic
        self.epoch = reply.epoch
        self.start = reply.start
        self.live = reply.live
        self.lagged = 0
        self._connection = connection
        self._id = request.id
        self._inbox = inbox
        self._events = events
        self._half_credit = max(1, request.credit // 2)
        self._half_credit_bytes = request.credit_bytes // 2
        self._messages: Iterator[Message] = iter(())  # of the frame in hand
        self._frame_bytes = 0  # of the frame in hand
        self._stepped_bytes = 0  # of frames stepped past since the last commit
        self._next = self._settled = self._committed = reply.committed

    def __aiter__(self) -> Self:
        """Itself: two loops over one subscription share its messages, and each step settles what both were given."""
        return self

    async def __anext__(self) -> Item:
        """The next message, the one before being settled by this step. With `events=True` also `Lagged`.

        Raises:
            StopAsyncIteration: `until` was reached.
            SubscriptionLost: the broker ended the subscription.
            ConnectionLost: the connection is gone, and everything that had arrived was given out.
        """
        self._settled = self._next
        if self._settled - self._committed >= self._half_credit:
            self.commit_settled()
            await anyio.lowlevel.checkpoint()  # let the writer send it while there is still work in hand
        while (message := next(self._messages, None)) is None:
            lagged = await self._advance()
            if lagged is not None and self._events:
                return cast("Item", lagged)
        self._next = message.offset + 1
        return cast("Item", message)

    async def _advance(self) -> Lagged | None:
        """Look at the next event, or wait for one. Messages are put in hand, lag is returned."""
        self._stepped_bytes += self._frame_bytes
        self._frame_bytes = 0
        if not self._inbox.events or self._stepped_bytes >= self._half_credit_bytes:
            self.commit_settled()
        if not self._inbox.events:
            await self._inbox.wait()
            return None  # and nothing taken: of two loops over one subscription the other may have been quicker
        match self._inbox.events[0]:
            case wire.SubscriptionEnded(code=wire.EndCode.UNTIL):  # it stays in the inbox, for all loops to see
                raise StopAsyncIteration
            case wire.SubscriptionEnded() as end:
                raise SubscriptionLost(f"the subscription to {self.topic} was ended: {end.text}")
            case wire.Messages() as frame:
                self._inbox.events.popleft()
                self._messages = messages_of(frame, self.topic)
                self._frame_bytes = frame.batch.size
                return None
            case wire.Lagged() as event:
                self._inbox.events.popleft()
                lagged = Lagged(self.topic, event.from_offset, event.to_offset)
                self.lagged += lagged.count
                self._next = lagged.end
                logger.warning(
                    "%s: %d messages were gone before they could be read (offsets %d to %d)",
                    self.topic, lagged.count, lagged.start, lagged.end - 1,
                )  # fmt: skip
                return lagged

    async def commit(self, message: Message) -> None:
        """Settle this message and all before it, and wait until the broker has agreed.

        Raises:
            NotInFlight: it was not delivered yet.
            ValueError: it is another topic's.
        """
        if message.topic != self.topic:
            raise ValueError(f"a message of {message.topic!r} cannot be committed to {self.topic!r}")
        next_offset = message.offset + 1
        request = wire.Commit(self._connection.next_id(), self._id, next_offset)
        await self._connection.request(request, wire.Committed)
        self._settled = max(self._settled, next_offset)
        self._committed = max(self._committed, next_offset)

    def commit_settled(self) -> None:
        """Tell the broker, without waiting, what the loop has stepped past, if there is news."""
        if self._settled > self._committed:
            self._committed = self._settled
            self._stepped_bytes = 0
            self._connection.send(wire.Commit(0, self._id, self._settled))
