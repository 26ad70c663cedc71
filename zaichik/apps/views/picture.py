"""The picture of a topic: a strip of offsets, one lane for each reader, all of it marks.

x is the offset, never the time: new messages enter at the right. A mark is a range of offsets, so a
picture that only slides has hardly any new marks; the axis maps offsets to places, and each drawing
maps places to columns or pixels. A zone of one message is never invisible: where the scale would
make it so, the axis gives it the room of `smallest`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from zaichik.apps.views import lanes, sentence
from zaichik.apps.views.axis import CONTEXT, Knots, Range, axis, lens, place
from zaichik.apps.views.holes import Holes
from zaichik.apps.views.marks import Lane, Mark, Picture
from zaichik.apps.views.memory import Fate, Memory
from zaichik.apps.views.printable import clipped
from zaichik.apps.views.topic_state import JSON, TopicState

__all__ = ["MOST_LANES", "MOST_MARKS", "Lane", "Mark", "Picture", "picture"]

MOST_MARKS = 600
MOST_LANES = 12
MOST_CELLS = 320  # marks of what can be read
CELL = 2  # times `smallest`: the least width at which a message has a mark of its own
BATCH = 1 / 3  # times `smallest`: the least width of a message at which marks are batches
GONE_SHOWN = 4  # the least number of messages shown that are gone, if there are as many
SAMPLED = 128  # batches that `describe` reports: of more it reports a sample
SHORTEST_US = 1000  # between two batches: shorter intervals look the same in a picture
EXPIRING = 10  # the last of this many parts of a message's time is shown as "about to expire"
LABEL_CELLS = 40
TOMBSTONE = "†"  # in place of the payload that a tombstone does not have


def picture(
    state: TopicState,
    memory: Memory,
    width: float,
    zoom: str = "auto",
    *,
    smallest: float = 3.0,
    most_lanes: int = MOST_LANES,
) -> Picture:
    """Returns the picture of a reading.

    Args:
        state: the reading; the memory must have seen it.
        memory: what changed before.
        width: places: pixels, or the columns of a terminal.
        zoom: "auto", "ring" (all that is readable), "lag" (from the furthest reader shown), "live"
            (the newest messages, one by one), or a reader's `name`. An unknown name means "auto".
        smallest: the least places for a zone of one message or more: 3 pixels, 1 column.
        most_lanes: readers shown, at most 12.
    """
    rows = lanes.chosen(state.readers, min(most_lanes, MOST_LANES))
    head, end = state.head, state.next_offset
    seen = lens(state, rows, zoom, width / smallest)
    left = max(0, head - max(GONE_SHOWN, (end - head) // CONTEXT))
    left = min(seen[0], left, *(max(0, min(row["committed"], row["cursor"])) for row in rows))
    expiring = _expiring_end(state)
    ranges = [mark for row in rows for mark in lanes.marks(row, state, memory, left)]
    cuts = {
        offset for mark in ranges if mark.kind != "told" for offset in (mark.first, mark.end)
    } | {head, expiring}
    knots, breaks = axis(state, seen, left, cuts, width, smallest)
    places, steps = _Places(knots, smallest), _steps(state, seen, knots, smallest)
    strip = [
        *_gone(memory.fates, max(0, left), head, places),
        *_resident(state, expiring, steps, places),
    ]
    strip += [Mark("head", "", head, head, f"{head:,}"), Mark("next", "", end, end, f"{end:,}")]
    marks, shown = (*strip, *_wall(state, memory), *ranges), lanes.lanes(rows, state, memory)
    said = sentence.of_strip(state, shown, lanes.waited_for(state, memory))
    return Picture(knots, breaks, marks, shown, len(state.readers) - len(rows), said)


class _Places:
    """Decides whether a range of offsets is wide enough to be seen."""

    def __init__(self, knots: Knots, smallest: float) -> None:
        self._knots = knots
        self._smallest = smallest * 0.999  # places are sums of fractions

    def are_apart(self, first: int, end: int) -> bool:
        """Returns whether what lies between two offsets can be seen."""
        return place(self._knots, end) - place(self._knots, first) >= self._smallest


def _gone(fates: Sequence[Fate], first: int, end: int, places: _Places) -> Iterator[Mark]:
    """Returns the marks of offsets that have gone.

    Runs too short to be told apart become one, of either fate.
    """
    runs = [Fate("gone", first, fates[0].first if fates else end, 0, 0), *fates]
    joined: list[Fate] = []
    for run in (replace(run, first=max(run.first, first)) for run in runs if run.end > first):
        if joined and not (
            places.are_apart(joined[-1].first, run.first) and places.are_apart(run.first, end)
        ):
            joined[-1] = _join(joined[-1], run)
        else:
            joined.append(run)
    for run in joined:
        told = f"{run.end - run.first:,} {run.kind}"
        if run.kind == "either":
            told = f"{run.expired:,} expired, {run.evicted:,} evicted, order unknown"
        yield Mark(run.kind, "", run.first, run.end, told)


def _join(run: Fate, other: Fate) -> Fate:
    if run.kind == other.kind:
        kind = run.kind
    elif "gone" in (run.kind, other.kind):
        kind = "gone"
    else:
        kind = "either"
    expired = run.expired + other.expired
    evicted = run.evicted + other.evicted
    return Fate(kind, run.first, other.end, expired, evicted)


def _expiring_end(state: TopicState) -> int:
    """Returns the offset after the last one that is known to be in the last tenth of its time."""
    if state.ttl_us is None or state.topic["resident"] == 0:
        return state.head
    limit = state.now_us - state.ttl_us + state.ttl_us // EXPIRING
    head_us, last_us = state.topic.get("head_us"), state.topic.get("last_us")
    if last_us is not None and last_us <= limit:
        return state.next_offset
    old = 0 if head_us is None or head_us > limit else state.head + 1
    for number, (base, accepted_us) in enumerate(state.marks):
        if accepted_us <= limit:  # the whole batch, unless batches are left out of the marks
            is_whole = number + 1 < len(state.marks) < SAMPLED
            old = state.marks[number + 1][0] if is_whole else base + 1
    return min(max(state.head, old), state.next_offset)


def _resident(
    state: TopicState, expiring: int, steps: Sequence[int], places: _Places
) -> Iterator[Mark]:
    """Returns the marks of what can be read: messages, batches or bins, whichever stay apart."""
    speeds = _speeds(state)
    holes = None
    if state.readable:
        holes = Holes(state.marks, state.readable, state.next_offset)
    labels = {message["offset"]: _label(message) for message in state.messages}
    for kind, first, end in (
        ("expiring", state.head, expiring),
        ("resident", expiring, state.next_offset),
    ):
        at = first
        for step in [*(step for step in steps if first < step < end), end]:
            if at < step and (
                step == end or (places.are_apart(at, step) and places.are_apart(step, end))
            ):
                text = labels.get(at, f"{at:,}") if step == at + 1 else f"{at:,} to {step - 1:,}"
                if holes is None:
                    yield Mark(kind, "", at, step, text, _level(speeds, at))
                else:
                    share = holes.share(at, step)
                    yield Mark(holes.kind(kind, share), "", at, step, text, share)
                at = step


def _steps(state: TopicState, seen: Range, knots: Knots, smallest: float) -> Sequence[int]:
    """Returns where marks may end: the finest steps to be seen, aligned so that they stay."""
    first, end = max(seen[0], state.head), seen[1]
    if first >= end:
        return ()
    wide, size = (place(knots, end) - place(knots, first)) / (end - first), 1
    are_batches = 1 < len(state.marks) < SAMPLED and not state.readable
    if are_batches and BATCH <= wide / smallest < CELL:
        return [base for base, _ in state.marks]
    while size * wide < smallest or (end - first) // size > MOST_CELLS:
        size *= 2
    return [first, *range(-(-first // size) * size, end, size), end]


def _speeds(state: TopicState) -> list[tuple[int, float]]:
    """Returns the speeds at which messages came, 0.1 to 1.0, each with its first offset."""
    ends = pairwise(state.marks)
    speeds = [
        (base, (end - base) / max(end_us - base_us, SHORTEST_US))
        for (base, base_us), (end, end_us) in ends
    ]
    top = max((speed for _, speed in speeds), default=1.0)
    return [(base, max(0.1, round(speed / top, 1))) for base, speed in speeds]


def _level(speeds: Sequence[tuple[int, float]], offset: int) -> float:
    at = bisect_right(speeds, offset, key=lambda speed: speed[0])
    return speeds[max(at - 1, 0)][1] if speeds else 1.0


def _label(message: JSON) -> str:
    payload = message["payload"]
    if message.get("is_tombstone"):
        payload = TOMBSTONE
    return clipped(f"{message['key'] or ''} {payload}".strip(), LABEL_CELLS)


def _wall(state: TopicState, memory: Memory) -> Iterator[Mark]:
    """Returns the wall, and the end of the line that ties it to the reader it waits for."""
    if waited_for := lanes.waited_for(state, memory):
        slowest, end = lanes.slowest(state), state.next_offset
        yield Mark("wall", "", end, end, f"full, waits for {waited_for}")
        if slowest:
            yield Mark("wall", slowest["name"], end, end, "publishers wait for it")
