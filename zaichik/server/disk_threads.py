"""The threads that write and read the logs of durable topics.

The event loop decides what is done next, a thread does it, and its result is handled on the event
loop again, between the turns of connections. A failure of the disk ends all of it.

    a log has work ──▶ `_step` ──▶ a thread's queue ──▶ the thread does it ──┐
                          ▲                                                  │
                          └──────── one call into the event loop ────────────┘

A step is a plain function, not a task. With a task for each thread, a publish that is alone took
eight polls of the event loop, six of which found nothing. Now it takes three: its request comes,
the group is handed over, the thread is done. The one in the middle is there for larger groups: what
other connections publish in the same iteration goes into the same group.
"""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from queue import SimpleQueue
from threading import Thread

from zaichik.net.loop_calls import LoopCalls
from zaichik.net.wakeup import Wakeup
from zaichik.storage.disk import StorageFailed, failure_of
from zaichik.storage.topic_log import TopicLog
from zaichik.storage.work import Completion, DiskWork

logger = logging.getLogger("zaichik.log.store")

# A slow read never holds up a sync, so readers have threads of their own.
WRITERS = 4
READERS = 2


class DiskThreads:
    """The threads of one store.

    Args:
        work: what they are to do.
        between_turns: returns the context in which results are handled on the event loop.

    Attributes:
        failure: why the disk cannot be trusted any more; None if it can.
        on_failure: called when there is a failure.
    """

    def __init__(
        self,
        work: DiskWork,
        between_turns: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.failure: StorageFailed | None = None
        self.on_failure: Callable[[], None] | None = None
        self._work = work
        self._between_turns = between_turns
        self._loop: LoopCalls | None = None  # only while `run` is running
        # The idle threads; the one that was idle last is the next to work.
        self._writers: list[DiskThread] = []
        self._readers: list[DiskThread] = []
        self._at_work: set[Job] = set()  # threads remove what they have done
        self._done: deque[Job] = deque()  # threads append it
        self._is_step_due = False
        self._is_over = Wakeup()  # the disk has failed, or there is a bug
        self._bug: BaseException | None = None  # the first one
        self._is_drained = Wakeup()
        work.on_write = self._wake_writers
        work.on_read = self._wake_readers

    @property
    def are_at_work(self) -> bool:
        """Whether a thread is doing something, even if nobody waits for it any more."""
        return bool(self._at_work)

    async def run(self) -> None:
        """Work until cancelled, or until the disk has failed.

        It does not wait for what threads are doing then: the disk may never answer. A bug in what
        threads or completions do is raised here, whatever it is: nobody else would hear of it.
        """
        self._writers = [DiskThread("disk writer", self._has_done) for _ in range(WRITERS)]
        self._readers = [DiskThread("disk reader", self._has_done) for _ in range(READERS)]
        threads = [*self._writers, *self._readers]
        self._loop = LoopCalls()
        try:
            self._step()
            await self._is_over.wait()
        finally:
            self._loop = None
            for thread in threads:
                thread.end()
        if self._bug is not None:
            raise self._bug

    async def drained(self) -> None:
        """Wait until nothing is left to be written, or the disk has failed, or there is a bug."""
        while not self._work.is_written and not self._is_over.is_set():
            # Others may wait for the one that is there.
            if self._is_drained.is_set():
                self._is_drained = Wakeup()
            await self._is_drained.wait()

    def give_up(self, seconds: float) -> None:
        """Stop waiting for a disk that has not answered for this many seconds."""
        self._fail(StorageFailed(f"the disk has not answered for {seconds:g} s"))

    def _has_failed(self) -> bool:
        return self.failure is not None

    # Where no thread is idle, the next to be done brings a step.

    def _wake_writers(self) -> None:
        if self._writers:
            self._step_soon()

    def _wake_readers(self) -> None:
        if self._readers:
            self._step_soon()

    def _step_soon(self) -> None:
        if self._loop is not None and not self._is_step_due:
            self._is_step_due = True
            self._loop.soon(self._step)

    def _step(self) -> None:
        """Handle what threads have done, then have them do what there is to do."""
        self._is_step_due = False
        # A step that was due when `run` ended, or when the one before met a bug, has come too late.
        if self._loop is None or self._bug is not None:
            return
        try:
            while self._done:
                self._finish(self._done.popleft())
            self._hand_over()
        except BaseException as bug:
            # `run` raises it: the event loop would only log it.
            self._bug = bug
            self._end()

    def _finish(self, job: "Job") -> None:
        """Handle the result of a job between the turns of connections."""
        if isinstance(job.error, StorageFailed | OSError):
            self._fail(failure_of(job.error))
        elif job.error is not None:
            raise job.error
        elif not self._has_failed():
            with self._between_turns():
                job.then()
        if job.log is None:
            self._readers.append(job.thread)
            return
        self._writers.append(job.thread)
        self._work.finish_write(job.log)
        if self._work.is_written:
            self._is_drained.set()

    def _hand_over(self) -> None:
        """Give work to the threads that are idle."""
        # Nothing is written after a failure: it would replace what was lost (DUR-6).
        if self._has_failed():
            return
        work = self._work
        while work.has_writes and self._writers:
            log = work.take_write()
            self._begin(Job(self._writers.pop(), log.gather(), log))
        while work.has_reads and self._readers:
            self._begin(Job(self._readers.pop(), work.take_read()))

    def _begin(self, job: "Job") -> None:
        # The system may refuse a thread; then nobody is at work.
        job.thread.start()
        # The thread removes it when it is done, which may be before `begin` returns.
        self._at_work.add(job)
        job.thread.begin(job)

    def _has_done(self, job: "Job") -> None:
        """Have the result of a job handled. Called in the job's thread."""
        self._at_work.discard(job)
        loop = self._loop
        if loop is None:
            return  # nobody waits for it any more
        self._done.append(job)
        # The event loop may end at any moment.
        with suppress(RuntimeError):
            loop.from_thread(self._step)

    def _fail(self, failure: StorageFailed) -> None:
        if self._has_failed():
            return
        self.failure = failure
        logger.critical("%s. The broker ends: what it has answered is on the disk.", failure)
        if self.on_failure is not None:
            self.on_failure()
        self._end()

    def _end(self) -> None:
        """Have `run` and `drained` return."""
        self._is_over.set()
        self._is_drained.set()


class Job:
    """What a thread is to do, and then what came of it.

    Args:
        thread: the thread.
        work: what it calls.
        log: what it writes for; None if it reads.

    Attributes:
        thread, work, log: see above.
        then: what `work` has returned.
        error: what it has raised; None if nothing.
    """

    def __init__(
        self, thread: "DiskThread", work: Callable[[], Completion], log: TopicLog | None = None
    ) -> None:
        self.thread = thread
        self.work = work
        self.log = log
        self.then: Completion = _nothing
        self.error: BaseException | None = None


class DiskThread:
    """A thread that does one job at a time.

    It is a daemon: one that a disk never answers does not keep the process from ending.

    Args:
        name: the thread's.
        has_done: called in the thread, with each job that it has done.
    """

    def __init__(self, name: str, has_done: Callable[[Job], None]) -> None:
        self._name = name
        self._has_done = has_done
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_started = False

    def start(self) -> None:
        """Start the thread, unless it was started before.

        Raises:
            RuntimeError: the system refuses another thread.
        """
        if self._is_started:
            return
        Thread(target=self._run, name=self._name, daemon=True).start()
        self._is_started = True

    def begin(self, job: Job) -> None:
        """Have the thread, which was started, do a job, and return at once."""
        self._jobs.put(job)

    def end(self) -> None:
        """Have the thread end when its job is done, and return at once."""
        self._jobs.put(None)

    def _run(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """Wait for a job and do it; returns False if there will be none.

        When this returns, the thread refers to nothing of the job: while it is idle, it would keep
        a group of messages in memory.
        """
        job = self._jobs.get()
        if job is None:
            return False
        try:
            job.then = job.work()
        # Also what is meant to end a thread, as SystemExit: somebody waits for this job.
        except BaseException as error:
            job.error = error
        self._has_done(job)
        return True


def _nothing() -> None:
    """Stands for a result until there is one."""
