"""Enumerates the small edits of a module that its tests should notice, as `mutating.py` tries them.

An edit changes one operator, constant or condition, or deletes one statement, on the syntax tree;
all other code stays as it is. Its id names the definition, the kind of edit and the code around it,
and a number only if that would be the same for several. So an id survives when code moves, is
formatted, or other statements of its function change:

    ring:BroadcastRing._evict | > to >= | self.bytes > self.max_bytes

A number becomes one more and one less, except a constant in `CHOSEN`: there another number near it
would be as good, so it becomes ten times as much and a tenth, which tests should notice.

What is not edited, because no test could be asked to notice it: annotations and aliases of types,
imports for types, docstrings, `__slots__`, arguments of `@dataclass`, and texts for people, which
are the strings that have a space. Nor is what stands inside an f-string: before Python 3.12 nobody
knows where that is. `return x` is left alone, too: nearly any test notices that nothing is
returned, so such edits would only make the share of those that are noticed look better.
"""

import ast
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "zaichik" / "core"
SHOWN = 80  # characters of the code in an id

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
# Comparisons whose opposite is one of the edits already.
WITH_OPPOSITE = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
# Constants of modules that somebody has chosen, as sizes and counts are: no protocol has them, no
# document states them, and so no test could say that one more would be wrong.
CHOSEN = {
    "checks:SHOWN",
    "decisions:STEP_BYTES",
    "decisions:WHOLE_BYTES",
    "replies:OWED",
    "report.remembered:RECENT",
    "report.waiting:MOST_NAMED",
    "sharing.prices:CONNECTION",
    "sharing.prices:NAME",
    "sharing.prices:PRODUCER",
    "sharing.prices:SUBSCRIPTION",
    "sharing.scheduler:CONNECTION_US",
    "sharing.scheduler:DEAREST_US",
    "sharing.scheduler:PAUSE_US",
    "sharing.scheduler:SLICE_US",
    "topic_controller:FORGOTTEN_AT_ONCE",
    "write_queue:UNCOUNTED_BYTES",
}
TYPES = {"Literal", "TypeVar"}  # subscripted or called, with strings that only say what a type is

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_SIMPLE = ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return | ast.Delete


@dataclass(frozen=True)
class Function:
    """A function whose body an edit is in, by what its code object says."""

    name: str
    first_line: int


@dataclass(frozen=True)
class Mutant:
    """One edit.

    Attributes:
        id: see this file's docstring.
        path: the file.
        lines: those of the statement, or of the head of the block, that is edited.
        function: the outermost function that it is in; None if it takes effect when the module is
            imported.
        name: the last name of the definition that it is in.
        old, new: the node that is replaced, and the code that replaces it.
    """

    id: str
    path: Path
    lines: range
    function: Function | None
    name: str
    old: ast.expr | ast.stmt
    new: str

    @property
    def text(self) -> str:
        """The file's text with the edit."""
        return self.edited(self.path.read_text(encoding="utf-8"))

    def edited(self, text: str) -> str:
        """Returns a text like the file's, with the edit."""
        return _spliced(text, self.old, self.new)

    @property
    def prefix(self) -> str:
        """The module, as in the id."""
        return self.id.partition(":")[0]

    @property
    def module(self) -> str:
        """The module, as in an import."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts)


@dataclass(frozen=True)
class _Place:
    """Where in a module a walk is.

    Attributes:
        names: of the definitions around it.
        chosen: the ids of constants, without their module, that are in `CHOSEN`.
        function: the outermost function around it.
        lines: those of the statement around it.
        around: the expression or simple statement that a constant is shown in.
    """

    names: tuple[str, ...] = ()
    chosen: frozenset[str] = frozenset()
    function: Function | None = None
    lines: range = range(0)
    around: ast.AST | None = None


@dataclass(frozen=True)
class _Edit:
    """What is replaced by what, and how the id says so."""

    place: _Place
    kind: str
    shown: ast.AST
    old: ast.expr | ast.stmt
    new: str


@cache
def mutants(core: Path = CORE) -> list[Mutant]:
    """Returns all edits of a folder's files, in the order of files and lines."""
    found: list[Mutant] = []
    for path in sorted(core.rglob("*.py")):
        prefix = ".".join(path.relative_to(core).with_suffix("").parts)
        found += mutants_of(path, prefix, path.read_text(encoding="utf-8"))
    return found


