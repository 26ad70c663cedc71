"""A call of the client, driven by the thread that makes it, without a turn of the event loop.

A coroutine is a function that can be left and entered again. Who enters it is not its business: an
event loop does, and so can a thread, by `send(None)`. What the coroutine waits for is a future, set
by the reply. The thread with the baton may do anything that the loop's own thread may (see
`baton`), so it sends the request itself, and then reads the socket itself until the future is set:
no other thread has to wake up for that.

    publish ──▶ send(None) ──▶ poll, without the baton ──▶ receive ──▶ send(None) ──▶ result
                 request                                    reply

For that, the first call takes the socket out of the event loop. As long as calls come, it stays
out. `ATTENDED_SECONDS` after the last one, at most twice as long, the loop reads again, so that a
program may take as long as it likes between two calls. The loop reads as well while something waits
there: a subscription that is read, or whatever else is not driven by its caller.

Of several threads that wait, one reads, for all of them; the others sleep until their futures are
set. Once it has its own reply, another one goes on, or the loop.

If the caller is interrupted (Ctrl-C raises `KeyboardInterrupt` in the main thread), the coroutine
is cancelled, as a task would be; see `interrupts`.

Only coroutines that wait for nothing but such futures can be driven: a scope or a timer of anyio's
belongs to a task.
"""

import os
import select
import threading
from _thread import allocate_lock, get_ident
from asyncio import CancelledError, Future, _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError as CallCancelled
from contextlib import suppress
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from zaichik.client.blocking.interrupts import held_back, interrupts, nothing
from zaichik.client.blocking.thread import LoopThread
from zaichik.client.blocking.waiting import SINGLE_WAIT_SECONDS
from zaichik.client.connection import BrokerConnection
from zaichik.net.callback_reader import CallbackReader

