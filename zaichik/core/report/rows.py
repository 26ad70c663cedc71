"""The rows that `describe` reports: connections, topics, and positions with or without a reader."""

from itertools import pairwise
from operator import attrgetter
from typing import Any

from zaichik.core.exclusive_position import ExclusivePosition
from zaichik.core.phase import Phase
from zaichik.core.position import Position, directory_name
from zaichik.core.reader import Reader
from zaichik.core.subscription_manager import SubscriptionManager
from zaichik.core.topic_controller import TopicController
from zaichik_protocol import FOREVER

JSON = dict[str, Any]

COLUMNS = (
    "name",
    "head",
    "next_offset",
    "bytes",
    "published",
    "compacted",
    "expired",
    "evicted",
    "damaged",
    "refused",
    "subscriptions",
    "needed",
    "needed_us",
    "capacity",
    "epoch",
    "superseded",
    "resident",
    "lag",
    "keys",
    "tombstones",
)
# Of these, what only a table's row has.
COLUMNS_OF_TABLES = ("keys", "tombstones")


def connection_row(name: str, manager: SubscriptionManager) -> JSON:
    """Returns the state of a connection, which is listed by that name."""
    in_flight = sum(reader.in_flight for reader in manager.readers.values())
    return {
        "name": name,
        "connection": manager.number,
        "user": manager.user.name,
        "peer": manager.peer,
        "client": manager.client_name,
        "since_us": manager.since_us,
        "unsent": manager.unsent,
        "requests": manager.requests,
        "state": _state(manager),
        "subscriptions": len(manager.readers),
        "in_flight": in_flight,
        "reply_bytes": manager.replies.bytes,
    }


def _state(manager: SubscriptionManager) -> str:
    """Returns the word for what a connection does now."""
    if not manager.is_open:
        return "draining"
    if manager.phase is Phase.NEW:
        return "greeting"
    # The socket takes no more output now.
    if manager.unsent:
        return "output_full"
    return "reading"


def slowest(topic: TopicController) -> Position | None:
    """Returns the position that needs the oldest message, now or next.

    None if there is no position.
    """
    return min(topic.positions(), key=attrgetter("needed"), default=None)


def counters(topic: TopicController, last: Position | None, now_us: int) -> tuple[Any, ...]:
    """Returns the values of `COLUMNS` for a topic with that `slowest` position.

    They are cheap, so that a page holds many.
    """
    # An expired message is not resident, even if no sweep has dropped it yet.
    topic.expire(now_us)
    retained = topic.retained
    # Without a position, nothing is needed but what comes next.
    needed = topic.end
    lag = 0
    if last is not None:
        needed = last.needed
        lag = last.unsettled(retained)
    size, _ = retained.held()
    own = retained.own_fields()
    return (
        topic.name,
        retained.head,
        topic.end,
        size,
        topic.published,
        topic.compacted,
        retained.expired,
        retained.evicted,
        retained.damaged,
        topic.refused,
        len(topic.readers),
        needed,
        topic.retained.accepted_us(needed),
        topic.settings.capacity,
        topic.epoch,
        retained.superseded,
        retained.resident - retained.damaged,
        lag,
        own.get("keys"),
        own.get("tombstones"),
    )


def topic_row(topic: TopicController, last: Position | None, its_name: str, now_us: int) -> JSON:
    """Returns the state of a topic with that `slowest` position.

    The position's name is "" if the user may not know it.
    """
    values = counters(topic, last, now_us)
    counted = dict(zip(COLUMNS, values, strict=True))
    # The settings have it, in a part of their own.
    del counted["capacity"]
    # As what only some topics have, these are at the end.
    for name in COLUMNS_OF_TABLES:
        del counted[name]

    stored = topic.end
    damaged = counted["damaged"]
    resident = counted["resident"]
    gone = counted["expired"] + counted["evicted"] + counted["superseded"] + damaged
    left_over = {
        "published - stored - compacted": topic.published - stored - topic.compacted,
        "stored - resident - expired - evicted - superseded - damaged": stored - resident - gone,
    }

    open_windows = 0
    forgotten_windows = 0
    if topic.window is not None:
        open_windows = len(topic.window)
        forgotten_windows = topic.window.forgotten

    row = counted | {
        "explicit": topic.explicit,
        "memory": topic.memory,
        "settings": topic.settings.by_name(),
        "head_us": topic.retained.accepted_us(topic.head),
        "last_us": topic.retained.accepted_us(topic.end - 1),
        "slowest": its_name,
        "stored": stored,
        "open_windows": open_windows,
        "forgotten_windows": forgotten_windows,
        "left_over": left_over,
    }
    return row | topic.retained.own_fields()


