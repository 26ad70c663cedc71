"""The chapters' pictures, drawn from a few lines each: rows of boxes, and arrows between boxes.

`make docs` writes them; a test checks that they come out the same.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

TUTORIAL = Path(__file__).parents[1]
UNIT, HEIGHT, GAP, MARGIN, LEFT = 24, 34, 26, 14, 190  # pixels: a byte's width, a row, between rows, around, labels
WHOLE, PART, WRONG = "#cfe8cf", "#f6e7b4", "#f3c6c1"

Box = tuple[str, int, str]  # what is written in it, how many bytes wide, its colour


def _svg(width: int, height: int, body: Sequence[str]) -> str:
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" font-family="monospace" font-size="14">'
            ),
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def _box(x: int, y: int, width: int, text: str, colour: str) -> list[str]:
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" fill="{colour}" stroke="black"/>',
        f'<text x="{x + width // 2}" y="{y + HEIGHT // 2 + 5}" text-anchor="middle">{escape(text)}</text>',
    ]


def rows(*told: tuple[str, Sequence[Box]]) -> str:
    """Rows of boxes below one another, on one scale of bytes, each with a label at its left."""
    body = []
    bytes_wide = max(sum(width for _, width, _ in boxes) for _, boxes in told)
    for number, (label, boxes) in enumerate(told):
        y = MARGIN + number * (HEIGHT + GAP)
        body.append(f'<text x="{MARGIN}" y="{y + HEIGHT // 2 + 5}">{escape(label)}</text>')
        at = 0
        for text, width, colour in boxes:
            body += _box(LEFT + at * UNIT, y, width * UNIT, text, colour)
            at += width
    height = 2 * MARGIN + len(told) * HEIGHT + (len(told) - 1) * GAP
    return _svg(LEFT + bytes_wide * UNIT + MARGIN, height, body)


def tree(root: str, children: Sequence[tuple[str, Sequence[str]]]) -> str:
    """A box, boxes below it, and boxes below each of these, joined by lines."""
    width, step = 210, 230
    total = max(1, len(children)) * step
    body = _box(MARGIN + (total - width) // 2, MARGIN, width, root, WHOLE)
    deepest = 1
    for number, (name, below) in enumerate(children):
        x = MARGIN + number * step + (step - width) // 2
        for depth, text in enumerate((name, *below), 1):
            y = MARGIN + depth * (HEIGHT + GAP)
            above = (MARGIN + total // 2, MARGIN + HEIGHT) if depth == 1 else (x + width // 2, y - GAP)
            body.append(f'<line x1="{above[0]}" y1="{above[1]}" x2="{x + width // 2}" y2="{y}" stroke="black"/>')
            body += _box(x, y, width, text, PART if depth == 1 else WHOLE)
            deepest = max(deepest, depth)
    return _svg(total + 2 * MARGIN, 2 * MARGIN + (deepest + 1) * HEIGHT + deepest * GAP, body)


PICTURES = {
    "01-tcp-has-no-messages/reads.svg": rows(
        ("the client sends", [("one", 3, WHOLE), ("two", 3, WHOLE), ("three", 5, WHOLE)]),
        ("the stream", [(letter, 1, "white") for letter in "onetwothree"]),
        ("one read", [("onetwothree", 11, WRONG)]),
        ("or two", [("onet", 4, WRONG), ("wothree", 7, WRONG)]),
        ("or three, with luck", [("one", 3, PART), ("two", 3, PART), ("three", 5, PART)]),
    ),
    "02-frames/outcomes.svg": rows(
        ("incomplete", [("10 00", 4, PART)]),
        ("incomplete", [("10 00 00 00", 8, PART), ("07 00 …", 6, PART)]),
        ("complete", [("10 00 00 00", 8, WHOLE), ("07 00 … 00 00", 14, WHOLE)]),
        ("complete, and more", [("10 00 00 00", 8, WHOLE), ("07 00 … 00 00", 14, WHOLE), ("10 00", 4, PART)]),
        ("invalid", [("07 00 00 00", 8, WRONG)]),
    ),
    "05-task-groups/tasks.svg": tree(
        "main: waits for clients",
        [
            ("client 1", ["waits for bytes"]),
            ("client 2", ["waits for bytes"]),
            ("client 3", ["has just crashed"]),
        ],
    ),
}

if __name__ == "__main__":
    for name, svg in PICTURES.items():
        (TUTORIAL / name).write_text(svg, encoding="utf-8")
