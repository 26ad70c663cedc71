"""One event loop, and several threads that run its code by turns: whoever holds the baton.

    the loop's thread    ██ holds it ██│ selects │██ holds it ██│ selects …
    another thread                     │██ holds it ██│

The loop's thread holds the baton whenever it runs anything. It gives it away while it waits for
sockets and timers (in `select`), and takes it back before it goes on. So the thread with the baton
may touch all that belongs to the loop, as a callback of it may, and needs no lock for anything.

What the loop would not notice while it waits, it is told: `call_soon` of another thread wakes it.

A thread that waits for something, without the baton, is a `Waiter`. Giving the baton away looks
whether what it waits for has happened, and wakes it.
"""

import asyncio
from _thread import LockType, allocate_lock, get_ident
from collections.abc import Callable
from contextvars import Context
from selectors import DefaultSelector, SelectorKey
from typing import Protocol, TypeVarTuple, Unpack

Arguments = TypeVarTuple("Arguments")


class Waiter(Protocol):
    """A thread that waits, without the baton."""

    @property
    def is_due(self) -> bool:
        """Whether it is to go on."""

    def wake(self) -> None:
        """Have it go on. If it was woken before, this does nothing."""


class Baton:
    """The right to run the event loop's code.

    Attributes:
        owner: the thread that has it; 0: none.
        home: the event loop's own thread.
        waiters: see above.
        is_over: the event loop has ended.
    """

    def __init__(self) -> None:
        self.owner = 0
        self.home = 0
        self.waiters: list[Waiter] = []
        self.is_over = False
        self._lock: LockType = allocate_lock()

    def take(self) -> None:
        """Wait until no other thread has it, and take it."""
        self._lock.acquire()
        self.owner = get_ident()

    def give(self) -> None:
        """Give it away, and wake those for whom something has happened meanwhile."""
        for waiter in self.waiters:
            if waiter.is_due:
                waiter.wake()
        self.owner = 0
        self._lock.release()

    def end(self) -> None:
        """Give it away for the last time: the event loop has ended.

        Another thread may get the number of the loop's own.
        """
        self.is_over = True
        self.home = 0
        self.give()

    def inherited(self) -> None:
        """Be free in a process that was forked while another thread had it."""
        if self.owner != get_ident():
            self.owner = 0
            self._lock = allocate_lock()


class _Selector(DefaultSelector):
    """Waits without the baton."""

    def __init__(self, baton: Baton) -> None:
        super().__init__()
        self._baton = baton

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self._baton.give()
        try:
            events = super().select(timeout)
        finally:
            self._baton.take()
        # Another thread may have removed one meanwhile, and may even have added it again.
        current = self.get_map()
        return [(key, mask) for key, mask in events if current.get(key.fileobj) is key]


class BatonLoop(asyncio.SelectorEventLoop):
    """An event loop whose thread has the baton, except in `select`; made in that thread."""

    def __init__(self, baton: Baton) -> None:
        super().__init__(_Selector(baton))
        self._baton = baton
        baton.home = get_ident()

    def call_soon(
        self,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """See `asyncio`. Called by another thread, which has the baton, it wakes the loop's."""
        if self._baton.owner != self._baton.home:
            return self.call_soon_threadsafe(callback, *args, context=context)
        return super().call_soon(callback, *args, context=context)
