"""The numbered sentences of the wire protocol's text: what a broker must do, word for word.

A sentence begins with its id in bold, and extends to the next id or to the end of its paragraph or
list item. Checks cite them by id. The text is next to the package in a clone; an installed package
has only the ids.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TEXT = Path(__file__).parents[2] / "protocol" / "README.md"

_ID = re.compile(r"\*\*([a-z]+\.[1-9][0-9]*)\*\*\s+")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:- |[0-9]+\. |#))")  # paragraphs, list items, headings


class Sentence(NamedTuple):
    """A sentence of the text.

    Attributes:
        id: such as "credit.2"; its topic is before the dot.
        words: its text, on one line.
        heading: the heading of its section.
    """

    id: str
    words: str
    heading: str


def parse(text: str) -> Iterator[Sentence]:
    """All sentences, in the order of the text."""
    heading = ""
    for block in _BLOCK.split(text):
        if block.startswith("#"):
            heading = block.lstrip("# ").strip()
        _, *found = _ID.split(block)
        for name, words in zip(found[::2], found[1::2], strict=True):
            yield Sentence(name, " ".join(words.split()), heading)


def load() -> dict[str, Sentence]:
    """Every sentence by its id; empty if the text is not there."""
    return (
        {each.id: each for each in parse(TEXT.read_text(encoding="utf-8"))} if TEXT.exists() else {}
    )
