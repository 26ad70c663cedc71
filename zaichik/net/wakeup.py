"""A wake-up for tasks: `anyio.Event`, for less on asyncio.

There each task that waits has a bare future. anyio's event waits in asyncio's, which waits for a
future: three coroutines where one will do, for every reply and every message that a program waits
for.
"""

import asyncio

import anyio
from anyio.lowlevel import checkpoint


class Wakeup:
    """Something that happens once, for any number of tasks to wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._futures: list[asyncio.Future[None]] = []  # of the tasks that wait on asyncio
        self._event: anyio.Event | None = None  # for those that wait on trio

    def is_set(self) -> bool:
        """Returns whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Wake the tasks that wait; they run a turn of the event loop later."""
        self._is_set = True
        for future in self._futures:
            if not future.done():  # it is if its task was cancelled in this very turn
                future.set_result(None)
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has happened; at least let other tasks have their turn."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            await self._wait_in_trio()
            return
        # As anyio's `checkpoint`, but outside of tasks as well.
        if self._is_set:
            await asyncio.sleep(0)
            return
        future = loop.create_future()
        self._futures.append(future)
        try:
            await future
        except asyncio.CancelledError:
            # A task that waits again and again would leave one each time.
            self._futures.remove(future)
            raise

    async def _wait_in_trio(self) -> None:
        if self._is_set:
            await checkpoint()
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
