"""The broker's state as JSON, a page at a time. `docs/use/describe.md` documents every field.

The conservation laws are reported as what is *left over* when one side is subtracted from the
other. Anything but 0 is a bug in the broker, and this is where it would show.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge, nsmallest
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zaichik.base.clock import ManualClock
from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.position import Position, directory_name
from zaichik.core.reader import Reader
from zaichik.core.report.rows import (
    COLUMNS,
    JSON,
    away_row,
    connection_row,
    counters,
    marks,
    reader_row,
    slowest,
    topic_row,
)
from zaichik.core.report.subscriptions import only_user
from zaichik.core.rights import Action, User, topic_of
from zaichik.core.settings import out_of_range
from zaichik.core.shared_names.shared_position import SharedPosition
from zaichik.core.shared_names.shared_reader import SharedReader
from zaichik.core.shared_names.shared_rows import shared_row, worker_row
from zaichik.core.subscriber import Subscriber
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import Describe, Kind

if TYPE_CHECKING:
    from zaichik.core.broker import Broker

Named = TypeVar("Named")

# A page is made within one turn, while other connections wait.
MAX_PAGE = 8
# Of kind 4, whose rows are cheap.
MAX_COUNTERS = 50
# Of kinds 5 to 7, which are one page.
MAX_WINDOWS = 256
MAX_KEY_BYTES = 32 * 1024
MAX_MARKS = 128
MAX_FURTHEST = 16


class Query(NamedTuple):
    """A request for a page.

    Attributes:
        broker: the broker that is described.
        request: the request.
        user: the user who asks.
        whose: the only user whose connections and subscriptions are shown; None for all.
        now_us: the clock's reading.
    """

    broker: "Broker"
    request: Describe
    user: User
    whose: str | None
    now_us: int

    def shows(self, user: str) -> bool:
        """Returns whether that user's connections and subscriptions are shown."""
        return self.whose is None or self.whose == user


class Listed(NamedTuple):
    """How kind 2 lists a subscription, or a named position without a reader.

    Attributes:
        name: the rows are in the order of these names.
        user: the name of the user it belongs to.
        row: makes the row, given the time.
    """

    name: str
    user: str
    row: Callable[[int], JSON]


def describe(broker: "Broker", request: Describe, user: User, now_us: int) -> tuple[bool, bytes]:
    """Returns whether another page follows, and this page as JSON.

    It shows what the user may see of the state at `now_us`. What is left out is left out before
    pages are cut, so that it does not show (ACC-5).

    Raises:
        Refused: `INVALID_FIELD`, for an unknown kind or a limit of 0.
    """
    if request.limit == 0:
        raise out_of_range("limit", 0, "at least 1")
    query = Query(broker, request, user, only_user(user), now_us)
    # Kinds 0 and 5 to 7 are one page.
    more = False
    match request.kind:
        case Kind.BROKER:
            state = _state(query)
        case Kind.TOPICS:
            more, state = _topics_page(query)
        case Kind.SUBSCRIPTIONS:
            more, state = _subscriptions_page(query)
        case Kind.CONNECTIONS:
            more, state = _connections_page(query)
        case Kind.COUNTERS:
            more, state = _counters_page(query)
        case Kind.WINDOWS:
            state = _windows(query)
        case Kind.MARKS:
            state = _marks(query)
        case Kind.FURTHEST:
            state = _furthest(query)
        case _:
            raise out_of_range("kind", request.kind, "0 to 7")
    state["now_us"] = now_us
    state["boot"] = broker.boot
    return more, json.dumps(state, ensure_ascii=False).encode()


def _state(query: Query) -> JSON:
    """Returns the state of the broker, or what every user may know of it."""
    state = _limits(query.broker, query.user)
    if query.whose is None:
        state |= _counts(query.broker)
    return state


def _limits(broker: "Broker", user: User) -> JSON:
    """Returns what every user may know."""
    clock = "system"
    if isinstance(broker.clock, ManualClock):
        clock = "manual"
    state: JSON = {
        "name": broker.name,
        "clock": clock,
        "user": user.name,
        "limits": broker.settings.limits(),
        "topic_defaults": broker.settings.topic.by_name(),
    }
    # Hardly any clock is ever wrong.
    if broker.jumps:
        state["clock_jumps"] = list(broker.jumps)
    if broker.clock_ahead_us:
        state["clock_ahead_us"] = broker.clock_ahead_us
    return state


def _counts(broker: "Broker") -> JSON:
    registry = broker.registry
    # Before anything is counted: a recording stores two counters when it is asked for this.
    resident = broker.resident()
    of_topics = registry.budget.used + registry.budget.reserved
    memory = of_topics + broker.memory.used
    state = {
        "connections": len(broker.managers_by_name),
        "disconnects": dict(sorted(broker.ends.items())),
        "recent_ends": list(broker.recent_ends),
        "access": dict(sorted(broker.access.items())),
        "subscriptions": len(broker.readers),
        "topics": len(registry),
        "bytes": registry.budget.stored,
        "memory": memory,
        "resident": resident,
        "producers": len(broker.producers),
        "sessions": len(broker.named_positions),
    }
    return state | registry.on_disk()


def _page(found: Iterator[Named], limit: int, most: int = MAX_PAGE) -> tuple[bool, list[Named]]:
    """Returns whether more entries follow the page, and the page."""
    limit = min(limit, most)
    page = list(islice(found, limit + 1))
    return len(page) > limit, page[:limit]


def _topics(query: Query) -> Iterator[TopicController]:
    """Yields the topics that the user may see described, in the order of their names."""
    request = query.request
    directory = query.broker.registry.directory
    for name, topic in directory.after(request.after, request.prefix):
        if query.user.may("describe", topic_of(name)):
            yield topic


