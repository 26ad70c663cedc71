"""Exercise 5.2: accept forever."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

PAUSE_S = 0.01


async def accept_for_ever(accept: Callable[[], Awaitable[Any]], welcome: Callable[[Any], None]) -> None:
    """Accept clients and welcome each, forever. After an OSError, wait for PAUSE_S and try again."""
    while True:
        try:
            client = await accept()
        except OSError:
            await anyio.sleep(PAUSE_S)
        else:
            welcome(client)
