"""One test for a rule that holds for many things: all of them are tried, and those that break it
are named together.

Parametrizing would make a case of each. That is right where a case runs something; a rule that is
read off a table, a page or a source costs less than its case does.
"""

import functools
import inspect
from collections.abc import Callable, Iterable

import pytest


def each(name: str, things: Iterable, *, shown: Callable = str) -> Callable:
    """Decorate a test of a rule: it runs with each of the things as its argument `name`.

    Args:
        name: the argument. The other ones are fixtures, which all things share.
        things: at least one; a rule about nothing would always hold.
        shown: how one is named if it breaks the rule.

    Raises:
        ValueError: there is nothing to try.
    """
    things = list(things)
    if not things:
        raise ValueError(f"there is no {name}")

    def decorate(rule: Callable) -> Callable:
        @functools.wraps(rule)
        def hold(**fixtures: object) -> None:
            offenders = []
            for thing in things:
                try:
                    rule(**{name: thing}, **fixtures)
                except (AssertionError, pytest.fail.Exception) as error:
                    offenders.append(f"{shown(thing)}: {error}")
                except Exception as error:
                    error.add_note(f"{name} is {shown(thing)}")
                    raise
            if offenders:
                pytest.fail(f"{len(offenders)} of {len(things)} break it\n" + "\n".join(offenders))

        declared = inspect.signature(rule)
        others = [it for it in declared.parameters.values() if it.name != name]
        hold.__signature__ = declared.replace(parameters=others)
        return hold

    return decorate