def mutants_of(path: Path, prefix: str, text: str) -> Iterator[Mutant]:
    """The edits of one file; `prefix` begins their ids."""
    counted: Counter[str] = Counter()
    chosen = {name.partition(":")[2] for name in CHOSEN if name.startswith(f"{prefix}:")}
    for edit in _edits(ast.parse(text), _Place(chosen=frozenset(chosen))):
        where = ".".join(edit.place.names)
        name = f"{prefix}:{where} | {edit.kind} | {_shown(edit.shown)}"
        counted[name] += 1
        if counted[name] > 1:
            name += f" | {counted[name]}"
        yield Mutant(
            name,
            path,
            edit.place.lines,
            edit.place.function,
            (edit.place.names or ("",))[-1],
            edit.old,
            edit.new,
        )


def within(found: Iterable[Mutant], module: str) -> list[Mutant]:
    """Returns those of a module, or of a folder's modules, named as in their ids."""
    return [mutant for mutant in found if f"{mutant.prefix}.".startswith(f"{module}.")]


def sample(found: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Returns so many of them, chosen by the seed and each one's id alone.

    So an edit stays in the sample of its seed when others come and go.
    """
    ranked = sorted(found, key=lambda mutant: random.Random(f"{seed} {mutant.id}").random())
    return ranked[:count]


# -- walking ---------------------------------------------------------------------------------------


def _edits(node: ast.AST, place: _Place) -> Iterator[_Edit]:
    """All edits of a node and of what is in it."""
    if _is_left_alone(node):
        return

    place = _inside(node, place)
    if isinstance(node, ast.Assign) and place.names and place.names[-1] in place.chosen:
        yield from _magnitude(node, place)
        return
    yield from _own(node, place)
    for child in _children(node):
        yield from _edits(child, _around(node, child, place))


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("__"):
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Subscript(value=ast.Name(id=name)) | ast.Call(func=ast.Name(id=name)):
            return name in TYPES
        case _:
            return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Children in the order of the text, without annotations and arguments of decorators."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        if isinstance(node, ast.Assert) and field == "msg":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _inside(node: ast.AST, place: _Place) -> _Place:
    """The place of a node, whose parent has the other one."""
    names, function = place.names, place.function
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            names = (*names, node.name)
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])])
            | ast.AnnAssign(target=ast.Name(id=name))
        ):
            if function is None:
                names = (*names, name)  # of several, the first
    lines = place.lines
    if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        lines = _head(node)
    around = node if isinstance(node, _SIMPLE) else place.around
    return _Place(names, place.chosen, function, lines, around)


def _around(node: ast.AST, child: ast.AST, place: _Place) -> _Place:
    """The place of a child; of a function, only what is in its body is inside it."""
    function = place.function
    if function is None and isinstance(node, _FUNCTIONS) and child in node.body:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        function = Function(".".join(place.names), first)
    around = place.around
    if isinstance(node, ast.expr) and not isinstance(node, ast.Constant | ast.Slice):
        around = node
    return _Place(place.names, place.chosen, function, place.lines, around)


def _head(node: ast.stmt | ast.ExceptHandler | ast.match_case) -> range:
    """The lines of a statement; of a block, those before its body."""
    body = getattr(node, "body", None)
    if isinstance(node, ast.match_case):
        return range(node.pattern.lineno, node.body[0].lineno)
    if body:
        return range(node.lineno, max(node.lineno + 1, body[0].lineno))
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


# -- kinds of edits --------------------------------------------------------------------------------


def _own(node: ast.AST, place: _Place) -> Iterator[_Edit]:
    """The edits of a node itself."""
    match node:
        case ast.Compare():
            yield from _comparisons(node, place)
        case ast.BinOp():
            yield from _arithmetic(node, place)
        case ast.AugAssign():
            yield from _augmented(node, place)
        case ast.BoolOp():
            yield from _logic(node, place)
        case ast.UnaryOp(op=ast.Not()):
            yield _Edit(place, "not dropped", node, node, ast.unparse(node.operand))
        case ast.If() | ast.IfExp():
            yield from _condition(node.test, place)
        case ast.comprehension():
            for test in node.ifs:
                yield from _condition(test, place)
        case ast.Constant():
            yield from _constant(node, place)
        case ast.Expr() | ast.Call():
            yield from _call(node, place)


def _call(node: ast.Expr | ast.Call, place: _Place) -> Iterator[_Edit]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield _Edit(place, "deleted", node, node, "pass")
        case ast.Call(func=ast.Name(id="min" | "max" as name) as function):
            other = "max" if name == "min" else "min"
            yield _Edit(place, f"{name} to {other}", node, function, other)


def _comparisons(node: ast.Compare, place: _Place) -> Iterator[_Edit]:
    operands = [ast.unparse(operand) for operand in [node.left, *node.comparators]]
    signs = [COMPARISONS[type(operator)] for operator in node.ops]
    for edited, (old, new) in enumerate(signs):
        text = operands[0]
        for index, (sign, other) in enumerate(signs):
            text += f" {other if index == edited else sign} {operands[index + 1]}"
        yield _Edit(place, f"{old} to {new}", node, node, text)


def _arithmetic(node: ast.BinOp, place: _Place) -> Iterator[_Edit]:
    if type(node.op) not in ARITHMETIC or _is_type(node):
        return
    old, new = ARITHMETIC[type(node.op)]
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    yield _Edit(place, f"{old} to {new}", node, node, f"({left}) {new} ({right})")


def _is_type(node: ast.AST) -> bool:
    """Whether it is a union of types, as in an alias or in `isinstance`."""
    match node:
        case ast.BinOp(op=ast.BitOr()):
            return _is_type(node.left) and _is_type(node.right)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name[0].isupper() and not name.isupper()
        case ast.Subscript():
            return _is_type(node.value) or isinstance(node.value, ast.Name)
        case ast.Constant(value=None):
            return True
        case _:
            return False


def _augmented(node: ast.AugAssign, place: _Place) -> Iterator[_Edit]:
    yield _Edit(place, "deleted", node, node, "pass")
    if type(node.op) in ARITHMETIC:
        old, new = ARITHMETIC[type(node.op)]
        target, value = ast.unparse(node.target), ast.unparse(node.value)
        yield _Edit(place, f"{old}= to {new}=", node, node, f"{target} {new}= {value}")


def _logic(node: ast.BoolOp, place: _Place) -> Iterator[_Edit]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    text = f" {new} ".join(f"({ast.unparse(value)})" for value in node.values)
    yield _Edit(place, f"{old} to {new}", node, node, text)


def _condition(test: ast.expr, place: _Place) -> Iterator[_Edit]:
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return  # is dropped
        case ast.Compare(ops=[operator]) if isinstance(operator, WITH_OPPOSITE):
            return  # becomes its opposite
    yield _Edit(place, "condition inverted", test, test, f"not ({ast.unparse(test)})")


def _constant(node: ast.Constant, place: _Place) -> Iterator[_Edit]:
    shown = place.around or node
    value = node.value
    if isinstance(value, bool):
        yield _Edit(place, f"{value} to {not value}", shown, node, str(not value))
    elif isinstance(value, int | float):
        for other in (value + 1, value - 1):
            yield _Edit(place, f"{value} to {other}", shown, node, repr(other))
    elif isinstance(value, str) and " " not in value:
        yield _Edit(place, f"{value!r} to {value + '_'!r}", shown, node, repr(value + "_"))


def _magnitude(node: ast.Assign, place: _Place) -> Iterator[_Edit]:
    value = ast.unparse(node.value)
    yield _Edit(place, "ten times", node, node.value, f"10 * ({value})")
    yield _Edit(place, "a tenth", node, node.value, f"max(1, ({value}) // 10)")


# -- text ------------------------------------------------------------------------------------------


class _WithoutTexts(ast.NodeTransformer):
    """Empties f-strings, which Python writes differently in each of its versions."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.copy_location(ast.Constant(""), node)


def _shown(node: ast.AST) -> str:
    """A node's code in one short line."""
    text = " ".join(ast.unparse(_WithoutTexts().visit(deepcopy(node))).split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _spliced(text: str, old: ast.expr | ast.stmt, new: str) -> str:
    """The text with something else in a node's place, in parentheses if it is an expression."""
    lines = text.encode().splitlines(keepends=True)  # columns count bytes
    begin = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: (old.end_lineno or 0) - 1])) + (old.end_col_offset or 0)
    is_atom = isinstance(old, ast.Name | ast.Constant) and not new.startswith("-")
    if isinstance(old, ast.expr) and not is_atom:
        new = f"({new})"
    data = text.encode()
    return (data[:begin] + new.encode() + data[end:]).decode()
