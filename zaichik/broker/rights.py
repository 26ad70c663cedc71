"""Who may do what. Every request is asked about here, and nowhere else, before anything is looked up (ACC-2).

Who a user is, and where rights are written down, is not the core's business: see `zaichik.access`.
"""

from collections.abc import Collection
from typing import Literal, Protocol

from zaichik.broker.checks import MAX_NAME
from zaichik_protocol import ErrorCode, Refused, frames

Action = Literal["publish", "subscribe", "create", "delete", "describe"]

BROKER = "$broker"  # who may describe it sees everything; who may delete it may disconnect clients, and move its clock
JOURNAL = "$journal/"  # whoever may read a topic may read its journal
# Every request is in here. Those without an action concern what the connection already has, or, with Describe and
# Explain, are answered with what the user may see.
NEEDS: dict[type[frames.Frame], Action | None] = {
    frames.Hello: None,
    frames.Ping: None,
    frames.Close: None,
    frames.Commit: None,
    frames.Unsubscribe: None,
    frames.Describe: None,
    frames.Explain: None,
    frames.Publish: "publish",
    frames.Subscribe: "subscribe",
    frames.CreateTopic: "create",
    frames.Delete: "delete",
    frames.Disconnect: "delete",
    frames.AdvanceClock: "delete",
}


class User(Protocol):
    """Whoever has logged in on a connection.

    Attributes:
        name: unique; "" if the broker asks nobody who they are.
        how: how it was proven, for the log: the kind and the id of the credential, never a secret.
        publishable: topics that the user may publish to by the rules of now. Others need not be in it: `may` tells.
    """

    name: str
    how: str
    publishable: Collection[str]

    def may(self, action: Action, topic: str) -> bool:
        """Returns whether the user has the right to do that with a topic of that name, by the rules of now."""
        return True

    def denied(self, action: Action, topic: str) -> None:
        """Count, and tell the log, that the user was refused this."""
        return

    def is_ended(self, now_us: int) -> bool:
        """Returns whether the login has expired, or its credential was removed (ACC-4)."""
        return False


class _Anybody(User):  # the only one who inherits from it: for others, what is forgotten must not be allowed
    name = ""
    how = ""
    publishable: Collection[str] = ()


ANYBODY = _Anybody()  # everybody, where the broker asks nobody who they are


def topic_of(name: str) -> str:
    """Returns the name of the topic whose rights count: for a journal, that of the topic it is about."""
    return name.removeprefix(JOURNAL)


def check(user: User, request: frames.Frame) -> None:
    """Refuse what the user has no right to. The refusal never tells whether a topic exists.

    Raises:
        Refused: `FORBIDDEN`.
    """
    action = NEEDS[type(request)]  # one that is missing there is a bug, and is not carried out
    topic = topic_of(getattr(request, "topic", BROKER))
    if action is not None and not user.may(action, topic):
        user.denied(action, topic)
        problem = f"user {user.name} has no right to {action} {topic[:MAX_NAME]!r}"  # longer ones do not exist
        raise Refused(ErrorCode.FORBIDDEN, problem, "topic")
