"""The broker's state as JSON, a page at a time. `docs/describe.md` documents every field.

The conservation laws are reported as what is *left over* when one side is subtracted from the other. Anything but 0 is
a bug in the broker, and this is where it would show.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from resource import getpagesize
from typing import Any, Protocol, TypeVar

from zaichik.broker.clock import MICROSECONDS, Clock, ManualClock
from zaichik.broker.position import Position, TopicWithNames
from zaichik.broker.reader import Reader
from zaichik.broker.rights import BROKER, User, topic_of
from zaichik.broker.settings import out_of_range
from zaichik.broker.state import State
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.broker.topic_controller import TopicController
from zaichik.observing.directory import Directory
from zaichik_protocol import FOREVER, Describe, Kind

JSON = dict[str, Any]
Row = tuple[str, Callable[[], JSON]]  # its name, and what tells the rest
Named = TypeVar("Named")

PAGE_SIZE = getpagesize()
MAX_PAGE = 8  # entries: a page is made within one turn, while other connections wait


class Described(State, Protocol):
    """A broker, as `describe` sees it. Fields are documented in `Broker`."""

    clock: Clock
    managers: dict[int, SubscriptionManager]
    conversations: Directory[SubscriptionManager]
    ends: Counter[str]
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
    sees_all = user.may("describe", BROKER)
    match request.kind:
        case Kind.BROKER:
            more, state = False, _limits(broker, user, now_us) | (_broker(broker) if sees_all else {})
        case Kind.TOPICS:
            known = broker.registry.directory.after(request.after, request.prefix)
            more, topics = _page((it for it in known if user.may("describe", topic_of(it[0]))), request)
            state = {"topics": [_topic(topic, now_us) for _, topic in topics]}
        case Kind.SUBSCRIPTIONS:
            more, found = _page(_readers(broker, request, None if sees_all else user.name, now_us), request)
            state = {"subscriptions": [tell() for _, tell in found]}
        case Kind.CONNECTIONS:
            here = broker.conversations.after(request.after, request.prefix)
            more, managers = _page((it for it in here if sees_all or it[1].user.name == user.name), request)
            state = {"connections": [_connection(name, manager) for name, manager in managers]}
        case _:
            raise out_of_range("kind", request.kind, "0 to 3")
    return more, json.dumps(state, ensure_ascii=False).encode()


def _page(found: Iterator[Named], request: Describe) -> tuple[bool, list[Named]]:
    """Returns whether more entries follow the page, and the page."""
    limit = min(request.limit, MAX_PAGE)
    page = list(islice(found, limit + 1))
    return len(page) > limit, page[:limit]


def _limits(broker: Described, user: User, now_us: int) -> JSON:
    """Returns what everybody may know."""
    return {
        "name": broker.name,
        "boot": broker.boot,
        "now_us": now_us,
        "clock": "manual" if isinstance(broker.clock, ManualClock) else "system",
        "user": user.name,
        "limits": broker.settings.limits(),
        "topic_defaults": broker.settings.topic.by_name(),
    }


def _broker(broker: Described) -> JSON:
    budget, resident = broker.registry.budget, broker.resident()  # first: a replay learns the two counters with it
    return {
        "connections": len(broker.managers),
        "disconnects": dict(sorted(broker.ends.items())),
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
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_SIZE
    except OSError:
        return None


def _connection(name: str, manager: SubscriptionManager) -> JSON:
    return {
        "name": name,
        "connection": manager.number,
        "peer": manager.peer,
        "user": manager.user.name,
        "client": manager.client,
        "subscriptions": len(manager.readers),
        "in_flight": sum(subscription.in_flight for subscription in manager.readers.values()),
        "reply_bytes": manager.replies.bytes,
        "requests": manager.requests,
    }


def _topic(topic: TopicController, now_us: int) -> JSON:
    topic.expire(now_us)  # an expired message is not resident, even if no sweep has dropped it yet
    ring, durable, stored = topic.ring, topic.durable, topic.end
    kept, damaged = (ring, 0) if durable is None else (durable, durable.damaged)
    resident, gone = stored - topic.head - damaged, kept.expired + kept.evicted + damaged
    return {
        "name": topic.name,
        "epoch": topic.epoch,
        "explicit": topic.explicit,
        "settings": topic.settings.by_name(),
        "head": topic.head,
        "next_offset": topic.end,
        "bytes": ring.bytes,
        "memory": topic.memory,
        "subscriptions": len(topic.readers),
        "needed": topic.needed(),
        "published": topic.published,
        "stored": stored,
        "compacted": topic.compacted,
        "resident": resident,
        "expired": kept.expired,
        "evicted": kept.evicted,
        "damaged": damaged,
        "open_windows": 0 if topic.window is None else len(topic.window),
        "forgotten_windows": 0 if topic.window is None else topic.window.forgotten,
        **_disk(topic),
        "left_over": {
            "published - stored - compacted": topic.published - stored - topic.compacted,
            "stored - resident - expired - evicted - damaged": stored - resident - gone,
        },
    }


def _disk(topic: TopicController) -> JSON:
    """Returns what there is of a durable topic on the disk."""
    if (durable := topic.durable) is None:
        return {}
    return {"log_bytes": durable.log.size, "waiting_bytes": durable.waiting_bytes, "damage": durable.log.damage}


def _readers(broker: Described, request: Describe, user: str | None, now_us: int) -> Iterator[Row]:
    """Returns subscriptions, and named positions without a reader, in the order of their names: one user's, or all."""
    after, prefix, names = request.after, request.prefix, broker.named_positions
    live = (
        (name, partial(_reader, name, *reader))
        for name, reader in broker.readers.after(after, prefix)
        if user in (None, reader[0].user.name)
    )
    away = (
        (name, partial(_away, name, topic, position, names.ttl(topic), now_us))
        for name, (topic, position) in names.directory.after(after, prefix)
        if position.reader is None and user in (None, position.user)
    )
    return merge(live, away, key=itemgetter(0))


