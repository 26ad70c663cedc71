"""Changes to a part of a program, as a reader sees them: lines that go, lines that come, and some around them.

A line begins with "-" if it goes, with "+" if it comes, and with a space if it stays. Of a long part only the places
are shown where something changes, with an ellipsis between them.
"""

import difflib
from collections.abc import Sequence

import parts

LONGEST = 25  # lines of a block
CONTEXT = 2  # lines that stay around those that do not, in a part that is longer
ELLIPSIS = " ..."


def shown(before: str, after: str) -> str:
    """The change from one text of a part to another."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            lines += [f" {line}".rstrip() for line in old[a:b]]
        else:
            lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
    return _joined(lines if len(lines) <= LONGEST else _places(lines))


def _places(lines: list[str]) -> list[str]:
    near = {
        place
        for number, line in enumerate(lines)
        if line[:1] in {"+", "-"}
        for place in range(number - CONTEXT, number + CONTEXT + 1)
    }
    places: list[str] = []
    for number, line in enumerate(lines):
        if number in near:
            places += [ELLIPSIS] if places and number - 1 not in near else []
            places.append(line)
    return places


def applied(source: str, part: str, change: str) -> str:
    """A source with a change made to one of its parts.

    Raises:
        NoSuchPart: the part is not there, or does not have the lines that stay or go, or not just once.
    """
    text = "\n" + parts.part(source, part)
    for hunk in change.split(f"{ELLIPSIS}\n"):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        old = _joined([text for mark, text in lines if mark != "+"])
        new = _joined([text for mark, text in lines if mark != "-"])
        if text.count(f"\n{old}") != 1:
            raise parts.NoSuchPart(f"{part} does not have these lines just once:\n{old}")
        text = text.replace(f"\n{old}", f"\n{new}")
    return parts.replace(source, part, text[1:])


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
