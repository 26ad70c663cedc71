"""The sentences of the wire protocol's text, by their ids: what a broker must do, in the words it is written down in.

A sentence begins with its id in bold, and goes on to the next id or to the end of its paragraph or list item. Checks
cite them. The text is beside the package in a clone; an installed package has none, and the ids must do.
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
        id: such as "credit.2"; what stands before the dot is its topic.
        words: what it says, on one line.
        heading: of the section it stands in.
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


def known() -> dict[str, Sentence]:
    """Every sentence by its id; none if the text is not there."""
    return {each.id: each for each in parse(TEXT.read_text(encoding="utf-8"))} if TEXT.exists() else {}
