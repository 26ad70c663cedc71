"""The subscriptions that a message may have to go to, as far as the user who asks may see them.

A topic may have thousands. One that is asked for is found by its name, as `describe` has it; if all are asked for, only
as many are examined as an answer within one turn allows.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

from zaichik.broker.checks import MAX_NAME
from zaichik.broker.position import Position, directory_name, key_of
from zaichik.broker.reader import Reader
from zaichik.broker.rights import BROKER, User
from zaichik.broker.state import State
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused

MOST = 8  # subscriptions in one answer: like a page of `describe`, it is made within one turn
SEARCHED = 1024  # of the topic's, for those of one user: half a millisecond at most
_NUMBER = re.compile(r"(0|[1-9]\d{0,19})\.(0|[1-9]\d{0,19})", re.ASCII)


class Live(NamedTuple):
    """A subscription with its connection."""

    manager: Any
    reader: Reader


def sees_all(user: User) -> bool:
    """Returns whether the user may see what belongs to others (ACC-5)."""
    return user.may("describe", BROKER)


def subscriptions(broker: State, topic: TopicController, user: User, wanted: str) -> tuple[list[Live | Position], bool]:
    """Returns the subscriptions, and names without a reader, that the user may see, and whether there may be more.

    Args:
        broker: has them.
        topic: the topic.
        user: the user who asks.
        wanted: a name, or CONNECTION.ID; "" for all.

    Raises:
        Refused: `NO_SUCH_SUBSCRIPTION`: none of those is the one wanted.
    """
    whose = None if sees_all(user) else user.name
    every = _meant(broker, topic, whose, wanted) if wanted else _all(broker, topic)
    visible = (it for it in islice(every, SEARCHED) if _belongs(it, topic, whose))
    found = list(islice(visible, MOST + 1))
    if wanted and not found:
        problem = (
            f"topic {topic.name!r} has no subscription {wanted[:MAX_NAME]!r} (a name, or CONNECTION.ID); a name is "
            f"forgotten {broker.named_positions.ttl(topic):g} s after its reader has left"
        )
        raise Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, problem, "subscription")
    return found[:MOST], len(found) > MOST or next(every, None) is not None


def _belongs(it: Live | Position, topic: TopicController, whose: str | None) -> bool:
    if isinstance(it, Position):
        return it.reader is None and whose in (None, it.user)
    # Names of topics may hold a #, and a reader of a topic that was deleted stays until it is unsubscribed from.
    return it.reader.topic is topic and whose in (None, it.manager.user.name)


def _all(broker: State, topic: TopicController) -> Iterator[Live | Position]:
    return chain((Live(*it) for _, it in broker.readers.after("", f"{topic.name}#")), topic.names.values())


def _meant(broker: State, topic: TopicController, whose: str | None, wanted: str) -> Iterator[Live | Position]:
    """Yields the subscriptions that the text may mean, each once: CONNECTION.ID may be another one's name."""
    numbered = ""
    if match := _NUMBER.fullmatch(wanted):
        numbered = f"{topic.name}#{int(match[1]):08}.{int(match[2]):010}"
        yield from _named(broker, numbered)
    for position in _positions(broker, topic, whose, wanted):
        reader: Any = position.reader
        if reader is None:
            yield position
        elif reader.name != numbered:
            yield from _named(broker, reader.name)


def _named(broker: State, name: str) -> Iterator[Live]:
    """Yields the subscription of that name in `describe`; those that only begin with the name sort after it."""
    return (Live(*it) for other, it in islice(broker.readers.after("", name), 1) if other == name)


def _positions(broker: State, topic: TopicController, whose: str | None, name: str) -> list[Position]:
    """Returns the positions of that name: that of one user, or of all users who have one."""
    if whose is not None:
        return [position] if (position := topic.names.get(key_of(whose, name))) else []
    entries = broker.named_positions.directory.after("", directory_name(topic, Position(0, name)))
    return [position for _, (of, position) in islice(entries, SEARCHED) if of is topic and position.name == name]