def _reader(name: str, manager: SubscriptionManager, subscription: Reader) -> JSON:
    end, start = subscription.topic.end, subscription.start
    delivered, skipped, ahead = subscription.delivered, subscription.skipped, subscription.ahead
    return {
        "name": name,
        "connection": manager.number,
        "client": manager.client,
        "id": subscription.id,
        "topic": subscription.topic.name,
        "session": subscription.position.name,
        "start": start,
        "committed": subscription.committed,
        "cursor": subscription.cursor,
        "next_offset": end,
        "until": None if subscription.until == FOREVER else subscription.until,
        "waiting_for": _waiting_for(subscription),
        "credit": subscription.credit,
        "credit_bytes": subscription.credit_bytes,
        "in_flight": subscription.in_flight,
        "in_flight_bytes": subscription.in_flight_bytes,
        "delivered": delivered,
        "skipped": skipped,
        "ahead": ahead,
        "left_over": {"next_offset - start - delivered - skipped - ahead": end - start - delivered - skipped - ahead},
    }


def _away(name: str, topic: TopicWithNames, position: Position, ttl: float, now_us: int) -> JSON:
    """Returns a named position without a reader: where the next reader of that name will begin."""
    cursor = max(position.committed, position.delivered)  # lag may be committed, but is never delivered
    left = ttl - (0 if position.left_us is None else now_us - position.left_us) / MICROSECONDS
    return {
        "name": name,
        **dict.fromkeys(("connection", "id", "credit", "credit_bytes", "in_flight", "in_flight_bytes", "skipped"), 0),
        "client": "",
        "topic": topic.name,
        "session": position.name,
        **dict.fromkeys(("start", "committed"), position.committed),
        "cursor": cursor,
        "next_offset": topic.end,
        "until": None,
        "waiting_for": f"its reader: away; the name is forgotten if none comes within {max(left, 0):.0f} s",
        "delivered": cursor - position.committed,
        "ahead": topic.end - cursor,
        "left_over": {},
    }


def _waiting_for(subscription: Reader) -> str:
    """Returns why the next message has not been delivered yet: the first question about a missing one (CMT-5)."""
    if subscription.ended:
        return "nothing: it has ended"
    if subscription.waits_for_disk:
        return f"the disk: offset {subscription.cursor} is being read"
    # Not ready although messages are ahead: it has credit left, but not the bytes that the next message needs.
    if not subscription.has_credit or (subscription.ahead and not subscription.is_ready):
        return f"commit: offsets {subscription.committed} to {subscription.cursor - 1} are in flight"
    if subscription.ahead:
        return "the connection: its turn comes when the client has read what was sent before"
    return "messages: it is caught up"
