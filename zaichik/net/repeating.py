"""Work done in pieces, each in its own iteration of the event loop.

So sockets are polled between one piece and the next.
"""

import asyncio
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint


class Repeating:
    """Calls a function repeatedly, once woken, until it returns False.

    Between `wake` and the first call, and between calls, the event loop polls all sockets and runs
    the callbacks of those that are readable.

    Args:
        function: does a piece of the work; returns whether there is more.
        is_needed: returns whether there is any work, before each call. If not, `on_idle` is called
            instead.
        on_idle: called when the work is done, or was not needed.
    """

    def __init__(
        self,
        function: Callable[[], bool],
        is_needed: Callable[[], bool],
        on_idle: Callable[[], None],
    ) -> None:
        self._function = function
        self._is_needed = is_needed
        self._on_idle = on_idle
        self._is_awake = False
        self._woken = anyio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Begin to call the function, unless it is being called already."""
        if not self._is_awake:
            self._is_awake = True
            if self._loop is None:
                self._woken.set()
            else:
                self._loop.call_soon(self._wait_a_turn)

    async def run(self) -> None:
        """Carry out the work that `wake` asks for, until cancelled."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Trio has no callbacks outside of tasks.
            await self._run_in_task()
        else:
            self._loop = loop
            # `wake` was called before this began.
            if self._is_awake:
                loop.call_soon(self._wait_a_turn)
            try:
                await anyio.sleep_forever()
            finally:
                self._loop = None  # nothing is called any more

    # `call_soon` callbacks run before those of sockets that became readable meanwhile: so one
    # iteration is skipped.

    def _wait_a_turn(self) -> None:
        if self._loop is None:
            return
        if self._is_needed():
            self._loop.call_soon(self._call)
        else:
            self._is_awake = False
            self._on_idle()

    def _call(self) -> None:
        if self._loop is None:
            return
        if self._function():
            self._loop.call_soon(self._wait_a_turn)
        else:
            self._is_awake = False
            self._on_idle()

    async def _run_in_task(self) -> None:
        while True:
            while not self._is_awake:
                self._woken = anyio.Event()
                await self._woken.wait()
            await checkpoint()
            await checkpoint()
            while self._is_needed() and self._function():
                await checkpoint()
                await checkpoint()
            self._is_awake = False
            self._on_idle()
