"""The topics of a pattern take turns.

One that something has come of waits in a queue, once. In its turn it gives out all that has come,
which is at most its share of the credit: so a busy topic delays the others by no more than its
share. A round gives every topic in the queue its turn, and is settled as a whole by the next one.

What is reported of topics, that one has gone for example, waits in the same queue, after what came
before it.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from zaichik.client.errors import ZaichikError
from zaichik.client.messages import Lagged, PatternEvent
from zaichik.client.patterns.events import headline, sentence
from zaichik.client.patterns.in_hand import Fetched, Part
from zaichik.client.patterns.member import Member
from zaichik.client.patterns.news import News
from zaichik.client.subscription import Subscription
from zaichik_protocol import Messages

logger = logging.getLogger(__name__)


class Turns:
    """The topics that are read, and those among them that wait for their turn.

    Args:
        events: whether events are for the program; if not, they are logged.
        on_end: called with a topic that has ended, and the reason; returns what is reported of it.
        on_round: called after each round: there is room for more events.
        news: set when something has come; several of these may share it.

    Attributes:
        lagged: the number of messages that were gone before they could be delivered.
        waiting_events: how many events wait.
    """

    def __init__(
        self,
        *,
        events: bool,
        on_end: Callable[[Member, Exception], PatternEvent | None],
        on_round: Callable[[], None],
        news: News | None = None,
    ) -> None:
        self.lagged = 0
        self.waiting_events = 0
        self._events = events
        self._on_end = on_end
        self._on_round = on_round
        self._members: dict[str, Member] = {}
        self._queue: deque[Member | PatternEvent] = deque()
        # Why nothing more will come, and whether all that had come by then was given out.
        self._failure: Exception | None = None
        self._is_drained = False
        self._news = news or News()
        # The subscriptions that have given out something in this round.
        self._round: dict[Subscription[Any], None] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        return tuple(self._members)

    def member(self, topic: str) -> Member | None:
        """Returns the topic of that name that is read now.

        Raises:
            Exception: there is none, and there will be none any more.
        """
        member = self._members.get(topic)
        if member is None and self._failure is not None:
            raise self._failure
        return member

    # -- what comes in ---------------------------------------------------------------------------

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

    def arrived(self, member: Member) -> None:
        """Have a topic wait for its turn: something has come of it."""
        if not member.is_ready:
            member.is_ready = True
            self._queue.append(member)
            self._news.set()

    def report(self, event: PatternEvent) -> None:
        """Give the program an event, or log it."""
        if not self._events:
            _log(event)
            return
        self.waiting_events += 1
        self._queue.append(event)
        self._news.set()

    def fail(self, failure: Exception) -> None:
        """Raise this when everything that has arrived was given out. The first one counts."""
        self._failure = self._failure or failure
        self._news.set()

    def close(self) -> None:
        """Give out nothing more: the block has ended."""
        self._members.clear()
        self._queue.clear()
        self._round.clear()
        self.fail(RuntimeError("the subscription has ended, with its `async with` block"))

    # -- what goes out ---------------------------------------------------------------------------

    def settle_round(self) -> dict[Subscription[Any], None]:
        """Settle all that was given out; returns what may have something to commit."""
        settled = self._round
        for subscription in settled:
            subscription.settle_fetched()
        self._round = {}
        return settled

    async def next_round(self, timeout: float | None) -> list[Fetched]:
        """Returns what has arrived of each topic, at least one item. Empty if the time is over.

        Args:
            timeout: seconds after which to return what there is; None: never.

        Raises:
            TakenOver, BrokerError, ConnectionLost, RuntimeError: nothing more will come.
        """
        # Other tasks have their turn, however much is here already.
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(timeout):
            while not self.is_ready:
                await self._news.wait()
        return self.take_round()

    @property
    def is_ready(self) -> bool:
        """Whether something has come, or nothing more will."""
        return bool(self._queue) or self._failure is not None

    def take_round(self) -> list[Fetched]:
        """Returns what is there, each topic's in its turn; perhaps nothing.

        Raises:
            TakenOver, BrokerError, ConnectionLost, RuntimeError: nothing more will come.
        """
        if self._failure is not None and self._is_drained:
            raise self._failure
        items: list[Fetched] = []
        queue, self._queue = self._queue, deque()
        for turn in queue:
            if isinstance(turn, Member):
                items += self._turn(turn)
            else:
                items.append(turn)
                self.waiting_events -= 1
        self._on_round()
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
                if not self._events:
                    _log(event)
                items.append(event)
            return items
        # An end comes in a turn of its own.
        if member.has_news:
            self.arrived(member)
        return items


def _log(event: PatternEvent) -> None:
    logger.warning("%s: %s: %s", event.topic, headline(event), sentence(event))
