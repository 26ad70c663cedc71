"""Plants bugs in our own code. The place is named, and the code there is compared, as syntax.

A planted bug should survive a refactoring for as long as the code that it spoils does. So the
place is the qualified name of a definition, in whichever file it is, and what stands there is
compared as syntax trees: line breaks, quotes, parentheses and comments do not matter.

Most places are found by name alone: `Reader.commit`, `encode`, `KEPT_CHECKPOINTS`. If several
modules define the name, the end of the module's name comes first: `remembered:RULES`, or
`blocking.client:Client.__init__`. An imported name is a place only if its module is named, as in
`record:crc32`.

The right code and the wrong code are two fragments of Python, which may be indented:

- an expression, which an expression replaces;
- statements that follow each other, which statements replace. What is to be removed is replaced
  by `pass`.

Of `a and b and c`, `a and b` is an expression like any other; the same goes for `or`.
"""

import ast
import difflib
import importlib
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeGuard

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / "zaichik", ROOT / "protocol" / "zaichik_protocol")

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
Defined = tuple[str, ast.stmt]  # a qualified name, and what defines it


class CannotPlant(Exception):
    """The place, or what is right, is not found once; or nothing would be wrong."""


@dataclass(frozen=True)
class Place:
    """A definition.

    Attributes:
        path: its file.
        module: the file's module, as in an import.
        node: a function, a class, an assignment or an import.
    """

    path: Path
    module: str
    node: ast.stmt


@dataclass(frozen=True)
class _Spot:
    """Nodes that follow each other in the text, and those that replace them."""

    first: ast.expr | ast.stmt
    last: ast.expr | ast.stmt
    wrong: ast.expr | list[ast.stmt]


def find(where: str, packages: tuple[Path, ...] = PACKAGES) -> Place:
    """Returns the definition of that name.

    Raises:
        CannotPlant: there is none, or there are several.
    """
    module, _, name = where.rpartition(":")
    found = [place for defined, place in _candidates(name, module, packages) if defined == name]
    if len(found) == 1:
        return found[0]

    if found:
        places = ", ".join(f"{place.module}:{name} (line {place.node.lineno})" for place in found)
        raise CannotPlant(f"{where} is defined {len(found)} times: {places}. Name its module.")

    known = {defined for defined, _ in _candidates(name.rpartition(".")[2], "", packages)}
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.4)
    hint = f" Similar names: {', '.join(near)}." if near else ""
    searched = ", ".join(package.name for package in packages)
    raise CannotPlant(f"{where} is defined nowhere in {searched}.{hint}")


def planted(
    where: str, right: str, wrong: str, nth: int = 0, packages: tuple[Path, ...] = PACKAGES
) -> tuple[Path, str]:
    """Returns the file that has the place, and its text with the bug.

    All other code stays as it is, and nearly always on the same lines.

    Args:
        where: the definition, as `find` takes it.
        right: the code that must be there.
        wrong: the code that replaces it.
        nth: which one, counted from 1, if the right code is there several times.
        packages: the folders to search.

    Raises:
        CannotPlant: the right code is not there once, or nothing would be wrong.
    """
    place = find(where, packages)
    text = place.path.read_text(encoding="utf-8")
    try:
        return place.path, _replaced(text, place.node, right, wrong, nth)
    except CannotPlant as problem:
        raise CannotPlant(f"{where} ({place.path}:{place.node.lineno}): {problem}") from problem


def planted_in(text: str, where: str, right: str, wrong: str, nth: int = 0) -> str:
    """Returns the text of a module with the bug; all else is as in `planted`."""
    found = [node for defined, node in _defined_in(text) if defined == where]
    if len(found) != 1:
        raise CannotPlant(f"{where} is defined {len(found)} times in this text")
    try:
        return _replaced(text, found[0], right, wrong, nth)
    except CannotPlant as problem:
        raise CannotPlant(f"{where} (line {found[0].lineno}): {problem}") from problem


def plant(monkeypatch: Any, where: str, right: str, wrong: str, nth: int = 0) -> None:
    """Have a function or method of the running program be wrong, until the test is over.

    It uses all else as it is. What is wrong is told as to `planted`, which raises the same.
    """
    _, text = planted(where, right, wrong, nth)
    module = importlib.import_module(find(where).module)
    bad = {"__name__": module.__name__}
    exec(compile(text, str(module.__file__), "exec"), bad)  # noqa: S102 (it is our own code)
    owner, _, method = where.rpartition(":")[2].partition(".")
    if not method:
        # Other modules have imported the function: it stays, and does something else.
        monkeypatch.setattr(vars(module)[owner], "__code__", bad[owner].__code__)
        return
    code = vars(bad[owner])[method].__code__
    real = vars(vars(module)[owner])[method]
    replacement = FunctionType(code, vars(module), method, real.__defaults__, real.__closure__)
    replacement.__kwdefaults__ = real.__kwdefaults__
    monkeypatch.setattr(vars(module)[owner], method, replacement)


# -- finding the place -----------------------------------------------------------------------------


def _candidates(name: str, module: str, packages: tuple[Path, ...]) -> Iterator[tuple[str, Place]]:
    """The definitions of all files that may have this one; no other file is parsed."""
    words = name.split(".")
    for path, its_module, text in _files(packages):
        if not f".{its_module}".endswith(f".{module}" if module else ""):
            continue

        if all(word in text for word in words):
            for defined, node in _defined_in(text):
                if module or not isinstance(node, ast.Import | ast.ImportFrom):
                    yield defined, Place(path, its_module, node)


@cache
def _files(packages: tuple[Path, ...]) -> list[tuple[Path, str, str]]:
    files = []
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            files.append((path, ".".join(parts), path.read_text(encoding="utf-8")))
    return files


