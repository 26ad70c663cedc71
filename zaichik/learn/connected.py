"""A broker that runs already, whoever started it."""

from contextlib import AbstractAsyncContextManager

from zaichik.learn.failure import Skipped
from zaichik.learn.trial import Instance, Restartable, Target


class Connected:
    """A host that can neither start nor end anything.

    Args:
        target: where the broker listens.
    """

    def __init__(self, target: Target) -> None:
        self._target = target

    async def ready(self) -> Target:
        """Where it listens; whether it does, checks will tell."""
        return self._target

    async def aftermath(self) -> tuple[str, str]:
        """Nothing is known of its end, nor of what it writes."""
        return "", ""

    def restartable(self) -> AbstractAsyncContextManager[Restartable]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn starts itself, and again, by a learn.toml")

    def fresh(self) -> AbstractAsyncContextManager[Instance]:
        """There is only this one.

        Raises:
            Skipped: always.
        """
        raise Skipped("this needs a server that learn starts itself, by a learn.toml")
