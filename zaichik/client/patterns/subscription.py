"""What a program iterates over: the messages of all topics that match a pattern.

They come in rounds, see `turns`. What the program has stepped past is committed ten times a second,
and when it asks for the next round.
"""

from typing import Any, Generic, Protocol, Self, TypeVar, cast

from zaichik.client.messages import Message, PatternEvent
from zaichik.client.patterns.in_hand import Fetched, InHand
from zaichik.client.patterns.member import Member
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.topic_name import may_be_of
from zaichik.client.subscription import Subscription

Item = TypeVar("Item")  # Message, or Message | PatternEvent with events=True


class Rounds(Protocol):
    """What a program is given: rounds of what has come of topics.

    Those of one broker (see `turns`), or of all shards of a cluster.
    """

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        ...

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be delivered."""
        ...

    def member(self, topic: str) -> Member | None:
        """Returns the topic of that name that is read now; see `Turns.member`."""
        ...

    def settle_round(self) -> dict[Subscription[Any], None]:
        """Settle all that was given out; returns what may have something to commit."""
        ...

    async def next_round(self, timeout: float | None) -> list[Fetched]:
        """Returns what has arrived of each topic; see `Turns.next_round`."""
        ...


class PatternSubscription(Generic[Item]):
    """An asynchronous iterator over the messages of all topics that match a pattern.

    `Client.subscribe_pattern` makes one. Messages of one topic come in their order; between topics
    there is none.

    Attributes:
        pattern: the pattern.
        name: the name under which the broker keeps the position in each topic; "": none is kept.
        in_hand: what the program works on; for `zaichik.blocking`.
    """

    def __init__(self, matching: Pattern, name: str, turns: Rounds, *, events: bool) -> None:
        self.pattern = matching.text
        self.name = name
        self.in_hand = InHand()
        self._matching = matching
        self._turns = turns
        self._events = events

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        return self._turns.topics

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be delivered."""
        return self._turns.lagged

    @property
    def redelivered(self) -> bool:
        """Whether the message in hand is delivered again.

        It was delivered to an earlier subscription of that name and not settled.
        """
        return self.in_hand.redelivered

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
            RuntimeError: the block has ended.
        """
        in_hand = self.in_hand
        while True:
            for message in in_hand.messages:
                in_hand.step(message)
                return cast("Item", message)
            event = await self._advance()
            if event is not None and self._events:
                return cast("Item", event)

    async def _advance(self) -> PatternEvent | None:
        """Take the next frame in hand, or return the event that comes before it; or wait."""
        in_hand = self.in_hand
        in_hand.finish()
        if in_hand.is_empty:
            in_hand.extend(await self.fetch())
        # Another loop may have been quicker.
        if in_hand.is_empty:
            return None
        return in_hand.next()

    async def fetch(self, timeout: float | None = None) -> list[Fetched]:
        """Returns what has arrived of each topic, at least one item, and settles the last round.

        Empty if the time is over. `zaichik.blocking` is built on this. Do not mix it with
        iterating.

        Args:
            timeout: seconds after which to return what there is; None: never.

        Raises:
            TakenOver, BrokerError, ConnectionLost, RuntimeError: as when iterating.
        """
        self.in_hand.unsettled |= self._turns.settle_round()
        return await self._turns.next_round(timeout)

    # -- settling --------------------------------------------------------------------------------

    def commit_settled(self) -> None:
        """Commit what the loop has stepped past, unless that is committed already.

        This does not wait for the broker.
        """
        in_hand = self.in_hand
        unsettled, in_hand.unsettled = in_hand.unsettled, {}
        # A program of its own thread may add one meanwhile.
        for subscription in [*unsettled]:
            subscription.commit_settled()
        # The program may take long over the frame in hand.
        current = in_hand.subscription
        if current is not None:
            current.commit_settled()

    async def commit(self, message: Message) -> None:
        """Settle this message and all before it in its topic; wait until the broker confirms it.

        If the topic has gone, there is nothing to settle, and nothing happens, even if there is
        another one of that name. A message that the program has made itself, with a plain name, is
        taken to be of the topic that is read now.

        Raises:
            NotInFlight: it was not delivered yet.
            ConnectionLost, SubscriptionLost: see `Subscription.commit`.
            ValueError: the topic does not match the pattern.
            RuntimeError: the block has ended.
        """
        if not self._matching.matches(message.topic):
            raise ValueError(f"{message.topic!r} does not match the pattern {self.pattern!r}")
        member = self._turns.member(message.topic)
        if member is not None and may_be_of(message.topic, member.wanted.epoch):
            await member.subscription.commit(message)

    async def start_over(self, topic: str) -> None:
        """Begin again with the earliest message of a topic, a table that has missed deletions.

        See `Subscription.start_over`. If the topic has gone, nothing happens: that is reported.

        Raises:
            EpochChanged, SubscriptionLost, BrokerError, ConnectionLost: see there.
            RuntimeError: the block has ended.
        """
        member = self._turns.member(topic)
        if member is not None:
            self.in_hand.drop(member.subscription)
            await member.subscription.start_over()
