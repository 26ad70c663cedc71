"""Waits that a signal can end, in the main thread.

Python calls the handler of a signal between two of its instructions. A signal that comes just
before a wait, when the last instruction is over, does not end the wait, and its handler is called
afterwards. So nobody waits for ever at a time: each wait is short, and is followed by another one.
"""

from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

# The longest single wait.
SINGLE_WAIT_SECONDS = 0.1

Result = TypeVar("Result")


def result_of(future: Future[Result]) -> Result:
    """Wait for a future; returns its result, or raises its exception."""
    while True:
        try:
            return future.result(SINGLE_WAIT_SECONDS)
        except TimeoutError:
            # The function that was called may have raised it, too.
            if future.done():
                return future.result()


def join(thread: Thread) -> None:
    """Wait until a thread has ended."""
    while thread.is_alive():
        thread.join(SINGLE_WAIT_SECONDS)