def _topics_page(query: Query) -> tuple[bool, JSON]:
    more, topics = _page(_topics(query), query.request.limit)
    rows = [_topic(query, topic) for topic in topics]
    return more, {"topics": rows}


def _topic(query: Query, topic: TopicController) -> JSON:
    last = slowest(topic)
    name = ""
    if last is not None:
        listed = _listed(query.broker, topic, last)
        if query.shows(listed.user):
            name = listed.name
    return topic_row(topic, last, name, query.now_us)


def _counters_page(query: Query) -> tuple[bool, JSON]:
    more, topics = _page(_topics(query), query.request.limit, MAX_COUNTERS)
    rows = []
    for topic in topics:
        last = slowest(topic)
        rows.append(counters(topic, last, query.now_us))
    return more, {"columns": COLUMNS, "rows": rows}


def _subscriptions_page(query: Query) -> tuple[bool, JSON]:
    visible = (it for it in _positions(query) if query.shows(it.user))
    more, page = _page(visible, query.request.limit)
    rows = [it.row(query.now_us) for it in page]
    return more, {"subscriptions": rows}


def _positions(query: Query) -> Iterator[Listed]:
    """Returns subscriptions, and named positions without a reader, in the order of their names."""
    return merge(_live(query), _away(query), key=attrgetter("name"))


def _live(query: Query) -> Iterator[Listed]:
    """Yields the subscriptions."""
    request = query.request
    readers = query.broker.readers
    for _, (manager, reader) in readers.after(request.after, request.prefix):
        yield _listed_reader(manager, reader)


def _away(query: Query) -> Iterator[Listed]:
    """Yields the named positions without a reader."""
    request = query.request
    directory = query.broker.named_positions.directory
    for _, (topic, position) in directory.after(request.after, request.prefix):
        # A shared name has a row beside those of its workers.
        if not position.has_reader or isinstance(position, SharedPosition):
            yield _listed(query.broker, topic, position)


def _listed(broker: "Broker", topic: TopicController, position: Position) -> Listed:
    """Returns how a position is listed, or its reader."""
    name = directory_name(topic, position)
    row: Callable[[int], JSON]
    match position:
        case SharedPosition():
            row = partial(shared_row, position)
        case ExclusivePosition() if position.reader is not None:
            manager, reader = broker.readers[position.reader.name]
            return _listed_reader(manager, reader)
        case ExclusivePosition():
            ttl_s = broker.named_positions.ttl_s(topic)
            row = partial(away_row, topic, position, ttl_s)
        case _:
            raise TypeError(position)
    return Listed(name, position.user, row)


def _listed_reader(manager: SubscriptionManager, reader: Subscriber) -> Listed:
    row: Callable[[int], JSON]
    match reader:
        case SharedReader():
            row = partial(worker_row, manager, reader)
        case Reader():
            row = partial(reader_row, manager, reader)
        case _:
            raise TypeError(reader)
    return Listed(reader.name, manager.user.name, row)


def _connections_page(query: Query) -> tuple[bool, JSON]:
    more, managers = _page(_connections(query), query.request.limit)
    rows = [connection_row(name, manager) for name, manager in managers]
    return more, {"connections": rows}


def _connections(query: Query) -> Iterator[tuple[str, SubscriptionManager]]:
    """Yields the connections that are shown, in the order of their names."""
    request = query.request
    connections = query.broker.managers_by_name
    for name, manager in connections.after(request.after, request.prefix):
        if query.shows(manager.user.name):
            yield name, manager


def _windows(query: Query) -> JSON:
    """Returns the newest open windows of one topic, with their keys."""
    windows: list[tuple[str, int]] = []
    # Keys are parts of messages: the user must have the right to read those.
    topic = _one(query, "subscribe")
    if topic is not None and topic.window is not None:
        newest = topic.window.newest(MAX_KEY_BYTES, query.now_us)
        most = min(query.request.limit, MAX_WINDOWS)
        for key, opened_us in islice(newest, most):
            text = b64encode(key).decode()
            windows.append((text, opened_us))
    return {"windows": windows}


def _marks(query: Query) -> JSON:
    """Returns offsets of one topic with their times."""
    topic = _one(query, "describe")
    if topic is None:
        return {"marks": []}
    most = min(query.request.limit, MAX_MARKS)
    return {"marks": marks(topic, most, query.now_us)}


def _one(query: Query, also: Action) -> TopicController | None:
    """Returns the topic whose name is the prefix.

    None unless the user may describe it, and has that other right, too.
    """
    user = query.user
    name = query.request.prefix
    rights = topic_of(name)
    if user.may("describe", rights) and user.may(also, rights):
        return query.broker.registry.find(name)
    return None


def _furthest(query: Query) -> JSON:
    """Returns one topic's rows of kind 2, those that need the oldest messages first."""
    topic = query.broker.registry.find(query.request.prefix)
    if topic is None:
        return {"subscriptions": []}
    most = min(query.request.limit, MAX_FURTHEST)
    rows = []
    for position in nsmallest(most, _visible(query, topic), key=attrgetter("needed")):
        listed = _listed(query.broker, topic, position)
        rows.append(listed.row(query.now_us))
    return {"subscriptions": rows}


def _visible(query: Query, topic: TopicController) -> Iterator[Position]:
    """Yields each position of the topic that is shown, with or without a reader."""
    # A reader's named position comes with the names.
    anonymous = (it.stand for it in topic.readers if not it.stand.name)
    for position in chain(anonymous, topic.names.values()):
        # There may be thousands: whose each is matters only to a user who may not see all.
        if query.whose is not None:
            listed = _listed(query.broker, topic, position)
            if not query.shows(listed.user):
                continue
        yield position
