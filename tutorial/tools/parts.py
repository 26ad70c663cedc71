"""The named parts of a Python file: its beginning, its functions, classes and methods, its end.

The tutorial speaks of code in these names ("in `broker.py`, replace `main`"), and everything that checks it does, too:
the text is woven from parts, the reader robot replaces parts, and two snapshots are compared part by part. So a
snapshot needs no marks of its own: a learner's program looks like a program.
"""

import ast
from collections.abc import Iterator

BEGINNING, END = "the beginning", "the end"
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class NoSuchPart(Exception):
    """The file has no part of that name; the text says which it has."""


def spans(source: str) -> dict[str, tuple[int, int]]:
    """The first and last line (from 1) of every part, in order.

    The beginning is all before the first function or class: docstring, imports, constants. The end is all after the
    last one. Comments right above a part belong to it.
    """
    lines = source.splitlines()
    found: dict[str, tuple[int, int]] = {}
    body = ast.parse(source).body
    places = [place for place, node in enumerate(body) if isinstance(node, Named)]
    first, last = (places[0], places[-1]) if places else (len(body), len(body))
    for place, node in enumerate(body):
        if place < first:
            found[BEGINNING] = (1, node.end_lineno or node.lineno)
        elif place > last:
            start, _ = found.get(END, _span(node, lines))
            found[END] = (start, node.end_lineno or node.lineno)
        elif isinstance(node, Named):
            found[node.name] = _span(node, lines)
            found |= {f"{node.name}.{name}": span for name, span in _methods(node, lines)}
        else:
            raise NoSuchPart(f"line {node.lineno} lies between functions: it belongs to the beginning")
    return found


def _methods(node: ast.AST, lines: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, Named):
                yield inner.name, _span(inner, lines)


def _span(node: ast.stmt, lines: list[str]) -> tuple[int, int]:
    decorators = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    while start > 1 and lines[start - 2].lstrip().startswith("#"):
        start -= 1
    return start, node.end_lineno or node.lineno


def part(source: str, name: str) -> str:
    """The text of a part, with a line feed at its end, indented as it stands there."""
    start, end = _find(source, name)
    return "\n".join(source.splitlines()[start - 1 : end]) + "\n"


def replace(source: str, name: str, text: str) -> str:
    """The source with another text for a part."""
    start, end = _find(source, name)
    lines = source.splitlines()
    return "\n".join([*lines[: start - 1], *text.rstrip("\n").splitlines(), *lines[end:]]) + "\n"


def insert(source: str, after: str, text: str) -> str:
    """The source with more parts behind one, and the blank lines that belong between them."""
    _, end = _find(source, after)
    lines = source.splitlines()
    blank = [""] if text.startswith(" ") else ["", ""]
    return "\n".join([*lines[:end], *blank, *text.rstrip("\n").splitlines(), *lines[end:]]) + "\n"


def changes(before: str, after: str) -> set[str]:
    """The names of the parts that are new, gone, or changed. A class counts for what is not its methods."""
    old, new = _bodies(before), _bodies(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _bodies(source: str) -> dict[str, str]:
    if not source:
        return {}
    texts = {name: part(source, name) for name in spans(source)}
    for name in texts:
        holder, _, method = name.partition(".")
        if method and holder in texts:
            texts[holder] = texts[holder].replace(texts[name], "")
    return texts


def _find(source: str, name: str) -> tuple[int, int]:
    known = spans(source)
    if name not in known:
        raise NoSuchPart(f"there is no part {name!r}; there are {', '.join(known)}")
    return known[name]
