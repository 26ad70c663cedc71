"""The chapters' pictures, drawn from a few lines each.

`make docs` writes them; a test checks that they come out the same. There are rows of boxes, trees of tasks, timelines,
sequences of what goes back and forth, flows, and tanks that fill. A ring with its readers is drawn as `zaichik watch`
draws it.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from ring_picture import still
from style import sheet

TUTORIAL = Path(__file__).parents[1]
UNIT, HEIGHT, GAP, MARGIN, LEFT = 24, 34, 26, 14, 190  # pixels: a byte's width, a row, between rows, around, labels
LETTER = 8.5  # a letter's width
GOOD, SOME, BAD, GONE, PLAIN = "good", "some", "bad", "spent", "plain"  # classes of the style sheet
TICK = 8  # pixels of a moment's mark inside of a box: it ends below the words
RULES = (
    "text{font:14px monospace}.mid{text-anchor:middle}.cross{font-weight:bold;fill:var(--lost)}"
    ".box{rx:3px;fill:var(--under);stroke:var(--line)}.line{fill:none;stroke:var(--line);stroke-width:1.3}"
    ".dashed{stroke-dasharray:5 4}.tip{fill:var(--line)}.water{fill:var(--under)}"
    ".wall{fill:none;stroke:var(--line);stroke-width:2}.shut{stroke:var(--lost);stroke-width:4}"
)
TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" '
    'markerHeight="9" orient="auto">'
    '<path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>'
)

Box = tuple[str, int, str]  # what is written in it, how many bytes wide, its colour
Tank = tuple[float, str, str]  # how full it is, what is written in it, its colour


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            sheet(RULES),
            TIP,
            f'<rect class="paper" width="{width:g}" height="{height:g}"/>',
            *body,
            "</svg>\n",
        ]
    )


def _rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" {size}/>'


def _box(x: float, y: float, width: float, text: str, colour: str, height: float = HEIGHT) -> list[str]:
    return [
        _rect(x, y, width, height, f"box {colour}"),
        _text(x + width / 2, y + height / 2 + 5, text, f"mid {colour}"),
    ]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    if not text:
        return ""
    where = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{where}>{escape(text)}</text>'


def _line(start: tuple[float, float], end: tuple[float, float], *, tip: bool = False, kind: str = "line") -> str:
    marker = ' marker-end="url(#tip)"' if tip else ""
    ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
    return f'<line class="{kind}" {ends}{marker}/>'


def rows(*told: tuple[str, Sequence[Box]]) -> str:
    """Rows of boxes below one another, on one scale of bytes, each with a label at its left."""
    body = []
    bytes_wide = max(sum(width for _, width, _ in boxes) for _, boxes in told)
    for number, (label, boxes) in enumerate(told):
        y = MARGIN + number * (HEIGHT + GAP)
        body.append(_text(MARGIN, y + HEIGHT / 2 + 5, label))
        at = 0
        for text, width, colour in boxes:
            body += _box(LEFT + at * UNIT, y, width * UNIT, text, colour)
            at += width
    height = 2 * MARGIN + len(told) * HEIGHT + (len(told) - 1) * GAP
    return _svg(LEFT + bytes_wide * UNIT + MARGIN, height, body)


def tree(root: str, children: Sequence[tuple[str, str, str]], *, told: str = "") -> str:
    """A task, and the tasks it has started, each with what it is doing and a colour; below, what follows."""
    width, step = 220, 240
    total = len(children) * step
    middle = MARGIN + total / 2
    body = _box(middle - width / 2, MARGIN, width, root, PLAIN)
    for number, (name, doing, colour) in enumerate(children):
        x = MARGIN + number * step + (step - width) / 2
        y = MARGIN + HEIGHT + 2 * GAP
        body.append(_line((middle, MARGIN + HEIGHT), (x + width / 2, y)))
        body += _box(x, y, width, name, colour)
        body.append(_text(x + width / 2, y + HEIGHT + 20, doing, "mid"))
    height = MARGIN + 2 * HEIGHT + 2 * GAP + 40
    if told:
        body.append(_text(middle, height + 12, told, "mid"))
        height += 30
    return _svg(total + 2 * MARGIN, height, body)


def timeline(length: int, *lanes: tuple[str, Sequence[tuple[int, int, str, str]], Sequence[tuple[int, str]]]) -> str:
    """Lanes on one axis of time. Each has a label, spans (from, to, text, colour) and moments (when, text)."""
    unit, height = 640 / length, HEIGHT + 34
    body = []
    for number, (label, spans, moments) in enumerate(lanes):
        y = MARGIN + number * height + 16
        body.append(_text(MARGIN, y + HEIGHT / 2 + 5, label))
        body.append(_line((LEFT, y + HEIGHT), (LEFT + length * unit, y + HEIGHT), tip=True))
        for start, end, text, colour in spans:
            body += _box(LEFT + start * unit, y, (end - start) * unit, text, colour)
        for when, text in moments:
            x = LEFT + when * unit
            body += [_line((x, y + HEIGHT - TICK), (x, y + HEIGHT + 6)), _text(x + 4, y + HEIGHT + 20, text)]
    return _svg(LEFT + 640 + 60, MARGIN + len(lanes) * height + MARGIN + 6, body)


def sequence(who: Sequence[str], *steps: tuple[int, int, str] | tuple[int, str]) -> str:
    """Who sends what to whom, from top to bottom.

    A step is an arrow (from, to, text), one that is lost if the text begins with "x ", or a note at somebody (who,
    text).
    """
    gap, step = 250, 40
    places = [MARGIN + 90 + number * gap for number in range(len(who))]
    top, bottom = MARGIN + HEIGHT, MARGIN + HEIGHT + (len(steps) + 1) * step
    body = []
    for place, name in zip(places, who, strict=True):
        body += [*_box(place - 85, MARGIN, 170, name, PLAIN), _line((place, top), (place, bottom), kind="line dashed")]
    for number, each in enumerate(steps, 1):
        y = top + number * step
        if len(each) == 2:
            at, text = each
            width = LETTER * len(text) + 16
            body += _box(places[at] - width / 2, y - 15, width, text, SOME, 26)
            continue
        start, end, text = each
        lost, text = text.startswith("x "), text.removeprefix("x ")
        x, stop = places[start], places[end] if not lost else (places[start] + places[end]) / 2
        body += [
            _line((x, y), (stop, y), tip=not lost),
            _text((x + stop) / 2, y - 6, text, "mid"),
        ]
        if lost:
            body.append(_text(stop, y + 5, "✗", "mid cross"))
    return _svg(places[-1] + 90 + MARGIN, bottom + MARGIN, body)


def flow(*columns: Sequence[tuple[str, str]]) -> str:
    """Boxes in columns, and arrows from every box to every box of the next column."""
    width, across, down = 170, 70, 20
    tall = max(len(column) for column in columns)
    body, places = [], []
    for number, column in enumerate(columns):
        x = MARGIN + number * (width + across)
        offset = (tall - len(column)) * (HEIGHT + down) / 2
        places.append([(x, MARGIN + offset + place * (HEIGHT + down)) for place in range(len(column))])
        for (left, y), (text, colour) in zip(places[-1], column, strict=True):
            body += _box(left, y, width, text, colour)
    for before, after in pairwise(places):
        for start_x, start_y in before:
            edge = (start_x + width, start_y + HEIGHT / 2)
            body += [_line(edge, (end_x, end_y + HEIGHT / 2), tip=True) for end_x, end_y in after]
    return _svg(len(columns) * (width + across) - across + 2 * MARGIN, 2 * MARGIN + tall * (HEIGHT + down) - down, body)


def tanks(names: Sequence[str], *moments: tuple[str, Sequence[Tank], str]) -> str:
    """Tanks in a row, joined by pipes, at moments below one another: a label, the tanks, and what the last one does.

    The last of the names is of whoever empties the last tank. A tank that is full to the brim has the pipe after it
    shut.
    """
    width, across, tall, between = 150, 40, 56, 26
    body = [
        _text(LEFT + number * (width + across) + width / 2, MARGIN + 14, name, "mid")
        for number, name in enumerate(names)
    ]
    for number, (label, row, doing) in enumerate(moments):
        top = MARGIN + 32 + number * (tall + between)
        bottom, pipe = top + tall, top + tall - 8
        body.append(_text(MARGIN, top + tall / 2 + 5, label))
        for place, (level, text, colour) in enumerate(row):
            x = LEFT + place * (width + across)
            is_shut = level == 1 and (place + 1 == len(row) or row[place + 1][0] == 1)
            body += [
                _rect(x, bottom - level * tall, width, level * tall, f"water {colour}"),
                f'<path class="wall" d="M{x:g} {top - 6:g}V{bottom:g}h{width:g}V{top - 6:g}"/>',
                _line((x + width, pipe), (x + width + across - 2, pipe), tip=not is_shut),
                _text(x + width / 2, top + tall / 2 + 5, text, f"mid {colour}" if level > 1 / 2 else "mid"),
            ]
            if is_shut:
                middle = x + width + across / 2
                body.append(_line((middle, pipe - 9), (middle, pipe + 9), kind="shut"))
        x = LEFT + len(row) * (width + across)
        body += _box(x, top + tall - HEIGHT + 8, width, doing, BAD if row[-1][0] == 1 else GOOD)
    height = MARGIN + 32 + len(moments) * (tall + between)
    return _svg(LEFT + len(names) * (width + across) - across + MARGIN, height, body)


PICTURES = {
    "00-see-the-end-first/broker.svg": flow(
        [("publisher", PLAIN), ("publisher", PLAIN)],
        [("topic orders", GOOD)],
        [("subscriber", PLAIN), ("subscriber", PLAIN), ("subscriber", PLAIN)],
    ),
    "01-tcp-has-no-messages/reads.svg": rows(
        ("the client sends", [("one", 3, GOOD), ("two", 3, GOOD), ("three", 5, GOOD)]),
        ("the stream", [(letter, 1, PLAIN) for letter in "onetwothree"]),
        ("one read", [("onetwothree", 11, BAD)]),
        ("or two", [("onet", 4, BAD), ("wothree", 7, BAD)]),
        ("or three, with luck", [("one", 3, SOME), ("two", 3, SOME), ("three", 5, SOME)]),
    ),
    "02-frames/outcomes.svg": rows(
        ("incomplete", [("10 00", 4, SOME)]),
        ("incomplete", [("10 00 00 00", 8, SOME), ("07 00 …", 6, SOME)]),
        ("complete", [("10 00 00 00", 8, GOOD), ("07 00 … 00 00", 14, GOOD)]),
        ("complete, and more", [("10 00 00 00", 8, GOOD), ("07 00 … 00 00", 14, GOOD), ("10 00", 4, SOME)]),
        ("invalid", [("07 00 00 00", 8, BAD)]),
    ),
    "03-declaring-a-protocol/ping.svg": rows(
        (
            "a Ping's 20 bytes",
            [
                ("length", 4, GOOD),
                ("ty", 2, SOME),
                ("fl", 2, SOME),
                ("zero", 3, SOME),
                ("id", 4, SOME),
                ("value", 8, PLAIN),
            ],
        ),
        (
            "judged in this order",
            [("1", 4, GOOD), ("3", 2, SOME), ("4", 2, SOME), ("2", 3, SOME), ("", 4, SOME), ("5", 8, PLAIN)],
        ),
    ),
    "04-an-echo-server/turns.svg": timeline(
        10,
        (
            "two tasks",
            [(0, 2, "A", GOOD), (4, 5, "A", GOOD), (2, 4, "B", SOME), (7, 9, "B", SOME)],
            [(2, "A awaits"), (4, "B awaits")],
        ),
        ("one task", [(0, 2, "A", GOOD), (6, 7, "A", GOOD)], [(2, "A awaits: nobody else is there")]),
    ),
    "05-task-groups/tasks.svg": tree(
        "main: the task group",
        [
            ("client 1", "cancelled", SOME),
            ("client 2", "cancelled", SOME),
            ("client 3", "has just crashed", BAD),
        ],
        told="the exception goes up, cancellations come down",
    ),
    "06-somebody-elses-news/batch.svg": rows(
        (
            "two messages",
            [
                ("count 2", 4, PLAIN),
                ("0 1 1", 6, SOME),
                ("0 2 7", 6, GOOD),
                ("a", 1, SOME),
                ("hi", 2, GOOD),
                ("there", 5, GOOD),
            ],
        ),
        ("", [("", 4, PLAIN), ("keys at", 6, SOME), ("payloads at", 6, GOOD), ("k", 1, SOME), ("payloads", 7, GOOD)]),
    ),
    "06-somebody-elses-news/queues.svg": rows(
        ("quick reader", [("", 1, PLAIN)]),
        ("another one", [("12", 2, GOOD), ("13", 2, GOOD)]),
        ("a sleeper", [(f"{number}", 2, BAD) for number in range(2, 14)]),
    ),
    "07-one-row-many-cursors/ring.svg": still(
        5, 8, 1, "the head is 3, the next offset is 8", slow=(2, 2), another=(6, 6), quick=(8, 8)
    ),
    "08-never-wait-on-two-things/bell.svg": sequence(
        ["reading task", "bell", "writing task"],
        (2, "looks: nothing"),
        (0, "puts a reply"),
        (0, 1, "rings"),
        (1, 2, "wakes it"),
        (2, "clears, then looks"),
    ),
    "09-commit-and-credit/cursors.svg": still(
        6, 6, 2, "committed is 2, the cursor 4, the next offset 6; the credit of 2 is used up", reader=(4, 2)
    ),
    "10-retention/life.svg": timeline(
        10,
        (
            "accepted at 0, ttl 6",
            [(0, 6, "readable", GOOD), (6, 10, "gone", GONE)],
            [(2, "reader: yes"), (6, "reader: no")],
        ),
        ("a message", [(3, 9, "readable", GOOD), (9, 10, "", GONE)], [(3, "accepted at 3")]),
    ),
    "11-compaction/policies.svg": timeline(
        10,
        (
            "a window of 4",
            [(0, 4, "closed", BAD), (5, 9, "closed", BAD)],
            [(0, "stored"), (2, "dropped"), (5, "stored")],
        ),
        (
            "prolonged",
            [(0, 4, "closed", BAD), (4, 6, "", BAD), (6, 9, "", BAD)],
            [(0, "stored"), (2, "dropped"), (5, "dropped")],
        ),
        ("a set", [(0, 10, "closed forever", BAD)], [(0, "stored"), (2, "dropped"), (5, "dropped")]),
    ),
    "12-slow-consumers/tank.svg": tanks(
        ["the topic's row", "output: 64 KiB", "kernel: some MiB", "the reader"],
        ("while it reads", [(0.4, "", GOOD), (0.15, "", SOME), (0.15, "", SOME)], "reads"),
        ("it has stopped", [(0.5, "", GOOD), (0.3, "", SOME), (1, "full", SOME)], "doesn't read"),
        ("a while later", [(0.9, "its lag grows", GOOD), (1, "full", SOME), (1, "full", SOME)], "doesn't read"),
    ),
    "13-the-client-library/lost.svg": sequence(
        ["publisher", "network", "broker"],
        (0, 2, "Publish: two apples"),
        (2, "stored at 7"),
        (2, 0, "x Published"),
        (0, "was it stored?"),
        (0, 2, "Publish: two apples"),
        (2, "stored at 8?"),
    ),
    "14-measuring/omission.svg": timeline(
        10,
        ("the broker", [(0, 3, "works", GOOD), (3, 7, "pauses", BAD), (7, 10, "works", GOOD)], []),
        ("asks when answered", [(0, 3, "60 requests", GOOD), (3, 7, "1 request", BAD), (7, 10, "60", GOOD)], []),
        ("asks on time", [(0, 3, "60 requests", GOOD), (3, 7, "80 requests, all late", BAD), (7, 10, "60", GOOD)], []),
    ),
    "17-what-a-disk-changes/torn.svg": rows(
        ("torn", [("group at 0", 8, GOOD), ("bad", 4, BAD), ("group at 8", 5, SOME)]),
        ("damaged", [("group at 0", 8, GOOD), ("bad", 4, BAD), ("group at 8", 5, GOOD), ("group at 17", 7, GOOD)]),
        ("nobody can tell", [("group at 0", 8, GOOD), ("bad", 4, BAD)]),
    ),
    "18-a-table-in-a-topic/holes.svg": rows(
        ("published", [("0 apple 30", 6, GOOD), ("1 pear 45", 6, GOOD)]),
        ("35, in its place", [("0 apple 35", 6, BAD), ("1 pear 45", 6, GOOD)]),
        ("35, with a hole", [("0", 6, GONE), ("1 pear 45", 6, GOOD), ("2 apple 35", 6, GOOD)]),
        ("pears deleted", [("0", 6, GONE), ("1", 6, GONE), ("2 apple 35", 6, GOOD), ("3 pear", 6, SOME)]),
    ),
    "19-a-queue-for-workers/queue.svg": rows(
        (
            "the queue",
            [
                ("0 done", 4, GONE),
                ("1 Pia", 4, SOME),
                ("2 done", 4, GONE),
                ("3 Ted", 4, SOME),
                ("4 waits", 4, BAD),
                ("5 done", 4, GONE),
                ("6 new", 4, GOOD),
                ("7 new", 4, GOOD),
            ],
        ),
        ("committed is 1", [("settled", 4, GONE), ("to come, and 2 and 5 are done twice", 28, GOOD)]),
        ("committed is 6", [("settled, and 1, 3 and 4 are lost", 24, GONE), ("to come", 8, GOOD)]),
    ),
}

if __name__ == "__main__":
    for name, svg in PICTURES.items():
        (TUTORIAL / name).write_text(svg, encoding="utf-8")
