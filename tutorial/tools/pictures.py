"""The chapters' pictures, drawn from a few lines each.

`make docs` writes them; a test checks that they come out the same. There are four kinds: rows of boxes, trees of tasks,
timelines, and sequences of what goes back and forth. A ring with its readers is drawn as `zaichik watch` draws it.
"""

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from ring_picture import still

TUTORIAL = Path(__file__).parents[1]
UNIT, HEIGHT, GAP, MARGIN, LEFT = 24, 34, 26, 14, 190  # pixels: a byte's width, a row, between rows, around, labels
LETTER = 8.5  # a letter's width
GOOD, SOME, BAD, GONE, PLAIN = "#cfe8cf", "#f6e7b4", "#f3c6c1", "#e8e8e8", "white"
INK, LINE = "#222", "#555"
TIP = f'<path d="M0 0 8 4 0 8z" fill="{LINE}"/>'  # of an arrow

Box = tuple[str, int, str]  # what is written in it, how many bytes wide, its colour


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="14" fill="{INK}">',
            f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" orient="auto">{TIP}</marker></defs>',
            f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def _box(x: float, y: float, width: float, text: str, colour: str, height: float = HEIGHT) -> list[str]:
    return [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" fill="{colour}" stroke="{LINE}"/>',
        _text(x + width / 2, y + height / 2 + 5, text, "middle"),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = INK) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _line(start: tuple[float, float], end: tuple[float, float], *, tip: bool = False, dashed: bool = False) -> str:
    marker = ' marker-end="url(#tip)"' if tip else ""
    dashes = ' stroke-dasharray="5 4"' if dashed else ""
    ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
    return f'<line {ends} stroke="{LINE}" stroke-width="1.3"{marker}{dashes}/>'


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
        body.append(_text(x + width / 2, y + HEIGHT + 20, doing, "middle"))
    height = MARGIN + 2 * HEIGHT + 2 * GAP + 40
    if told:
        body.append(_text(middle, height + 12, told, "middle"))
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
            body += [_line((x, y - 4), (x, y + HEIGHT + 6)), _text(x + 4, y + HEIGHT + 20, text)]
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
        body += [*_box(place - 85, MARGIN, 170, name, PLAIN), _line((place, top), (place, bottom), dashed=True)]
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
            _text((places[start] + places[end]) / 2, y - 6, text, "middle"),
        ]
        if lost:
            body.append(_text(stop, y + 6, "✗", "middle", "#b00"))
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
    "12-slow-consumers/tank.svg": flow(
        [("the topic's row", GOOD)],
        [("output: 64 KiB", SOME)],
        [("kernel: some MiB", SOME)],
        [("the reader", BAD)],
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
}

if __name__ == "__main__":
    for name, svg in PICTURES.items():
        (TUTORIAL / name).write_text(svg, encoding="utf-8")
