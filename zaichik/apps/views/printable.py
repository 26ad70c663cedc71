"""Untrusted text in a picture: safe, on one line, and no wider than its place.

What is safe is decided in `zaichik.base.escapes`. Width is counted in a terminal's cells: two for
wide letters, none for marks that stand on the letter before. Where terminals differ, as about emoji
of several parts, the most is counted.
"""

from functools import lru_cache
from itertools import accumulate
from unicodedata import category, east_asian_width

from zaichik.base.escapes import shown

EMOJI_STYLE = "\ufe0f"  # may draw the sign before in two cells
JOINERS, TAGS = "\u200c\u200d", "\U000e0000"
PICTOGRAPHS = "\U0001f000", "\U0001faff"  # also those that Python's Unicode does not know yet


def printable(text: str, most: int) -> str:
    """Returns a name, key or payload as one safe line, clipped to `most` cells.

    What is cut ends with "…".
    """
    longest = 2 * most + 8  # a longer text can only have marks heaped on one letter
    return clipped(shown(text[:longest]), most, is_cut=len(text) > longest)


def clipped(text: str, most: int, *, is_cut: bool = False) -> str:
    """Returns safe text clipped to `most` cells.

    What is cut, or `is_cut` already, ends with "…".
    """
    if cells(text) + is_cut <= most:
        return text + "…" * is_cut
    kept = sum(width < most for width in accumulate(map(_cells, text)))
    return f"{text[:kept]}…" if most > 0 else ""


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Returns text clipped, or filled with spaces, to exactly `width` cells.

    On the left if it is to stand right.
    """
    text = clipped(text, width)
    spaces = " " * (width - cells(text))
    return spaces + text if right else text + spaces


def cells(text: str) -> int:
    """Returns the most cells that a terminal gives to safe text."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


# A picture of ten thousand signs has few different ones, and is drawn ten times a second.
@lru_cache(maxsize=4096)
def _cells(char: str) -> int:
    if char == EMOJI_STYLE:
        return 1
    if category(char) in {"Mn", "Me"} or char in JOINERS or char >= TAGS:
        return 0
    if east_asian_width(char) in {"W", "F"} or PICTOGRAPHS[0] <= char <= PICTOGRAPHS[1]:
        return 2
    return 1
