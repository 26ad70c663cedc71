"""Work that is done in pieces, each in a turn of the event loop of its own, so that sockets are seen to in between."""

import asyncio
from collections.abc import Callable

import anyio
from anyio.lowlevel import checkpoint


class Repeating:
    """Calls a function again and again, once it was woken, until the function returns False.

    Between waking and the first call, and between calls, the event loop looks at all sockets and calls back for those
    that are readable.

    Args:
        function: does a piece of the work; returns whether there is more.
        is_needed: whether to call it at all, asked in the turn after waking. If not, `on_rest` is called instead.
        on_rest: the work is done, or was not needed.
    """

    def __init__(
        self, function: Callable[[], bool], is_needed: Callable[[], bool], on_rest: Callable[[], None]
    ) -> None:
        self._function = function
        self._is_needed = is_needed
        self._on_rest = on_rest
        self._is_awake = False
        self._woken = anyio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Begin to call the function, unless that has begun already."""
        if not self._is_awake:
            self._is_awake = True
            if self._loop is None:
                self._woken.set()
            else:
                self._loop.call_soon(self._wait_a_turn)

    async def run(self) -> None:
        """Do what `wake` asks for, until cancelled."""
        try:
            loop = self._loop = asyncio.get_running_loop()
        except RuntimeError:  # trio has no calls without a task
            await self._run_in_task()
        else:
            if self._is_awake:  # before this began
                loop.call_soon(self._wait_a_turn)
            try:
                await anyio.sleep_forever()
            finally:
                self._loop = None  # nothing is called any more

    # What is called soon runs before the callbacks of sockets that became readable meanwhile: so a turn is left out.

    def _wait_a_turn(self) -> None:
        if self._loop is None:
            return
        if self._is_needed():
            self._loop.call_soon(self._call)
        else:
            self._is_awake = False
            self._on_rest()

    def _call(self) -> None:
        if self._loop is None:
            return
        if self._function():
            self._loop.call_soon(self._wait_a_turn)
        else:
            self._is_awake = False
            self._on_rest()

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
            self._on_rest()
