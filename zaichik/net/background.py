"""Tasks that run in the background of an `async with` block and end with it.

A task group does that already, but wraps whatever the block raises into an exception group: `except
TopicExists` around an `async with zaichik.connect()` would never match. Here the block's own
exception is raised as it is. A failure *in the background* still comes as a group: the block did
not raise it.

A task group belongs to the task that has entered it: no other may leave it, and of two in a task,
the first must be left last. Programs do otherwise: a fixture is set up and torn down in different
tasks, and a generator is closed by the event loop. So what a program enters, such as a client, has
its task group in a task of its own, which waits until the block ends: `DetachedTasks`.
"""

# Not compiled: compiled, a block that another task leaves, or whose background fails, ends in a
# cancellation instead. It runs once in a connection, so there is nothing to gain.

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from types import TracebackType
from typing import Any, Protocol, Self
from weakref import WeakKeyDictionary

import anyio
from anyio.abc import TaskGroup


class BackgroundTasks:
    """A task group for the background.

    All tasks are cancelled when the block ends:

        async with BackgroundTasks() as tasks:
            tasks.group.start_soon(...)
    """

    group: TaskGroup

    async def __aenter__(self) -> Self:
        """Enter the task group."""
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Cancel the tasks and wait for them."""
        self.group.cancel_scope.cancel()
        if error is None or _is_cancellation(error):
            return await self.group.__aexit__(kind, error, traceback)
        # Hidden from the group, which would wrap it; raised again by `async with`, since we return
        # None.
        await self.group.__aexit__(None, None, None)
        return None


class DetachedTasks:
    """A task group for the background of a block that any task may leave, in any order.

    All tasks are cancelled when the block ends. A failure in the background ends the block, as long
    as the task that has entered it is there, and is raised by leaving it.

    On trio, the order is free, but another task may leave the block only if no scope is around it
    in the task that has entered it: see `_TrioTask`.
    """

    group: TaskGroup

    def __init__(self) -> None:
        self._opened = anyio.Event()
        self._leaving = anyio.Event()
        self._ended = anyio.Event()
        self._failure: BaseException | None = None
        self._entering: _EnteringTask

    async def __aenter__(self) -> Self:
        """Enter the task group, in a task of its own."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._entering = _TrioTask()
        else:
            self._entering = _AsyncioTask()
        self._entering.start(self._run)
        try:
            with anyio.CancelScope(shield=True):
                await self._opened.wait()
        except BaseException:
            self._leaving.set()
            raise
        self._entering.enter()
        return self

    async def _run(self) -> None:
        try:
            async with anyio.create_task_group() as self.group:
                self._opened.set()
                await self._leaving.wait()
                self.group.cancel_scope.cancel()
        except BaseException as error:
            # The event loop itself ends.
            if _is_cancellation(error):
                raise
            self._failure = error
            if not self._leaving.is_set():
                self._entering.interrupt()
        finally:
            self._ended.set()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        """Cancel the tasks and wait for them."""
        self._leaving.set()
        try:
            with anyio.CancelScope(shield=True):
                await self._ended.wait()
        finally:
            await self._entering.leave()
        if self._failure is not None:
            raise self._failure
        return None


class _EnteringTask(Protocol):
    """The task that enters a block."""

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task that belongs to the event loop."""

    def enter(self) -> None:
        """Note that the block begins."""

    def interrupt(self) -> None:
        """Cancel what the task does in the block, unless it has ended."""

    async def leave(self) -> None:
        """Note that the block has ended, in whichever task, and take back the cancellation."""


class _AsyncioTask:
    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._is_interrupted = False
        # The event loop does not keep it alive.
        self._started: asyncio.Task[None] | None = None

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._started = asyncio.get_running_loop().create_task(function())

    def enter(self) -> None:
        pass

    def interrupt(self) -> None:
        if self._task is not None and not self._task.done():
            self._is_interrupted = True
            self._task.cancel()

    async def leave(self) -> None:
        task = asyncio.current_task()
        if not self._is_interrupted or task is None or task is not self._task:
            return
        # It is delivered here, if the block did not wait for anything any more.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.uncancel()


class _TrioTask:
    """Trio cancels a task by a scope that the task has entered, and must leave itself.

    Without one, a failure could not end the block: a program would go on with a broker whose disk
    has failed. So if another task leaves the block, the scope stays, until its own task leaves a
    block that was entered before, or ends. A scope or nursery around it can't be left meanwhile,
    and anyio has one around each task. Trio's own rules forbid scopes in generators, for the same
    reason.
    """

    def __init__(self) -> None:
        # Not needed, and perhaps not there, on asyncio.
        from trio.lowlevel import current_task

        # Those of the same task, in the order in which they were entered.
        self._scopes = _trio_scopes.setdefault(current_task(), [])
        self.scope = anyio.CancelScope()
        self.is_left = False

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        from trio.lowlevel import spawn_system_task

        spawn_system_task(function, context=copy_context())

    def enter(self) -> None:
        self.scope.__enter__()
        self._scopes.append(self)

    def interrupt(self) -> None:
        self.scope.cancel()

    async def leave(self) -> None:
        from trio.lowlevel import current_task

        self.is_left = True
        if _trio_scopes.get(current_task()) is not self._scopes:
            return
        # Of those that were left in another order, or by other tasks, the last is left first.
        while self._scopes and self._scopes[-1].is_left:
            self._scopes.pop().scope.__exit__(None, None, None)


_trio_scopes: WeakKeyDictionary[Any, list[_TrioTask]] = WeakKeyDictionary()


async def every(seconds: float, action: Callable[[], object]) -> None:
    """Call `action` every `seconds`, until cancelled or until it raises."""
    while True:
        await anyio.sleep(seconds)
        action()


def _is_cancellation(error: BaseException) -> bool:
    """Returns whether the group must see the exception.

    The cancellation may be the group's own, or that of an outer scope.
    """
    cancelled = anyio.get_cancelled_exc_class()
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(cancelled) is not None
    return isinstance(error, cancelled)
