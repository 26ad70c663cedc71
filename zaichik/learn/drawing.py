"""A sequence diagram of what was sent: as text for a terminal, and as SVG for a browser.

Parties stand side by side, each with a line down which time runs; an arrow between two lines is a
frame.
"""

import textwrap
import xml.etree.ElementTree as ET
from dataclasses import dataclass

FILE_NAME = "learn-drawing.svg"  # where a failure's drawing is written, next to learn.toml

# As text.
# Columns in all, and for labels if they are to be to the right of the lines.
WIDTH, LEAST_LABEL = 72, 22
_TIME = 9
# As SVG, in pixels: margins, the column of times, the distance between lines and between arrows, a
# letter's width.
_MARGIN, _TIMES, _STEP, _ROW, _LETTER = 16, 76, 130, 30, 7.3
_HEAD, _BAD, _DIM = 6, "#b3261e", "#777777"


@dataclass(frozen=True, slots=True)
class Step:
    """One arrow, or one remark.

    Attributes:
        at: seconds since the beginning.
        source, target: two parties; the same for a remark.
        label: what is sent, or remarked.
    """

    at: float
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A diagram.

    Attributes:
        title: what is wrong.
        parties: from left to right.
        steps: in order of time.
    """

    title: str
    parties: tuple[str, ...]
    steps: tuple[Step, ...]

    def lines(self) -> tuple[str, ...]:
        """The diagram as text."""
        step = max(map(len, self.parties)) + 2
        places = {
            party: _TIME + 1 + number * step + step // 2
            for number, party in enumerate(self.parties)
        }
        end = _TIME + 1 + len(self.parties) * step
        beside = WIDTH - end - 1 >= LEAST_LABEL
        head = " " * (_TIME + 1) + "".join(party.center(step) for party in self.parties)
        lines = [head.rstrip()]
        for each in self.steps:
            row = _row(places, each, end)
            if beside:
                first, *rest = textwrap.wrap(each.label, WIDTH - end - 1)
                bars = "".join("|" if at in places.values() else " " for at in range(end))
                lines += [f"{row} {first}", *(f"{bars} {more}" for more in rest)]
            else:
                more = textwrap.wrap(each.label, WIDTH - _TIME - 3)
                lines += [row.rstrip(), *(" " * (_TIME + 3) + text for text in more)]
        return tuple(lines)

    def svg(self) -> str:
        """The diagram as a picture."""
        labels_at = _MARGIN + _TIMES + len(self.parties) * _STEP
        longest = max([len(step.label) for step in self.steps], default=0)
        width = round(max(labels_at + longest * _LETTER, len(self.title) * _LETTER) + 2 * _MARGIN)
        top = _MARGIN + 2 * _ROW
        height = round(top + (len(self.steps) + 1) * _ROW)
        root = ET.Element(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=str(width),
            height=str(height),
            attrib={"font-family": "monospace", "font-size": "12"},
        )
        ET.SubElement(root, "rect", width=str(width), height=str(height), fill="white")
        _text(root, _MARGIN, _MARGIN + 12, self.title, fill=_BAD)
        places = {}
        for number, party in enumerate(self.parties):
            x = places[party] = _MARGIN + _TIMES + number * _STEP + _STEP / 2
            _text(
                root, x, top - _ROW / 2, party, **{"text-anchor": "middle", "font-weight": "bold"}
            )
            _line(root, (x, top - _ROW / 4), (x, height - _MARGIN), _DIM)
        for number, step in enumerate(self.steps):
            y = top + (number + 0.5) * _ROW
            _text(root, _MARGIN, y + 4, f"{step.at:.3f} s", fill=_DIM)
            _text(root, labels_at + _MARGIN, y + 4, step.label)
            _arrow(root, places[step.source], places[step.target], y)
        ET.indent(root)
        return ET.tostring(root, encoding="unicode") + "\n"


def _row(places: dict[str, int], step: Step, end: int) -> str:
    """The lines of all parties, and an arrow between two, or a star where nothing was sent."""
    row = ["|" if at in places.values() else " " for at in range(end)]
    row[: _TIME + 1] = f"{step.at:{_TIME - 2}.3f} s ".ljust(_TIME + 1)
    source, target = places[step.source], places[step.target]
    if source == target:
        row[source] = "*"
        return "".join(row)
    for at in range(min(source, target) + 1, max(source, target)):
        row[at] = "-"
    row[target - 1 if source < target else target + 1] = ">" if source < target else "<"
    return "".join(row)


def _arrow(root: ET.Element, source: float, target: float, y: float) -> None:
    """An arrow, or a dot where source and target are the same."""
    if source == target:
        ET.SubElement(root, "circle", cx=str(source), cy=str(y), r="5", fill=_BAD)
        return
    back = -_HEAD if source < target else _HEAD
    _line(root, (source, y), (target, y), "black")
    points = f"{target},{y} {target + back},{y - _HEAD / 2} {target + back},{y + _HEAD / 2}"
    ET.SubElement(root, "polygon", points=points, fill="black")


def _line(
    root: ET.Element, begin: tuple[float, float], end: tuple[float, float], colour: str
) -> None:
    (x1, y1), (x2, y2) = begin, end
    ET.SubElement(root, "line", x1=str(x1), y1=str(y1), x2=str(x2), y2=str(y2), stroke=colour)


def _text(root: ET.Element, x: float, y: float, text: str, **style: str) -> None:
    # XML cannot hold some characters, which are in no payload of ours, but may be in one that a
    # broker invents.
    ET.SubElement(root, "text", {"x": str(x), "y": str(y), **style}).text = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text
    )
