"""Readers: which of them are shown, the state of each, and the marks of its lane."""

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import itemgetter

from zaichik.apps.views import sentence
from zaichik.apps.views.marks import Lane, Mark
from zaichik.apps.views.memory import Memory, Told, Trend
from zaichik.apps.views.printable import printable
from zaichik.apps.views.shared_names import SharedName, of_row
from zaichik.apps.views.topic_state import JSON, TopicState, lag
from zaichik.base.clock import SECOND_US
from zaichik_protocol import Overflow

WORST = 8  # of 12 lanes; the others are for the newest readers
LABEL_CELLS = 40
STATUS = {"reader": "away", "ended": "ended", "disk": "reads the disk"}
# Why nothing is handed out at a shared name: see `describe`.
STATUS |= {"no_worker": "no worker", "empty": "caught up"}
STATUS |= dict.fromkeys(("no_credit", "with_workers", "suspect", "absent", "delayed"), "at work")
STATUS |= dict.fromkeys(
    ("too_many_dead", "too_many_delayed", "too_many_open", "hot_key", "tickets"), "stuck"
)
GATED = ("commit", "bytes")
STATUS |= dict.fromkeys(GATED, "waits for commit")
TOLD_US = 10 * SECOND_US  # how long a picture shows that lag was reported to a reader


