"""The exception is caught outside the loop: the program does not crash, and accepts nobody any more.

Fails at: after an OSError it goes on
"""

from collections.abc import Awaitable, Callable
from typing import Any

PAUSE_S = 0.01


async def accept_for_ever(accept: Callable[[], Awaitable[Any]], welcome: Callable[[Any], None]) -> None:
    """Accept clients until the first OSError."""
    try:
        while True:
            welcome(await accept())
    except OSError:
        pass
