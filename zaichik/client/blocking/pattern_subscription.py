"""Reading all topics of a pattern from a thread: a whole round crosses to the program at once.

What the program works on is in the asynchronous subscription, which so sees the message in hand:
settling follows the program message by message, as in `subscription`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Generic, TypeVar, cast

from zaichik.client.blocking.driver import Caller
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.messages import Message, PatternEvent
from zaichik.client.patterns import subscription as asynchronous

Item = TypeVar("Item")  # Message, or Message | PatternEvent with events=True


class PatternSubscription(Generic[Item]):
    """An iterable over the messages of all topics that match; `Client.subscribe_pattern` makes one.

    Use it from one thread at a time. Messages of one topic come in their order; between topics
    there is none.
    """

    def __init__(
        self,
        thread: LoopThread,
        driver: Caller,
        inner: asynchronous.PatternSubscription[Any],
        *,
        events: bool,
    ) -> None:
        self._thread = thread
        self._driver = driver
        self._inner = inner
        self._events = events

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

    @property
    def redelivered(self) -> bool:
        """Whether the message in hand is delivered again.

        It was delivered to an earlier subscription of that name and not settled.
        """
        return self._inner.redelivered

    def __iter__(self) -> Iterator[Item]:
        """Returns the messages of any topic, one by one; the next one settles the one before.

        With `events=True` also the events that `zaichik.Client.subscribe_pattern` names. A second
        loop continues where the first was left. Errors are those of the asynchronous subscription.
        """
        in_hand = self._inner.in_hand
        while True:
            for message in in_hand.messages:
                in_hand.step(message)
                yield cast("Item", message)
            event = self._advance()
            if event is not None and self._events:
                yield cast("Item", event)

    def _advance(self) -> PatternEvent | None:
        """Take the next frame in hand, or return the event that comes before it."""
        in_hand = self._inner.in_hand
        in_hand.finish()
        while in_hand.is_empty:
            self._thread.call(self._fetch)
        return in_hand.next()

    async def _fetch(self) -> None:
        # As in `Subscription`: it may have come after the thread was interrupted.
        if self._inner.in_hand.is_empty:
            self._inner.in_hand.extend(await self._inner.fetch())

    def commit(self, message: Message) -> None:
        """Settle this message and all before it in its topic; wait until the broker confirms it.

        If the topic has gone, nothing happens: see `zaichik.PatternSubscription.commit`.

        Raises:
            NotInFlight, SubscriptionLost, ConnectionLost, ValueError, RuntimeError: see there.
        """
        self._driver.call(self._inner.commit, message)

    def start_over(self, topic: str) -> None:
        """Begin again with the earliest message of a topic, a table that has missed deletions.

        See `zaichik.PatternSubscription.start_over`, for errors as well.
        """
        self._thread.call(partial(self._inner.start_over, topic))

    def inherited(self) -> None:
        """See `forking`. What has arrived is given out in the other process."""
        self._inner.in_hand.clear()
