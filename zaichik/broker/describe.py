"""The broker's state as JSON, a page at a time. `docs/describe.md` tells every field.

The conservation laws are reported as what is *left over* when both sides are subtracted. Anything but 0 is a
bug of the broker, and this is where it would show.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.session import Session
from zaichik.broker.settings import out_of_range
from zaichik.broker.subscription import Subscription
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import FOREVER, Describe, Kind

if TYPE_CHECKING:
    from zaichik.broker.broker import Broker
    from zaichik.broker.subscription_manager import SubscriptionManager

State = dict[str, Any]
Named = TypeVar("Named")

MAX_PAGE = 500  # entries; with the longest names that is well inside one frame


def describe(broker: "Broker", request: Describe, now_us: int) -> tuple[bool, bytes]:
    """Whether another page follows, and this page as JSON: the state at `now_us`.

    Raises:
        Refused: an unknown kind, or a page of nothing.
    """
    if request.limit == 0:
        raise out_of_range("limit", 0, "at least 1")
    match request.kind:
        case Kind.BROKER:
            more, state = False, _broker(broker, now_us)
        case Kind.TOPICS:
            more, topics = _page({topic.name: topic for topic in broker.registry}, request)
            state = {"topics": [_topic(topic, now_us) for topic in topics]}
        case Kind.SUBSCRIPTIONS:
            more, readers = _page(_readers(broker, now_us), request)
            state = {"subscriptions": [tell() for tell in readers]}
        case Kind.CONNECTIONS:
            more, managers = _page({f"{number:08}": manager for number, manager in broker.managers.items()}, request)
            state = {"connections": [_connection(manager) for manager in managers]}
        case _:
            raise out_of_range("kind", request.kind, "0 to 3")
    return more, json.dumps(state, ensure_ascii=False).encode()


def _page(named: dict[str, Named], request: Describe) -> tuple[bool, list[Named]]:
    """Those asked for, in the order of their names, and whether more of them follow."""
    names = sorted(name for name in named if name.startswith(request.prefix) and name > request.after)
    limit = min(request.limit, MAX_PAGE)
    return len(names) > limit, [named[name] for name in names[:limit]]


def _broker(broker: "Broker", now_us: int) -> State:
    return {
        "name": broker.name,
        "boot": broker.boot,
        "now_us": now_us,
        "connections": len(broker.managers),
        "disconnects": dict(sorted(broker.ends.items())),
        "subscriptions": sum(len(manager.subscriptions) for manager in broker.managers.values()),
        "topics": len(broker.registry),
        "bytes": sum(topic.ring.bytes for topic in broker.registry),
        "producers": len(broker.producers),
        "sessions": len(broker.sessions),
        "limits": broker.settings.limits(),
        "topic_defaults": asdict(broker.settings.topic),
    }


def _connection(manager: "SubscriptionManager") -> State:
    return {
        "name": f"{manager.number:08}",
        "connection": manager.number,
        "peer": manager.peer,
        "client": manager.client,
        "subscriptions": len(manager.subscriptions),
        "reply_bytes": manager.reply_bytes,
        "requests": manager.requests,
    }


def _topic(topic: TopicController, now_us: int) -> State:
    topic.expire(now_us)  # what time has ended is not resident, whether or not anybody has looked since
    ring = topic.ring
    stored, resident = ring.next_offset, ring.next_offset - ring.head
    return {
        "name": topic.name,
        "epoch": topic.epoch,
        "explicit": topic.explicit,
        "settings": asdict(topic.settings),
        "head": ring.head,
        "next_offset": ring.next_offset,
        "bytes": ring.bytes,
        "subscriptions": len(topic.readers),
        "needed": topic.needed(),
        "published": topic.published,
        "stored": stored,
        "compacted": topic.compacted,
        "resident": resident,
        "expired": ring.expired,
        "evicted": ring.evicted,
        "open_windows": 0 if topic.window is None else len(topic.window),
        "forgotten_windows": 0 if topic.window is None else topic.window.forgotten,
        "left_over": {
            "published - stored - compacted": topic.published - stored - topic.compacted,
            "stored - resident - expired - evicted": stored - resident - ring.expired - ring.evicted,
        },
    }


def _readers(broker: "Broker", now_us: int) -> dict[str, Callable[[], State]]:
    # Topic first, so that a prefix finds a topic's readers; the numbers padded, so that names sort.
    readers: dict[str, Callable[[], State]] = {}
    for manager in broker.managers.values():
        for subscription in manager.subscriptions.values():
            name = f"{subscription.topic.name}#{manager.number:08}.{subscription.id:010}"
            readers[name] = partial(_reader, name, manager, subscription)
    for session in broker.sessions.away():
        away_us = 0 if session.left_us is None else now_us - session.left_us
        # The length of the topic's name tells one apart from all others, as both names may hold a # and a dot.
        name = f"{session.topic.name}#away.{session.name}.{len(session.topic.name)}"
        readers[name] = partial(_away, name, session, broker.settings.session_ttl - away_us / MICROSECONDS)
    return readers


def _reader(name: str, manager: "SubscriptionManager", subscription: Subscription) -> State:
    since_start = subscription.topic.ring.next_offset - subscription.start
    delivered, skipped, ahead = subscription.delivered, subscription.skipped, subscription.ahead
    return {
        "name": name,
        "connection": manager.number,
        "client": manager.client,
        "id": subscription.id,
        "topic": subscription.topic.name,
        "session": "" if subscription.session is None else subscription.session.name,
        "start": subscription.start,
        "committed": subscription.committed,
        "cursor": subscription.cursor,
        "until": None if subscription.until == FOREVER else subscription.until,
        "waiting_for": _waiting_for(subscription),
        "credit": subscription.credit,
        "credit_bytes": subscription.credit_bytes,
        "in_flight": subscription.in_flight,
        "in_flight_bytes": subscription.in_flight_bytes,
        "delivered": delivered,
        "skipped": skipped,
        "ahead": ahead,
        "left_over": {"next_offset - start - delivered - skipped - ahead": since_start - delivered - skipped - ahead},
    }


def _away(name: str, session: Session, seconds: float) -> State:
    """A named subscription whose reader is away, kept for so long: where the next reader of that name will begin."""
    cursor = max(session.committed, session.delivered)  # who has skipped and settled more than it was delivered
    return {
        "name": name,
        **dict.fromkeys(("connection", "id", "credit", "credit_bytes", "in_flight", "in_flight_bytes", "skipped"), 0),
        "client": "",
        "topic": session.topic.name,
        "session": session.name,
        "start": session.committed,
        "committed": session.committed,
        "cursor": cursor,
        "until": None,
        "waiting_for": f"its reader: away; the name is forgotten if nobody comes within {max(seconds, 0):.0f} s",
        "delivered": cursor - session.committed,
        "ahead": session.topic.ring.next_offset - cursor,
        "left_over": {},
    }


def _waiting_for(subscription: Subscription) -> str:
    """Why the next message did not come yet: the first question of whoever misses one (CMT-5)."""
    if subscription.ended:
        return "nothing: it has ended"
    # Not ready although there is more: it has credit left, but not the bytes that the next message needs.
    if not subscription.has_credit or (subscription.ahead and not subscription.is_ready):
        return f"commit: offsets {subscription.committed} to {subscription.cursor - 1} are in flight"
    if subscription.ahead:
        return "the connection: its turn comes when the client has read what was sent before"
    return "messages: it is caught up"
