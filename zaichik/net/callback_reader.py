"""Receiving by callbacks: the event loop calls when a socket is readable, or another thread does.

On asyncio, a socket is read in a callback of the event loop. A thread that waits for a reply can
read it sooner itself: it takes the reader out of the loop, waits for the descriptor, and makes the
same call, as often as it likes. Then it puts the reader back. Whatever ends the reading, an error
or the end of the stream, ends it for the task that waits in `wait`, whoever made the call.

Only one of the two may run at a time: the caller sees to that.
"""

# Not compiled: it is as much a part of `SocketStream`, which is not.

import asyncio
from collections.abc import Callable

import anyio


class CallbackReader:
    """Calls back whenever a socket is readable, until the callback returns False.

    Args:
        descriptor: of the socket.
        callback: receives what is there; returns whether there may be more.

    Attributes:
        descriptor: see above.
        is_detached: whether `readable` must be called by hand, and has not ended.
    """

    def __init__(self, descriptor: int, callback: Callable[[], bool]) -> None:
        self.descriptor = descriptor
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self.is_detached = False
        # Not in the future: an error there would be in a cycle with its own traceback, which keeps
        # alive what the connection held until the garbage collector comes by.
        self._failed: list[Exception] = []
        self._loop.add_reader(descriptor, self.readable)

    async def wait(self) -> None:
        """Wait for the end.

        Raises:
            ClosedResourceError: it was closed.
            Exception: what the callback has raised.
        """
        await self._end
        if self._failed:
            raise self._failed.pop()

    def readable(self) -> None:
        """Receive what is there, unless this has ended."""
        # It was cancelled after this call was due.
        if self._end.done():
            return
        try:
            is_more = self._callback()
        except Exception as error:
            self._failed.append(error)
            is_more = False
        if not is_more:
            # Not a byte more is read than was asked for.
            self.stop()
            # The callback may have cancelled the task that waits.
            if not self._end.done():
                self._end.set_result(None)

    def stop(self) -> None:
        """Call back no more."""
        self.is_detached = False
        self._loop.remove_reader(self.descriptor)

    def close(self) -> None:
        """End it: the socket is about to be closed."""
        self.stop()
        if not self._end.done():
            self._failed.append(anyio.ClosedResourceError())
            self._end.set_result(None)

    # -- by another thread -----------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._end.done()

    def detach(self) -> None:
        """Take it out of the event loop."""
        self.is_detached = True
        self._loop.remove_reader(self.descriptor)

    def attach(self) -> None:
        """Put it back, if it was taken out and has not ended."""
        if self.is_detached:
            self.is_detached = False
            self._loop.add_reader(self.descriptor, self.readable)
