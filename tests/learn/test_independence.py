"""The tester must not agree with the project's own mistakes."""

import ast
from pathlib import Path

from offenders import each

LEARN = Path(__file__).parents[2] / "zaichik" / "learn"


@each("path", sorted(LEARN.rglob("*.py")), shown=lambda path: str(path.relative_to(LEARN)))
def test_it_uses_nothing_of_the_broker_the_client_or_the_codec(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    used = {name for name in names if name.startswith("zaichik")}
    assert {name for name in used if not name.startswith("zaichik.learn")} == set()
