"""What the same scene would have looked like in the zaichik of 2020: its faults, modelled.

Each takes the calls so far and the readings of the real broker, and changes the last one as the
fault would have. `docs/understand/architecture.md` has the list of faults; the tutorial tells how
they came about.
"""

from collections.abc import Callable, Sequence

from zaichik.apps.web.stage.script import JSON, Call
from zaichik.base import docstrings

Model = Callable[[Sequence[Call], Sequence[JSON]], JSON]


def modelled(model: Model, calls: Sequence[Call], readings: Sequence[JSON]) -> JSON:
    """Returns the last reading, which the model has changed.

    Its `model` says what is wrong there.
    """
    label = f"a model of 2020, not a broker: {docstrings.of_function(model)}"
    return model(calls, readings) | {"model": label, "events": []}


def a_copy_each(calls: Sequence[Call], readings: Sequence[JSON]) -> JSON:
    """What is retained is copied for every subscriber."""
    reading = readings[-1]
    topic, readers = reading["topic"], reading["readers"]
    stored, each = topic["next_offset"], max(1, len(readers))
    # Its copies stand where one row would be if they were one.
    for place, reader in enumerate(readers):
        for field in ("start", "committed", "cursor"):
            reader[field] += place * stored
        reader["next_offset"] = (place + 1) * stored
    for field in ("next_offset", "stored", "resident", "bytes", "needed"):
        topic[field] *= each
    last = reading["messages"]
    reading["messages"] = [
        row | {"offset": row["offset"] + n * stored} for n in range(each) for row in last
    ]
    return reading


def two_topics(calls: Sequence[Call], readings: Sequence[JSON]) -> JSON:
    """Two clients create a topic at once.

    The second topic replaces the first, which nobody publishes to any more.
    """
    seconds = [place for place, call in enumerate(calls) if call.verb == "create"]
    early = {call.actor for call in calls[: max(seconds, default=0)] if call.verb == "subscribe"}
    for reader in readings[-1]["readers"]:
        if reader["client"] in early:
            _stand(reader, reader["start"], "messages of a topic that is in no table")
    return readings[-1]


def frozen(calls: Sequence[Call], readings: Sequence[JSON]) -> JSON:
    """A reader that has lagged is not told, and gets nothing more until it says something."""
    for reader in readings[-1]["readers"]:
        if reader["skipped"]:
            rows = [
                row
                for reading in readings
                for row in reading["readers"]
                if row["name"] == reader["name"]
            ]
            cursor = next(row["cursor"] for row in reversed(rows) if not row["skipped"])
            _stand(reader, cursor, "its client: the branch that waits for messages is switched off")
    return readings[-1]


def one_too_many(calls: Sequence[Call], readings: Sequence[JSON]) -> JSON:
    """A reader that subscribes again is ready at once, with messages in flight: one too many."""
    left = {call.actor for call in calls if call.verb == "leave"}
    for reader in readings[-1]["readers"]:
        if reader["client"] in left and reader["ahead"]:
            for field, change in (("cursor", 1), ("in_flight", 1), ("delivered", 1), ("ahead", -1)):
                reader[field] += change
    return readings[-1]


def _stand(reader: JSON, cursor: int, why: str) -> None:
    """Put a reader there, with nothing in flight, and nothing coming."""
    reader |= {
        "cursor": cursor,
        "committed": cursor,
        "in_flight": 0,
        "skipped": 0,
        "waiting_for_code": "messages",
    }
    reader |= {
        "delivered": cursor - reader["start"],
        "ahead": reader["next_offset"] - cursor,
        "waiting_for": why,
    }
