"""The rows that `describe` reports: connections, topics, and positions in topics with or without a reader."""

from operator import attrgetter
from typing import Any

from zaichik.broker.clock import MICROSECONDS
from zaichik.broker.position import Position, directory_name
from zaichik.broker.reader import Reader
from zaichik.broker.subscription_manager import SubscriptionManager
from zaichik.broker.topic_controller import TopicController
from zaichik_protocol import FOREVER

JSON = dict[str, Any]

COLUMNS = (
    *("name", "head", "next_offset", "bytes", "published", "compacted", "expired", "evicted", "damaged", "refused"),
    *("subscriptions", "needed", "needed_us", "capacity"),
)
OF_READER = ("id", "credit", "credit_bytes", "in_flight", "in_flight_bytes", "delivered", "skipped", "ahead", "start")


def connection_row(name: str, manager: SubscriptionManager) -> JSON:
    """Returns the state of a connection, which is listed by that name."""
    state = "greeting" if not manager.greeted else "output_full" if manager.unsent else "reading"
    return {
        "name": name,
        "connection": manager.number,
        "user": manager.user.name,
        **{field: getattr(manager, field) for field in ("peer", "client", "since_us", "unsent", "requests")},
        "state": state if manager.is_open else "draining",
        "subscriptions": len(manager.readers),
        "in_flight": sum(subscription.in_flight for subscription in manager.readers.values()),
        "reply_bytes": manager.replies.bytes,
    }


def slowest(topic: TopicController) -> Position | None:
    """Returns the position that needs the oldest message, now or next; None if there is no position."""
    return min(topic.positions(), key=attrgetter("needed"), default=None)


def counters(topic: TopicController, last: Position | None, now_us: int) -> tuple[Any, ...]:
    """Returns the values of `COLUMNS` for a topic with that `slowest` position: cheap, so that a page holds many."""
    topic.expire(now_us)  # an expired message is not resident, even if no sweep has dropped it yet
    ring, offset = topic.ring, topic.end if last is None else last.needed
    kept, damaged = (ring, 0) if topic.durable is None else (topic.durable, topic.durable.damaged)
    return (
        *(topic.name, topic.head, topic.end, ring.bytes, topic.published, topic.compacted),
        *(kept.expired, kept.evicted, damaged, topic.refused, len(topic.readers)),
        *(offset, _accepted_us(topic, offset), topic.settings.capacity),
    )


def topic_row(topic: TopicController, last: Position | None, its_name: str, now_us: int) -> JSON:
    """Returns the state of a topic with that `slowest` position, and the position's name, if the user may know it."""
    counted = dict(zip(COLUMNS[:-1], counters(topic, last, now_us), strict=False))
    durable, window, stored, damaged = topic.durable, topic.window, topic.end, counted["damaged"]
    resident, gone = stored - topic.head - damaged, counted["expired"] + counted["evicted"] + damaged
    row = counted | {
        **{field: getattr(topic, field) for field in ("epoch", "explicit", "memory")},
        "settings": topic.settings.by_name(),
        "head_us": _accepted_us(topic, topic.head),
        "last_us": topic.ring.accepted_us(topic.end - 1),
        "slowest": its_name,
        "stored": stored,
        "resident": resident,
        "open_windows": 0 if window is None else len(window),
        "forgotten_windows": 0 if window is None else window.forgotten,
        "left_over": {
            "published - stored - compacted": topic.published - stored - topic.compacted,
            "stored - resident - expired - evicted - damaged": stored - resident - gone,
        },
    }
    if durable is not None:
        row |= {"log_bytes": durable.log.size, "waiting_bytes": durable.waiting_bytes, "damage": durable.log.damage}
    return row


def marks(topic: TopicController, most: int, now_us: int) -> list[tuple[int, int]]:
    """Returns offsets spread evenly over what is held in memory, and when their messages were accepted."""
    topic.expire(now_us)
    return topic.ring.marks(most)


def _accepted_us(topic: TopicController, offset: int) -> int | None:
    """Returns when the first message from that offset on was accepted; None if there is none, or only on the disk."""
    return topic.ring.accepted_us(max(offset, topic.head))


def reader_row(manager: SubscriptionManager, reader: Reader, now_us: int) -> JSON:
    """Returns the state of a live subscription."""
    row = _position_row(reader.name, reader.topic, reader.position, reader.cursor, reader.redelivered_below, now_us)
    row |= {field: getattr(reader, field) for field in OF_READER}
    code, waiting_for = _waiting_for(reader)
    over = row["next_offset"] - reader.start - reader.delivered - reader.skipped - row["ahead"]
    return row | {
        "connection": manager.number,
        "client": manager.client,
        "until": None if reader.until == FOREVER else reader.until,
        "waiting_for": waiting_for,
        "waiting_for_code": code,
        "left_over": {"next_offset - start - delivered - skipped - ahead": over},
    }


def away_row(topic: TopicController, position: Position, ttl: float, now_us: int) -> JSON:
    """Returns the state of a named position without a reader: where the next reader of that name will begin."""
    start, cursor = position.committed, max(position.committed, position.delivered)  # lag is never delivered
    left = ttl - (0 if position.left_us is None else now_us - position.left_us) / MICROSECONDS
    row = _position_row(directory_name(topic, position), topic, position, cursor, cursor, now_us)
    return row | {
        **dict.fromkeys(("connection", *OF_READER), 0),
        "client": "",
        "start": start,
        "until": None,
        "waiting_for": f"its reader: away; the name is forgotten if none comes within {max(left, 0):.0f} s",
        "waiting_for_code": "reader",
        "delivered": cursor - start,
        "ahead": topic.end - cursor,
        "left_over": {},
    }


def _position_row(name: str, topic: TopicController, position: Position, cursor: int, again: int, now_us: int) -> JSON:
    """Returns what is reported of every position. Unsettled messages below `again` are sent, or were sent, again."""
    topic.expire(now_us)
    return {
        "name": name,
        "topic": topic.name,
        "session": position.name,
        "committed": position.committed,
        "cursor": cursor,
        "cursor_us": _accepted_us(topic, cursor),
        "next_offset": topic.end,
        "redelivered_below": again if again > position.committed else None,
    }


def _waiting_for(reader: Reader) -> tuple[str, str]:
    """Returns why the next message has not been delivered yet (CMT-5): a word for programs, and a sentence."""
    if reader.ended:
        return "ended", "nothing: it has ended"
    if reader.waits_for_disk:
        return "disk", f"the disk: offset {reader.cursor} is being read"
    # Not ready although messages are ahead: it has credit left, but not the bytes that the next message needs.
    if not reader.has_credit or (reader.ahead and not reader.is_ready):
        code = "commit" if reader.in_flight >= reader.credit else "bytes"
        return code, f"commit: offsets {reader.committed} to {reader.cursor - 1} are in flight"
    if reader.ahead:
        return "connection", "the connection: its turn comes when the client has read what was sent before"
    return "messages", "messages: it is caught up"
