"""A topic as a page gets it: the picture, the numbers beside it, and nothing else.

Everything that changes a little is an object, so that a `delta` has only the part that has changed:
marks by what and where they are, readers by their name, messages by their offset.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zaichik.apps.views import sentence
from zaichik.apps.views.memory import Memory, Rates
from zaichik.apps.views.picture import Picture, picture
from zaichik.apps.views.printable import printable
from zaichik.apps.views.shared_names import SharedName, shared_names
from zaichik.apps.views.topic_state import TopicState
from zaichik.apps.web.events import JSON, lean

NAME_CELLS, TEXT_CELLS = 64, 240
# of the compaction map, the newest windows; and as many of the keys that were dropped most often
MOST_KEYS = 40
MOST_AGES = 6  # of messages, on the axis of time
OF_READER = (
    *(
        "connection",
        "client",
        "session",
        "start",
        "committed",
        "cursor",
        "until",
        "ahead",
        "delivered",
        "skipped",
        "lag",
        "passed",
        "shared",
    ),
    *("credit", "in_flight", "waiting_for", "waiting_for_code"),
)
TOLD = ("events", "step", "elapsed_s", "is_over", "is_past", "model")  # what a stage adds


def shown(
    state: TopicState, memory: Memory, history: Mapping[str, Rates], width: float, zoom: str
) -> JSON:
    """Returns all that a page shows of a topic.

    Args:
        state: the reading.
        memory: what changed before.
        history: rates of whole seconds, by a number that goes up.
        width: of the picture, in pixels.
        zoom: see `zaichik.apps.views.picture`.
    """
    drawn = picture(state, memory, width, zoom)
    seconds = {
        number: [round(rate.published, 1), round(rate.stored, 1)]
        for number, rate in history.items()
    }
    page: JSON = lean(
        {
            "picture": _drawn(drawn),
            "reading": _reading(state, drawn),
            "rates": _rounded(asdict(memory.rates)),
            "history": seconds,
        }
    )
    return page


def _reading(state: TopicState, drawn: Picture) -> JSON:
    """Returns the rows and messages that belong to the picture."""
    windows = dict(state.windows[:MOST_KEYS])
    often = sorted(state.drops, key=lambda key: -state.drops[key])[:MOST_KEYS]
    readers = {lane.name for lane in drawn.lanes}
    ages = {}
    for base, at_us in _spread(state.marks, drawn):
        ages[str(base)] = round((state.now_us - at_us) / 1e6, 1)
    rows = {}
    for row in state.readers:
        if row["name"] in readers:
            rows[row["name"]] = safe({name: row.get(name) for name in OF_READER})
    counted = [key for key in state.drops if key in windows or key in often]
    drops = {key: state.drops[key] for key in counted}
    label = printable(state.name, NAME_CELLS)
    messages = {str(message["offset"]): message for message in state.messages}
    table = None
    if state.is_table:
        table = sentence.of_table(state)
    return {
        "now_us": state.now_us,
        "boot": state.boot,
        "ages": ages,
        "topic": {**state.topic, "label": label},
        "table": table,
        "shared": [_shared(name) for name in shared_names(state)],
        "readers": rows,
        "windows": windows,
        "messages": messages,
        "drops": drops,
        "missing": list(state.missing),
    }


def _shared(name: SharedName) -> JSON:
    """Returns a shared name in words and numbers."""
    workers = [
        {"label": it.label, "words": it.words, "waiting_for": it.waiting_for} for it in name.busiest
    ]
    return {
        "label": name.label,
        "held": name.held_words,
        "waiting": name.waiting_words,
        "dead": name.dead,
        "to_hand_out": name.to_hand_out,
        "waiting_for": name.waiting_for,
        "workers": workers,
    }


def staged(readings: Sequence[JSON], width: float) -> JSON:
    """Returns the same for the last of some readings, with what a stage adds."""
    memory = Memory()
    states = [TopicState.of(reading) for reading in readings]
    for state in states:
        memory.seen(state)
    told = {name: readings[-1][name] for name in TOLD if name in readings[-1]}
    return shown(states[-1], memory, {}, width, "auto") | told


def _spread(marks: Sequence[tuple[int, int]], drawn: Picture) -> Iterator[tuple[int, int]]:
    """Yields a few of them, whose places in the picture are far enough from each other."""
    _, width = drawn.axis[-1]
    room = width / MOST_AGES
    free_from = -room
    for offset, at_us in marks:
        place = drawn.place(offset)
        if place >= free_from and offset >= drawn.axis[0][0]:
            free_from = place + room
            yield offset, at_us


def _drawn(drawn: Picture) -> JSON:
    marks = {}
    for mark in drawn.marks:
        name = f"{mark.kind}:{mark.lane}:{mark.first}"
        marks[name] = [mark.first, mark.end, mark.text, mark.level]
    lanes = {}
    for rank, lane in enumerate(drawn.lanes):
        lanes[lane.name] = {"rank": rank, **_rounded(asdict(lane))}
    return {
        "axis": [[offset, round(place, 1)] for offset, place in drawn.axis],
        "breaks": [round(place, 1) for place in drawn.breaks],
        "marks": marks,
        "lanes": lanes,
        "hidden": drawn.hidden,
        "sentence": drawn.sentence,
    }


def _rounded(row: JSON) -> JSON:
    """Returns a row whose times change ten times a second at most."""
    return {
        name: round(value, 1) if isinstance(value, float) else value for name, value in row.items()
    }


def safe(value: Any) -> Any:
    """Returns JSON in which every text is printable.

    Not for names that are to be asked for again.
    """
    match value:
        case dict():
            return {name: safe(member) for name, member in value.items()}
        case list():
            return [safe(item) for item in value]
        case str():
            return printable(value, TEXT_CELLS)
    return value
