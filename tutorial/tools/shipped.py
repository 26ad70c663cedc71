"""The shipped broker's files, as chapter 16 shows them: a few lines of one, or one line changed.

A reader has a copy of them in a folder of their own, made by experiments/borrow.py, and so has the robot. Nothing is
typed twice: a region is found by the part it is in and by words of its first and last line, and whoever changes a file
of the broker so that these are gone, or are there twice, hears of it when the texts are generated or checked.
"""

import ast
from pathlib import Path

import hunks
import parts

FOLDER = "real"  # in the reader's folder
ROOT = Path(__file__).parents[2]
PACKAGES = {"zaichik": ROOT, "zaichik_protocol": ROOT / "protocol"}
NEAR = 3  # lines: a change is shown with few others


def source(name: str) -> str:
    """The text of a file, named as in the copy: zaichik/core/ring.py."""
    return (PACKAGES[Path(name).parts[0]] / name).read_text(encoding="utf-8")


def function(name: str, qualified: str) -> str:
    """The text of a function or method of a file; unlike `parts`, of any file.

    Raises:
        NoSuchPart: there is none of that name.
    """
    text = source(name)
    found: ast.AST = ast.parse(text)
    for word in qualified.split("."):
        inside = [node for node in ast.iter_child_nodes(found) if isinstance(node, parts.Named) and node.name == word]
        if len(inside) != 1:
            raise parts.NoSuchPart(f"{name} has {len(inside)} times: {qualified}")
        found = inside[0]
    assert isinstance(found, parts.Named)  # noqa: S101 (for mypy: there is at least one word)
    return parts.joined(text.splitlines()[found.lineno - 1 : found.end_lineno])


def between(text: str, first: str, last: str) -> str:
    """The lines from the one with `first` in it to the next one with `last` in it; "" stands for either end.

    Raises:
        NoSuchPart: no line has the words, or more than one has the first ones.
    """
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines) if first in line] if first else [0]
    if len(begins) != 1:
        raise parts.NoSuchPart(f"{len(begins)} lines have {first!r}")
    ends = [number for number in range(begins[0], len(lines)) if last in lines[number]] if last else [len(lines) - 1]
    if not ends:
        raise parts.NoSuchPart(f"no line after it has {last!r}")
    return parts.joined(lines[begins[0] : ends[0] + 1])


def planted(name: str, part: str, right: str, wrong: str) -> str:
    """The change to a part of a file that replaces lines by others.

    Raises:
        NoSuchPart: the part does not have these lines just once.
    """
    text = parts.part(source(name), part)
    if text.count(right) != 1:
        raise parts.NoSuchPart(f"{part} has {text.count(right)} times:\n{right}")
    return hunks.shown(text, text.replace(right, wrong), NEAR)
