"""Lists as zensical reads them: what belongs to an item is four columns further in.

On the repository's host it begins below the item's first word, which is two columns after a dash,
and three after a number.
"""

import re

from markdown_it import MarkdownIt

INDENT = 4
MARKER = re.compile(r" *(?:[-*+]|\d+[.)]) +")


def indented(text: str, reader: MarkdownIt) -> str:
    """Returns Markdown in which the items of all lists are indented as above."""
    lines = text.split("\n")
    inner = [0] * len(lines)  # the columns that belong to items around a line
    depth = [0] * len(lines)
    # A list is read before those inside it.
    for token in reader.parse(text):
        if token.type != "list_item_open" or token.map is None:
            continue
        first, end = token.map
        marker = MARKER.match(lines[first][inner[first] :])
        width = len(marker[0]) if marker else 0
        for number in range(first + 1, end):
            inner[number] += width
            depth[number] += 1
    return "\n".join(map(_moved, lines, inner, depth))


def _moved(line: str, inner: int, depth: int) -> str:
    if not depth or not line.strip():
        return line
    # A line that continues a paragraph may be less far in than it should.
    own = line[inner:] if not line[:inner].strip() else line.lstrip()
    return " " * INDENT * depth + own
