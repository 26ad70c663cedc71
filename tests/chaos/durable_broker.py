"""A broker with durable topics that is killed, and starts again where it was."""

import signal
from contextlib import ExitStack
from pathlib import Path

from served import GUARD, Served, served

from zaichik.learn.server import free_port


class DurableBroker:
    """The broker, which runs since `start`.

    Args:
        folder: of its topics.

    Attributes:
        kills: how often it was killed, also while it was starting.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kills = 0
        self._stack = ExitStack()
        self._served: Served | None = None

    @property
    def port(self) -> int:
        """Where it is, each time."""
        assert self._served is not None
        return self._served.port

    def start(self) -> None:
        """Start it, at the place where it was."""
        port = free_port() if self._served is None else self.port
        options = ("--data", str(self.folder), "--port", str(port))
        self._served = self._stack.enter_context(served(*options))

    def kill(self) -> None:
        """End it without a word."""
        assert self._served is not None
        self._served.signal(signal.SIGKILL)
        self._served.process.wait(GUARD)
        self._stack.close()
        self.kills += 1

    def close(self) -> None:
        """End it in good order, if it runs. Its sums must be right."""
        self._stack.close()
