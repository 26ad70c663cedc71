"""Reading a topic from a thread: everything that has arrived crosses to the program at once.

Settling still follows the program message by message: the asynchronous subscription sees the
message in hand, so everything below it is committed ten times a second and when the subscription
ends. With explicit commits, what was given out counts: what has crossed may still wait here.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar, cast, overload

from zaichik.client import subscription as asynchronous
from zaichik.client.blocking.driver import Caller
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.inbox import end_of
from zaichik.client.messages import (
    DeletionsMissed,
    Lagged,
    Message,
    Missed,
    messages_of,
    rest_of,
)
from zaichik.client.subscription import check_given
from zaichik_protocol import Messages

Item = TypeVar("Item")  # Message, or Message | Missed with events=True


class Subscription(Generic[Item]):
    """An iterable over a topic's messages; `Client.subscribe` makes one.

    Use it from one thread at a time; only commits may come from others meanwhile.

    Attributes:
        redelivered: whether the message in hand was delivered to an earlier subscription of that
            name and not settled.
    """

    def __init__(
        self,
        thread: LoopThread,
        driver: Caller,
        inner: asynchronous.Subscription[Any],
        *,
        events: bool,
    ) -> None:
        self.redelivered = False
        self._thread = thread
        self._driver = driver
        self._inner = inner
        self._events = events
        self._items: deque[Messages | Missed] = deque()  # fetched, not given out
        self._frame: Messages | None = None  # in hand
        self._messages: Iterator[Message] = iter(())  # of it
        self._next = inner.start

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._inner.topic

    @property
    def epoch(self) -> int:
        """The topic's identity, for subscribing again later."""
        return self._inner.epoch

    @property
    def start(self) -> int:
        """The first offset that may be delivered."""
        return self._inner.start

    @property
    def live(self) -> int:
        """The topic's next offset when the subscription began.

        What lies below is history (RET-3).
        """
        return self._inner.live

    @property
    def table(self) -> bool:
        """Whether the topic is a table.

        There, a message with a key and no payload deletes its key (TAB-5).
        """
        return self._inner.table

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be delivered."""
        return self._inner.lagged

    @property
    def name(self) -> str:
        """The name under which the broker keeps its position; "" if it is anonymous (CMT-4)."""
        return self._inner.name

    @property
    def resumed(self) -> bool:
        """Whether it began where an earlier subscription of that name had stopped (CMT-3)."""
        return self._inner.resumed

    @property
    def committed(self) -> int:
        """The offset below which everything is settled, or about to be.

        Nothing waits for a commit.
        """
        return self._inner.committed

    @property
    def failure(self) -> Exception | None:
        """Why no more messages will arrive.

        None if more may arrive, or the subscription ended at `until`.
        """
        return self._inner.failure

    @property
    def next(self) -> int:
        """The offset after the last message given out."""
        message = self._inner.in_hand
        if message is None:
            return self._next
        return max(self._next, message.offset + 1)

    @property
    def ended(self) -> bool:
        """Whether `until` was reached, and everything before it was fetched."""
        return self._inner.ended and not self._items

    def __iter__(self) -> Iterator[Item]:
        """Returns the messages, one by one; the next one settles the one before.

        With `events=True` also `Lagged` and `DeletionsMissed`.

        A second loop continues where the first was left. Errors are those of the asynchronous
        subscription.
        """
        inner = self._inner
        while True:
            for message in self._messages:
                inner.in_hand = message
                yield cast("Item", message)
            match self._next_item():
                case None:
                    return
                case Lagged() | DeletionsMissed() as missed:
                    if self._events:
                        yield cast("Item", missed)
                case frame:
                    self._take(frame)

    @overload
    def pieces(self: "Subscription[Message]") -> Iterator[list[Message]]: ...

    @overload
    def pieces(self: "Subscription[Message | Missed]") -> Iterator[list[Message] | Missed]: ...

    def pieces(self) -> Iterator[Any]:
        """Returns the same messages in lists, as they arrive.

        Each list has at least one message and is settled as a whole. With `events=True` there may
        be a `Lagged` or a `DeletionsMissed` between two lists.
        """
        while True:
            if piece := [*self._messages]:
                self._inner.in_hand = piece[0]
                self._next, self._frame = piece[-1].offset + 1, None
                yield piece
            match self._next_item():
                case None:
                    return
                case Lagged() | DeletionsMissed() as missed:
                    if self._events:
                        yield missed
                case frame:
                    self._take(frame)

    def batches(self) -> Iterator[Messages]:
        """Returns the same messages in the wire's own batches.

        A batch has `base`, `accepted_us`, and the columns in `batch`. What is not taken, because
        the loop was left, is given out next.
        """
        while True:
            self._put_back()
            match self._next_item():
                case None:
                    return
                case Messages() as frame:
                    self._next = end_of(frame)
                    yield frame
                case _:
                    # Lag is counted, and both are logged.
                    pass

    def fetch(self, timeout: float | None = None) -> list[Messages | Missed]:
        """Returns everything that has arrived, and settles the last fetch.

        That is at least one item, unless `until` is reached. Of the topic's history, it waits for
        half of the credit. See `zaichik.Subscription.fetch`.

        Args:
            timeout: seconds after which to return what there is; None: never.
        """
        self._put_back()
        if not self._items:
            self._thread.call(partial(self._fetch, timeout))
        items = [*self._items]
        self._items.clear()
        for item in items:
            # What was deleted has no offset here.
            if not isinstance(item, DeletionsMissed):
                self._next = _end(item)
        return items

    def _put_back(self) -> None:
        """Have the rest of the frame in hand come next, if a loop over messages has left one."""
        rest = None
        if self._frame is not None:
            rest = rest_of(self._frame, self.next)
        self._leave_frame()
        if rest is not None:
            self._items.appendleft(rest)

    async def _fetch(self, timeout: float | None = None) -> None:
        # Nothing is lost if the waiting thread is interrupted just before it would have got the
        # result. It is here then, and may have come after that thread has looked again.
        if not self._items:
            self._items.extend(await self._inner.fetch(timeout))

    def _next_item(self) -> Messages | Missed | None:
        """Returns the next item; None at the end, when the last message is settled, too."""
        if self._frame is not None:
            self._next, self._frame = end_of(self._frame), None
        while not self._items:
            self._thread.call(self._fetch)
            if not self._items and self._inner.ended:
                return None
        item = self._items.popleft()
        if isinstance(item, Lagged):
            self._next = item.end
        return item

    def _take(self, frame: Messages) -> None:
        self._frame, self._next = frame, frame.base
        self._messages = messages_of(frame, self.topic)
        self.redelivered = frame.redelivered

    def inherited(self) -> None:
        """See `forking`. What has arrived is given out in the other process."""
        self._items.clear()
        self._leave_frame()

    def _leave_frame(self) -> None:
        self._frame = None
        deque(self._messages, 0)  # exhausted, for a loop that has begun to run over it as well

    def commit(self, message: Message | int) -> None:
        """Settle this message and all before it, and wait until the broker has confirmed that.

        Other threads than the one that iterates may call it, too.

        Args:
            message: the message, or its offset: see `zaichik.Subscription.commit`.

        Raises:
            NotInFlight, TakenOver, SubscriptionLost, EpochChanged, NoSuchSubscription, ValueError,
                RuntimeError: see there.
        """
        self._check_given(message)
        self._driver.call(self._inner.commit, message)

    def commit_nowait(self, message: Message | int) -> None:
        """Settle this message and all before it, without waiting for the broker.

        A commit is sent for all that was settled like this, within a few milliseconds. Other
        threads may call it, too.

        Args:
            message: the message, or its offset: see `zaichik.Subscription.commit_nowait`.

        Raises:
            NotInFlight, SubscriptionLost, EpochChanged, BrokerError, ConnectionLost, ValueError,
                RuntimeError: see there.
        """
        self._check_given(message)
        self._driver.call(self._commit_nowait, message)

    async def _commit_nowait(self, message: Message | int) -> None:
        self._inner.commit_nowait(message)

    def _check_given(self, message: Message | int) -> None:
        # At the end there may be offsets without messages, as in a table.
        is_at_the_end = self.ended and self._frame is None
        if isinstance(message, int) and not is_at_the_end:
            check_given(self.topic, message, self.next)

    def forget(self) -> None:
        """End this subscription and have the broker forget its name.

        The next one of that name starts afresh.

        Raises:
            NoSuchSubscription: it has ended already.
        """
        self._thread.call(self._inner.forget)
        self._items.clear()
        self._leave_frame()

    def start_over(self) -> None:
        """Drop everything that has arrived, and begin again with the earliest message.

        A reader of a table that gets `DeletionsMissed` drops what it holds and calls this: see
        `zaichik.Subscription.start_over`.

        Raises:
            EpochChanged, SubscriptionLost, BrokerError, ConnectionLost: see there.
        """
        self._items.clear()
        self._leave_frame()
        self._thread.call(self._inner.start_over)
        self._next = self.start


def _end(item: Messages | Lagged) -> int:
    if isinstance(item, Lagged):
        return item.end
    return end_of(item)
