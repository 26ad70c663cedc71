"""The folder of all durable topics, and the threads that work for their logs.

DIR/lock                                   held while a broker runs
DIR/clock                                  the time of the last orderly stop
DIR/topics/orders.5f3a90c1e2d4b768.6f1a…/  the readable part of a topic's name, a hash of it, its epoch
"""

import fcntl
import hashlib
import logging
import os
import re
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from time import perf_counter

import anyio
from anyio import to_thread

from zaichik.log.disk import Disk, DiskFull, PosixDisk, StorageFailed, failure_of, sync_folder
from zaichik.log.file_systems import doubtful
from zaichik.log.reading import Chunks
from zaichik.log.recovery import Recovered, look, new_state, recover
from zaichik.log.segment import NewerFormat, Topic, seal, unseal
from zaichik.log.state import State
from zaichik.log.topic_log import Then, TopicLog
from zaichik.log.writer import DELETED, remove_folder
from zaichik.net.wakeup import Wakeup
from zaichik_protocol import FOREVER, ErrorCode, Refused

logger = logging.getLogger(__name__)

TOPICS, CLOCK = "topics", "clock"
_CLOCK_MARK = b"zaichik clock 1\n"
FOLDER = re.compile(rf"[A-Za-z0-9_-]{{0,40}}\.[0-9a-f]{{16}}\.[0-9a-f]+({DELETED})?")  # anything else is not ours
WRITERS, READERS = 4, 2  # threads: a slow read never holds up a sync
KEPT_SYNCS = 256  # whose times are kept: a second of a busy disk, and enough for a percentile


class CannotOpen(Exception):
    """The folder cannot be used.

    Args:
        problem: why, and what to do.
        code: the exit code of a program that needs it; see `sysexits.h`.
    """

    def __init__(self, problem: str, code: int) -> None:
        super().__init__(problem)
        self.code = code


