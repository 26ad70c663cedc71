"""Changes to a part of a program, as a reader sees them: lines that go, lines that come, and some around them.

A line begins with "-" if it goes, with "+" if it comes, and with a space if it stays. Of a long part only the places
are shown where something changes, with an ellipsis between them.
"""

import difflib
from collections.abc import Iterator
from itertools import pairwise

import parts

LONGEST = 12  # lines of a part that is shown whole
CONTEXT = (2, 3, 5, 8)  # lines that stay around those that do not: as few as say where it is
LEAST_CONTEXT = 1  # where the block would have more than
MOST_LINES = 25
NARROW = 2  # lines between two places that are not worth an ellipsis
ELLIPSIS = " ..."


def shown(before: str, after: str, longest: int = LONGEST) -> str:
    """The change from one text of a part to another; all of it if it has no more lines than `longest`."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            lines += [f" {line}".rstrip() for line in old[a:b]]
        else:
            lines += [f"-{line}" for line in old[a:b]] + [f"+{line}" for line in new[c:d]]
    if len(lines) <= longest:
        return parts.joined(lines)
    tried = [_places(lines, context) for context in CONTEXT]
    if len(tried[0]) > MOST_LINES:
        tried.insert(0, _places(lines, LEAST_CONTEXT))
    changes = map(parts.joined, tried)
    return next((change for change in changes if _is_clear(before, change)), parts.joined(lines))


def _is_clear(before: str, change: str) -> bool:
    return all(f"\n{before}".count(f"\n{old}") == 1 for old, _ in _hunks(change))


def _places(lines: list[str], context: int) -> list[str]:
    near = {
        place
        for number, line in enumerate(lines)
        if line[:1] in {"+", "-"}
        for place in range(max(number - context, 0), min(number + context + 1, len(lines)))
    }
    near |= {above for number in near if (above := _import_above(lines, number)) is not None}
    for number, following in pairwise(sorted(near)):
        if following - number <= NARROW + 1:
            near.update(range(number, following))
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
    for old, new in _hunks(change):
        if text.count(f"\n{old}") != 1:
            raise parts.NoSuchPart(f"{part} does not have these lines just once:\n{old}")
        text = text.replace(f"\n{old}", f"\n{new}")
    return parts.replace(source, part, text[1:])


def _import_above(lines: list[str], number: int) -> int | None:
    """Where the import begins that a line is inside of: without it, a name could belong to any."""
    while number > 0 and lines[number][1:].startswith("    "):
        number -= 1
    is_one = lines[number][1:].startswith("from ") and lines[number].endswith("(")
    return number if is_one else None


def _hunks(change: str) -> Iterator[tuple[str, str]]:
    """Of each place the lines that are there, and those that shall be."""
    for hunk in change.split(f"{ELLIPSIS}\n"):
        lines = [(line[:1] or " ", line[1:]) for line in hunk.splitlines()]
        yield tuple(parts.joined([text for mark, text in lines if mark != other]) for other in "+-")  # type: ignore[misc]
