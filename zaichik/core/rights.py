"""Authorization: the right that each request needs.

The right that a request needs is checked here, before any lookup (ACC-2). Creating a topic on first
use, ending what is no longer allowed, and what reports show ask `User.may` themselves.

Logging in, and the files in which rights are written down, are not the core's business: see
`zaichik.server.access`.
"""

from collections.abc import Collection
from typing import Literal, Protocol

from zaichik.core import checks
from zaichik_protocol import ErrorCode, Refused, frames

Action = Literal["publish", "subscribe", "create", "delete", "describe"]

# The right to describe it shows everything; the right to delete it: disconnect clients, and move
# the clock.
BROKER = "$broker"
JOURNAL = "$journal/"  # the right to read a topic includes its journal
# Everybody may subscribe to it, and is sent what is about topics that they may subscribe to
# (PAT-5). The right to describe it is the right to know of all topics.
TOPICS = checks.TOPICS
# Every request is in here. Those without an action concern what the connection already has, or,
# with Describe and Explain, are answered with what the user may see.
NEEDS: dict[type[frames.Frame], Action | None] = {
    frames.Hello: None,
    frames.Ping: None,
    frames.Close: None,
    frames.Commit: None,
    frames.Unsubscribe: None,
    frames.Describe: None,
    frames.Explain: None,
    frames.Settle: None,
    frames.Dead: None,
    frames.Publish: "publish",
    frames.Subscribe: "subscribe",
    frames.CreateTopic: "create",
    frames.Delete: "delete",
    frames.Disconnect: "delete",
    frames.AdvanceClock: "delete",
}


class User(Protocol):
    """The user who has logged in on a connection.

    Attributes:
        name: unique; "" on a broker without access control.
        how: how the user logged in, for the log: the kind and the id of the credential, never a
            secret.
        publishable: a cache of topics that the user may publish to by the current rules; for
            others, ask `may`.
    """

    name: str
    how: str
    publishable: Collection[str]

    def may(self, action: Action, topic: str) -> bool:
        """Returns whether the current rules let the user do that with a topic of that name."""
        return True

    def denied(self, action: Action, topic: str) -> None:
        """Count and log that the user was refused this."""
        return

    def is_ended(self, now_us: int) -> bool:
        """Returns whether the login has expired, or its credential was removed (ACC-4)."""
        return False


# The only subclass that inherits methods: elsewhere, a forgotten one must not allow anything.
class _Anybody(User):
    name = ""
    how = ""
    publishable: Collection[str] = ()


ANYBODY = _Anybody()  # every user of a broker without access control


def topic_of(name: str) -> str:
    """Returns the name of the topic whose rights count: of a journal, the topic it is about."""
    return name.removeprefix(JOURNAL)


def may_subscribe(user: User, topic: str) -> bool:
    """Returns whether the user may subscribe to the topic of that name, the broker's own included.

    What may be read there is another question: see `FilteredReader`.
    """
    return topic == TOPICS or user.may("subscribe", topic_of(topic))


def check(user: User, request: frames.Frame) -> None:
    """Refuse what the user has no right to. The refusal never reveals whether a topic exists.

    Raises:
        Refused: `FORBIDDEN`.
    """
    # A request that is missing there is a bug, and is not carried out.
    action = NEEDS[type(request)]
    name = getattr(request, "topic", BROKER)
    if action == "subscribe" and name == TOPICS:
        return
    topic = topic_of(name)
    if action is not None and not user.may(action, topic):
        user.denied(action, topic)
        # No topic has a longer name.
        problem = f"user {user.name} has no right to {action} {topic[: checks.MAX_NAME]!r}"
        raise Refused(ErrorCode.FORBIDDEN, problem, "topic")
