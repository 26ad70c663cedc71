"""Counting lines of code: not blank, not comment, not docstring.

An import counts as one line however the formatter breaks it: a longer list of names is not more
code to read.
"""

import ast
import io
import tokenize
from functools import cache
from pathlib import Path

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@cache
def code_lines(path: Path) -> frozenset[int]:
    """The numbers of the lines that are code."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and node.body
        ):
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        elif isinstance(node, ast.ImportFrom):
            lines.difference_update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def functions(path: Path) -> list[tuple[str, int]]:
    """Every function of a file with its lines of code, nested ones included."""
    lines = code_lines(path)
    return [
        (
            node.name,
            len(lines.intersection(range(node.lineno, (node.end_lineno or node.lineno) + 1))),
        )
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
