"""Docstrings that users see: help pages of commands, texts of stages and checks.

`PYTHONOPTIMIZE=2`, which some images set, leaves docstrings out of a program. So they are then read
from its source. Nothing else reads `__doc__`.
"""

# Not compiled: it runs when help is shown, so there is nothing to gain.

import sys
from collections.abc import Callable
from typing import Any


def of_module(name: str) -> str:
    """Returns a module's docstring, by its dotted name; "" if it has none, or no source."""
    module = sys.modules[name]
    return module.__doc__ or _in_source(module)


def of_function(function: Callable[..., Any]) -> str:
    """Returns a function's docstring; "" if it has none, or no source."""
    return function.__doc__ or _in_source(function)


def _in_source(thing: Any) -> str:
    # Imported here: with docstrings, nothing needs them.
    import ast
    import inspect
    import textwrap

    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return ""
    node: Any = ast.parse(textwrap.dedent(source))
    if not inspect.ismodule(thing):
        # What was read is a module with the function in it.
        node = node.body[0]
    return ast.get_docstring(node, clean=False) or ""
