"""The named parts of a Python file: its beginning, its functions, classes and methods, its end.

The tutorial speaks of code in these names ("in `broker.py`, replace `main`"), and so does everything that checks it:
the text is woven from parts, the reader robot edits parts, and two snapshots are compared part by part. A snapshot
therefore needs no markers: a learner's program looks like a program.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from itertools import dropwhile

BEGINNING, END, HEAD = "the beginning", "the end", "the head of "
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Span = tuple[int, int]  # first and last line, from 1


class NoSuchPart(Exception):
    """The file has no part of that name; the text says which it has."""


def spans(source: str) -> dict[str, Span]:
    """The first and last line (from 1) of every part, in order.

    The beginning is everything before the first function or class: docstring, imports, constants. The end is
    everything after the last one. A class's head is what comes before its first method. Comments right above a part
    belong to it.
    """
    lines = source.splitlines()
    found: dict[str, Span] = {}
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
            found |= dict(_inside(node, lines))
        else:
            raise NoSuchPart(f"line {node.lineno} lies between functions: it belongs to the beginning")
    return found


def _inside(node: Named, lines: list[str]) -> Iterator[tuple[str, Span]]:
    """The head and the methods of a class."""
    if not isinstance(node, ast.ClassDef):
        return
    start, end = _span(node, lines)
    methods = {inner.name: _span(inner, lines) for inner in node.body if isinstance(inner, Named)}
    if methods:
        end = min(first for first, _ in methods.values()) - 1
        while not lines[end - 1].strip():
            end -= 1
    yield HEAD + node.name, (start, end)
    yield from ((f"{node.name}.{name}", span) for name, span in methods.items())


def _span(node: ast.stmt, lines: list[str]) -> Span:
    decorators = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    while start > 1 and lines[start - 2].lstrip().startswith("#"):
        start -= 1
    return start, node.end_lineno or node.lineno


def part(source: str, name: str) -> str:
    """The text of a part, with a line feed at its end, indented as it stands there."""
    start, end = _find(source, name)
    return joined(source.splitlines()[start - 1 : end])


def together(source: str, names: Sequence[str]) -> str:
    """Several parts below one another, with the blank lines that belong between them."""
    texts = [part(source, name) for name in names]
    return texts[0] + "".join(_gap(text) + text for text in texts[1:])


def _gap(text: str) -> str:
    return "\n" if text.startswith(" ") else "\n\n"


def replace(source: str, name: str, text: str) -> str:
    """The source with another text for a part."""
    start, end = _find(source, name)
    lines = source.splitlines()
    return joined([*lines[: start - 1], *text.splitlines(), *lines[end:]])


def insert(source: str, after: str, text: str) -> str:
    """The source with more parts after one, and the blank lines that belong between them."""
    _, end = _find(source, after)
    lines = source.splitlines()
    return joined([*lines[:end], *_gap(text).splitlines(), *text.splitlines(), *lines[end:]])


def remove(source: str, name: str) -> str:
    """The source without a part, and without the blank lines above it."""
    start, end = _find(source, name)
    lines = source.splitlines()
    while start > 1 and not lines[start - 2].strip():
        start -= 1
    return joined([*lines[: start - 1], *lines[end:]])


def additions(before: str, after: str) -> str:
    """What must be added to the beginning of one source to get that of the other: imports, then other lines.

    An import from a module that is imported from already is told whole.

    Raises:
        NoSuchPart: something would have to go, too.
    """
    old_imports, old_rest = _beginning(before)
    new_imports, new_rest = _beginning(after)
    imports = [text for module, text in new_imports.items() if old_imports.get(module) != text]
    if new_rest[: len(old_rest)] != old_rest or old_imports.keys() - new_imports.keys():
        raise NoSuchPart("the beginning has lost or changed lines: show it as a change")
    rest = new_rest[len(old_rest) :]
    if rest and old_rest and rest[0]:
        raise NoSuchPart("the new lines stand right below the old ones: show it as a change")
    rest = _from_first_line(rest)
    return joined([*imports, *([""] if imports and rest else []), *rest])


def add_to_beginning(source: str, text: str) -> str:
    """The source with imports and other lines added to its beginning.

    An import takes its place among the others, instead of an earlier one from the same module; other lines go to the
    end of the beginning, after a blank line.
    """
    _, end = _find(source, BEGINNING)
    docstring = ast.parse(source).body[0]
    imports, rest = _beginning(source)
    new_imports, new_rest = _beginning(text)
    imports |= new_imports
    blocks: list[str] = []
    for is_standard in (True, False):
        block = [(module, text) for module, text in imports.items() if _is_standard(module) == is_standard]
        if block:
            texts = [text for _, text in sorted(block, key=lambda each: (not each[1].startswith("import"), each[0]))]
            blocks += ["", *"\n".join(texts).splitlines()]
    lines = source.splitlines()
    above = lines[: docstring.end_lineno or 0]
    below = [line for group in (rest, new_rest) if group for line in ("", *group)]
    return joined([*above, *blocks, *below, *lines[end:]])


def _beginning(source: str) -> tuple[dict[str, str], list[str]]:
    """The imports by their modules, and the lines below the last of them."""
    body = ast.parse(source).body
    places = [place for place, node in enumerate(body) if isinstance(node, Named)]
    lines, last, imports, end = source.splitlines(), 0, {}, 0
    for node in body[: places[0] if places else len(body)]:
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else f"import {node.names[0].name}"
            imports[module] = "\n".join(lines[node.lineno - 1 : end])
            last = end
        elif isinstance(node, ast.Expr) and node is body[0]:
            last = end
    return imports, _from_first_line(lines[last:end])


def _from_first_line(lines: list[str]) -> list[str]:
    return list(dropwhile(lambda line: not line, lines))


def _is_standard(module: str) -> bool:
    return module.removeprefix("import ").partition(".")[0] in sys.stdlib_module_names


def changes(before: str, after: str) -> set[str]:
    """The names of the parts that are new, gone, or changed. A class counts as its head."""
    old, new = _bodies(before), _bodies(after)
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _bodies(source: str) -> dict[str, str]:
    if not source:
        return {}
    texts = {name: part(source, name) for name in spans(source)}
    return {name: text for name, text in texts.items() if HEAD + name not in texts}


def joined(lines: Sequence[str]) -> str:
    """Lines as a text, with a line feed after each."""
    return "".join(f"{line}\n" for line in lines)


def _find(source: str, name: str) -> Span:
    known = spans(source)
    if name not in known:
        raise NoSuchPart(f"there is no part {name!r}; there are {', '.join(known)}")
    return known[name]
