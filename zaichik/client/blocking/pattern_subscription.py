"""Reading all topics of a pattern from a thread: a whole round crosses to the program at once.

Settling still follows the program frame by frame, as in `subscription`: the asynchronous
subscription sees the frame in hand, and the message of it.
"""

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar, cast

from zaichik.client.blocking.driver import Driver
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.messages import Message
from zaichik.client.patterns import subscription as asynchronous
from zaichik.client.patterns.subscription import Fetched, Part

Item = TypeVar("Item")  # Message, or Message | PatternEvent with events=True


class PatternSubscription(Generic[Item]):
    """An iterable over the messages of all topics that match; `Client.subscribe_pattern` makes one.

    Use it from one thread at a time. Messages of one topic come in their order; between topics
    there is none.

    Attributes:
        redelivered: whether the message in hand was delivered to an earlier subscription of that
            name and not settled.
    """

    def __init__(
        self,
        thread: LoopThread,
        driver: Driver,
        inner: asynchronous.PatternSubscription[Any],
        *,
        events: bool,
    ) -> None:
        self.redelivered = False
        self._thread = thread
        self._driver = driver
        self._inner = inner
        self._events = events
        # Fetched and not given out, and the rest of the frame in hand.
        self._items: deque[Fetched] = deque()
        self._part: Part | None = None
        self._messages: Iterator[Message] = iter(())

    @property
    def pattern(self) -> str:
        """The pattern."""
        return self._inner.pattern

    @property
    def name(self) -> str:
        """The name under which the broker keeps the position in each topic; "": none is kept."""
        return self._inner.name

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        return self._inner.topics

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be delivered."""
        return self._inner.lagged

    def __iter__(self) -> Iterator[Item]:
        """Returns the messages of any topic, one by one; the next one settles the one before.

        With `events=True` also the events that `zaichik.Client.subscribe_pattern` names. A second
        loop continues where the first was left. Errors are those of the asynchronous subscription.
        """
        while True:
            for message in self._messages:
                if self._part is not None:
                    self._part.subscription.in_hand = message
                yield cast("Item", message)
            item = self._next_item()
            if isinstance(item, Part):
                self._hold(item)
            elif self._events:
                yield cast("Item", item)

    def _next_item(self) -> Fetched:
        self._hold(None)
        while not self._items:
            self._thread.call(self._fetch)
        return self._items.popleft()

    async def _fetch(self) -> None:
        # As in `Subscription`: it may have come after the thread was interrupted.
        if not self._items:
            self._items.extend(await self._inner.fetch())

    def _hold(self, part: Part | None) -> None:
        """Take a frame in hand, or none; that in hand before was handled."""
        self._part = part
        self._inner.hold(part)
        self._messages = iter(())
        if part is not None:
            self._messages = part.messages()
            self.redelivered = part.frame.redelivered

    def commit(self, message: Message) -> None:
        """Settle this message and all before it in its topic; wait until the broker confirms it.

        If the topic has gone, nothing happens: see `zaichik.PatternSubscription.commit`.

        Raises:
            NotInFlight, SubscriptionLost, ConnectionLost, ValueError: see there.
        """
        self._driver.call(self._inner.commit, message)

    def start_over(self, topic: str) -> None:
        """Begin again with the earliest message of a topic, a table that has missed deletions.

        See `zaichik.Subscription.start_over`. If the topic has gone, nothing happens: that is told.
        """
        if self._part is not None and self._part.subscription.topic == topic:
            self._part = None
            self._messages = iter(())
        self._items = deque(item for item in self._items if not _is_of(item, topic))
        self._thread.call(partial(self._inner.start_over, topic))

    def inherited(self) -> None:
        """See `forking`. What has arrived is given out in the other process."""
        self._items.clear()
        self._part = None
        self._messages = iter(())


def _is_of(item: Fetched, topic: str) -> bool:
    return isinstance(item, Part) and item.subscription.topic == topic
