"""Ctrl-C, and the signals that do the same: SIGTERM from a supervisor, SIGHUP from a terminal.

A command saves on Ctrl-C what it would lose. Services and containers are stopped by SIGTERM, and a
closed terminal sends SIGHUP, so both are passed on to whatever handles SIGINT at that moment: an
event loop, a command that blocks its loop, or the interpreter. Without a handler, the first process
of a container would not even notice them.

A command that treats them in another way installs handlers of its own (`signals.stopping`).

An event loop's handler raises nothing: it cancels a task, or wakes the loop. If the task that runs
at that moment then blocks the loop, nothing comes of the signal. So it is remembered as well
(`tracked`), and code that is about to block the loop looks (`came`).
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

AS_CTRL_C = (signal.SIGTERM, signal.SIGHUP)


class _Seen:
    """What has come since the command began.

    No lock protects it: it is written by handlers, which run in the main thread.
    """

    signal = False
    # Ends the command's task; None while there is none, or it blocks its loop.
    cancel: Callable[[], object] | None = None


@contextmanager
def like_ctrl_c() -> Iterator[None]:
    """Have SIGTERM and SIGHUP do during the block what Ctrl-C does.

    A signal that was ignored when the program started stays ignored (nohup). Only the main thread
    can handle signals; elsewhere, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Seen.signal = False
    # An event loop that is left by a signal may end in an order in which nobody puts this back.
    of_ctrl_c = signal.getsignal(signal.SIGINT)
    before = {}
    for number in AS_CTRL_C:
        if signal.getsignal(number) is signal.SIG_DFL:
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        # None: whatever it is, it was not installed by Python.
        if of_ctrl_c is not None:
            signal.signal(signal.SIGINT, of_ctrl_c)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGHUP:
        # A terminal that is closed sends it twice: by its shell, and by the kernel. The second one
        # does not mean "at once", as a second Ctrl-C does.
        signal.signal(number, signal.SIG_IGN)
    if _is_ignored(signal.SIGINT):
        # A script's `zaichik record t &`: its Ctrl-C means others, but this signal means us. Then
        # the event loop has no handler, and an exception could come in the midst of any task.
        if _Seen.cancel is None or _Seen.signal:
            raise KeyboardInterrupt
        remember()
        _Seen.cancel()
        return
    signal.raise_signal(signal.SIGINT)


@contextmanager
def tracked(*numbers: signal.Signals) -> Iterator[None]:
    """Remember a signal that an event loop handles during the block; the loop handles it, too.

    Args:
        numbers: of the signals; without any, SIGINT, to which the others are passed on.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in numbers or (signal.SIGINT,):
            handler = signal.getsignal(number)
            if callable(handler):
                before[number] = handler

    def pass_on(number: int, frame: FrameType | None) -> None:
        remember()
        before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, pass_on)
    try:
        yield
    finally:
        for number, handler in before.items():
            # A loop that has removed a handler of its own has removed ours with it.
            if signal.getsignal(number) is pass_on:
                signal.signal(number, handler)


def remember() -> None:
    """Note that the command is to end."""
    _Seen.signal = True


def came() -> bool:
    """Returns whether a signal came that is to end the command."""
    return _Seen.signal


@contextmanager
def at_once() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt during the block, as in a program without an event loop.

    For code that blocks the loop: the loop's own handler would only cancel a task, which the block
    would never notice. The same holds for SIGTERM and SIGHUP where the loop has their handlers.
    What is ignored stays so.

    Raises:
        KeyboardInterrupt: also if a signal came before, and the loop had no time to act on it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    cancel = _Seen.cancel
    try:
        _Seen.cancel = None
        for number in (signal.SIGINT, *AS_CTRL_C):
            handler = signal.getsignal(number)
            # `_interrupt` passes a signal on to the handler of SIGINT, which is ours.
            if callable(handler) and handler is not _interrupt:
                before[number] = handler
                signal.signal(number, signal.default_int_handler)
        # Not before the handlers: a signal that comes after this line raises by itself.
        if came():
            raise KeyboardInterrupt
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _Seen.cancel = cancel


@contextmanager
def cancelling(cancel: Callable[[], object]) -> Iterator[None]:
    """Have a signal that would be Ctrl-C, were that not ignored, end the command's task.

    Args:
        cancel: cancels the task; a handler calls it.

    Raises:
        KeyboardInterrupt: in the place of the cancellation.
    """
    # Not at the top: help pages do without an event loop.
    from asyncio import CancelledError

    _Seen.cancel = cancel
    try:
        yield
    except CancelledError:
        if came() and _is_ignored(signal.SIGINT):
            raise KeyboardInterrupt from None
        raise
    finally:
        _Seen.cancel = None


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Returns a function that says whether Ctrl-C was pressed in the block, which goes on.

    A second one raises KeyboardInterrupt. Where Ctrl-C is ignored, it stays so, and the others of
    `like_ctrl_c` are noted.
    """
    numbers = [signal.SIGINT]
    if _is_ignored(signal.SIGINT):
        numbers = [number for number in AS_CTRL_C if signal.getsignal(number) is _interrupt]
    asked = []

    def ask(number: int, _: FrameType | None) -> None:
        asked.append(True)
        for each in numbers:
            signal.signal(each, signal.default_int_handler)
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)  # as in `_interrupt`

    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            if not _is_ignored(number):
                signal.signal(number, handler)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
