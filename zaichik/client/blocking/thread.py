"""The thread of the event loop, as seen from the program's threads.

A call runs as a task of the loop while its caller waits. If the caller is interrupted (Ctrl-C
raises `KeyboardInterrupt` in the main thread, whatever it waits for), the task is cancelled, as a
task of an asynchronous program would be.

Lone requests do not cross: see `driver`. While anything that has crossed waits, the event loop
reads the socket, and the calls that are driven wait for it; `crossings` counts what waits.

A program may end before its blocks do: one that uses `ExitStack` and forgets to close it, or one
with a generator that was not exhausted. The blocks are then left when the interpreter exits, while
the thread still runs. Python leaves generators later than that, when the thread has stopped for
good, and would wait for it for ever. In a process that was forked there is no thread at all: calls
are errors, and leaving a block does nothing.
"""

import atexit
from _thread import get_ident
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial, wraps
from threading import Thread
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from zaichik.client.blocking.baton import Baton, BatonLoop
from zaichik.client.blocking.interrupts import held_back, nothing
from zaichik.client.blocking.waiting import join, result_of
from zaichik.client.connection import CLOSE_SECONDS
from zaichik.client.forking import ADVICE, unwatch, watch

# How long what is open may take to end when the interpreter exits: a producer gathers, flushes, and
# the connection is closed, each for `CLOSE_SECONDS` at most.
EXIT_SECONDS = 4 * CLOSE_SECONDS

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# What runs in the thread, once it does: what can be called, the event loop, and what cancels all.
Started = Future[tuple[BlockingPortal, BatonLoop, anyio.CancelScope]]


class LoopThread:
    """An event loop in a thread of its own; `running` starts one.

    Any number of threads may call it.

    Attributes:
        baton: see there.
        loop: the event loop.
        problem: why nothing can be called any more, and nothing is to be waited for; "" if it can:
            it is a thread of this process, and the interpreter does not exit.
    """

    def __init__(self) -> None:
        self.baton = Baton()
        # In the loop's own thread: what waits for something there, on behalf of other threads.
        self.crossings = 0
        self.on_crossing: Callable[[], None] = nothing
        self._portal: BlockingPortal
        # The context managers that were entered and not left, in order.
        self._entered: dict[Future[None], _Leaving] = {}
        self.problem = ""
        started: Started = Future()
        self._thread = Thread(
            target=_run, args=(self.baton, started), daemon=True, name="zaichik client"
        )
        self._thread.start()
        self._portal, self.loop, self._scope = result_of(started)
        _running[id(self)] = self
        watch(self.inherited)
        watch(self.baton.inherited)

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Returns a thread that ends with the block, as does everything that still runs in it."""
        thread: Self | None = None
        try:
            with held_back():
                thread = cls()
            yield thread
            thread.stop()
        except BaseException:
            # Also where it strikes while the thread is being stopped.
            if thread is not None:
                thread.stop(cancels=True)
            raise

    def stop(self, *, cancels: bool = False) -> None:
        """Wait until the thread has ended.

        Args:
            cancels: whether to cancel what still runs in it, instead of waiting for that.
        """
        _running.pop(id(self), None)
        unwatch(self.inherited)
        unwatch(self.baton.inherited)
        if self.problem:
            return
        if self.must_not_wait:
            # As in `_leave`: it will end by itself.
            self.loop.call_soon(self.loop.create_task, self._portal.stop(cancels))
            return
        # It is an error if the event loop has failed, or if this is the second attempt: the first
        # was interrupted, perhaps because something never ends.
        try:
            result_of(self._portal.start_task_soon(self._portal.stop, cancels))
        except RuntimeError:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._scope.cancel)
        join(self._thread)

    def exit(self) -> None:
        """Leave what was entered, the last first, as if it had failed: the interpreter exits.

        The thread stays, and is frozen with all others: some Pythons can't end an event loop now,
        because that takes a new thread.
        """
        for task, leaving in reversed([*self._entered.items()]):
            leaving.error = _Exiting()
            with suppress(RuntimeError):
                self._portal.start_task_soon(leaving.event.set)
            wait([task], EXIT_SECONDS)
            task.cancel()
        self.problem = "the interpreter exits"

    def inherited(self) -> None:
        """See `forking`."""
        self.problem = ADVICE
        _running.pop(id(self), None)

    @property
    def must_not_wait(self) -> bool:
        """Whether this very thread is in the midst of a call, or is the event loop's own.

        The garbage collector may run at any moment, and leave a block that was forgotten.
        """
        return get_ident() in (self.baton.owner, self.baton.home)

    def start(self, function: Callable[[], Awaitable[Result]]) -> "Future[Result]":
        """Call a coroutine function in the loop, without waiting for it.

        Raises:
            RuntimeError: the thread has ended, or the interpreter exits, or the thread is one of
                the process that this one was forked from.
        """
        if self.problem:
            raise RuntimeError(self.problem)
        if self.must_not_wait:
            raise RuntimeError("this is called in the midst of another call of this client")
        return self._portal.start_task_soon(self._cross, function)

    def start_soon(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call a coroutine function in the loop, of which nobody will ask what came of it.

        Unlike `start`, it may be called in the midst of another call, such as by a handler of the
        log.

        Raises:
            RuntimeError: as `start`.
        """
        if not self.problem and self.must_not_wait:
            self.loop.call_soon(self._create_task, function)
            return
        self.start(function)

    def _create_task(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop.create_task(self._cross(function))

    async def _cross(self, function: Callable[[], Awaitable[Result]]) -> Result:
        self.cross()
        try:
            return await function()
        finally:
            self.crossings -= 1

    def cross(self) -> None:
        """Note that something waits in the loop from now on, until `crossings` is lowered again."""
        self.crossings += 1
        self.on_crossing()

    def call(self, function: Callable[[], Awaitable[Result]]) -> Result:
        """Returns what a coroutine function returns, called in the loop.

        An exception while waiting cancels it.
        """
        future: Future[Result] | None = None
        try:
            with held_back():
                future = self.start(function)
            return result_of(future)
        except BaseException:
            if future is not None:
                future.cancel()  # does nothing if the exception is the function's own
            raise

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[Result]) -> Iterator[Result]:
        """Enters an asynchronous context manager in the loop, for as long as the block lasts.

        It sees an `Exception` of the block as its own; anything else, such as KeyboardInterrupt, as
        a cancellation.
        """
        opened: Future[Result] = Future()
        leaving = _Leaving()
        task: Future[None] | None = None
        try:
            with held_back():
                task = self.start(partial(self._hold, manager, opened, leaving))
                self._entered[task] = leaving
            yield result_of(opened)
            self._leave(task, leaving)
        except BaseException as error:
            if task is not None:
                self._fail(task, leaving, error)
            raise
        finally:
            if task is not None:
                self._entered.pop(task)

    def _fail(self, task: "Future[None]", leaving: "_Leaving", error: BaseException) -> None:
        """Leave a block that has raised, or that was interrupted while it was entered or left."""
        if task.done() or self.problem:
            return
        try:
            if isinstance(error, Exception):
                leaving.error = leaving.error or error
                self._leave(task, leaving)
        finally:
            # It is done by now, unless the program was interrupted.
            task.cancel()

    async def _hold(
        self,
        manager: AbstractAsyncContextManager[Result],
        opened: "Future[Result]",
        leaving: "_Leaving",
    ) -> None:
        try:
            async with manager as value:
                # In the block, only the program waits.
                self.crossings -= 1
                try:
                    opened.set_result(value)
                    await leaving.wait()
                finally:
                    self.cross()
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
            raise

    def _leave(self, task: "Future[None]", leaving: "_Leaving") -> None:
        # It was left already, or is open in another process.
        if self.problem:
            return
        if self.must_not_wait:
            # The block is left, and its task ends by itself. Nobody is told of an error.
            self.loop.call_soon(leaving.event.set)
            return
        try:
            if not task.done():
                result_of(self._portal.start_task_soon(leaving.event.set))
            result_of(task)
        except Exception as error:
            if error is not leaving.error:
                raise


