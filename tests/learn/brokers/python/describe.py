"""What Describe tells, in a small form."""

import json
from typing import TYPE_CHECKING, Any

import topic as topics
import wire

if TYPE_CHECKING:
    from broker import Broker
    from subscription import Subscription

BROKER, TOPICS, SUBSCRIPTIONS, CONNECTIONS = range(4)
PAGE = 20
NAMES = {1: "retention_ttl_ms", 2: "compaction_window_ms", 3: "capacity", 4: "max_bytes", 5: "max_keys", 7: "overflow"}
NAMES |= {11: "table", 12: "tombstones_ms"}


def of_topic(topic: topics.Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "epoch": topic.epoch,
        "explicit": topic.explicit,
        "settings": {NAMES[number]: value for number, value in topic.settings.items()},
        "head": topic.head,
        "next_offset": topic.next,
        "bytes": topic.bytes,
        "subscriptions": len(topic.readers),
        "open_windows": len(topic.windows),
    }


def of_subscription(reader: "Subscription") -> dict[str, Any]:
    return {
        "name": f"{reader.topic.name}#{reader.connection.number:020}.{reader.number:010}",
        "connection": reader.connection.number,
        "client": reader.connection.client,
        "id": reader.number,
        "topic": reader.topic.name,
        "start": reader.start,
        "committed": reader.committed,
        "cursor": reader.cursor,
        "until": None if reader.until == 2**64 - 1 else reader.until,
        "credit": reader.credit,
        "in_flight": reader.in_flight,
        "credit_bytes": reader.credit_bytes,
        "in_flight_bytes": reader.in_flight_bytes,
    }


def of_broker(broker: "Broker") -> dict[str, Any]:
    return {
        "name": wire.BROKER_NAME,
        "boot": broker.boot,
        "now_us": broker.now(),
        "connections": len(broker.connections),
        "topics": len(broker.topics),
        "subscriptions": sum(len(topic.readers) for topic in broker.topics.values()),
        "producers": len(broker.producers),
    }


def page(broker: "Broker", kind: int, prefix: str, after: str, limit: int) -> bytes:
    """The reply's body: whether another page follows, and the JSON of this one."""
    if kind == BROKER:
        return b"\0" + json.dumps(of_broker(broker)).encode()
    now = broker.now()
    for topic in broker.topics.values():
        topic.expire(now)
    entries = {
        TOPICS: lambda: [of_topic(topic) for topic in broker.topics.values()],
        SUBSCRIPTIONS: lambda: [of_subscription(r) for topic in broker.topics.values() for r in topic.readers],
        CONNECTIONS: lambda: [connection.described() for connection in broker.connections.values()],
    }[kind]()
    found = [e for e in sorted(entries, key=lambda e: e["name"]) if e["name"].startswith(prefix) and e["name"] > after]
    size = min(limit, PAGE)
    title = {TOPICS: "topics", SUBSCRIPTIONS: "subscriptions", CONNECTIONS: "connections"}[kind]
    return bytes([len(found) > size]) + json.dumps({title: found[:size]}).encode()
