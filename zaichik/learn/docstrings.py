"""Docstrings of modules that readers see: what a stage is about.

`PYTHONOPTIMIZE=2`, which some images set, leaves docstrings out of a program. So they are then read
from its source.
"""

import ast
import inspect
import sys


# As `zaichik.base.docstrings` does it; but the tester imports nothing of what it tests.
def of_module(name: str) -> str:
    """Returns a module's docstring, by its dotted name; "" if it has none, or no source."""
    module = sys.modules[name]
    if module.__doc__:
        return module.__doc__
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return ""
    return ast.get_docstring(ast.parse(source), clean=False) or ""
