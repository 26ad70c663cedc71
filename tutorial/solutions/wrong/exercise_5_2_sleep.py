"""The pause stops the whole event loop, and every client waits with us.

Fails at: others go on during the pause
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any

PAUSE_S = 0.01


async def accept_for_ever(accept: Callable[[], Awaitable[Any]], welcome: Callable[[Any], None]) -> None:
    """Accept clients and welcome each, forever."""
    while True:
        try:
            client = await accept()
        except OSError:
            time.sleep(PAUSE_S)  # noqa: ASYNC251 (this is what is wrong)
        else:
            welcome(client)