# The threads of this process that have not ended.
_running: dict[int, LoopThread] = {}


# Programs register what they do at exit later than this module is imported, so it is done earlier.
@atexit.register
def _exit() -> None:
    for thread in [*_running.values()]:
        thread.exit()


def _run(baton: Baton, started: Started) -> None:
    """Runs the event loop, until its portal is stopped."""
    loops: list[BatonLoop] = []

    def new_loop() -> BatonLoop:
        loops.append(BatonLoop(baton))
        return loops[0]

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with BlockingPortal() as portal:
                started.set_result((portal, loops[0], scope))
                await portal.sleep_until_stopped()

    baton.take()
    try:
        anyio.run(main, backend_options={"loop_factory": new_loop})
    except BaseException as error:
        # Without descriptors for it, for example, there is no event loop. Somebody waits for one.
        if started.done():
            raise
        started.set_exception(error)
    finally:
        baton.end()


class _Exiting(Exception):
    """The interpreter exits, and a block was not left before."""


class _Leaving:
    """How a block has ended."""

    def __init__(self) -> None:
        self.event = anyio.Event()
        self.error: Exception | None = None

    async def wait(self) -> None:
        """Returns when the block has ended; raises its exception, if it has one."""
        await self.event.wait()
        if self.error is not None:
            raise self.error


class _Mirror(Protocol):
    """An object that mirrors an asynchronous one."""

    _thread: LoopThread
    _inner: Any


def waiting(
    method: Callable[Concatenate[Any, Arguments], Awaitable[Result]],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Returns a method that calls this one of the object mirrored, and waits for its result."""

    @wraps(method)
    def call(self: _Mirror, /, *arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        return self._thread.call(partial(method, self._inner, *arguments, **options))

    return call
