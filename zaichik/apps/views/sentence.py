"""The picture in words: for people who cannot see it, and for a pipe."""

from collections.abc import Sequence

from zaichik.apps.views.marks import Lane
from zaichik.apps.views.memory import Trend
from zaichik.apps.views.printable import printable
from zaichik.apps.views.topic_state import JSON, TopicState, lag
from zaichik.base.counted import counted
from zaichik.base.sizes import show_size
from zaichik_protocol import FOREVER

NAME_CELLS = 64
UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
TRENDS = {"↗": "growing", "→": "steady", "↘": "shrinking"}


def age(seconds: float) -> str:
    """Returns seconds in few letters: 40ms, 5.1s, 42s, 1.5h, 12d."""
    if seconds < 0.0995:
        return f"{max(0, round(seconds * 1000))}ms"
    unit, letter = next((it for it in UNITS if seconds >= it[0]), UNITS[-1])
    return f"{seconds / unit:.{int(seconds / unit < 9.95)}f}{letter}"


def credit(row: JSON) -> str:
    """Returns how much of its credit a reader has used up that waits: messages, or else bytes."""
    if row["in_flight"] < row["credit"]:
        return f"{row['in_flight_bytes']:,} of {counted(row['credit_bytes'], 'byte')}"
    return f"{row['in_flight']:,} of {counted(row['credit'], 'message')}"


def of_lane(
    label: str,
    status: str,
    row: JSON,
    lost: int,
    seconds: float | None,
    trend: Trend,
    *,
    gate: bool,
) -> str:
    """Returns a reader's state as a sentence without a full stop; `gate`: it must commit first."""
    words = []
    if status == "away":
        words.append(f"{label} waits for {printable(row['waiting_for'], 200)}")
    elif status == "ended":
        words.append(f"{label} has ended")
    if lost:
        words.append(f"{label} has lost {counted(lost, 'message')} and has not been told yet")
    behind = lag(row) - lost
    if behind > 0:
        old = "" if seconds is None else f" ({age(seconds)})"
        words.append(f"{label} is {behind:,} behind{old}{_course(trend)}")
    elif not words:
        words.append(f"{label} is caught up")
    if gate:
        words.append(f"it must commit first: {credit(row)} it may have are in flight")
    elif row["in_flight"]:
        words.append(f"{row['in_flight']:,} are in flight")
    if row.get("passed"):
        words.append(f"it has passed {counted(row['passed'], 'hole')}")
    if status == "reads the disk":
        words.append("the next are being read from the disk")
    return "; ".join(words)


def _course(trend: Trend) -> str:
    if trend.clears_s is not None:
        return f", caught up in {age(trend.clears_s)} at this speed"
    return f", {TRENDS[trend.arrow]}" if trend.arrow else ""


def of_strip(state: TopicState, lanes: Sequence[Lane], waited_for: str = "") -> str:
    """Returns what the strip shows, the reader that blocks publishers, and the worst reader."""
    topic, name = state.topic, printable(state.name, NAME_CELLS)
    if topic["resident"] and state.is_table:
        held = f"{name} is a table: {'; '.join(of_table(state))}. "
        held += f"Offsets {state.head:,} to {state.next_offset - 1:,}, with holes."
    elif topic["resident"]:
        most = counted(state.setting("capacity"), "message")
        held = f"{name} holds {topic['resident']:,} of at most {most}: "
        held += f"offsets {state.head:,} to {state.next_offset - 1:,}."
    elif state.next_offset:
        held = f"{name} holds nothing now; its next offset is {state.next_offset:,}."
    else:
        held = f"{name} is new: nothing was published yet."
    if waited_for:
        held += f" It is full: publishers wait for {waited_for}."
    if not lanes:
        return f"{held} Nobody reads it."
    worst = next((lane for lane in lanes if lane.state != "caught up"), None)
    if worst is None:
        if len(lanes) == 1:
            return f"{held} Its reader is caught up."
        return f"{held} All readers shown are caught up."
    return f"{held} {worst.sentence}."


def of_table(state: TopicState) -> list[str]:
    """Returns what a table holds, of how much it may hold, and what it has forgotten."""
    topic = state.topic
    held = f"{state.held:,} of {state.setting('capacity'):,}"
    words = [f"{held} keys"]
    keyless = state.held - topic["keys"]
    if keyless:
        words = [f"{held} messages", f"{keyless:,} without a key"]
    words += [
        f"{show_size(state.held_bytes)} of {show_size(state.setting('max_bytes'))}",
        counted(topic["tombstones"], "tombstone"),
    ]
    if topic["deleted_below"]:
        words.append(f"tombstones below offset {topic['deleted_below']:,} are gone")
    return words


def duration(ms: int) -> str:
    """Returns a setting in its largest whole unit, as in 10s, 7d, forever; 0 is "none"."""
    if ms in (0, FOREVER):
        return "forever" if ms else "none"
    return next(
        (f"{ms // (size * 1000)}{unit}" for size, unit in UNITS if ms % (size * 1000) == 0),
        f"{ms}ms",
    )
