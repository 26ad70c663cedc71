"""Plain functions that the event loop calls soon, on asyncio and on trio.

They belong to no task. A task that waits for a thread is woken an iteration of the event loop after
the thread is done, and each wait in it takes one more; a function is called in that very iteration.
"""

import asyncio
from collections.abc import Callable


class LoopCalls:
    """Has the event loop that is running now call functions, each after the loop has polled.

    They must not raise: on trio that ends the program.

    Attributes:
        soon: takes a function; for the thread of the event loop.
        from_thread: takes a function; for any other thread. Raises RuntimeError if the event loop
            has ended.
    """

    def __init__(self) -> None:
        self.soon: Callable[[Callable[[], None]], object]
        self.from_thread: Callable[[Callable[[], None]], object]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Not needed, and perhaps not there, on asyncio.
            from trio.lowlevel import current_trio_token

            run_sync_soon = current_trio_token().run_sync_soon
            self.soon = run_sync_soon
            self.from_thread = run_sync_soon
        else:
            self.soon = loop.call_soon
            # This wakes the loop through a socket, which `call_soon` does not need.
            self.from_thread = loop.call_soon_threadsafe
