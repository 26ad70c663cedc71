"""The picture as SVG: one state, or several that follow each other, for pages that show an image and run no script.

Everything is in the one file: colours for light and dark, and the motion, which stands still at the last state for
those who have asked their system for less of it.
"""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from style import sheet

from zaichik.apps.views.marks import Lane, Mark, Picture
from zaichik.apps.views.printable import clipped

LEFT, RIGHT, TOP, STRIP, LANE = 92, 132, 40, 36, 34  # pixels beside and above the strip, and of its height and a lane's
LETTER = 7  # pixels of a letter, about
GAP = 1
BOXES = {  # colour, and how high a mark stands in its lane, higher than its text: filled, or only its outline
    "resident": ("resident", 1.0, True), "expiring": ("resident", 1.0, False), "gone": ("gone", 0.1, True),
    "expired": ("gone", 1.0, False), "evicted": ("lost", 1.0, False), "either": ("gone", 0.6, False),
    "committed": ("committed", 0.25, True), "in_flight": ("in_flight", 0.8, True), "lag": ("lag", 0.0, False),
    "redelivered": ("redelivered", 0.8, False), "lost": ("lost", 0.8, True), "told": ("lost", 0.45, False),
}  # fmt: skip
WORDS = {"expired": "x", "evicted": "×", "either": "?", "in_flight": "", "lost": "lost", "redelivered": "↻"}  # noqa: RUF001


def svg(states: Sequence[tuple[Picture, str]], width: int, seconds: float = 8.0) -> str:
    """Returns an image of pictures that were made for a width of `strip_width(width)`, each with a caption.

    Args:
        states: at least one; of several, each is seen for a part of the `seconds`, again and again.
        width: pixels.
        seconds: of all states together.
    """
    height = TOP + STRIP + LANE * max(len(drawn.lanes) for drawn, _ in states) + 14
    each = seconds / len(states)
    frames = "".join(
        f'<g class="s" style="animation-delay:{each * at - seconds:.4g}s">{"".join(_state(*state))}</g>'
        for at, state in enumerate(states)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>{escape(states[-1][0].sentence)}</title>{_style(len(states), seconds)}'
        f'<rect class="paper" width="100%" height="100%"/>{frames}</svg>\n'
    )


def strip_width(width: int) -> int:
    """Returns the width for `picture` in an image of that width."""
    return width - LEFT - RIGHT


def _style(states: int, seconds: float) -> str:
    boxes = "".join(
        f".{kind}{{{'fill' if is_filled else 'fill:none;stroke-width:1.5;stroke'}:var(--{colour})}}"
        for kind, (colour, _, is_filled) in BOXES.items()
    )
    moving = (
        f".s{{animation:s {seconds:g}s step-end infinite}}"
        f"@keyframes s{{0%{{visibility:visible}}{100 / states:.4g}%{{visibility:hidden}}}}"
    )
    still = ".s{visibility:hidden}.s:last-child{visibility:visible}"
    return sheet(
        "text{font:13px system-ui,sans-serif}.on{fill:var(--paper);stroke:none;text-anchor:middle}"
        f".mid{{text-anchor:middle}}.end{{text-anchor:end}}{boxes}.lag{{stroke-dasharray:6 4}}"
        + (f"{still}@media(prefers-reduced-motion:no-preference){{{moving}}}" if states > 1 else "")
    )


def _state(drawn: Picture, caption: str) -> Iterator[str]:
    """Yields the elements of one state."""
    yield _text(LEFT, TOP - 14, caption)
    right = drawn.axis[-1][1] + LEFT
    wall = any(mark.kind == "wall" and not mark.lane for mark in drawn.marks)
    yield _rect("lost" if wall else "committed", right + 3, TOP, 4 if wall else 1, STRIP)
    for mark in drawn.marks:
        if not mark.lane:
            yield from _mark(drawn, mark, TOP, STRIP)
    for number, lane in enumerate(drawn.lanes):
        top = TOP + STRIP + 10 + number * LANE
        yield from _lane(drawn, lane, top)


def _lane(drawn: Picture, lane: Lane, top: float) -> Iterator[str]:
    right, height = drawn.axis[-1][1] + LEFT, LANE - 12
    yield _text(LEFT - 8, top + 15, clipped(lane.label, LEFT // LETTER), "end")
    yield _text(right + 12, top + 15, f"{lane.behind:,} behind" if lane.behind else "caught up")
    for mark in drawn.marks:
        if mark.lane == lane.name:
            yield from _mark(drawn, mark, top, height)


def _mark(drawn: Picture, mark: Mark, top: float, height: float) -> Iterator[str]:
    """Yields a mark in a row of that height: a box, or a stroke where a cursor or a gate stands."""
    left, right = LEFT + drawn.place(mark.first), LEFT + drawn.place(mark.end)
    if mark.kind == "lag":
        yield f'<path class="lag" d="M{left:.4g} {top + height / 2:.4g}H{right:.4g}"/>'
    elif mark.kind in BOXES:
        part = BOXES[mark.kind][1] * height
        yield _rect(mark.kind, left, top + (height - part) / 2, max(right - left - GAP, 1), part)
        words = WORDS.get(mark.kind, mark.text if mark.end == mark.first + 1 else "")
        text = f"{mark.text} {words}".strip() if mark.lane else words
        if mark.kind not in {"committed", "told"} and len(text) * LETTER < right - left:
            filled = BOXES[mark.kind][2] and mark.kind != "gone"
            yield _text((left + right) / 2, top + height / 2 + 5, text, "on" if filled else "mid")
    elif mark.kind == "gate":
        yield _rect("lost", left - 2, top - 2, 4, height + 4)


def _rect(kind: str, left: float, top: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{left:.4g}" y="{top:.4g}" width="{width:.4g}" height="{height:.4g}"/>'


def _text(left: float, top: float, text: str, kind: str = "") -> str:
    where = f' class="{kind}"' if kind else ""
    return f'<text x="{left:.4g}" y="{top:.4g}"{where}>{escape(text)}</text>' if text else ""
