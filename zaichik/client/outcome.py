"""What became of a request, for those who wait for it."""

from collections.abc import Callable

import anyio

from zaichik_protocol import Frame

# Makes the error that tells why the connection is gone: a new one for each who asks, because an exception
# that is raised in several tasks would gather all their tracebacks.
Lost = Callable[[], Exception]
OnOutcome = Callable[[Frame | Lost], None]


class Outcome:
    """What became of a request, for any number of tasks to wait for: the reply, or the loss of the connection.

    Args:
        told: called with it at once; the tasks run a turn later.
    """

    _value: Frame | Lost

    def __init__(self, told: OnOutcome | None = None) -> None:
        self._told = told
        self._settled = anyio.Event()

    def settle(self, outcome: Frame | Lost) -> None:
        """It is known now."""
        if self._told is not None:
            self._told(outcome)
        self._value = outcome
        self._settled.set()

    async def wait(self) -> Frame | Lost:
        """The outcome, as soon as it is known."""
        await self._settled.wait()
        return self._value
