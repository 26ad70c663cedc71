"""Signals in the main thread: an exception of their handlers comes where it does no harm.

Python runs the handlers of signals in the main thread, between any two of its instructions, and a
handler may raise: Python's own raises KeyboardInterrupt, others raise SystemExit or a timeout. In
the midst of the client's code, that would leave its state half changed: a batch could be sent
without its number being used up, and the next one would be taken for the same.

So while the main thread runs that code, each handler is replaced by one that only notes the signal.
Its own handler is called as soon as the code waits for something, or has ended. That is what
happens without this client, too, in all code that is not Python.

Nothing is to be done in other threads, where Python runs no handlers.

To replace a handler is to install it anew in the system. What somebody else has put around Python's
own in C is lost by that: `signal.siginterrupt(number, False)`, and `faulthandler.register` for a
signal that has a handler in Python.
"""

import os
import threading

# The functions of `signal`, without its conversions to enums, which take twenty times as long:
# these are called for every request of a program.
from _signal import getsignal, signal, valid_signals  # type: ignore[import-not-found]
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import is_not
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

_NUMBERS = sorted(valid_signals())


class Interrupts:
    """Holds back the handlers of signals; there is one for the process.

    Only the main thread may call it, and its calls are `hold`, then `admit` and `refuse` any number
    of times, then `release`.

    Attributes:
        is_held: between `hold` and `release`.
    """

    def __init__(self) -> None:
        self.is_held = False
        # Whether a handler may raise now; only while `is_held`.
        self._is_refused = False
        self._before: Callable[[], None] = nothing
        self._noted: list[tuple[int, FrameType | None, Handler]] = []
        # What is installed by the program, as `getsignal` returned it for each number.
        self._seen: list[Any] = [None] * len(_NUMBERS)
        # What stands for those of them that are Python's, by the number of their signal.
        self._replacements: dict[int, _Replacement] = {}

    def hold(self) -> None:
        """Hold back every handler from now on."""
        self.is_held = True
        seen = list(map(getsignal, _NUMBERS))
        # Handlers may compare equal, and not be the same.
        if any(map(is_not, seen, self._seen)):
            self._see(seen)
        try:
            for number, replacement in self._replacements.items():
                signal(number, replacement)
        except ValueError:
            # Python runs no handlers in this interpreter.
            self._replacements = {}
        self._is_refused = True

    def _see(self, seen: list[Any]) -> None:
        replacements: dict[int, _Replacement] = {}
        for number, handler in zip(_NUMBERS, seen, strict=True):
            if isinstance(handler, _Replacement):
                # A handler has raised while they were put back. Or a handler that was called while
                # they were held back has replaced another one, and put back what it found.
                replacements[number] = handler
            elif callable(handler):
                replacements[number] = _Replacement(self, handler)
        self._replacements = replacements
        self._seen = seen

    def release(self) -> None:
        """Put the handlers back, and call those whose signals have come.

        Raises:
            BaseException: what a handler raises.
        """
        try:
            self._put_back()
        except BaseException:
            # One that is back already has raised: now the others.
            self._put_back()
            raise
        if self._noted:
            self._call_noted()

    def _put_back(self) -> None:
        # From here on, those that are not back yet are called at once.
        self.is_held = False
        self._is_refused = False
        for number, replacement in self._replacements.items():
            if getsignal(number) is replacement:
                signal(number, replacement.handler)

    def admit(self, before: Callable[[], None]) -> None:
        """Call handlers from now on, and those whose signals have come.

        As soon as one raises, the others are held back again.

        Args:
            before: called before each of them; handlers are held back meanwhile.

        Raises:
            BaseException: what a handler raises.
        """
        self._before = before
        self._is_refused = False
        if self._noted:
            self._call_noted()

    def refuse(self) -> None:
        """Hold back every handler again."""
        self._is_refused = True
        # Else it would keep what has admitted them alive.
        self._before = nothing

    def inherited(self) -> None:
        """Put the handlers back in a process that was forked, by whichever thread."""
        self._noted.clear()
        if self.is_held:
            self.release()

    def come(self, number: int, frame: FrameType | None, handler: Handler) -> None:
        """Call the handler of a signal that has come, or note it."""
        if self._is_refused:
            self._noted.append((number, frame, handler))
            return
        self._call(number, frame, handler)

    def _call(self, number: int, frame: FrameType | None, handler: Handler) -> None:
        try:
            if self.is_held:
                self._is_refused = True
                self._before()
                self._is_refused = False
            handler(number, frame)
            if self._noted and not self._is_refused:
                self._call_noted()
        except BaseException:
            # No other one may raise where this exception is handled.
            self._is_refused = self.is_held
            raise

    def _call_noted(self) -> None:
        while self._noted:
            noted = self._noted.pop(0)
            try:
                self._call(*noted)
            except BaseException:
                if not self.is_held:
                    self._call_noted()
                raise


class _Replacement:
    """What is installed in place of a handler while that is held back."""

    def __init__(self, interrupts: Interrupts, handler: Handler) -> None:
        self._interrupts = interrupts
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.come(number, frame, self.handler)


def nothing() -> None:
    """Do nothing."""


interrupts = Interrupts()
os.register_at_fork(after_in_child=interrupts.inherited)


def is_main_thread() -> bool:
    """Returns whether handlers of signals run in this thread."""
    return get_ident() == threading.main_thread().ident


@contextmanager
def held_back() -> Iterator[None]:
    """Hold handlers back for a block, unless they are already.

    Such a block must not wait for the broker, or for the program.

    In the main thread, an exception of a handler comes when the block has ended.
    """
    if not is_main_thread() or interrupts.is_held:
        yield
        return
    try:
        interrupts.hold()
        yield
    finally:
        interrupts.release()