class Store:
    """The logs of all durable topics of one broker.

    Args:
        disk: where they are.
        lock: what `locked` returned for the folder.
        clock: see `Workers`.

    Attributes:
        recovered: the topics found at the start, with their logs, in the order of their epochs.
        clock_us: the latest time in the folder: of a record, or of an orderly stop.
        failure: why the disk cannot be trusted any more; None if it can.
        between_turns: the context in which callbacks run on the event loop.
        on_failure: called when there is a failure.
        chunks, used, limit, clock, syncs: see `Workers`.
    """

    def __init__(self, disk: Disk, lock: int | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self._disk = disk
        self.recovered: list[tuple[Topic, Recovered, TopicLog]] = []
        self.failure: StorageFailed | None = None
        self.between_turns: Callable[[], AbstractContextManager[None]] = nullcontext
        self.on_failure: Callable[[], None] = lambda: None
        self.clock_us = 0
        self.chunks = Chunks()
        self.used, self.limit = 0, FOREVER
        self.syncs: deque[float] = deque(maxlen=KEPT_SYNCS)
        self._lock, self.clock = lock, clock
        self._unreadable: set[str] = set()  # folders of topics whose epochs are not known
        self._logs: dict[TopicLog, None] = {}
        self._writes: OrderedDict[TopicLog, None] = OrderedDict()
        self._busy: set[TopicLog] = set()
        self._at_work: set[object] = set()  # what threads are doing
        self._reads: OrderedDict[object, Callable[[], Then]] = OrderedDict()
        self._may_write, self._may_read, self._idle = Wakeup(), Wakeup(), Wakeup()
        self._load()

    @classmethod
    def opened(cls, path: Path) -> "Store":
        """Returns the store in a folder, which is made if it is missing.

        Raises:
            CannotOpen: it cannot be used.
        """
        try:
            is_new = not path.exists()
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            (path / TOPICS).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _cannot_use(path, error) from error
        if not os.access(path / TOPICS, os.R_OK | os.W_OK | os.X_OK):
            raise CannotOpen(f"{path} cannot be used for durable topics: it cannot be written", os.EX_CANTCREAT)
        lock = locked(path)
        with suppress(OSError):  # only Linux has it
            if doubt := doubtful(path.resolve(), Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")):
                logger.warning("the folder of durable topics %s", doubt)
        try:
            for made in (path, path.parent) if is_new else (path,):
                sync_folder(made)
            return cls(PosixDisk(path), lock)
        except BaseException as error:
            os.close(lock)
            match error:
                case NewerFormat():
                    problem, code = f"{path} was written by a newer zaichik: {error}; nothing was changed", os.EX_CONFIG
                case StorageFailed() | DiskFull() | OSError():
                    problem, code = f"{path} cannot be used for durable topics: {error}", os.EX_IOERR
                case _:
                    raise
            raise CannotOpen(problem, code) from error

    def _load(self) -> None:
        """Open all topics, having checked that this version can, before anything is changed."""
        folders = folders_of(self._disk)
        for folder in folders:
            with suppress(OSError):  # which is reported below
                look(self._disk, folder, self._disk.files(folder))
        found: dict[str, tuple[str, Topic, Recovered]] = {}
        for folder in folders:
            recovered = self._recovered(folder)
            if recovered is None or recovered.topic is None:
                continue
            topic = recovered.topic
            self.clock_us = max(self.clock_us, recovered.state.accepted_us, topic.epoch)
            old = found.get(topic.name)
            if old is None or old[1].epoch < topic.epoch:
                found[topic.name] = folder, topic, recovered
            if old is not None and old[1].epoch == topic.epoch:
                logger.error("%s is a copy of %s, and is left alone", folder, old[0])
            elif old is not None:  # its deletion was interrupted, or somebody has brought it back: who knows?
                older = folder if old[1].epoch > topic.epoch else old[0]
                self._disk.rename(older, f"{older}.older")
                logger.warning("%s is of an older topic of the same name; it has .older at its end now", older)
        for folder, topic, recovered in sorted(found.values(), key=lambda it: it[1].epoch):
            log = TopicLog(self._disk, folder, topic, recovered, self)
            self._logs[log] = None
            self.recovered.append((topic, recovered, log))
        self._load_clock()

    def _recovered(self, folder: str) -> Recovered | None:
        """Returns the log in a folder; None if nothing is to be kept of it."""
        disk = self._disk
        try:
            if is_unfinished(disk, folder):
                remove_folder(disk, folder)
                return None
            found = recover(disk, folder)
        except OSError as error:
            found = Recovered(None, State(0, 0), damage=f"it cannot be read: {error.strerror}")
        if found.damage:
            logger.error("%s: %s; see `zaichik check`", folder, found.damage.removeprefix(f"{folder}/"))
        if found.torn:
            logger.warning("%s: %d bytes at the end were never synced, and were cut off", folder, found.torn)
        if found.topic is None:
            self._unreadable.add(folder.removeprefix(f"{TOPICS}/"))
        return found

    def _load_clock(self) -> None:
        try:
            told = unseal(_CLOCK_MARK, self._disk.read(CLOCK, 0, 64))
        except FileNotFoundError:
            return
        except OSError:
            told = None
        if told is None:
            logger.warning("%s is damaged, and not needed", CLOCK)
        else:
            self.clock_us = max(self.clock_us, int(told))

    def check(self, name: str) -> None:
        """See `zaichik.broker.durable.Logs`."""
        if unreadable := next((it for it in self._unreadable if it.startswith(folder_of(name))), None):
            problem = f"the folder {unreadable} of a topic of that name is damaged; `zaichik check` tells more"
            raise Refused(ErrorCode.DAMAGED, problem, "topic")

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> TopicLog:
        """See `zaichik.broker.durable.Logs`."""
        topic, folder = Topic(name, epoch, settings), f"{TOPICS}/{folder_of(name)}.{epoch:x}"
        log = TopicLog(self._disk, folder, topic, Recovered(topic, new_state(topic)), self)
        self._logs[log] = None
        return log

    def sync_p99_us(self) -> int | None:
        """See `zaichik.broker.durable.Logs`."""
        seconds = sorted(self.syncs)
        return round(seconds[len(seconds) * 99 // 100] * 1e6) if seconds else None

    # -- work for threads --------------------------------------------------------------------------------------

    def write(self, log: TopicLog) -> None:
        """See `Workers`."""
        if log not in self._busy:
            self._writes[log] = None
            self._may_write.set()

    def read(self, waiter: object, read: Callable[[], Then]) -> None:
        """See `Workers`."""
        self._reads.setdefault(waiter, read)
        self._may_read.set()

    def _has_failed(self) -> bool:
        return self.failure is not None

    async def run(self) -> None:
        """Work until cancelled, or until the disk has failed."""
        async with anyio.create_task_group() as tasks:
            for work in [self._write_for_ever] * WRITERS + [self._read_for_ever] * READERS:
                tasks.start_soon(work, anyio.CapacityLimiter(1))

    async def _write_for_ever(self, thread: anyio.CapacityLimiter) -> None:
        while not self._has_failed():
            while not self._writes:
                self._may_write = Wakeup() if self._may_write.is_set() else self._may_write
                await self._may_write.wait()
            if self._has_failed():
                return  # nothing is written after a failure: it would take the place of what was lost (DUR-6)
            log, _ = self._writes.popitem(last=False)
            self._busy.add(log)
            try:
                await self._do(log.gather(), thread)
            finally:
                self._busy.remove(log)
            if log.has_work:
                self.write(log)
            elif log.is_deleted:
                self._logs.pop(log, None)
            if not self._busy and not self._writes:
                self._idle.set()

    async def _read_for_ever(self, thread: anyio.CapacityLimiter) -> None:
        while not self._has_failed():
            while not self._reads:
                self._may_read = Wakeup() if self._may_read.is_set() else self._may_read
                await self._may_read.wait()
            _, read = self._reads.popitem(last=False)
            await self._do(read, thread)

    async def _do(self, work: Callable[[], Then], thread: anyio.CapacityLimiter) -> None:
        """Call a function in a thread, then handle its result here, between the turns of connections."""
        try:
            then = await to_thread.run_sync(self._tracked, work, limiter=thread, abandon_on_cancel=True)
        except (StorageFailed, OSError) as error:
            self._fail(failure_of(error))
            return
        if self.failure is None:
            with self.between_turns():
                then()

    def _tracked(self, work: Callable[[], Then]) -> Then:
        """Call a function, noting that a thread is at work."""
        self._at_work.add(work)
        try:
            return work()
        finally:
            self._at_work.discard(work)

    def _fail(self, failure: StorageFailed) -> None:
        if self.failure is None:
            self.failure = failure
            logger.critical("%s. The broker ends: what it has answered is on the disk.", failure)
            self.on_failure()
            self._idle.set()

    def give_up(self, seconds: float) -> None:
        """Stop waiting for a disk that has not answered for this many seconds."""
        self._fail(StorageFailed(f"the disk has not answered for {seconds:g} s"))

    async def drained(self) -> None:
        """Wait until nothing is left to be written."""
        while (self._busy or self._writes) and self.failure is None:
            self._idle = Wakeup()
            await self._idle.wait()

    # -- the end -----------------------------------------------------------------------------------------------

    def close(self, now_us: int) -> None:
        """Write checkpoints, so that the next start has less to read, and release the folder. Blocks."""
        try:
            if self.failure is None:
                for log in self._logs:
                    log.close()
                self._disk.replace(CLOCK, seal(_CLOCK_MARK, str(now_us).encode()))
        except DiskFull:
            logger.info("no room for %s: if the clock is set back, messages live longer", CLOCK)
        finally:
            self.release()

    def release(self) -> None:
        """Release the folder; but while a thread may still write, it stays locked until the process ends."""
        if self._lock is not None and not self._at_work:
            os.close(self._lock)
            self._lock = None


def locked(path: Path) -> int:
    """Take the lock of a folder. Returns its descriptor: closing it releases the lock.

    Raises:
        CannotOpen: another process has it, or it cannot be made.
    """
    lock = -1
    try:
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        problem = f"another broker uses {path}; stop it, or choose another folder"
        raise CannotOpen(problem, os.EX_CANTCREAT) from error
    except OSError as error:
        if lock >= 0:
            os.close(lock)
        raise _cannot_use(path, error) from error
    return lock


def folders_of(disk: Disk) -> list[str]:
    """Returns the paths of the topics' folders."""
    files = sorted(disk.files(TOPICS).items())
    return [f"{TOPICS}/{name}" for name, size in files if size < 0 and FOLDER.fullmatch(name)]


def is_unfinished(disk: Disk, folder: str) -> bool:
    """Returns whether the deletion of a topic was interrupted, or its creation: a start removes what is there."""
    return folder.endswith(DELETED) or all(name.startswith(".") for name in disk.files(folder))


def _cannot_use(path: Path, error: OSError) -> CannotOpen:
    problem = "it is not a folder" if path.is_file() else error.strerror
    return CannotOpen(f"{path} cannot be used for durable topics: {problem}", os.EX_CANTCREAT)


def folder_of(name: str) -> str:
    """Returns the first part of the name of a topic's folder: readable, and valid on any file system."""
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
    return f"{readable}.{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"