def marks(topic: TopicController, most: int, now_us: int) -> list[tuple[int, int]]:
    """Returns offsets spread evenly over what is in memory, each with when it was accepted."""
    topic.expire(now_us)
    return topic.retained.marks(most)


def readable(topic: TopicController, marks: list[tuple[int, int]]) -> list[int]:
    """Returns for each mark how many messages from it up to the next one can be read."""
    offsets = [offset for offset, _ in marks]
    offsets.append(topic.end)
    counts = []
    for begin, end in pairwise(offsets):
        counts.append(end - begin - topic.retained.holes_between(begin, end))
    return counts


def reader_row(manager: SubscriptionManager, reader: Reader, now_us: int) -> JSON:
    """Returns the state of a live subscription."""
    topic = reader.topic
    again = reader.redelivered_below
    row = _position_row(reader.name, topic, reader.position, reader.cursor, again, now_us)
    code, waiting_for = _waiting_for(reader)
    ahead = reader.ahead

    got = reader.delivered + reader.skipped + reader.passed
    left_over = row["next_offset"] - reader.start - got - ahead

    until: int | None = reader.until
    if until == FOREVER:
        until = None

    return row | {
        "id": reader.id,
        "credit": reader.credit,
        "credit_bytes": reader.credit_bytes,
        "in_flight": reader.in_flight,
        "in_flight_bytes": reader.in_flight_bytes,
        "delivered": reader.delivered,
        "skipped": reader.skipped,
        "passed": reader.passed,
        "ahead": ahead,
        "lag": ahead - topic.retained.holes_between(reader.cursor, topic.end),
        "start": reader.start,
        "connection": manager.number,
        "client": manager.client_name,
        "until": until,
        "waiting_for": waiting_for,
        "waiting_for_code": code,
        "left_over": {"next_offset - start - delivered - skipped - passed - ahead": left_over},
    }


def away_row(
    topic: TopicController, position: ExclusivePosition, ttl_s: float, now_us: int
) -> JSON:
    """Returns the state of a named position without a reader.

    Its next reader will begin there.
    """
    retained = topic.retained
    start = position.committed
    # Lag is never delivered, but settled: the committed offset may be the greater one.
    cursor = max(position.committed, position.delivered)

    left_s = position.seconds_left(ttl_s, now_us)
    waiting_for = f"its reader: away; the name is forgotten if none comes within {left_s:.0f} s"

    name = directory_name(topic, position)
    row = _position_row(name, topic, position, cursor, cursor, now_us)
    return row | {
        "connection": 0,
        "id": 0,
        "credit": 0,
        "credit_bytes": 0,
        "in_flight": 0,
        "in_flight_bytes": 0,
        "delivered": cursor - start - retained.holes_between(start, cursor),
        "skipped": 0,
        "passed": 0,
        "ahead": topic.end - cursor,
        "lag": topic.end - cursor - retained.holes_between(cursor, topic.end),
        "start": start,
        "client": "",
        "until": None,
        "waiting_for": waiting_for,
        "waiting_for_code": "reader",
        "left_over": {},
    }


def _position_row(
    name: str,
    topic: TopicController,
    position: ExclusivePosition,
    cursor: int,
    again: int,
    now_us: int,
) -> JSON:
    """Returns what is reported of every position.

    Unsettled messages below `again` are sent, or were sent, again.
    """
    topic.expire(now_us)
    redelivered_below: int | None = again
    if again <= position.committed:
        redelivered_below = None
    return {
        "name": name,
        "topic": topic.name,
        "session": position.name,
        "committed": position.committed,
        "cursor": cursor,
        "cursor_us": topic.retained.accepted_us(cursor),
        "next_offset": topic.end,
        "redelivered_below": redelivered_below,
    }


def _waiting_for(reader: Reader) -> tuple[str, str]:
    """Returns why the next message has not been delivered yet (CMT-5).

    That is a word for programs, and a sentence.
    """
    if reader.ended:
        return "ended", "nothing: it has ended"
    if reader.waits_for_disk:
        return "disk", f"the disk: offset {reader.cursor} is being read"
    if reader.is_out_of_credit:
        text = f"commit: offsets {reader.committed} to {reader.cursor - 1} are in flight"
        # Used up is the credit in messages, or else that in bytes.
        if reader.in_flight >= reader.credit:
            return "commit", text
        return "bytes", text
    if reader.ahead:
        text = "the connection: its turn comes when the client has read what was sent before"
        return "connection", text
    return "messages", "messages: it is caught up"
