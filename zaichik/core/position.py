"""Positions: how far a reader has committed in a topic.

A named position outlives its reader (CMT-3).

    committed           delivered
    ────┬──────────────────┬──────────────▶ offsets
        │ redelivered to   │ new
        │ the next reader  │

Every subscription has a position. An anonymous one ends with its subscription. A named one is kept
(other systems call such subscriptions durable), and a reader that returns under the name continues
after the last message it has committed. Messages that were delivered and not committed are
redelivered, marked as such: only the reader can know whether they were handled.

A name has one position, and so one reader. A second reader takes over, and the first is sent
`SubscriptionEnded`: a client that reconnects must not have to wait until the broker finds out that
its old connection is dead.

But then a reader that hung, was replaced, and wakes up would take over in turn, and end the reader
that replaced it. So a client may send an owner id and an attempt number with its request: an owner
that was replaced does not get the name again (this is called fencing).

Names belong to users: two users who choose the same name have two positions (ACC-3).
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik.core.directory import Directory
from zaichik.core.settings import BrokerSettings
from zaichik.core.sharing import prices
from zaichik.core.sharing.quota import Quota
from zaichik_protocol import ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.core.reader import Reader
    from zaichik.core.topic_controller import TopicController

REMEMBERED_OWNERS = 64  # replaced owners per position
_OF_USER = "\n"  # a separator that no name contains


def key_of(user: str, name: str) -> str:
    """Returns the key under which a topic, and its log, keep the position of a user's name."""
    if not user:
        return name
    return f"{user}{_OF_USER}{name}"


class Position:
    """A position in a topic.

    Args:
        offset: where it begins.
        key: see `key_of`; "" if it ends with its reader.
        client: the client that it is charged to, for quotas.

    Attributes:
        key, client: see above.
        user, name: the user, and the name of the subscription.
        committed: every offset below is settled.
        delivered: every offset below was delivered at least once.
        is_fresh: whether it began at the earliest message, and nothing was delivered yet.
        is_waived: nothing is kept for it, because its user may not read the topic any more (ACC-4).
        reader: the live subscription; None if there is none.
        left_us: when a sweep first found it without a reader; None before that.
    """

    def __init__(self, offset: int, key: str = "", client: str = "") -> None:
        self.key = key
        self.user, _, self.name = key.rpartition(_OF_USER)
        self.client = client
        self.committed = offset
        self.delivered = offset
        self.is_fresh = False
        self.is_waived = False
        self.reader: Reader | None = None
        self.left_us: int | None = None
        # Of the latest request for the name; owner 0 is a request without an owner.
        self._owner = 0
        self._attempt = 0
        self._replaced: deque[int] = deque(maxlen=REMEMBERED_OWNERS)

    def claim(self, owner: int, attempt: int) -> None:
        """Give the name to that owner (CMT-3); owner 0 always gets it.

        Raises:
            Refused: `TAKEN_OVER`: the owner was replaced, or has made a later attempt.
        """
        if owner in self._replaced:
            problem = (
                f"another reader has taken over the name {self.name!r}: to take it back, "
                "subscribe again"
            )
            raise Refused(ErrorCode.TAKEN_OVER, problem, "owner")
        if owner and owner == self._owner and attempt <= self._attempt:
            problem = (
                f"this is attempt {attempt} to claim the name {self.name!r}; its owner has "
                "made a later one"
            )
            raise Refused(ErrorCode.TAKEN_OVER, problem, "attempt")
        if self._owner not in (0, owner):
            self._replaced.append(self._owner)
        self._owner = owner
        self._attempt = attempt

    @property
    def needed(self) -> int:
        """The oldest offset that may still have to be delivered.

        For a name, that includes redelivery.
        """
        if self.name or self.reader is None:
            return self.committed
        return self.reader.cursor

    def seconds_left(self, ttl_s: float, now_us: int) -> float:
        """Returns how long the name is still kept if no reader comes.

        Args:
            ttl_s: seconds that it is kept after its reader has left.
            now_us: the time.
        """
        if self.left_us is None:
            return ttl_s
        return max(ttl_s - (now_us - self.left_us) / SECOND_US, 0)

    @property
    def description(self) -> str:
        """The position in words, for the middle of a sentence: its name, and its reader."""
        reader = self.reader
        if reader is not None and not self.name:
            return reader.description
        which = f"the named subscription {self.name!r}"
        # Other users must not learn a user's names.
        if self.user:
            which = "a named subscription"
        if reader is None:
            return f"{which}, whose reader is away,"
        return f"{which}, read by {reader.description},"


class NamedPositions:
    """All named positions of the broker, with and without a reader. Each is stored in its topic.

    Args:
        settings: `max_sessions` and `session_ttl` are used.
        memory: the bytes that clients may make the broker hold.

    Attributes:
        directory: each with its topic, by the name that `describe` gives it while it has no reader.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota) -> None:
        self._settings = settings
        self._memory = memory
        self._quota = Quota(settings.max_sessions)
        self.directory: Directory[tuple[TopicController, Position]] = Directory()

    def __len__(self) -> int:
        """Returns the number of named positions."""
        return self._quota.used

    def open(self, topic: "TopicController", key: str, offset: int, client: str) -> Position:
        """Returns a new named position, which begins at that offset.

        Raises:
            Refused: `TOO_MANY_SUBSCRIPTIONS`.
        """
        if not self._quota.has_room(client):
            problem = (
                f"the broker has {counted(self._quota.used, 'named subscription')}; "
                f"its limit (max_sessions) is {self._quota.limit}, "
                "and no single client may take all that is left. "
                "Reuse a name, or unsubscribe from one with FORGET."
            )
            raise Refused(ErrorCode.TOO_MANY_SUBSCRIPTIONS, problem, "name")
        return self.keep(topic, key, offset, client)

    def keep(self, topic: "TopicController", key: str, offset: int, client: str = "") -> Position:
        """Returns a new named position, however many there are: the disk has it."""
        self._quota.take(client)
        self._memory.take(client, prices.NAME)
        position = Position(offset, key, client)
        topic.names[key] = position
        name = directory_name(topic, position)
        self.directory.add(name, (topic, position))
        return position

    def forget(self, topic: "TopicController", position: Position) -> None:
        """Delete a named position: its topic stops retaining messages for it."""
        if topic.names.get(position.key) is position:
            del topic.names[position.key]
            self.directory.remove(directory_name(topic, position))
            self._quota.take(position.client, -1)
            self._memory.take(position.client, -prices.NAME)

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
            if position.reader is not None:
                continue
            if position.left_us is None:
                position.left_us = now_us
                continue
            away_us = now_us - position.left_us
            if away_us >= self.ttl_s(topic) * SECOND_US:
                self.forget(topic, position)


def directory_name(topic: "TopicController", position: Position) -> str:
    """Returns the position's name in `NamedPositions.directory`.

    It sorts after the topic's subscriptions.
    """
    # Both names may hold a # and a dot, so the length of the first is added.
    name = f"{topic.name}#away.{position.name}.{len(topic.name)}"
    if position.user:
        name += f".{position.user}"
    return name
