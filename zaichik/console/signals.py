"""The signals that end a command which serves."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from zaichik.net.background import BackgroundTasks


@asynccontextmanager
async def stopping(
    stop: Callable[[signal.Signals], None], hang_up: Callable[[], None] | None = None
) -> AsyncIterator[TaskGroup]:
    """Has SIGINT and SIGTERM stop what the block serves, and a second one end the process at once.

    Args:
        stop: is called at the first of them; it makes the block end gracefully.
        hang_up: is called at SIGHUP.

    Returns:
        Tasks that are cancelled when the block ends.

    Raises:
        KeyboardInterrupt: it was SIGINT, and the block has ended.
    """
    cause: signal.Signals | None = None

    async def watch() -> None:
        nonlocal cause
        async for received in signals:
            if received == signal.SIGHUP and hang_up is not None:
                hang_up()
            elif cause is not None:
                os._exit(128 + received)
            else:
                cause = received
                stop(received)

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] * bool(hang_up))) as signals:
        async with BackgroundTasks() as background:
            background.group.start_soon(watch)
            yield background.group
    if cause == signal.SIGINT:
        raise KeyboardInterrupt
