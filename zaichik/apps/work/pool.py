"""A pool of jobs: a message, a job, a result, so many at a time.

It ends in steps, each of which may come at any time:

    WORKING ──drain──▶ DRAINING ──stop──▶ STOPPING ──kill──▶ KILLING
    takes messages     takes none;        jobs are ended,    at once
                       jobs finish        messages given back

If the command cannot be started, no message is to blame: it is released, and the pool drains.
"""

import errno
from contextlib import suppress
from enum import IntEnum, auto
from math import inf
from typing import Protocol

import anyio

from zaichik.apps.work.command import CannotBeAnArgument, CannotRun, Command
from zaichik.apps.work.job import Job
from zaichik.apps.work.result import Result, result_of
from zaichik.client.work.message import WorkMessage
from zaichik_protocol import Outcome


class Phase(IntEnum):
    """How far the end of a pool has come; see above."""

    WORKING = auto()
    DRAINING = auto()
    STOPPING = auto()
    KILLING = auto()


class Messages(Protocol):
    """Where messages come from: a `WorkSubscription`."""

    async def __anext__(self) -> WorkMessage:
        """Returns the next message.

        Raises:
            StopAsyncIteration: it was drained.
        """
        ...

    def drain(self) -> None:
        """Hand out no more messages."""
        ...


class Report(Protocol):
    """Takes what the jobs write, and is told what becomes of messages."""

    async def pass_on(self, data: bytes) -> None:
        """Take whole lines of a job's standard output."""
        ...

    async def pass_on_errors(self, data: bytes) -> None:
        """Take whole lines of a job's standard error."""
        ...

    def enter(self, phase: Phase) -> None:
        """The pool goes on to that phase."""
        ...

    async def drained(self) -> None:
        """No more messages are taken."""
        ...

    def started(self, message: WorkMessage) -> None:
        """The job of that message begins."""
        ...

    async def settled(self, message: WorkMessage, result: Result, *, is_late: bool) -> None:
        """A message was settled.

        Args:
            message: the message.
            result: what became of it.
            is_late: whether that changed nothing: it may be with another worker by now.
        """
        ...


class Pool:
    """Runs a command for each message.

    Args:
        command: the command.
        jobs: how many at a time.
        report: see `Report`.
        timeout: seconds after which a job is ended.

    Attributes:
        phase: see above.
        failure: why the command could not be started; None if it could.
    """

    def __init__(self, command: Command, jobs: int, report: Report, timeout: float = inf) -> None:
        self.phase = Phase.WORKING
        self.failure: CannotRun | None = None
        self._command = command
        self._report = report
        self._timeout = timeout
        # The broker hands out no more than that, but after its restart, jobs of before still run.
        self._slots = anyio.Semaphore(jobs)
        self._draining = anyio.Event()
        self._scope = anyio.CancelScope()
        self._jobs: set[Job] = set()

    @property
    def running(self) -> int:
        """How many jobs run."""
        return len(self._jobs)

    async def run(self, messages: Messages) -> None:
        """Run jobs until the pool drains, and all jobs have ended.

        What was not settled by then, because the pool was killed, is for the subscription to give
        back.
        """
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain_when_asked, messages)
                await self._slots.acquire()
                with suppress(StopAsyncIteration):
                    while True:
                        message = await anext(messages)
                        tasks.start_soon(self._work_on, message)
                        await self._slots.acquire()
                self.drain()

    async def _drain_when_asked(self, messages: Messages) -> None:
        await self._draining.wait()
        messages.drain()
        await self._report.drained()

    def drain(self) -> None:
        """Take no more messages; jobs that run go on."""
        self._enter(Phase.DRAINING)
        self._draining.set()

    def stop(self) -> None:
        """End the jobs, and give their messages back."""
        self.drain()
        self._enter(Phase.STOPPING)
        for job in self._jobs:
            job.stop()

    def kill(self) -> None:
        """End the jobs at once, and do not wait for the broker."""
        self.drain()
        self._enter(Phase.KILLING)
        for job in self._jobs:
            job.kill()
        self._scope.cancel()

    def _enter(self, phase: Phase) -> None:
        if phase > self.phase:
            self.phase = phase
            self._report.enter(phase)

    async def _work_on(self, message: WorkMessage) -> None:
        self._report.started(message)
        result = await self._result(message)
        is_late = not await message.settle(result.verdict)
        self._slots.release()
        await self._report.settled(message, result, is_late=is_late)

    async def _result(self, message: WorkMessage) -> Result:
        """Returns what the job of a message says of it."""
        report = self._report
        try:
            invocation = self._command.on(message.topic, message.offset, message.key)
        except CannotBeAnArgument as error:
            return Result(Outcome.REJECT, str(error))
        job = Job(invocation, message.payload, report.pass_on, report.pass_on_errors, self._timeout)
        self._jobs.add(job)
        if self.phase >= Phase.STOPPING:
            job.stop()
        try:
            return result_of(await job.run())
        except OSError as error:
            return self._not_started(invocation.words[0], error)
        finally:
            self._jobs.discard(job)

    def _not_started(self, word: str, error: OSError) -> Result:
        # Without the key, the words had fit: we were started with them.
        if error.errno == errno.E2BIG:
            return Result(Outcome.REJECT, "its key is too long for an argument")
        self.failure = CannotRun.by(word, error)
        self.drain()
        # Nothing has begun with it. To give it back would count in the end (SHR-4b).
        return Result(Outcome.RELEASE)
