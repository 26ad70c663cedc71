"""Exercise 5.1: let nobody else hear of it."""

from collections.abc import Awaitable, Callable


async def guarded(conversation: Callable[[], Awaitable[None]], failures: list[Exception]) -> None:
    """Run a conversation. If it fails, put the exception into the list, and return as if all were well.

    A cancellation is no failure: it goes on its way.
    """
    raise NotImplementedError("this is yours to write")