def chosen(readers: Sequence[JSON], most: int) -> list[JSON]:
    """Returns the readers that are shown: all, or if room is short, the worst and the newest."""
    worst = sorted(readers, key=lambda row: (-lag(row), -row["in_flight"], row["name"]))
    if len(worst) <= most:
        return worst
    kept = max(1, most * WORST // 12)
    newest = []
    if kept < most:
        newest = sorted(worst[kept:], key=itemgetter("connection", "id"))[kept - most :]
    return worst[:kept] + newest


def lanes(rows: Sequence[JSON], state: TopicState, memory: Memory) -> tuple[Lane, ...]:
    """Returns these readers in words and numbers."""
    count = Counter(map(label, rows))
    numbers = [f" {row['connection']}.{row['id']}" if count[label(row)] > 1 else "" for row in rows]
    return tuple(
        _lane(row, label(row) + number, state, memory)
        for row, number in zip(rows, numbers, strict=True)
    )


def label(row: JSON) -> str:
    """Returns how a person calls a reader: by its name, or else its client's."""
    return printable(
        row["session"] or row["client"] or f"connection {row['connection']}", LABEL_CELLS
    )


def _lane(row: JSON, named: str, state: TopicState, memory: Memory) -> Lane:
    trend = memory.trend(row["name"])
    next_us = row.get("cursor_us")
    seconds = None
    if next_us is not None and lag(row):
        seconds = (state.now_us - next_us) / SECOND_US
    how = status(row, state)
    name = of_row(row, state)
    if name is not None:
        return _lane_of_name(name, how, row, seconds, trend)
    said = sentence.of_lane(named, how, row, lost(row, state), seconds, trend, gate=is_gated(row))
    return Lane(
        row["name"],
        named,
        how,
        said,
        lag(row),
        row["in_flight"],
        seconds,
        trend.arrow,
        trend.clears_s,
    )


def _lane_of_name(
    name: SharedName, how: str, row: JSON, seconds: float | None, trend: Trend
) -> Lane:
    words = [name.held_words, *name.words[1:]]
    said = f"{name.label}: {'; '.join(words)}; it waits for {name.waiting_for}"
    return Lane(
        row["name"],
        name.label,
        how,
        said,
        name.to_hand_out,
        name.open,
        seconds,
        trend.arrow,
        trend.clears_s,
    )


def lost(row: JSON, state: TopicState) -> int:
    """Returns how many messages this reader has missed that have not been reported to it."""
    until = state.head if row["until"] is None else row["until"]
    return max(0, min(state.head, until) - int(row["cursor"]))


def waits_for(row: JSON) -> str:
    """Returns what a reader waits for: one of describe's codes, or what its numbers tell."""
    if code := row.get("waiting_for_code"):
        return str(code)
    if not row["connection"]:
        return "reader"
    messages, size = row["in_flight"], row["in_flight_bytes"]
    if messages and (messages >= row["credit"] or size >= row["credit_bytes"]):
        return "commit"
    return "connection" if lag(row) else "messages"


def is_gated(row: JSON) -> bool:
    """Returns whether a reader is sent nothing more before it commits."""
    return waits_for(row) in GATED


def status(row: JSON, state: TopicState) -> str:
    """Returns the state of a `Lane`."""
    code = waits_for(row)
    known = STATUS.get(code)
    if lost(row, state) and code not in {"reader", "ended"}:
        return "lost"
    return known or ("behind" if lag(row) else "caught up")


def slowest(state: TopicState) -> JSON | None:
    """Returns the reader that publishers of a full topic wait for; None if none is known."""
    name, needed = state.topic.get("slowest"), state.topic["needed"]
    for row in state.readers:
        offset = row["committed"] if row["session"] else row["cursor"]
        if row["name"] == name or (name is None and offset == needed < state.next_offset):
            return row
    return None


def _is_walled(state: TopicState, memory: Memory) -> bool:
    """Returns whether publishers wait: the topic is full of messages that a reader needs."""
    if state.setting("overflow") != Overflow.REJECT or state.topic["needed"] >= state.next_offset:
        return False
    is_full = (
        state.topic["resident"] >= state.setting("capacity") and state.topic["needed"] <= state.head
    )
    return is_full or memory.refusing


def waited_for(state: TopicState, memory: Memory) -> str:
    """Returns the reader that publishers wait for, in words; "" if they need not wait."""
    if not _is_walled(state, memory):
        return ""
    row = slowest(state)
    return label(row) if row else "a reader"


def marks(row: JSON, state: TopicState, memory: Memory, left: int) -> Iterator[Mark]:
    """Returns the marks of a lane whose strip begins at the offset `left`."""
    name, head = row["name"], state.head
    end = min(row["next_offset"], state.next_offset)
    committed, cursor = row["committed"], row["cursor"]
    gone = lost(row, state)
    if "shared" in row:
        yield from _marks_of_name(row, state, left)
        return
    if row["connection"]:
        unsettled = row["in_flight"]
        again, again_end = committed, row.get("redelivered_below") or 0
    else:
        # A reader that is away gets all of it again when it comes back.
        unsettled = cursor - committed
        again, again_end = max(committed, head), cursor
    twice = f"{max(0, again_end - again):,}"
    reached = cursor + gone
    zones = [
        ("committed", head, committed, f"{committed:,}"),
        ("in_flight", committed, min(again, cursor), f"{unsettled:,}"),
        ("redelivered", again, min(again_end, cursor), twice),
        ("in_flight", max(again, again_end), cursor, f"{unsettled:,}"),
        ("lost", cursor, reached, f"{gone:,}"),
        ("redelivered", reached, min(again_end, end), twice),
        ("lag", max(reached, again_end), end, f"{lag(row) - gone:,}"),
    ]
    told = memory.told.get(name)
    if told is not None and state.now_us - told.at_us >= TOLD_US:
        told = None
    for kind, first, last, text in zones:
        pieces = list(_without(told, max(first, left), last))
        for begin, stop in pieces:
            yield Mark(kind, name, begin, stop, _number(pieces, stop - begin, text))
    if told is not None and max(told.first, left) < told.end:
        yield Mark("told", name, max(told.first, left), told.end, f"{told.count:,}")
    yield Mark("cursor", name, cursor, cursor, f"{cursor:,}")
    if is_gated(row):
        yield Mark("gate", name, cursor, cursor, sentence.credit(row))


def _without(told: Told | None, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Returns the pieces of first .. end - 1 without what a reader is known to have lost."""
    pieces = [(first, end)]
    # Of a report that is not about every offset in its range, which of them were lost is unknown.
    if told is not None and told.count == told.end - told.first:
        pieces = [(first, min(end, told.first)), (max(first, told.end), end)]
    return ((begin, stop) for begin, stop in pieces if begin < stop)


def _number(pieces: list[tuple[int, int]], length: int, text: str) -> str:
    """Returns the text of a piece of that length, of a mark that has this text as a whole.

    If an earlier loss makes the lengths larger than what there is, the largest piece has all of it.
    """
    lengths = [stop - begin for begin, stop in pieces]
    if len(pieces) == 1:
        return text
    if f"{sum(lengths):,}" == text:
        return f"{length:,}"
    return text if length == max(lengths) else ""


def _marks_of_name(row: JSON, state: TopicState, left: int) -> Iterator[Mark]:
    """Returns the marks of a shared name. What was handed out is settled here and open there."""
    name = row["name"]
    end = min(row["next_offset"], state.next_offset)
    cursor = row["cursor"]
    gone = lost(row, state)
    zones = [
        ("committed", state.head, row["committed"], f"{row['committed']:,}"),
        ("shared", row["committed"], cursor, f"{row['shared']['open']:,}"),
        ("lost", cursor, cursor + gone, f"{gone:,}"),
        ("lag", cursor + gone, end, f"{lag(row) - gone:,}"),
    ]
    for kind, first, last, text in zones:
        if max(first, left) < last:
            yield Mark(kind, name, max(first, left), last, text)
    yield Mark("cursor", name, cursor, cursor, f"{cursor:,}")
