"""What a program iterates over: the messages of all topics that match a pattern.

Topics take turns. One that something has come of waits in a queue, once; in its turn, it gives out
all that has come, which is at most its share of the credit. So a busy topic delays the others by
no more than its share. A round gives every topic in the queue its turn, and is settled as a whole
by the next one; what the program has stepped past is committed ten times a second meanwhile.

What is told of topics, that one has gone for example, waits in the same queue, behind what came
before it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Self, TypeVar, cast

import anyio
import anyio.lowlevel

from zaichik.base.counted import counted
from zaichik.client.errors import ZaichikError
from zaichik.client.inbox import end_of
from zaichik.client.messages import (
    DeletionsMissed,
    Lagged,
    Message,
    PatternEvent,
    TopicGone,
    TopicMissed,
    TopicUnread,
    messages_of,
)
from zaichik.client.patterns.member import Member
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.topic_name import TopicName, may_be_of
from zaichik.client.subscription import Subscription
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import Messages

logger = logging.getLogger(__name__)

Item = TypeVar("Item")  # Message, or Message | PatternEvent with events=True


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


class PatternSubscription(Generic[Item]):
    """An asynchronous iterator over the messages of all topics that match a pattern.

    `Client.subscribe_pattern` makes one. Messages of one topic come in their order; between topics
    there is none.

    Attributes:
        pattern: the pattern.
        name: the name under which the broker keeps the position in each topic; "": none is kept.
        lagged: the number of messages that were gone before they could be delivered.
        redelivered: whether the message in hand was delivered to an earlier subscription of that
            name and not settled.
    """

    def __init__(self, matching: Pattern, name: str, *, events: bool) -> None:
        self.pattern = matching.text
        self.name = name
        self.lagged = 0
        self.redelivered = False
        self._matching = matching
        self._events = events
        # The topics that are read, and those among them that wait for their turn. Events wait
        # between them.
        self._members: dict[str, Member] = {}
        self._ready: deque[Member | PatternEvent] = deque()
        # How many events wait.
        self.waiting_events = 0
        # Why nothing more will come, and whether all that had come by then was given out.
        self._failure: Exception | None = None
        self._is_drained = False
        self._news = Wakeup()
        # What was fetched and not given out, and the frame in hand.
        self._items: deque[Fetched] = deque()
        self._part: Part | None = None
        self._messages: Iterator[Message] = iter(())
        # The subscriptions of this round, and those that may have something to commit.
        self._round: dict[Subscription[Any], None] = {}
        self._unsettled: dict[Subscription[Any], None] = {}
        # What the follower makes of the end of a topic, and its wake-up.
        self._on_end: Callable[[Member, Exception], PatternEvent | None] = _raise
        self._on_room: Callable[[], None] = _nothing

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        return tuple(self._members)

    def __aiter__(self) -> Self:
        """Returns itself. Two loops over it share its messages."""
        return self

    async def __anext__(self) -> Item:
        """Returns the next message of any topic; settles the one before.

        With `events=True` it may be one of the events that `Client.subscribe_pattern` names.

        Raises:
            TakenOver: another subscription of its name has taken over a topic.
            BrokerError: the broker refuses to tell its topics, or to have one read.
            ConnectionLost: a connection is lost, and everything that had arrived was given out.
        """
        while True:
            for message in self._messages:
                if self._part is not None:
                    self._part.subscription.in_hand = message
                return cast("Item", message)
            event = await self._advance()
            if event is not None and self._events:
                return cast("Item", event)

    async def _advance(self) -> PatternEvent | None:
        """Take the next frame in hand, or return what is told before it; or wait."""
        self.hold(None)
        if not self._items:
            self._items.extend(await self.fetch())
        # Another loop may have been quicker.
        if not self._items:
            return None
        item = self._items.popleft()
        if not isinstance(item, Part):
            return item
        self.hold(item)
        self._messages = item.messages()
        self.redelivered = item.frame.redelivered
        return None

    def hold(self, part: Part | None) -> None:
        """Take a frame in hand, or none; that in hand before was handled."""
        if self._part is not None:
            subscription = self._part.subscription
            subscription.step_past(end_of(self._part.frame))
            self._unsettled[subscription] = None
        self._part = part

    # -- in rounds -------------------------------------------------------------------------------

    async def fetch(self, timeout: float | None = None) -> list[Fetched]:
        """Returns what has arrived of each topic, at least one item, and settles the last round.

        None if the time is over. `zaichik.blocking` is built on this. Do not mix it with iterating.

        Args:
            timeout: seconds after which to return what there is; None: never.

        Raises:
            TakenOver, BrokerError, ConnectionLost: as when iterating.
        """
        self._settle_round()
        # Other tasks have their turn, however much is here already.
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(timeout):
            while not self._ready and self._failure is None:
                if self._news.is_set():
                    self._news = Wakeup()
                await self._news.wait()
        return self._next_round()

    def _next_round(self) -> list[Fetched]:
        """Returns what is there, each topic's in its turn."""
        if self._failure is not None and self._is_drained:
            raise self._failure
        items: list[Fetched] = []
        turns, self._ready = self._ready, deque()
        for turn in turns:
            if isinstance(turn, Member):
                items += self._turn(turn)
            else:
                items.append(turn)
                self.waiting_events -= 1
        self._on_room()
        if self._failure is not None:
            self._is_drained = True
            if not items:
                raise self._failure
        return items

    def _turn(self, member: Member) -> list[Fetched]:
        """Returns what has come of a topic."""
        member.is_ready = False
        subscription = member.subscription
        items: list[Fetched] = []
        try:
            for item in subscription.fetch_nowait():
                if isinstance(item, Messages):
                    items.append(Part(subscription, item))
                    self._round[subscription] = None
                else:
                    items.append(item)
                    if isinstance(item, Lagged):
                        self.lagged += item.count
        except (ZaichikError, RuntimeError) as failure:
            event = self._on_end(member, failure)
            if event is not None:
                self._log(event)
                items.append(event)
            return items
        # An end comes in a turn of its own.
        if member.has_news:
            self.arrived(member)
        return items

    def _settle_round(self) -> None:
        for subscription in self._round:
            subscription.settle_fetched()
        self._unsettled |= self._round
        self._round = {}

    def commit_settled(self) -> None:
        """Commit what the loop has stepped past, unless that is committed already.

        This does not wait for the broker.
        """
        unsettled, self._unsettled = self._unsettled, {}
        # A program of its own thread may add one meanwhile.
        for subscription in [*unsettled]:
            subscription.commit_settled()
        # The program may take long over the frame in hand.
        part = self._part
        if part is not None:
            part.subscription.commit_settled()

    # -- what a program may ask for ---------------------------------------------------------------

    async def commit(self, message: Message) -> None:
        """Settle this message and all before it in its topic; wait until the broker confirms it.

        If the topic has gone, there is nothing to settle, and nothing happens, even if there is
        another one of that name. A message that the program has made itself, with a plain name, is
        taken to be of the topic that is read now.

        Raises:
            NotInFlight: it was not delivered yet.
            ConnectionLost, SubscriptionLost: see `Subscription.commit`.
            ValueError: the topic does not match the pattern.
        """
        if not self._matching.matches(message.topic):
            raise ValueError(f"{message.topic!r} does not match the pattern {self.pattern!r}")
        member = self._members.get(message.topic)
        if member is not None and may_be_of(message.topic, member.wanted.epoch):
            await member.subscription.commit(message)

    async def start_over(self, topic: str) -> None:
        """Begin again with the earliest message of a topic, a table that has missed deletions.

        See `Subscription.start_over`. If the topic has gone, nothing happens: that is told.
        """
        member = self._members.get(topic)
        if member is None:
            return
        self._drop(member.subscription)
        await member.subscription.start_over()

    def _drop(self, subscription: Subscription[Any]) -> None:
        """Drop what of a topic is in hand, and what of it was fetched and not given out."""
        if self._part is not None and self._part.subscription is subscription:
            self._part = None
            self._messages = iter(())
        kept = [item for item in self._items if not _is_of(item, subscription)]
        self._items = deque(kept)

    # -- for the follower ------------------------------------------------------------------------

    def follow(
        self,
        on_end: Callable[[Member, Exception], PatternEvent | None],
        on_room: Callable[[], None],
    ) -> None:
        """Call these: with a topic that has ended, and the reason; and after each round.

        The first returns what is told of it.
        """
        self._on_end = on_end
        self._on_room = on_room

    def add(self, member: Member) -> None:
        """Read one more topic."""
        self._members[member.wanted.topic] = member
        member.listen(self.arrived)
        if member.has_news:
            self.arrived(member)

    def remove(self, member: Member) -> None:
        """Read a topic no more."""
        # There may be a later one of that name.
        if self._members.get(member.wanted.topic) is member:
            del self._members[member.wanted.topic]
        self._round.pop(member.subscription, None)
        self._unsettled.pop(member.subscription, None)

    def arrived(self, member: Member) -> None:
        """Have a topic wait for its turn: something has come of it."""
        if not member.is_ready:
            member.is_ready = True
            self._ready.append(member)
            self._news.set()

    def tell(self, event: PatternEvent) -> None:
        """Tell the program something of a topic."""
        self._log(event)
        if self._events:
            self.waiting_events += 1
            self._ready.append(event)
            self._news.set()

    def fail(self, failure: Exception) -> None:
        """Raise this when everything that has arrived was given out. The first one counts."""
        self._failure = self._failure or failure
        self._news.set()

    def _log(self, event: PatternEvent) -> None:
        """Write an event to the log, if the program is not told; lag is there already."""
        if self._events:
            return
        match event:
            case TopicGone():
                logger.warning(
                    "%s: the topic is gone; it was read up to offset %d", event.topic, event.next
                )
            case TopicMissed():
                logger.warning(
                    "%s: %s of that name had gone before anything could be read",
                    event.topic,
                    counted(event.count, "topic"),
                )
            case TopicUnread():
                logger.warning("%s: the topic cannot be read now: %s", event.topic, event.reason)
            case DeletionsMissed(topic="$topics"):
                logger.warning("topics may have come and gone unseen")
            case _:
                pass


def _is_of(item: Fetched, subscription: Subscription[Any]) -> bool:
    return isinstance(item, Part) and item.subscription is subscription


def _raise(_: Member, failure: Exception) -> PatternEvent | None:
    raise failure


def _nothing() -> None:
    """Do nothing."""
