"""The broker's state as JSON, a page at a time. `docs/describe.md` tells every field.

The conservation laws are reported as what is *left over* when both sides are subtracted. Anything but 0 is a
bug of the broker, and this is where it would show.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zaichik.broker.subscription import Subscription
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import FOREVER, Describe, ErrorCode, Kind, Refused

if TYPE_CHECKING:
    from zaichik.broker.broker import Broker

State = dict[str, Any]

MAX_PAGE = 500  # entries; with the longest names that is well inside one frame


def describe(broker: "Broker", request: Describe) -> tuple[bool, bytes]:
    """Whether another page follows, and this page as JSON.

    Raises:
        Refused: an unknown kind, or a page of nothing.
    """
    if request.limit == 0:
        raise Refused(ErrorCode.INVALID_FIELD, "limit is 0; it must be at least 1", "limit")
    match request.kind:
        case Kind.BROKER:
            more, state = False, _broker(broker)
        case Kind.TOPICS:
            more, topics = _page(map(_topic, broker.registry), request)
            state = {"topics": topics}
        case Kind.SUBSCRIPTIONS:
            more, subscriptions = _page(_subscriptions(broker), request)
            state = {"subscriptions": subscriptions}
        case _:
            raise Refused(ErrorCode.INVALID_FIELD, f"kind is {request.kind}; it must be 0 to 2", "kind")
    return more, json.dumps(state, ensure_ascii=False).encode()


def _page(states: Iterable[State], request: Describe) -> tuple[bool, list[State]]:
    """The states asked for, in the order of their names, and whether more of them follow."""
    wanted = [state for state in states if state["name"].startswith(request.prefix) and state["name"] > request.after]
    wanted.sort(key=lambda state: state["name"])
    limit = min(request.limit, MAX_PAGE)
    return len(wanted) > limit, wanted[:limit]


def _broker(broker: "Broker") -> State:
    return {
        "name": broker.name,
        "boot": broker.boot,
        "now_us": broker.clock.now_us(),
        "connections": len(broker.managers),
        "subscriptions": sum(len(manager.subscriptions) for manager in broker.managers.values()),
        "topics": len(broker.registry),
        "limits": broker.settings.limits(),
        "topic_defaults": asdict(broker.settings.topic),
    }


def _topic(topic: TopicController) -> State:
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
        "published": topic.published,
        "stored": stored,
        "compacted": topic.compacted,
        "resident": resident,
        "expired": ring.expired,
        "evicted": ring.evicted,
        "open_windows": len(topic.window) if topic.window else 0,
        "forgotten_windows": topic.window.forgotten if topic.window else 0,
        "left_over": {
            "published - stored - compacted": topic.published - stored - topic.compacted,
            "stored - resident - expired - evicted": stored - resident - ring.expired - ring.evicted,
        },
    }


def _subscriptions(broker: "Broker") -> Iterator[State]:
    for manager in broker.managers.values():
        for subscription in manager.subscriptions.values():
            # Topic first, so that a prefix finds a topic's readers; the numbers padded, so that names sort.
            name = f"{subscription.topic.name}#{manager.number:08}.{subscription.id:08}"
            yield {
                "name": name,
                "connection": manager.number,
                "client": manager.client,
                **_subscription(subscription),
            }


def _subscription(subscription: Subscription) -> State:
    since_start = subscription.topic.ring.next_offset - subscription.start
    delivered, skipped, ahead = subscription.delivered, subscription.skipped, subscription.ahead
    return {
        "id": subscription.id,
        "topic": subscription.topic.name,
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


def _waiting_for(subscription: Subscription) -> str:
    """Why the next message did not come yet: the first question of whoever misses one (CMT-5)."""
    if subscription.ended:
        return "nothing: it has ended"
    if not subscription.has_credit:
        return f"commit: offsets {subscription.committed} to {subscription.cursor - 1} are in flight"
    if subscription.ahead:
        return "the connection: its turn comes when the client has read what was sent before"
    return "messages: it is caught up"
