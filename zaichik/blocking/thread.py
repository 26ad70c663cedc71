"""The thread of the event loop, as seen from the program's threads.

A call runs as a task of the loop while its caller waits. If the caller is interrupted (Ctrl-C raises
`KeyboardInterrupt` in the main thread, whatever it waits for), the task is cancelled, as a task of an asynchronous
program would be.
"""

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread of its own; `running` starts one. Any number of threads may call it."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Returns a thread that ends with the block, as does everything that still runs in it."""
        with start_blocking_portal(name="zaichik client") as portal:
            yield cls(portal)

    def start(self, function: Callable[[], Awaitable[Result]]) -> "Future[Result]":
        """Call a coroutine function in the loop, without waiting for it.

        Raises:
            RuntimeError: the thread has ended.
        """
        return self._portal.start_task_soon(function)

    def call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Returns what a coroutine function returns, called in the loop. An exception while waiting cancels it."""
        future = self.start(function)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # does nothing if the exception is the function's own
            raise

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """Enters an asynchronous context manager in the loop, for as long as the block lasts.

        It sees an `Exception` of the block as its own; anything else, such as KeyboardInterrupt, as a cancellation.
        """
        opened: Future[Result] = Future()
        leaving = _Leaving()
        task = self.start(partial(_hold, manager, opened, leaving))
        try:
            yield opened.result()
        except Exception as error:
            leaving.error = error
            self._leave(task, leaving)
            raise
        except BaseException:
            task.cancel()
            raise
        else:
            self._leave(task, leaving)

    def _leave(self, task: "Future[None]", leaving: "_Leaving") -> None:
        try:
            if not task.done():
                self._portal.call(leaving.event.set)
            task.result()
        except BaseException as error:
            task.cancel()
            if error is not leaving.error:
                raise


class _Leaving:
    """How a block has ended."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.error: Exception | None = None

    async def wait(self) -> None:
        """Returns when the block has ended; raises its exception, if it has one."""
        await self.event.wait()
        if self.error is not None:
            raise self.error


async def _hold(manager: AbstractAsyncContextManager[Result], opened: "Future[Result]", leaving: _Leaving) -> None:
    try:
        async with manager as value:
            opened.set_result(value)
            await leaving.wait()
    except BaseException as error:
        if not opened.done():
            opened.set_exception(error)
        raise


class _Mirror(Protocol):
    """An object that mirrors an asynchronous one."""

    _thread: LoopThread
    _inner: Any


def waiting(
    method: Callable[Concatenate[Any, Arguments], Awaitable[Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Returns a method that calls this one of the object mirrored, and waits for its result."""

    @wraps(method)
    def call(self: _Mirror, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._thread.call(partial(method, self._inner, *arguments, **options))

    return call
