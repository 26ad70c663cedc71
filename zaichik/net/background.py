"""Tasks that run in the background of an `async with` block and end with it.

A task group does that already, but wraps whatever the block raises into an exception group: `except
TopicExists` around an `async with zaichik.connect()` would never match. Here the block's own exception is
raised as it is. A failure *in the background* still comes as a group: the block did not raise it.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup


class BackgroundTasks:
    """A task group for the background: `async with BackgroundTasks() as tasks: tasks.group.start_soon(...)`.

    All tasks are cancelled when the block ends.
    """

    group: TaskGroup

    async def __aenter__(self) -> Self:
        """Enter the task group."""
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Cancel the tasks and wait for them."""
        self.group.cancel_scope.cancel()
        if error is None or _is_cancellation(error):
            return await self.group.__aexit__(kind, error, traceback)
        # Hidden from the group, which would wrap it; raised again by `async with`, since we return None.
        await self.group.__aexit__(None, None, None)
        return None


async def every(seconds: float, action: Callable[[], object]) -> None:
    """Call `action` every `seconds`, until cancelled or until it raises."""
    while True:
        await anyio.sleep(seconds)
        action()


def _is_cancellation(error: BaseException) -> bool:
    """Returns whether the group must see the exception: the cancellation may be its own, or that of an outer scope."""
    cancelled = anyio.get_cancelled_exc_class()
    return isinstance(error, cancelled) or (
        isinstance(error, BaseExceptionGroup) and error.subgroup(cancelled) is not None
    )