@cache
def _defined_in(text: str) -> list[Defined]:
    return list(_definitions(ast.parse(text), "", is_local=False))


def _definitions(parent: ast.AST, prefix: str, *, is_local: bool) -> Iterator[Defined]:
    """What a module, a class or a function defines, also inside an `if` or a `try`.

    Local variables are left out.
    """
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _FUNCTIONS | ast.ClassDef):
            yield prefix + node.name, node
            inside = f"{prefix}{node.name}."
            yield from _definitions(node, inside, is_local=isinstance(node, _FUNCTIONS))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield prefix + (alias.asname or alias.name), node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if not is_local:
                for name in _targets(node):
                    yield prefix + name, node
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(node, prefix, is_local=is_local)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [name.id for target in targets for name in ast.walk(target) if _is_stored(name)]


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


# -- finding the right code in it ------------------------------------------------------------------


def _replaced(text: str, definition: ast.stmt, right: str, wrong: str, nth: int) -> str:
    right_body, wrong_body = _fragment(right), _fragment(wrong)
    if _shape(*right_body) == _shape(*wrong_body):
        raise CannotPlant(f"what is wrong is the same as what is right: {right}")

    spots = _spots(definition, right_body, wrong_body)
    is_found = nth <= len(spots) if nth else len(spots) == 1
    if not is_found:
        now = ast.get_source_segment(text, definition, padded=True)
        wanted = f"at least {nth} times" if nth else "once"
        raise CannotPlant(
            f"should be there {wanted}, is there {len(spots)} times:\n{right}\nIt is now:\n{now}"
        )
    return _spliced(text, spots[nth - 1 if nth else 0])


def _fragment(text: str) -> list[ast.stmt]:
    try:
        body = ast.parse(textwrap.dedent(text).strip()).body
    except SyntaxError as error:
        raise CannotPlant(f"this is no expression, and no statements: {text}") from error
    if not body:
        raise CannotPlant(f"this is no code: {text!r}; `pass` is the statement for nothing")
    return body


def _shape(*nodes: ast.AST) -> list[str]:
    """What is equal if nodes differ in nothing but where and how they are written."""
    return list(map(ast.dump, nodes))


def _spots(definition: ast.stmt, right: list[ast.stmt], wrong: list[ast.stmt]) -> list[_Spot]:
    """Where this is in a definition, in the order of the text."""
    whole = ast.Module([definition], [])
    match right, wrong:
        case [ast.Expr(right_value)], [ast.Expr(wrong_value)]:
            spots = _expressions(whole, right_value, wrong_value)
        case _:
            spots = _statements(whole, right, wrong)
    return sorted(spots, key=lambda spot: (spot.first.lineno, spot.first.col_offset))


def _statements(whole: ast.Module, right: list[ast.stmt], wrong: list[ast.stmt]) -> Iterator[_Spot]:
    shape = _shape(*right)
    for node in ast.walk(whole):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                for first, last in _runs(value, shape):
                    yield _Spot(value[first], value[last - 1], wrong)


def _expressions(whole: ast.Module, right: ast.expr, wrong: ast.expr) -> Iterator[_Spot]:
    shape = _shape(right)
    for node in _expressions_of(whole):
        if type(node) is type(right) and _shape(node) == shape:
            yield _Spot(node, node, wrong)
        elif isinstance(right, ast.BoolOp) and _is_of_kind(node, right):
            for first, last in _runs(node.values, _shape(*right.values)):
                yield _Spot(node, node, _with_part(node, first, last, wrong))


def _expressions_of(node: ast.AST) -> Iterator[ast.expr]:
    """All but those inside an f-string: before Python 3.12 nobody knows where they are."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        if not isinstance(child, ast.JoinedStr):
            yield from _expressions_of(child)


def _runs(nodes: list[ast.stmt] | list[ast.expr], shape: list[str]) -> Iterator[tuple[int, int]]:
    """Where nodes of these shapes follow each other: begin and end."""
    shapes = _shape(*nodes)
    for first in range(len(shapes) - len(shape) + 1):
        if shapes[first : first + len(shape)] == shape:
            yield first, first + len(shape)


def _is_of_kind(node: ast.expr, other: ast.BoolOp) -> TypeGuard[ast.BoolOp]:
    """Whether both are `and`, or both are `or`."""
    return isinstance(node, ast.BoolOp) and type(node.op) is type(other.op)


def _with_part(node: ast.BoolOp, first: int, last: int, wrong: ast.expr) -> ast.BoolOp | ast.expr:
    """`a and b and c` with something else for `a and b`."""
    instead = wrong.values if _is_of_kind(wrong, node) else [wrong]
    return ast.BoolOp(node.op, [*node.values[:first], *instead, *node.values[last:]])


# -- planting --------------------------------------------------------------------------------------


def _spliced(text: str, spot: _Spot) -> str:
    """The text with what is wrong in the spot's place, and all else as it was."""
    lines = text.encode().split(b"\n")  # columns count bytes
    line, column = _begin(spot.first)
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each) + 1)
    begin = starts[line - 1] + column
    end = starts[spot.last.end_lineno - 1] + spot.last.end_col_offset

    if isinstance(spot.wrong, list):
        # The first line has its indentation already; the others get the same.
        wrong = ast.unparse(ast.Module(spot.wrong, [])).replace("\n", "\n" + " " * column)
    else:
        wrong = f"({ast.unparse(spot.wrong)})"  # whatever binds tighter around it
    data = text.encode()
    return (data[:begin] + wrong.encode() + data[end:]).decode()


def _begin(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Line and column of a node, with its decorators."""
    decorators = getattr(node, "decorator_list", [])
    lines = [node.lineno, *(decorator.lineno for decorator in decorators)]
    return min(lines), node.col_offset
