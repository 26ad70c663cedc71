"""The picture as lines of text, for a terminal or a pipe.

At 80 columns and 24 lines there is room for everything. With less room, the least important goes
first; below 40 columns or 8 lines, each reader is a line of text. From 120 columns on, keys and
messages stand beside the strip.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import floor

from zaichik.apps.views import sentence
from zaichik.apps.views.marks import Lane, Mark, Picture
from zaichik.apps.views.memory import Memory
from zaichik.apps.views.picture import MOST_LANES, TOMBSTONE, picture
from zaichik.apps.views.printable import cells, clipped, padded, printable
from zaichik.apps.views.shared_names import shared_names
from zaichik.apps.views.styled_lines import Line, Span, fitted, line
from zaichik.apps.views.topic_state import JSON, TopicState
from zaichik.base.clock import SECOND_US
from zaichik.base.counted import counted
from zaichik_protocol import Overflow

# Below that there is no strip; the eighth line of a terminal says what keys do.
NARROWEST, LOWEST = 40, 7
WIDE, PANEL = 120, 42  # columns of the window, and of the keys and messages beside the strip
LABEL, RIGHT = (8, 13), (11, 18)  # columns beside the strip, of a narrow window and of a usual one
USUAL = 72  # columns
COUNTS = ("published", "stored", "compacted", "resident", "expired", "evicted")
KEYS, MOST_KEYS, BAR = 3, 10, 12
AGES = 4
NAME_CELLS, MESSAGE_CELLS = 30, 40
ZONES = 3  # that a lane adds to the strip, at most: each needs a column

GLYPHS = {
    "gone": ("·", "dim"),
    "expired": ("x", "dim"),
    "evicted": ("×", "bold red"),  # noqa: RUF001
    "either": ("?", "red"),
    "expiring": ("▒", "blue"),
    "resident": ("▓", "blue"),
    "sparse": ("▄", "blue"),
    "holes": ("╱", "dim"),  # noqa: RUF001 (a hatch)
    "committed": ("━", "green"),
    "in_flight": ("█", "magenta"),
    "shared": ("░", "magenta"),
    "redelivered": ("↻", "bold magenta"),
    "lag": ("╌", "yellow"),
    "lost": ("◀", "bold red"),
    "told": ("◁", "red"),
}
EIGHTHS = "▁▂▃▄▅▆▇"  # how much of a range of a table can be read
STATES = {
    "lost": "bold red",
    "behind": "yellow",
    "waits for commit": "magenta",
    "caught up": "green",
    "away": "dim",
    "at work": "magenta",
    "stuck": "bold red",
    "no worker": "yellow",
}
WORKERS = 4  # of a shared name that are listed


def lines(
    state: TopicState,
    memory: Memory,
    width: int,
    height: int,
    *,
    zoom: str = "auto",
    status: str = "",
    chosen: str = "",
) -> list[Line]:
    """Returns the picture of a reading as lines, no wider and no more of them than asked for.

    Args:
        state: the reading; the memory must have seen it.
        memory: what changed before.
        width: columns.
        height: lines.
        zoom: see `picture`.
        status: what stands at the right of the first line.
        chosen: the `name` of the reader that is marked.
    """
    is_wide = width >= WIDE
    screen = _Screen(
        state, memory, width - PANEL if is_wide else width, height, zoom, status, chosen
    )
    if width < NARROWEST or height < LOWEST:
        drawn = screen.words()
    elif is_wide:
        drawn = _beside(
            screen.main(with_tables=False), screen.panel(PANEL - 2, height), width - PANEL
        )
    else:
        drawn = screen.main(with_tables=True)
    return [fitted(row, width) for row in drawn[:height]]


def _beside(left: list[Line], right: list[Line], width: int) -> list[Line]:
    rows = zip_longest(left, right, fillvalue=())
    return [(*fitted(one, width, fill=True), Span("┆ ", "dim"), *other) for one, other in rows]


@dataclass(frozen=True, slots=True)
class _Screen:
    """A topic to be drawn, and the room for it."""

    state: TopicState
    memory: Memory
    width: int
    height: int
    zoom: str
    status: str
    chosen: str

    def words(self) -> list[Line]:
        """Returns the lines of a window that is too small for a strip."""
        drawn = picture(self.state, self.memory, max(self.width, 1), self.zoom, smallest=1)
        name = printable(self.state.name, NAME_CELLS)
        title = f"{name} {self.state.held:,}/{self.state.setting('capacity'):,}"
        rows = [line((title, "bold"), f" {self.status}")]
        for lane in drawn.lanes:
            course = _course(lane, self.width - cells(lane.label) - 1)
            rows.append(line(f"{lane.label} ", (course, STATES.get(lane.state, ""))))
        return rows

    def main(self, *, with_tables: bool) -> list[Line]:
        """Returns the lines of the strip and its lanes, and those of keys and messages if asked."""
        label, right = LABEL[self.width >= USUAL], RIGHT[self.width >= USUAL]
        columns = self.width - label - right
        laws = [row for row in self._laws() if sum(cells(span.text) for span in row) <= self.width]
        keys = self._keys(self.width) if with_tables and self.width >= USUAL else []
        last = self._last() if with_tables else []
        readers = min(len(self.state.readers), MOST_LANES, (columns - 5) // ZONES)
        more = self.state.all_readers - readers
        told = []
        if more:
            told.append(counted(more, "more reader"))
        if self.state.missing:
            told.append("not told: " + "; ".join(self.state.missing))
        missing = []
        if told:
            missing.append(line((f" {' · '.join(told)}", "dim")))
        command = f"zaichik explain {self._pasted()} --key KEY, or --offset N"
        fate = [line((f" what became of a message: {command}", "dim"))]
        room = self.height - 2 - readers
        work = self._work()
        spare = room - len(laws) - len(work) - 2 - len(last) - len(missing) - len(fate)
        keys = keys[: max(KEYS + 1, min(spare, MOST_KEYS))]
        parts: dict[str, list[Line]] = {"laws": laws, "gone": [()], "work": work, "age": [()]}
        parts |= {"last": last, "keys": keys, "missing": missing, "fate": fate}
        while parts and sum(len(rows) for rows in parts.values()) > room:
            parts.popitem()  # the last is what can be missed first
        readers = max(1, min(readers, self.height - 2))
        drawn = picture(self.state, self.memory, columns, self.zoom, smallest=1, most_lanes=readers)
        strip = _Strip(drawn, columns, label, right)
        drawn_lines = [self._title(), *parts.get("laws", ())]
        if "gone" in parts:
            drawn_lines.append(strip.offsets(self.state))
        drawn_lines.append(strip.strip(self.state, self.memory))
        if "age" in parts:
            drawn_lines.append(strip.ages(self.state))
        drawn_lines += [
            strip.lane(lane, is_chosen=lane.name == self.chosen) for lane in drawn.lanes
        ]
        for name in ("work", "keys", "last", "fate", "missing"):
            drawn_lines += parts.get(name, ())
        return drawn_lines

    def panel(self, width: int, height: int) -> list[Line]:
        """Returns keys and messages, one below the other, for a narrow place beside the strip."""
        keys = self._keys(width)[: height // 2]
        messages = [_message(message) for message in reversed(self.state.messages)]
        shown = [*keys, *([line(("last messages", "bold"))] if messages else []), *messages]
        return [fitted(row, width) for row in shown[:height]]

    def _title(self) -> Line:
        setting = self.state.setting
        window = setting("compaction_window_ms")
        words = [f"retention {sentence.duration(setting('retention_ttl_ms'))}"]
        words += [f"window {sentence.duration(window)}"] if window else []
        if self.state.is_table:
            words += ["table", sentence.of_table(self.state)[0]]
        else:
            overflow = Overflow(setting("overflow")).name.lower()
            words += [f"capacity {setting('capacity'):,}", overflow]
        name = printable(self.state.name, NAME_CELLS)
        room = max(0, self.width - cells(name) - 3 - cells(self.status) - 1)
        return line(" ", (name, "bold"), f"  {padded(' · '.join(words), room)} ", self.status)

    def _pasted(self) -> str:
        """Returns the topic's name for a shell; a word instead if it could not be pasted safely."""
        name = shlex.quote(self.state.name)
        return name if name == printable(name, NAME_CELLS) and not name.startswith("-") else "TOPIC"

    def _laws(self) -> list[Line]:
        topic, rates = self.state.topic, self.memory.rates
        n = {name: f"{topic[name]:,}" for name in COUNTS}
        digits = max(len(n["published"]), len(n["stored"]))
        speed = f"   {rates.published:,.0f}/s in"
        if rates.compacted:
            speed += f"  {rates.stored:,.0f}/s kept"
        published = f" published {n['published']:>{digits}}"
        published += f" = stored {n['stored']} + compacted {n['compacted']}"
        stored = f"resident {n['resident']} + expired {n['expired']} + evicted {n['evicted']}"
        for fate in ("superseded", "damaged"):
            if topic.get(fate):
                stored += f" + {fate} {topic[fate]:,}"
        room = self.width - cells(published)
        rate = padded(speed, room, right=True) if cells(speed) <= room else ""
        return [
            line(published, (rate, "bold")),
            line(f" stored    {n['stored']:>{digits}} = {stored}"),
        ]

    def _work(self) -> list[Line]:
        """Returns what is open at each shared name, and what its busiest workers have."""
        rows = []
        for name in shared_names(self.state):
            label = (f" {name.label}", "bold")
            rows.append(line(label, f"  {' · '.join(name.words)}"))
            rows.append(line((f" waits for {name.waiting_for}", "dim")))
            busy = [worker for worker in name.busiest[:WORKERS] if worker.has]
            rows += [line(f"   {worker.label}: {worker.words}") for worker in busy]
        return rows

    def _keys(self, width: int) -> list[Line]:
        """Returns a heading and a line for each key: its window's rest, and what it has dropped.

        Of a table, how many there are.
        """
        if self.state.is_table:
            words = sentence.of_table(self.state)
            text = " · ".join(words)
            if cells(text) < width:
                words = [text]
            return [line(f" {row}") for row in words]
        state, window_us = self.state, self.state.setting("compaction_window_ms") * 1000
        if not window_us:
            return []
        opened, drops = dict(reversed(state.windows)), state.drops
        forgotten = state.topic["forgotten_windows"]
        counted = f"keys  {state.topic['open_windows']:,} open"
        if forgotten:
            counted += f", {forgotten:,} forgotten"
        bars = BAR if width >= USUAL else BAR // 2
        name = min(24, width - bars - 20)
        rows = [line((f" {padded(counted, name + bars + 4)}left  dropped", "bold"))]
        # What drops most comes first, and then what opened last.
        keys = sorted({*opened, *drops})
        keys.sort(key=lambda key: (drops.get(key, 0), opened.get(key, 0)), reverse=True)
        for key in keys:
            left = min(max(0, opened.get(key, 0) + window_us - state.now_us), window_us)
            bar, age = "closed", ""
            if left:
                bar = "■" * -(-bars * left // window_us)
                age = sentence.age(left / SECOND_US)
            dropped = f"{drops[key]:,}" if key in drops else ""
            after = f" {padded(bar, bars)} {age:>6} {dropped:>8}"
            rows.append(line(" ", (padded(key or "(no key)", name), "cyan"), after))
        return rows

    def _last(self) -> list[Line]:
        messages = [
            (Span("  "), *_message(message)) for message in reversed(self.state.messages[-8:])
        ]
        return [(Span(" last", "bold"), *chain(*messages))] if messages else []


@dataclass(frozen=True, slots=True)
class _Strip:
    """Draws marks in columns, between a label and what stands at the right."""

    picture: Picture
    columns: int
    label: int
    right: int

    def _column(self, offset: int) -> int:
        return floor(self.picture.place(offset) + 1e-6)

    def _row(self, label: Line, marks: list[Mark], right: Line) -> Line:
        drawn = [Span(" ")] * self.columns
        for mark in marks:
            if mark.kind in GLYPHS:
                first = min(self._column(mark.first), self.columns - 1)
                glyph = _glyph(mark)
                for column in range(first, max(first + 1, self._column(mark.end))):
                    drawn[column] = glyph
        return (*fitted(label, self.label, fill=True), *drawn, *right)

    def _marks(self, lane: str) -> list[Mark]:
        return [mark for mark in self.picture.marks if mark.lane == lane]

    def offsets(self, state: TopicState) -> Line:
        """Returns the line with the first readable offset and the next one."""
        head, end = f"┆head {state.head:,}", f"next {state.next_offset:,}"
        at = min(self._column(state.head), max(0, self.columns - cells(head) - cells(end) - 1))
        room = self.columns - at - cells(head) + 1
        gone = padded("gone" if state.head and at > len("gone") else "", at)
        return line(
            " " * self.label,
            (gone + head + padded(end, max(room, cells(end) + 1), right=True), "dim"),
        )

    def strip(self, state: TopicState, memory: Memory) -> Line:
        """Returns the strip."""
        wall = next((mark for mark in self._marks("") if mark.kind == "wall"), None)
        right = line(("▶", "blue"), f" {state.percent_full}% full")
        if wall:
            told = "■ full"
            if cells(wall.text) + 2 <= self.right:
                told = f"■ {wall.text}"
            right = line((told, "bold red"))
        row = list(self._row((), self._marks(""), right))
        for at in self.picture.breaks:
            row[1 + min(floor(at), self.columns - 1)] = Span("≈")
        return tuple(row)

    def ages(self, state: TopicState) -> Line:
        """Returns the line with the ages of some messages, as far as the broker reports them."""
        samples = dict(state.marks)
        if state.topic.get("head_us") is not None:
            samples |= {
                state.head: state.topic["head_us"],
                state.next_offset - 1: state.topic["last_us"],
            }
        text = ""
        for offset, accepted_us in sorted(samples.items()):
            at = min(self._column(offset), self.columns - 5)
            if offset >= state.head and (not text or at >= cells(text) + self.columns // AGES - 4):
                text = padded(text, at) + sentence.age((state.now_us - accepted_us) / SECOND_US)
        return line((padded(" age", self.label), "dim"), (text, "dim"))

    def lane(self, lane: Lane, *, is_chosen: bool) -> Line:
        """Returns the line of a reader."""
        right = f" {_course(lane, self.right - 1)}", STATES.get(lane.state, "")
        label = lane.label
        if lane.state == "away":
            label = f"(away) {label}" if cells(label) + 9 <= self.label else f"({label})"
        marks = self._marks(lane.name)
        pointer = ">" if is_chosen else " "
        row = list(self._row(line(f"{pointer}{label}"), marks, line(right)))
        self._note(row[-1 - self.columns : -1], lane, marks, row)
        return tuple(row)

    def _note(self, drawn: list[Span], lane: Lane, marks: list[Mark], row: list[Span]) -> None:
        """Write in words what a lane's signs mean, where there is room between them."""
        first = len(row) - 1 - self.columns
        if lane.state == "caught up" and drawn and drawn[-1].text == GLYPHS["committed"][0]:
            row[first + self.columns - 1] = Span("●", "green")
        runs = [mark for mark in marks if mark.kind in {"lag", "committed"}]
        widest = max(
            runs, key=lambda mark: self._column(mark.end) - self._column(mark.first), default=None
        )
        if widest is not None:
            at, end = self._column(widest.first) + 1, self._column(widest.end) - 1
            text = next((text for text in _notes(marks) if cells(text) <= end - at), "")
            for column, char in enumerate(text, first + at):
                row[column] = Span(char, STATES.get(lane.state, ""))


def _glyph(mark: Mark) -> Span:
    sign, style = GLYPHS[mark.kind]
    if mark.kind == "sparse":
        sign = EIGHTHS[floor(mark.level * len(EIGHTHS))]
    return Span(sign, style)


def _message(message: JSON) -> Line:
    payload = Span(clipped(message["payload"], MESSAGE_CELLS))
    if message.get("is_tombstone"):
        payload = Span(f"{TOMBSTONE} deleted", "dim")
    return line(f"{message['offset']:,} ", (f"{message['key'] or ''} ", "cyan"), payload)


def _notes(marks: list[Mark]) -> Iterator[str]:
    """Yields notes on the marks of a lane, shorter and shorter."""
    words = {mark.kind: mark.text for mark in marks}
    notes = [(words["wall"], words["wall"])] if "wall" in words else []
    notes += (
        [(f"{words['lost']} lost, not told yet", f"{words['lost']} lost")]
        if "lost" in words
        else []
    )
    notes += [(f"{words['told']} lost, told", f"{words['told']} told")] if "told" in words else []
    if "gate" in words:
        notes.append((f"‖ waits for commit, {words['gate']} in flight", "‖ waits for commit"))
    for count in range(len(notes), 0, -1):
        for length in (0, 1):
            yield f" {' · '.join(note[length] for note in notes[:count])} "


def _course(lane: Lane, room: int) -> str:
    """Returns how far a reader is behind, in as many numbers as there is room for, or its state."""
    old = "" if lane.seconds is None else f" · {sentence.age(lane.seconds)}"
    course = f" {lane.trend}" * bool(lane.trend) + " ‖" * (lane.state == "waits for commit")
    told = [f"{lane.behind:,}{old}{course}", f"{lane.behind:,}{old}", f"{lane.behind:,}"]
    if not lane.behind:
        told = [lane.state]
        if lane.state == "caught up" and lane.in_flight:
            told = [f"{lane.in_flight:,} in flight", f"{lane.in_flight:,} {GLYPHS['in_flight'][0]}"]
        elif lane.state == "at work":
            told = [f"{lane.in_flight:,} open"]
    return next((text for text in told if cells(text) <= room), told[-1])
