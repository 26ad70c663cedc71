"""A sample of many cases in each run of the suite; the rest in `make test-long`, or where another
mark is run.
"""

from collections.abc import Collection, Iterable

import pytest


def sampled(cases: Iterable, sample: Collection, *, rest=pytest.mark.long) -> list:
    """Returns the cases, those that are not in the sample marked with `rest`.

    Raises:
        ValueError: something in the sample is not a case, so it would never run.
    """
    cases = list(cases)
    if unknown := [case for case in sample if case not in cases]:
        raise ValueError(f"not among the cases: {unknown}")
    return [case if case in sample else pytest.param(case, marks=rest) for case in cases]
