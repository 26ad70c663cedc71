"""The signals that end a command which serves."""

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

import anyio
from anyio.abc import TaskGroup

from zaichik.cli import interrupts
from zaichik.net.background import BackgroundTasks

# How a command that serves ends if it serves nothing yet: as if it had been stopped in order.
_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 0}


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Has SIGINT and SIGTERM end the process at once, until a block inside handles them itself.

    For a start, which has nothing to put in order, and may take minutes in a thread that nobody
    could stop. SIGHUP is ignored; a signal that was ignored stays ignored.
    """
    # Not by a handler that does nothing: while one is due in the main thread, the kernel gives a
    # second signal to another thread, and the event loop, asleep by then, would not hear of it.
    before = {signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    for number in _EXIT_CODES:
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(received: int, _frame: FrameType | None) -> None:
    # Nothing is flushed: the log's lock may be held by what the signal has interrupted.
    os._exit(_EXIT_CODES[signal.Signals(received)])


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

    with (
        anyio.open_signal_receiver(
            signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] * bool(hang_up))
        ) as signals,
        # An announcement may wait for its reader, and block the loop that would stop.
        interrupts.tracked(signal.SIGINT, signal.SIGTERM),
    ):
        async with BackgroundTasks() as background:
            background.group.start_soon(watch)
            yield background.group
    if cause == signal.SIGINT:
        raise KeyboardInterrupt


@asynccontextmanager
async def in_steps(*steps: Callable[[], None]) -> AsyncIterator[Callable[[], bool]]:
    """Has each SIGINT and SIGTERM take the next step in ending what the block does.

    SIGHUP takes only the first: a terminal that is closed sends it twice. A signal that was ignored
    stays ignored.

    Args:
        steps: from the one that asks to end, to the one that does not wait.

    Returns:
        A function that says whether a signal came.
    """
    left = list(steps)

    async def watch() -> None:
        async for received in signals:
            interrupts.remember()
            if left and (received != signal.SIGHUP or len(left) == len(steps)):
                left.pop(0)()

    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]
    with anyio.open_signal_receiver(*numbers) as signals:
        async with BackgroundTasks() as background:
            background.group.start_soon(watch)
            yield lambda: len(left) < len(steps)
