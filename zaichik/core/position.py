"""Positions: what a topic keeps messages for.

    ExclusivePosition   how far one reader has come; see there
    SharedPosition      what became of each message, among several readers; see there

A topic asks each of its positions what is still needed, and asks nothing else. Every subscription
has one. A named position outlives its readers (CMT-3), and belongs to a user: two users who choose
the same name have two positions (ACC-3).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.core.directory import Directory
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.core.retained import Retained
    from zaichik.core.topic_controller import TopicController

_OF_USER = "\n"  # a separator that no name contains


def key_of(user: str, name: str) -> str:
    """Returns the key under which a topic, and its log, keep the position of a user's name."""
    if not user:
        return name
    return f"{user}{_OF_USER}{name}"


def no_room(what: str, head: int, positions: Iterable["Position"]) -> Refused:
    """Returns the refusal of a batch that would need room of what is still needed (RET-9).

    Args:
        what: what is full, in words.
        head: the oldest offset in it.
        positions: those of the topic, at least one.
    """
    slowest = min(positions, key=lambda position: position.needed)
    offset = max(slowest.needed, head)
    problem = (
        f"{what} is full, and {slowest.description} still needs offset {offset}. "
        "Retry when it has read further."
    )
    return Refused(ErrorCode.TOPIC_FULL, problem, "topic")


# No ABC: compiled, the subclasses of one share its cache of what is an instance of which, and are
# taken for each other.
class Position:
    """A position in a topic.

    Args:
        key: see `key_of`; "" if it ends with its reader.
        client: the client that it is charged to, for quotas.

    Attributes:
        key, client: see above.
        user, name: the user, and the name of the subscription.
        is_waived: nothing is kept for it, because its user may not read the topic any more (ACC-4).
        left_us: when a sweep first found it without a reader; None before that.
    """

    def __init__(self, key: str, client: str) -> None:
        self.key = key
        self.user, _, self.name = key.rpartition(_OF_USER)
        self.client = client
        self.is_waived = False
        self.left_us: int | None = None

    @property
    @abstractmethod
    def needed(self) -> int:
        """The oldest offset that may still have to be delivered."""

    def unsettled(self, retained: "Retained") -> int:
        """Returns how many messages are still to be delivered or settled. Holes are none."""
        end = retained.end
        return end - self.needed - retained.holes_between(self.needed, end)

    @property
    @abstractmethod
    def description(self) -> str:
        """The position in words, for the middle of a sentence: its name, and its reader."""

    @property
    @abstractmethod
    def has_reader(self) -> bool:
        """Whether a subscription stands there now."""

    @property
    def is_forgotten_by_time(self) -> bool:
        """Whether it goes if no reader comes for a while."""
        return True

    def let_go(self) -> None:
        """Give back what it holds: it is forgotten."""

    def seconds_left(self, ttl_s: float, now_us: int) -> float:
        """Returns how long the name is still kept if no reader comes.

        Args:
            ttl_s: seconds that it is kept after its reader has left.
            now_us: the time.
        """
        if self.left_us is None:
            return ttl_s
        return max(ttl_s - (now_us - self.left_us) / SECOND_US, 0)


class NamedPositions:
    """All named positions of the broker, with and without a reader. Each is stored in its topic.

    Args:
        settings: `max_sessions` and `session_ttl` are used.
        memory: the bytes that clients may make the broker hold.
        suggest: returns which name of a user may be the first to forget, as a sentence after
            others; "" for none.

    Attributes:
        directory: each with its topic, by the name that `describe` gives it while it has no reader.
    """

    def __init__(
        self, settings: BrokerSettings, memory: Quota, suggest: Callable[[str], str]
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._suggest = suggest
        self._quota = Quota(settings.max_sessions)
        self.directory: Directory[tuple[TopicController, Position]] = Directory()

    def __len__(self) -> int:
        """Returns the number of named positions."""
        return self._quota.used

    def open(self, topic: "TopicController", position: Position) -> None:
        """Add a new named position to its topic.

        Raises:
            Refused: `TOO_MANY_SUBSCRIPTIONS`.
        """
        if not self._quota.has_room(position.client):
            problem = (
                f"the broker has {counted(self._quota.used, 'named subscription')}; its limit "
                f"(max_sessions) is {self._quota.limit}, and no single client may take all that is "
                f"left. Reuse a name, or unsubscribe with FORGET.{self._suggest(position.user)}"
            )
            raise Refused(ErrorCode.TOO_MANY_SUBSCRIPTIONS, problem, "name")
        self.keep(topic, position)

    def keep(self, topic: "TopicController", position: Position) -> None:
        """Add a named position, however many there are: the disk has it."""
        self._quota.take(position.client)
        self._memory.take(position.client, prices.NAME)
        topic.names[position.key] = position
        name = directory_name(topic, position)
        self.directory.add(name, (topic, position))

    def forget(self, topic: "TopicController", position: Position) -> None:
        """Delete a named position: its topic stops retaining messages for it."""
        if topic.names.get(position.key) is position:
            del topic.names[position.key]
            self.directory.remove(directory_name(topic, position))
            self._quota.take(position.client, -1)
            self._memory.take(position.client, -prices.NAME)
            position.let_go()

    def forget_all_of(self, topic: "TopicController") -> None:
        """Delete every named position of a topic that is deleted (TOP-6)."""
        for position in list(topic.names.values()):
            self.forget(topic, position)

    def waive(self, may_read: Callable[[str, str], bool]) -> None:
        """Keep nothing for users who may not read the topic any more, or not yet again (ACC-4).

        Args:
            may_read: returns whether a user may read a topic, by their names.
        """
        for _, (topic, position) in self.directory.after("", ""):
            position.is_waived = not may_read(position.user, topic.name)

    def ttl_s(self, topic: "TopicController") -> float:
        """Returns the seconds for which a position in that topic is kept without a reader."""
        return topic.retained.name_ttl_s(self._settings)

    def sweep(self, now_us: int) -> None:
        """Delete the positions that have had no reader for `session_ttl`. Called once a second."""
        # A list, because positions are deleted meanwhile.
        entries = list(self.directory.after("", ""))
        for _, (topic, position) in entries:
            if position.has_reader:
                continue
            if position.left_us is None:
                position.left_us = now_us
                continue
            if not position.is_forgotten_by_time:
                continue
            away_us = now_us - position.left_us
            if away_us >= self.ttl_s(topic) * SECOND_US:
                self.forget(topic, position)


def directory_name(topic: "TopicController", position: Position) -> str:
    """Returns the position's name in `NamedPositions.directory`.

    It sorts after the topic's subscriptions.
    """
    return away_name(topic.name, position.user, position.name)


def away_name(topic: str, user: str, name: str) -> str:
    """Returns the directory's name of a position, by those of its topic and its user."""
    # Both names may hold a # and a dot, so the length of the first is added.
    found = f"{topic}#away.{name}.{len(topic)}"
    if user:
        found += f".{user}"
    return found
