"""How densely code is written: tokens in a statement, and conditional expressions.

A line is no measure: it can be packed. A statement is what ends with tokenize's NEWLINE, and its
tokens are those of the tokenizer without comments, layout and docstrings.

    python tests/density.py                       # every room of zaichik/
    python tests/density.py zaichik/core FOLDER   # these, also of other projects
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, quantiles
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


class Density(NamedTuple):
    """The figures of some files.

    Attributes:
        tokens: how many there are.
        mean: tokens in a statement, on average.
        ninetieth: tokens in a statement, at the ninetieth percentile.
        conditionals: conditional expressions in 1,000 tokens.
    """

    tokens: int
    mean: float
    ninetieth: float
    conditionals: float


def statements(source: str) -> list[int]:
    """Returns the number of tokens of each statement, docstrings left out."""
    found: list[int] = []
    documented = _docstrings(source)
    tokens = 0
    first_line = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in LAYOUT:
            continue
        if token.type == tokenize.NEWLINE:
            if first_line not in documented:
                found.append(tokens)
            tokens = 0
            continue
        if not tokens:
            first_line = token.start[0]
        tokens += 1
    return found


def density(paths: Iterable[Path]) -> Density:
    """Returns the figures of these files, which must have two statements at least."""
    sources = [path.read_text(encoding="utf-8") for path in paths]
    sizes = [size for source in sources for size in statements(source)]
    conditionals = sum(_conditionals(source) for source in sources)
    tokens = sum(sizes)
    ninetieth = quantiles(sizes, n=10)[-1]
    return Density(tokens, mean(sizes), ninetieth, conditionals * 1000 / tokens)


def _conditionals(source: str) -> int:
    return sum(isinstance(node, ast.IfExp) for node in ast.walk(ast.parse(source)))


def _docstrings(source: str) -> set[int]:
    """The first lines of all docstrings."""
    lines: set[int] = set()
    documentable = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documentable) and ast.get_docstring(node) is not None:
            lines.add(node.body[0].lineno)
    return lines


def main(names: list[str]) -> None:
    """Print a row for each folder."""
    folders = [Path(name) for name in names]
    if not folders:
        folders = sorted(path for path in (ROOT / "zaichik").iterdir() if path.is_dir())
    print(f"{'':28}{'tokens':>8}{'per statement':>15}{'90 %':>7}{'conditional/1000':>18}")
    for folder in folders:
        paths = sorted(folder.rglob("*.py"))
        if not paths:
            continue
        row = density(paths)
        figures = f"{row.mean:15.1f}{row.ninetieth:7.1f}{row.conditionals:18.2f}"
        print(f"{folder.name:28}{row.tokens:8,}{figures}")


if __name__ == "__main__":
    main(sys.argv[1:])
