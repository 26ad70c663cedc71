"""The subscriptions that a message may have to go to, as far as the user who asks may see them.

A topic may have thousands. One that is asked for is found by its name, as `describe` has it; if all
are asked for, only as many are examined as an answer within one turn allows.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from zaichik.core.checks import MAX_NAME
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.position import Position, away_name, key_of
from zaichik.core.reader import Reader
from zaichik.core.rights import BROKER, User
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import ErrorCode, Refused

if TYPE_CHECKING:
    from zaichik.core.broker import Broker
    from zaichik.core.subscription_manager import SubscriptionManager

MOST_SUBSCRIPTIONS = (
    8  # subscriptions in one answer: like a page of `describe`, it is made within one turn
)
SEARCHED_SUBSCRIPTIONS = 1024  # of the topic's, for those of one user: half a millisecond at most
_NUMBER = re.compile(r"(0|[1-9]\d{0,19})\.(0|[1-9]\d{0,19})", re.ASCII)


class Live(NamedTuple):
    """A subscription with its connection."""

    manager: "SubscriptionManager"
    reader: Reader


def only_user(user: User) -> str | None:
    """Returns the only user whose connections and subscriptions that user may see: their own.

    None if those of all users may be seen (ACC-5).
    """
    if user.may("describe", BROKER):
        return None
    return user.name


def subscriptions(
    broker: "Broker", topic: TopicController, user: User, wanted: str
) -> tuple[list[Live | Position], bool]:
    """Returns the subscriptions, and names without a reader, that the user may see.

    And whether there may be more.

    Args:
        broker: has them.
        topic: the topic.
        user: the user who asks.
        wanted: a name, or CONNECTION.ID; "" for all.

    Raises:
        Refused: `NO_SUCH_SUBSCRIPTION`: none of those is the one wanted.
    """
    whose = only_user(user)
    every = _all(broker, topic)
    if wanted:
        every = _meant(broker, topic, whose, wanted)
    found: list[Live | Position] = []
    for it in islice(every, SEARCHED_SUBSCRIPTIONS):
        if _belongs(it, topic, whose):
            found.append(it)
        # One more than is returned shows that there are more.
        if len(found) > MOST_SUBSCRIPTIONS:
            break
    if wanted and not found:
        ttl_s = broker.named_positions.ttl_s(topic)
        problem = (
            f"topic {topic.name!r} has no subscription {wanted[:MAX_NAME]!r} (a name, or "
            f"CONNECTION.ID); a name is forgotten {ttl_s:g} s after its reader has left"
        )
        raise Refused(ErrorCode.NO_SUCH_SUBSCRIPTION, problem, "subscription")
    if len(found) > MOST_SUBSCRIPTIONS:
        return found[:MOST_SUBSCRIPTIONS], True
    # There may be more among those that were not examined.
    is_cut = next(every, None) is not None
    return found, is_cut


def _belongs(it: Live | Position, topic: TopicController, whose: str | None) -> bool:
    if isinstance(it, Position):
        # One with a reader is listed as that, a shared name for all of them.
        is_listed = not it.has_reader or isinstance(it, SharedPosition)
        return is_listed and whose in (None, it.user)
    # Names of topics may hold a #, and a reader of a topic that was deleted stays until it is
    # unsubscribed from.
    return it.reader.topic is topic and whose in (None, it.manager.user.name)


def _all(broker: "Broker", topic: TopicController) -> Iterator[Live | Position]:
    for _, (manager, reader) in broker.readers.after("", f"{topic.name}#"):
        if isinstance(reader, Reader):
            yield Live(manager, reader)
    yield from topic.names.values()


def _meant(
    broker: "Broker", topic: TopicController, whose: str | None, wanted: str
) -> Iterator[Live | Position]:
    """Yields the subscriptions that the text may mean, each once.

    There may be several: CONNECTION.ID of one may be the name of another.
    """
    numbered = ""
    match = _NUMBER.fullmatch(wanted)
    if match is not None:
        connection = int(match[1])
        subscription = int(match[2])
        numbered = f"{topic.name}#{connection:08}.{subscription:010}"
        yield from _named(broker, numbered)
    for position in _positions(broker, topic, whose, wanted):
        if not isinstance(position, ExclusivePosition) or position.reader is None:
            yield position
        elif position.reader.name != numbered:
            yield from _named(broker, position.reader.name)


def _named(broker: "Broker", name: str) -> Iterator[Live | Position]:
    """Yields the subscription of that name in `describe`, if there is one.

    For a worker, that is its shared name.
    """
    # Those that only begin with the name sort after it.
    for first, (manager, reader) in islice(broker.readers.after("", name), 1):
        if first == name and isinstance(reader, Reader):
            yield Live(manager, reader)
        elif first == name:
            yield reader.stand


def _positions(
    broker: "Broker", topic: TopicController, whose: str | None, name: str
) -> list[Position]:
    """Returns the positions of that name: that of one user, or of all users who have one."""
    if whose is not None:
        own = topic.names.get(key_of(whose, name))
        if own is None:
            return []
        return [own]
    found: list[Position] = []
    prefix = away_name(topic.name, "", name)
    entries = broker.named_positions.directory.after("", prefix)
    for _, (its_topic, position) in islice(entries, SEARCHED_SUBSCRIPTIONS):
        if its_topic is topic and position.name == name:
            found.append(position)
    return found
