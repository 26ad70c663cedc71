"""Everything is caught, cancellations included: this task cannot be ended from outside any more.

Fails at: a cancellation goes on its way
"""

from collections.abc import Awaitable, Callable


async def guarded(conversation: Callable[[], Awaitable[None]], failures: list[BaseException]) -> None:
    """Run a conversation, and keep whatever it raises."""
    try:
        await conversation()
    except BaseException as error:
        failures.append(error)
