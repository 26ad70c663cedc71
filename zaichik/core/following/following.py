"""Following topics: `$topics`, and time for those who read it to come to a new topic (PAT).

A client that wants all topics of a kind reads the table of the topics that there are, and makes a
subscription to each one that matches. The broker knows no patterns; it only has to see to it that
nothing is lost between a topic's creation and that subscription. A topic without retention frees
what no reader waits for: a new one does not for as long as followers may need to come (PAT-3).

Until somebody subscribes to `$topics`, there is none, and none of this costs anything.
"""

from collections.abc import Iterable
from functools import partial

from zaichik.base.clock import SECOND_US
from zaichik.core.checks import is_own
from zaichik.core.following.topics_table import TopicsTable, settings_for
from zaichik.core.rights import TOPICS
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing.budget import Budget
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused, Subscribe

# For so long a new topic waits for followers, and a follower that has lost its connection is
# expected back.
HELD_US = 10 * SECOND_US
# A time that is still to come, and which the next sweep will name.
NOT_YET_US = 2**63


def check_follower(request: Subscribe) -> None:
    """Refuse a name for a subscription to `$topics`.

    It needs no right (PAT-5), so users without any could use up the positions of all.

    Raises:
        Refused: `INVALID_FIELD`.
    """
    if request.topic == TOPICS and request.name:
        problem = f"{TOPICS} keeps no positions: subscribe to it without a name"
        raise Refused(ErrorCode.INVALID_FIELD, problem, "name")


class Following:
    """Keeps `$topics` while there is one.

    Args:
        limits: the broker's.
        budget: the bytes that all topics may hold together.
    """

    def __init__(self, limits: BrokerSettings, budget: Budget) -> None:
        self._limits = limits
        self._budget = budget
        self._topic: TopicController | None = None
        self._table: TopicsTable | None = None
        # When a sweep last found a reader, or followers had to begin again.
        self._followed_us = -HELD_US

    def begin(self, topics: Iterable[TopicController], epoch: int, now_us: int) -> TopicController:
        """Returns a new `$topics`, with a record of each of these topics that is not its own."""
        topic = TopicController(
            TOPICS,
            settings_for(self._limits.max_topics),
            epoch,
            explicit=True,
            budget=self._budget,
            retain=partial(TopicsTable, limits=self._limits),
        )
        table = topic.retained
        assert isinstance(table, TopicsTable)  # noqa: S101 (for the type checker)
        table.begin([it for it in topics if not is_own(it.name)], now_us)
        self._topic = topic
        self._table = table
        return topic

    def end(self) -> None:
        """Note that `$topics` is deleted. Those who have followed it are expected back."""
        if self._topic is not None and self._topic.readers:
            self._followed_us = NOT_YET_US
        self._topic = None
        self._table = None

    def came(self, topic: TopicController, now_us: int) -> None:
        """Report a new topic. If anybody follows, it keeps for them what it is given (PAT-3)."""
        if is_own(topic.name):
            return
        # Also while there is no table, because those who have followed it are about to come back.
        if self._is_followed(now_us):
            topic.held_until_us = now_us + HELD_US
        if self._table is not None:
            self._table.came(topic, now_us)

    def went(self, topic: TopicController, now_us: int) -> None:
        """Report that a topic has gone."""
        if self._table is not None and not is_own(topic.name):
            self._table.went(topic, now_us)

    def sweep(self, now_us: int) -> None:
        """Note whether anybody follows. Called once a second."""
        has_readers = self._topic is not None and bool(self._topic.readers)
        if has_readers or self._followed_us == NOT_YET_US:
            self._followed_us = now_us

    def _is_followed(self, now_us: int) -> bool:
        """Returns whether anybody follows, or may be on the way back."""
        if self._topic is not None and self._topic.readers:
            return True
        return now_us - self._followed_us < HELD_US