# Seconds without a call after which the event loop reads the socket again; up to twice as many.
ATTENDED_SECONDS = 0.05

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Driver:
    """Drives the calls of one client.

    Any number of threads may call it.

    Args:
        thread: the one whose event loop the client runs in.
        connection: the client's.

    Raises:
        OSError: there are no descriptors left.
    """

    def __init__(self, thread: LoopThread, connection: BrokerConnection) -> None:
        self._thread = thread
        self._baton = thread.baton
        self._loop = thread.loop
        self._transport = connection.transport
        self._attendant = _Attendant()
        # How many calls were begun, and how many when the loop has looked last.
        self._calls = 0
        self._seen = 0
        # Whether the loop is going to look.
        self._is_watched = False
        self._is_closed = False
        thread.on_crossing = self._attach

    def close(self) -> None:
        """Leave the socket to the event loop from now on."""
        # The baton may have been somebody's when the process was forked.
        if self._is_closed or self._thread.problem:
            return
        if self._thread.must_not_wait:
            self._close()
            return
        with held_back():
            self._baton.take()
            self._close()
            self._baton.give()

    def _close(self) -> None:
        self._is_closed = True
        self._thread.on_crossing = nothing
        if self._attendant.thread:
            self._attendant.wake()
        else:
            self._attendant.attach()
            self._attendant.close()

    # -- calls -----------------------------------------------------------------------------------

    def call(
        self,
        function: Callable[Arguments, Coroutine[Any, Any, Result]],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """Returns what a coroutine function returns, which waits for replies only.

        An exception while waiting cancels it.
        """
        # `is_main_thread` and `must_not_wait`, without calls for each request.
        this_thread = get_ident()
        is_main = this_thread == threading.main_thread().ident
        # The event loop refuses it.
        is_busy = this_thread in (self._baton.owner, self._baton.home)
        # A handler calls, while this thread waits in another call.
        is_nested = is_main and interrupts.is_held
        if not is_busy and not is_nested and self._is_possible():
            try:
                if is_main:
                    interrupts.hold()
                self._take()
                try:
                    # It may have been lost, or closed, just now.
                    if self._is_possible():
                        return self._drive(function(*arguments, **options), is_main=is_main)
                finally:
                    self._give()
            finally:
                if is_main:
                    interrupts.release()
        # The event loop does it, when there is a socket again.
        return self._thread.call(partial(function, *arguments, **options))

    def _is_possible(self) -> bool:
        """Returns whether there is a socket to drive a call over."""
        return self._transport.is_open and not self._is_closed

    def _drive(self, coroutine: Coroutine[Any, Any, Result], *, is_main: bool) -> Result:
        self._calls += 1
        while True:
            # Coroutines ask for the loop that runs them. The program may have one of its own in
            # this thread.
            outer = _get_running_loop()
            _set_running_loop(self._loop)
            try:
                future = coroutine.send(None)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            finally:
                _set_running_loop(outer)
            # Without a future, it only lets others have their turn.
            if future is None:
                continue
            try:
                self._wait(future, is_main=is_main)
            except BaseException:
                # Whatever it makes of that.
                with suppress(CancelledError, StopIteration):
                    coroutine.throw(CancelledError())
                raise

    def _take(self) -> None:
        self._baton.take()
        self._transport.is_driven = True

    def _give(self) -> None:
        try:
            self._transport.end_turn()
        finally:
            self._baton.give()

    # -- waiting ---------------------------------------------------------------------------------

    def _wait(self, future: "Future[Any]", *, is_main: bool) -> None:
        """Wait until the future is set."""
        while not future.done():
            if self._baton.is_over:
                raise CallCancelled
            reader = self._reader()
            if reader is None:
                self._sleep(future, is_main=is_main)
            else:
                self._read(reader, future, is_main=is_main)

    def _pause(self, wait: Callable[[], None], *, is_main: bool) -> None:
        """Wait without the baton. Here, and nowhere else, a handler of a signal may raise."""
        try:
            self._give()
            # Two blocks, because it may do so before the inner one has refused it.
            try:
                if is_main:
                    interrupts.admit(self._stop_reading)
                wait()
            finally:
                if is_main:
                    interrupts.refuse()
        finally:
            self._take()

    def _sleep(self, future: "Future[Any]", *, is_main: bool) -> None:
        sleeper = _Sleeper(future, self._thread)
        self._baton.waiters.append(sleeper)
        try:
            self._pause(sleeper.wait, is_main=is_main)
        except BaseException:
            # It may have been woken to read.
            self._baton.waiters.remove(sleeper)
            if not self._attendant.thread:
                self._pass_on()
            raise
        self._baton.waiters.remove(sleeper)

    def _read(self, reader: CallbackReader, future: "Future[Any]", *, is_main: bool) -> None:
        attendant = self._attendant
        attendant.begin(future)
        self._baton.waiters.append(attendant)
        try:
            while reader.is_detached and not self._is_closed:
                self._pause(attendant.wait, is_main=is_main)
                if reader.is_detached:
                    reader.readable()
                if future.done():
                    return
        finally:
            self._baton.waiters.remove(attendant)
            # If this process was forked meanwhile, the socket and what wakes its reader are the
            # other one's.
            if not self._thread.problem:
                attendant.end()
                self._pass_on()
                if self._is_closed:
                    attendant.close()

    def _pass_on(self) -> None:
        """Have somebody else read: a thread that waits, or the event loop."""
        if self._is_closed:
            self._attach()
            return
        for sleeper in self._baton.waiters:
            if not sleeper.is_due:
                sleeper.wake()
                return
        if self._thread.crossings:
            self._attach()

    # -- who reads -------------------------------------------------------------------------------

    def _reader(self) -> CallbackReader | None:
        """Returns what this thread may read with, out of the event loop; None if others read."""
        attendant = self._attendant
        if attendant.thread or self._is_closed:
            return None
        reader = attendant.reader
        if reader is not None and reader.is_detached:
            return reader
        reader = self._transport.callback_reader
        if reader is None or reader.is_over or self._thread.crossings:
            return None
        attendant.detach(reader)
        if not self._is_watched:
            self._is_watched = True
            self._loop.call_soon(self._watch)
        return reader

    def _watch(self) -> None:
        self._seen = self._calls
        self._loop.call_later(ATTENDED_SECONDS, self._attach_if_quiet)

    def _attach_if_quiet(self) -> None:
        """Have the event loop read again, if no call came lately."""
        if self._attendant.thread or self._seen != self._calls:
            self._watch()
            return
        self._is_watched = False
        self._attach()

    def _attach(self) -> None:
        """Have the event loop read, unless a thread does."""
        if not self._attendant.thread:
            self._attendant.attach()

    def _stop_reading(self) -> None:
        """Have the event loop read if this thread does: the handler of a signal is to run in it.

        It may take its time, and may wait for what another thread of the program does.
        """
        if self._attendant.thread == get_ident():
            self._take()
            self._attendant.attach()
            self._give()


class _Attendant:
    """The thread that reads the socket: it waits for the descriptor, and to be woken.

    Attributes:
        thread: it; 0: none does.
        reader: of the socket that was taken out of the event loop last.
    """

    def __init__(self) -> None:
        self.thread = 0
        self.reader: CallbackReader | None = None
        self._future: Future[Any]
        self._poll = select.poll()
        self._is_woken = False
        # A byte comes out of the one when something is written to the other.
        self._woken, self._waking = os.pipe()

    def close(self) -> None:
        """Close the descriptors. No thread reads, and none will."""
        os.close(self._woken)
        os.close(self._waking)

    def detach(self, reader: CallbackReader) -> None:
        """Take a socket out of the event loop."""
        reader.detach()
        self.reader = reader
        self._poll = select.poll()
        self._poll.register(reader.descriptor, select.POLLIN)
        self._poll.register(self._woken, select.POLLIN)

    def attach(self) -> None:
        """Put the socket back, if it is out."""
        if self.reader is not None:
            self.reader.attach()

    def begin(self, future: "Future[Any]") -> None:
        """Begin to read, in this thread, until the future is set."""
        self.thread = get_ident()
        self._future = future

    def end(self) -> None:
        """End it."""
        self.thread = 0
        if self._is_woken:
            self._is_woken = False
            os.read(self._woken, 1)

    @property
    def is_due(self) -> bool:
        """See `Waiter`."""
        is_out = self.reader is not None and self.reader.is_detached
        return self._future.done() or not is_out

    def wake(self) -> None:
        """See `Waiter`."""
        if not self._is_woken:
            self._is_woken = True
            os.write(self._waking, b"!")

    def wait(self) -> None:
        """Wait until there is something to read, or until woken, or for a single wait."""
        self._poll.poll(SINGLE_WAIT_SECONDS * 1000)


class _Sleeper:
    """A thread that waits while another one reads."""

    def __init__(self, future: "Future[Any]", thread: LoopThread) -> None:
        self._future = future
        self._baton = thread.baton
        self._is_woken = False
        self._lock = allocate_lock()
        self._lock.acquire()

    @property
    def is_due(self) -> bool:
        """See `Waiter`."""
        return self._future.done() or self._baton.is_over

    def wake(self) -> None:
        """See `Waiter`."""
        if not self._is_woken:
            self._is_woken = True
            self._lock.release()

    def wait(self) -> None:
        """Wait until woken."""
        while not self._lock.acquire(timeout=SINGLE_WAIT_SECONDS):
            pass


class Caller(Protocol):
    """Makes the calls of a client: the thread that calls drives them, or the event loop does."""

    def call(
        self,
        function: Callable[Arguments, Coroutine[Any, Any, Result]],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """Returns what a coroutine function returns, which waits for replies only."""
        ...


class LoopCaller:
    """Makes the calls of several clients of one thread: its event loop drives all of them."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread

    def call(
        self,
        function: Callable[Arguments, Coroutine[Any, Any, Result]],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Result:
        """See `Caller`."""
        return self._thread.call(partial(function, *arguments, **options))


class _Driven(Protocol):
    """An object that mirrors an asynchronous one."""

    _driver: Caller
    _inner: Any


def driving(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Returns a method that calls this one of the object mirrored, and drives it."""

    @wraps(method)
    def call(self: _Driven, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._driver.call(method, self._inner, *arguments, **options)

    return call
