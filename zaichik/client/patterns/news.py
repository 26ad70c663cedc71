"""Something may have come, again and again: for what waits for several topics at once."""

from zaichik.net.wakeup import Wakeup


class News:
    """An event that is set again and again; a task that waits looks for itself what has come."""

    def __init__(self) -> None:
        self._wakeup = Wakeup()

    def set(self) -> None:
        """Wake the tasks that wait."""
        self._wakeup.set()

    async def wait(self) -> None:
        """Wait until it is set once more."""
        if self._wakeup.is_set():
            self._wakeup = Wakeup()
        await self._wakeup.wait()
