"""Lines of text in pieces with styles: what a terminal shows, whether or not it has colours.

Styles are words: the names of a terminal's own colours, which follow its user's theme, and bold and
dim.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from zaichik.apps.views.printable import cells, clipped

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
_CODES = {"bold": 1, "dim": 2, "reverse": 7, **_COLOURS}

# The replacement of each sign on a terminal that has ASCII only. No two kinds of marks share one.
_ASCII = str.maketrans(
    "▓▒·×━█╌◀◁↻●▶┆│≈↗→↘‖■╱░▁▂▃▄▅▆▇…○▼↑↓†",  # noqa: RUF001 (a cross)
    "#%.X=>~!(@o]||:^-v*#/&1234567.-v^v+",
)


class Span(NamedTuple):
    """A piece of a line, safe to print, and its style: words with spaces between them."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


def line(*pieces: str | tuple[str, str] | Span) -> Line:
    """Returns a line of pieces, each a text or a text and its style."""
    return tuple(Span(piece) if isinstance(piece, str) else Span(*piece) for piece in pieces)


def plain(spans: Iterable[Span]) -> str:
    """Returns a line without its styles."""
    return "".join(span.text for span in spans)


def ansi(spans: Line) -> str:
    """Returns a line with the escape sequences of its styles."""
    codes = (";".join(str(_CODES[word]) for word in span.style.split()) for span in spans)
    return "".join(
        f"\x1b[{code}m{text}\x1b[0m" if code else text
        for code, (text, _) in zip(codes, spans, strict=True)
    )


def fitted(spans: Line, width: int, *, fill: bool = False) -> Line:
    """Returns a line clipped to the width; with `fill`, it has exactly that.

    Neighbours of one style are joined.
    """
    kept, room = [], width
    for style, pieces in groupby(spans, lambda span: span.style):
        kept.append(Span(clipped(plain(pieces), room), style))
        room -= cells(kept[-1].text)
    return (*kept, Span(" " * room)) if fill and room else tuple(kept)


def ascii_only(spans: Line) -> Line:
    """Returns a line of the same width in ASCII: other letters are question marks."""
    translated = (Span(text.translate(_ASCII), style) for text, style in spans)
    return tuple(
        Span("".join(it if it.isascii() else "?" * cells(it) for it in text), style)
        for text, style in translated
    )
