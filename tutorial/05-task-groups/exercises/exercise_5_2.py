"""Exercise 5.2: accept forever.

`accept` raises OSError when the operating system has nothing to give, as in experiments/full.py. That will pass: sooner
or later a client leaves. Until then the loop must neither end nor spin.
"""

from collections.abc import Awaitable, Callable
from typing import Any

PAUSE_S = 0.01


async def accept_for_ever(accept: Callable[[], Awaitable[Any]], welcome: Callable[[Any], None]) -> None:
    """Accept clients and welcome each, forever. After an OSError, wait for PAUSE_S and try again."""
    raise NotImplementedError("this is yours to write")
