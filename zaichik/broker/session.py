"""Named subscriptions: a reader's position that outlives its connection (CMT-3). Elsewhere they are called durable.

    committed           delivered
    ────┬──────────────────┬──────────────▶ offsets
        │ comes again,     │ new
        │ as redelivered   │

A reader that comes back under its name goes on after the last message it has settled. What it had been sent and has not
settled comes again, marked: it may have been handled or not, only the reader can know.

There is one position to a name, and so one reader. A second one takes over, and the first is told: a client that has
come back must not have to wait until the broker finds out that its old connection is dead.

But then a reader that hung, was replaced, and wakes up would come back as well, and throw out the one that replaced
it. So a client may say which owner asks, and for which time: an owner that was replaced does not get the name again
(other systems call this fencing).
"""

from collections import deque
from typing import TYPE_CHECKING

from zaichik.broker.settings import BrokerSettings
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.broker.subscription import Subscription

REMEMBERED_OWNERS = 64  # of a position, that were replaced


class Session:
    """The position of one named subscription.

    Args:
        topic: what it reads.
        name: its name: one of this topic's.
        position: where it begins.

    Attributes:
        committed: everything below is settled.
        delivered: everything below was delivered once.
        reader: the live subscription, None while it is away.
        left_us: when a sweep first found it without one; None if none has since the reader came.
    """

    def __init__(self, topic: TopicController, name: str, position: int) -> None:
        self.topic = topic
        self.name = name
        self.committed = self.delivered = position
        self.reader: Subscription | None = None
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
        """The oldest offset that it may still have to be sent."""
        return self.committed

    @property
    def who(self) -> str:
        """Its name and its reader, in words."""
        reader = "whose reader is away" if self.reader is None else f"read by {self.reader.who}"
        return f"the named subscription {self.name!r}, {reader},"


class Sessions:
    """All named subscriptions of the broker, whether or not their reader is there.

    Args:
        settings: `max_sessions` and `session_ttl` are used.
    """

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._sessions: dict[tuple[str, str], Session] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def find(self, topic: TopicController, name: str) -> Session | None:
        """The one of that name, if there is one."""
        return self._sessions.get((topic.name, name))

    def open(self, topic: TopicController, name: str, position: int) -> Session:
        """A new one.

        Raises:
            Refused: `TOO_MANY_SUBSCRIPTIONS`.
        """
        if len(self._sessions) >= self._settings.max_sessions:
            raise Refused(
                ErrorCode.TOO_MANY_SUBSCRIPTIONS,
                f"the broker holds {len(self._sessions)} named subscriptions, as many as it may. "
                "Use one of them, or unsubscribe from one with FORGET.",
                "name",
            )
        session = self._sessions[topic.name, name] = Session(topic, name, position)
        return session

    def forget(self, session: Session) -> None:
        """Drop a position: nothing is kept for it any more."""
        del self._sessions[session.topic.name, session.name]
        session.topic.keep_no_more(session)

    def forget_all_of(self, topic: TopicController) -> None:
        """Drop every position in a topic that is deleted (TOP-6)."""
        for session in [session for session in self._sessions.values() if session.topic is topic]:
            if session.reader is not None:  # it has had all it asked for, and still has the name
                session.reader.session = None
            self.forget(session)

    def away(self) -> list[Session]:
        """Those whose reader is away."""
        return [session for session in self._sessions.values() if session.reader is None]

    def sweep(self, now_us: int) -> None:
        """Forget those whose reader has been away for too long. Called once a second."""
        ttl_us = self._settings.session_ttl * 1_000_000
        for session in self.away():
            if session.left_us is None:
                session.left_us = now_us
            elif now_us - session.left_us >= ttl_us:
                self.forget(session)
