"""Positions: where a reader stands in a topic, and what outlives it if it has a name (CMT-3).

    committed           delivered
    ────┬──────────────────┬──────────────▶ offsets
        │ comes again,     │ new
        │ as redelivered   │

Every subscription has a position. That of an anonymous one ends with it. A named one's is kept (elsewhere such
subscriptions are called durable), and a reader that comes back under the name goes on after the last message it has
settled. What had been delivered and was not settled comes again, marked: it may have been handled or not, only the
reader can know.

There is one position to a name, and so one reader. A second one takes over, and the first is told: a client that has
come back must not have to wait until the broker finds out that its old connection is dead.

But then a reader that hung, was replaced, and wakes up would come back as well, and throw out the one that replaced
it. So a client may say which owner asks, and for which time: an owner that was replaced does not get the name again
(other systems call this fencing).
"""

from collections import deque
from typing import Protocol

from zaichik.broker.settings import BrokerSettings
from zaichik.observing.directory import Directory
from zaichik.sharing import prices
from zaichik.sharing.quota import Quota
from zaichik_protocol import EndCode, ErrorCode, Refused

REMEMBERED_OWNERS = 64  # of a position, that were replaced


class Reader(Protocol):
    """A live subscription, as others know it.

    Attributes:
        cursor: the next offset it is sent.
        position: where it stands.
        description: whose it is, in words.
    """

    cursor: int
    position: "Session"
    description: str

    def cut_off(self, code: EndCode) -> None:
        """Read no more, and say why."""

    def make_ready(self) -> None:
        """There may be something to send to it."""


class Session:
    """A position in a topic.

    Args:
        offset: where it begins.
        name: its name, one of the topic's; "" if it ends with its reader.
        client: whose it is, for quotas.

    Attributes:
        name, client: see above.
        committed: everything below is settled.
        delivered: everything below was delivered once.
        reader: the live subscription, None while it is away.
        left_us: when a sweep first found it without one; None if none has since the reader came.
    """

    def __init__(self, offset: int, name: str = "", client: str = "") -> None:
        self.name = name
        self.client = client
        self.committed = self.delivered = offset
        self.reader: Reader | None = None
        self.left_us: int | None = None
        self._owner = self._attempt = 0  # that asked for the name last; owner 0 did not say who it is
        self._replaced: deque[int] = deque(maxlen=REMEMBERED_OWNERS)

    def claim(self, owner: int, attempt: int) -> None:
        """Let that owner have the name, from that attempt on; owner 0 always may (CMT-3).

        Raises:
            Refused: `TAKEN_OVER`.
        """
        if owner in self._replaced:
            problem = f"another reader took the name {self.name!r} over: to take it back, make a new subscription"
            raise Refused(ErrorCode.TAKEN_OVER, problem, "owner")
        if owner and owner == self._owner and attempt <= self._attempt:
            problem = f"the reader of {self.name!r} has asked for its name again since: this is attempt {attempt}"
            raise Refused(ErrorCode.TAKEN_OVER, problem, "attempt")
        if self._owner not in (0, owner):
            self._replaced.append(self._owner)
        self._owner, self._attempt = owner, attempt

    @property
    def needed(self) -> int:
        """The oldest offset that it may still have to be sent: the reader of a name may come back and need it again."""
        return self.committed if self.name or self.reader is None else self.reader.cursor

    @property
    def description(self) -> str:
        """Whose it is, in words, for the middle of a sentence: its reader, or its name and its reader."""
        if self.reader is None:
            return f"the named subscription {self.name!r}, whose reader is away,"
        reader = self.reader.description
        return f"the named subscription {self.name!r}, read by {reader}," if self.name else reader


class Place(Protocol):
    """A topic, as the names in it see it.

    Attributes:
        name: the topic's.
        end: the offset that its next message will get.
        names: the positions in it that have names.
    """

    name: str
    names: dict[str, Session]

    @property
    def end(self) -> int:
        """See above."""


class Sessions:
    """All named positions of the broker, whether or not their reader is there. Each is kept by its topic.

    Args:
        settings: `max_sessions` and `session_ttl` are used.
        memory: what clients may make the broker keep.

    Attributes:
        directory: all of them with their topics, by the names that `describe` gives them while their reader is away.
    """

    def __init__(self, settings: BrokerSettings, memory: Quota) -> None:
        self._settings = settings
        self._memory = memory
        self._quota = Quota(settings.max_sessions)
        self.directory: Directory[tuple[Place, Session]] = Directory()

    def __len__(self) -> int:
        """Returns how many there are."""
        return self._quota.used

    def open(self, topic: Place, name: str, offset: int, client: str) -> Session:
        """Returns a new one, which begins at that offset.

        Raises:
            Refused: `TOO_MANY_SUBSCRIPTIONS`.
        """
        if not self._quota.has_room(client) or not self._memory.has_room(client, prices.NAME):
            raise Refused(
                ErrorCode.TOO_MANY_SUBSCRIPTIONS,
                f"the broker has {self._quota.used} named subscriptions; its limit (max_sessions) is "
                f"{self._quota.limit}, of which no client may use up the rest. "
                "Use one of them, or unsubscribe from one with FORGET.",
                "name",
            )
        self._quota.take(client)
        self._memory.take(client, prices.NAME)
        session = topic.names[name] = Session(offset, name, client)
        self.directory.add(_name_of(topic, name), (topic, session))
        return session

    def forget(self, topic: Place, session: Session) -> None:
        """Drop a position: nothing is kept for it any more."""
        if topic.names.get(session.name) is session:
            del topic.names[session.name]
            self.directory.remove(_name_of(topic, session.name))
            self._quota.take(session.client, -1)
            self._memory.take(session.client, -prices.NAME)

    def forget_all_of(self, topic: Place) -> None:
        """Drop every position in a topic that is deleted (TOP-6)."""
        for session in list(topic.names.values()):
            self.forget(topic, session)

    def sweep(self, now_us: int) -> None:
        """Forget those whose reader has been away for too long. Called once a second."""
        ttl_us = self._settings.session_ttl * 1_000_000
        for _, (topic, session) in list(self.directory.after("", "")):
            if session.reader is not None:
                continue
            if session.left_us is None:
                session.left_us = now_us
            elif now_us - session.left_us >= ttl_us:
                self.forget(topic, session)


def _name_of(topic: Place, name: str) -> str:
    # After those of the topic's subscriptions. Both names may hold a # and a dot, so the length of the first is there.
    return f"{topic.name}#away.{name}.{len(topic.name)}"
