"""The topics of one pattern at all shards of a cluster: a round is one of each shard.

Each shard has a follower of its own, which reads that shard's table of topics, and turns of its
own. What has come at any of them is given out together. If one of them fails for good, so does the
whole, once everything that had come was given out: half a pattern would look like a whole one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from zaichik.client.cluster.map import TOPIC
from zaichik.client.patterns.in_hand import Fetched
from zaichik.client.patterns.member import Member
from zaichik.client.patterns.news import News
from zaichik.client.patterns.pattern import Pattern
from zaichik.client.patterns.turns import Turns
from zaichik.client.subscription import Subscription


class ClusterPattern(Pattern):
    """A pattern that never matches the topic that every shard keeps the map in."""

    def matches(self, topic: str) -> bool:
        """Returns whether a topic of that name matches."""
        return topic != TOPIC and super().matches(topic)


class AllTurns:
    """The turns of all shards.

    Args:
        turns: of each shard, by its number.
        shard_of: returns the number of a topic's shard.
        news: set when something has come at any of them.
    """

    def __init__(self, turns: Sequence[Turns], shard_of: Callable[[str], int], news: News) -> None:
        self._turns = turns
        self._shard_of = shard_of
        self._news = news
        # Why nothing more will come.
        self._failure: Exception | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics that are read now."""
        return tuple(topic for turns in self._turns for topic in turns.topics)

    @property
    def lagged(self) -> int:
        """The number of messages that were gone before they could be delivered."""
        return sum(turns.lagged for turns in self._turns)

    def member(self, topic: str) -> Member | None:
        """Returns the topic of that name that is read now; see `Turns.member`."""
        return self._turns[self._shard_of(topic)].member(topic)

    def settle_round(self) -> dict[Subscription[Any], None]:
        """Settle all that was given out; returns what may have something to commit."""
        settled: dict[Subscription[Any], None] = {}
        for turns in self._turns:
            settled |= turns.settle_round()
        return settled

    async def next_round(self, timeout: float | None) -> list[Fetched]:
        """Returns what has arrived of each topic, at least one item. Empty if the time is over.

        Args:
            timeout: seconds after which to return what there is; None: never.

        Raises:
            TakenOver, BrokerError, ConnectionLost, RuntimeError: nothing more will come.
        """
        await anyio.lowlevel.checkpoint()
        if self._failure is not None:
            raise self._failure
        with anyio.move_on_after(timeout):
            while not any(turns.is_ready for turns in self._turns):
                await self._news.wait()
        items: list[Fetched] = []
        for turns in self._turns:
            try:
                items += turns.take_round()
            except Exception as error:
                # What the others have comes first.
                self._failure = self._failure or error
        if self._failure is not None and not items:
            raise self._failure
        return items
