"""The subscriptions that a message may have to go to, and which of them the user who asks may see."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from zaichik.broker.checks import MAX_NAME
from zaichik.broker.position import Position
from zaichik.broker.reader import Reader
from zaichik.broker.rights import BROKER, User
from zaichik.broker.state import State
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused

MOST = 8  # subscriptions in one answer: like a page of `describe`, it is made within one turn


class Live(NamedTuple):
    """A subscription with its connection."""

    manager: Any
    reader: Reader


def sees_all(user: User) -> bool:
    """Returns whether the user may see what belongs to others (ACC-5)."""
    return user.may("describe", BROKER)


def subscriptions(broker: State, topic: TopicController, user: User, wanted: str) -> tuple[list[Live | Position], bool]:
    """Returns the topic's subscriptions and names without a reader, those the user may see, and whether there are more.

    Args:
        broker: has them.
        topic: the topic.
        user: who asks.
        wanted: a name, or CONNECTION.ID; "" for all.

    Raises:
        Refused: `NO_SUCH_SUBSCRIPTION`: none of those is the one wanted.
    """
    whose = None if sees_all(user) else user.name
    every: Iterator[Live | Position] = chain(_live(broker, topic, whose, wanted), _away(topic, whose, wanted))
    found = list(islice(every, MOST + 1))
    if wanted and not found:
        problem = (
            f"topic {topic.name!r} has no subscription {wanted[:MAX_NAME]!r} (a name, or CONNECTION.ID); a name is "
            f"forgotten {broker.named_positions.ttl(topic):g} s after its reader has left"
        )
        raise Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, problem, "subscription")
    return found[:MOST], len(found) > MOST


def _live(broker: State, topic: TopicController, whose: str | None, wanted: str) -> Iterator[Live]:
    for _, (manager, reader) in broker.readers.after("", f"{topic.name}#"):
        # Names of topics may hold a #, and a reader of a topic that was deleted stays until it is unsubscribed from.
        is_meant = wanted in ("", reader.position.name, f"{manager.number}.{reader.id}")
        if reader.topic is topic and whose in (None, manager.user.name) and is_meant:
            yield Live(manager, reader)


def _away(topic: TopicController, whose: str | None, wanted: str) -> Iterator[Position]:
    for position in topic.names.values():
        if position.reader is None and whose in (None, position.user) and wanted in ("", position.name):
            yield position
