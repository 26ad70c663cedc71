"""What a program works on: the frame in hand, and what was fetched and comes after it.

An event loop and a thread iterate over a pattern in the same way, so both use this. Of the frame in
hand, the program steps from message to message. When it asks for the next frame, the one in hand
was handled.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from zaichik.client.inbox import end_of
from zaichik.client.messages import Message, PatternEvent, messages_of
from zaichik.client.patterns.topic_name import TopicName
from zaichik.client.subscription import Subscription
from zaichik_protocol import Messages


class Part(NamedTuple):
    """A frame of messages, and the subscription that it is of."""

    subscription: Subscription[Any]
    frame: Messages

    def messages(self) -> Iterator[Message]:
        """Returns its messages, whose topics know their epoch."""
        subscription = self.subscription
        return messages_of(self.frame, TopicName(subscription.topic, subscription.epoch))


# Of a round.
Fetched = Part | PatternEvent


class InHand:
    """The frame in hand, and what comes after it.

    Attributes:
        messages: those of the frame in hand that were not given out yet.
        redelivered: whether the frame in hand was delivered to an earlier subscription of that name
            and not settled.
        unsettled: the subscriptions that may have something to commit.
    """

    def __init__(self) -> None:
        self.messages: Iterator[Message] = iter(())
        self.redelivered = False
        self.unsettled: dict[Subscription[Any], None] = {}
        self._part: Part | None = None
        self._items: deque[Fetched] = deque()

    @property
    def subscription(self) -> Subscription[Any] | None:
        """The subscription that the frame in hand is of; None between frames."""
        # Read once: the program may have a thread of its own.
        part = self._part
        if part is None:
            return None
        return part.subscription

    @property
    def is_empty(self) -> bool:
        """Whether nothing comes after the frame in hand."""
        return not self._items

    def extend(self, items: Iterable[Fetched]) -> None:
        """Add what was fetched."""
        self._items.extend(items)

    def step(self, message: Message) -> None:
        """Note that this message of the frame in hand is given out."""
        if self._part is not None:
            self._part.subscription.in_hand = message

    def finish(self) -> None:
        """Note that the frame in hand was handled."""
        if self._part is None:
            return
        subscription, frame = self._part
        subscription.step_past(end_of(frame))
        self.unsettled[subscription] = None
        self._part = None

    def next(self) -> PatternEvent | None:
        """Take the next frame in hand, or return the event that comes before it."""
        item = self._items.popleft()
        if not isinstance(item, Part):
            return item
        self._part = item
        self.messages = item.messages()
        self.redelivered = item.frame.redelivered
        return None

    def drop(self, subscription: Subscription[Any]) -> None:
        """Drop what is here of a topic: it begins again."""
        if self.subscription is subscription:
            self._leave()
        kept: deque[Fetched] = deque()
        for item in self._items:
            if not (isinstance(item, Part) and item.subscription is subscription):
                kept.append(item)
        self._items = kept

    def clear(self) -> None:
        """Drop everything."""
        self._items.clear()
        self._leave()

    def _leave(self) -> None:
        """Leave the frame in hand without having handled it."""
        self._part = None
        # Exhausted, for a loop that has begun to run over it as well.
        deque(self.messages, 0)
