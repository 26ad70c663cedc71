"""The broker's state as JSON, a page at a time. `docs/describe.md` documents every field.

The conservation laws are reported as what is *left over* when one side is subtracted from the other. Anything but 0 is
a bug in the broker, and this is where it would show.
"""

import json
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge, nsmallest
from itertools import chain, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from resource import getpagesize
from typing import Protocol, TypeVar

from zaichik.broker.clock import Clock, ManualClock
from zaichik.broker.position import Position, directory_name
from zaichik.broker.reader import Reader
from zaichik.broker.rights import BROKER, Action, User, topic_of
from zaichik.broker.settings import out_of_range
from zaichik.broker.state import State
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.broker.topic_controller import TopicController
from zaichik.observing.directory import Directory
from zaichik.observing.rows import (
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
from zaichik_protocol import Describe, Kind

Listed = tuple[str, str, Callable[[int], JSON]]  # how kind 2 lists it: its name, its user's, and what makes the row
Named = TypeVar("Named")

# A page is made within one turn, while other connections wait. Those of kind 4 have more rows, because they are cheap.
MAX_PAGE, MAX_COUNTERS = 8, 50
MAX_WINDOWS, MAX_KEY_BYTES, MAX_MARKS, MAX_FURTHEST = 256, 32 * 1024, 128, 16  # of kinds 5 to 7, which are one page


class Described(State, Protocol):
    """A broker, as `describe` sees it. Fields are documented in `Broker`."""

    clock: Clock
    conversations: Directory[SubscriptionManager]
    ends: Counter[str]
    recent_ends: deque[tuple[int, int, str, str, str]]
    access: Counter[str]
    resident: Callable[[], int | None]


def describe(broker: Described, request: Describe, user: User, now_us: int) -> tuple[bool, bytes]:
    """Returns whether another page follows, and this page as JSON: what the user may see of the state at `now_us`.

    What is left out is left out before pages are cut, so that it does not show (ACC-5).

    Raises:
        Refused: `INVALID_FIELD`, for an unknown kind or a limit of 0.
    """
    if request.limit == 0:
        raise out_of_range("limit", 0, "at least 1")
    whose, limit, more = None if user.may("describe", BROKER) else user.name, request.limit, False
    match request.kind:
        case Kind.BROKER:
            state = _limits(broker, user) | (_broker(broker) if whose is None else {})
        case Kind.TOPICS:
            more, topics = _page(_topics(broker, request, user), limit)
            state = {"topics": [_topic(broker, topic, whose, now_us) for _, topic in topics]}
        case Kind.SUBSCRIPTIONS:
            more, found = _page((it for it in _positions(broker, request) if whose in (None, it[1])), limit)
            state = {"subscriptions": [tell(now_us) for _, _, tell in found]}
        case Kind.CONNECTIONS:
            here = broker.conversations.after(request.after, request.prefix)
            more, managers = _page((it for it in here if whose in (None, it[1].user.name)), limit)
            state = {"connections": [connection_row(name, manager) for name, manager in managers]}
        case Kind.COUNTERS:
            more, topics = _page(_topics(broker, request, user), limit, MAX_COUNTERS)
            state = {"columns": COLUMNS, "rows": [counters(topic, slowest(topic), now_us) for _, topic in topics]}
        case Kind.WINDOWS:  # keys are parts of messages
            one = _one(broker, request, user, "subscribe")
            window = None if one is None else one.window
            keys = () if window is None else islice(window.newest(MAX_KEY_BYTES, now_us), min(limit, MAX_WINDOWS))
            state = {"windows": [(b64encode(key).decode(), opened_us) for key, opened_us in keys]}
        case Kind.MARKS:
            one = _one(broker, request, user, "describe")
            state = {"marks": [] if one is None else marks(one, min(limit, MAX_MARKS), now_us)}
        case Kind.FURTHEST:
            state = {"subscriptions": _furthest(broker, request, whose, now_us)}
        case _:
            raise out_of_range("kind", request.kind, "0 to 7")
    return more, json.dumps(state | {"now_us": now_us, "boot": broker.boot}, ensure_ascii=False).encode()


def _page(found: Iterator[Named], limit: int, most: int = MAX_PAGE) -> tuple[bool, list[Named]]:
    """Returns whether more entries follow the page, and the page."""
    limit = min(limit, most)
    page = list(islice(found, limit + 1))
    return len(page) > limit, page[:limit]


def _topics(broker: Described, request: Describe, user: User) -> Iterator[tuple[str, TopicController]]:
    known = broker.registry.directory.after(request.after, request.prefix)
    return (it for it in known if user.may("describe", topic_of(it[0])))


def _topic(broker: Described, topic: TopicController, whose: str | None, now_us: int) -> JSON:
    last = slowest(topic)
    name, owner, *_ = ("", "") if last is None else _listed(broker, topic, last)
    return topic_row(topic, last, name if whose in (None, owner) else "", now_us)


def _limits(broker: Described, user: User) -> JSON:
    """Returns what every user may know."""
    return {
        "name": broker.name,
        "clock": "manual" if isinstance(broker.clock, ManualClock) else "system",
        "user": user.name,
        "limits": broker.settings.limits(),
        "topic_defaults": broker.settings.topic.by_name(),
    }


def _broker(broker: Described) -> JSON:
    budget, resident = broker.registry.budget, broker.resident()  # first: a recording stores the two counters with it
    return {
        "connections": len(broker.conversations),
        "disconnects": dict(sorted(broker.ends.items())),
        "recent_ends": list(broker.recent_ends),
        "access": dict(sorted(broker.access.items())),
        "subscriptions": len(broker.readers),
        "topics": len(broker.registry),
        "bytes": budget.stored,
        "memory": budget.used + budget.reserved + broker.memory.used,
        "resident": resident,
        "producers": len(broker.producers),
        "sessions": len(broker.named_positions),
        **broker.registry.on_disk(),
    }


def resident_bytes() -> int | None:
    """Returns the resident memory of this process, in bytes; None where the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * getpagesize()
    except OSError:
        return None


def _positions(broker: Described, request: Describe) -> Iterator[Listed]:
    """Returns subscriptions, and named positions without a reader, in the order of their names."""
    named = broker.named_positions.directory.after(request.after, request.prefix)
    away = (_listed(broker, *it) for _, it in named if it[1].reader is None)
    live = (_live(*it) for _, it in broker.readers.after(request.after, request.prefix))
    return merge(live, away, key=itemgetter(0))


def _listed(broker: Described, topic: TopicController, position: Position) -> Listed:
    """Returns how a position is listed, or its reader."""
    if position.reader is not None:
        return _live(*broker.readers[position.reader.name])
    ttl = broker.named_positions.ttl(topic)
    return directory_name(topic, position), position.user, partial(away_row, topic, position, ttl)


def _live(manager: SubscriptionManager, reader: Reader) -> Listed:
    return reader.name, manager.user.name, partial(reader_row, manager, reader)


def _furthest(broker: Described, request: Describe, whose: str | None, now_us: int) -> list[JSON]:
    """Returns one topic's rows of kind 2, those that need the oldest messages first: one user's, or all."""
    if (topic := broker.registry.find(request.prefix)) is None:
        return []
    every = chain((it.position for it in topic.readers if not it.position.name), topic.names.values())
    shown = every if whose is None else (it for it in every if _listed(broker, topic, it)[1] == whose)
    found = nsmallest(min(request.limit, MAX_FURTHEST), shown, key=attrgetter("needed"))
    return [_listed(broker, topic, it)[2](now_us) for it in found]


def _one(broker: Described, request: Describe, user: User, also: Action) -> TopicController | None:
    """Returns the topic whose name is the prefix, if the user may describe it and has that other right, too."""
    name = topic_of(request.prefix)
    may = user.may("describe", name) and user.may(also, name)
    return broker.registry.find(request.prefix) if may else None
