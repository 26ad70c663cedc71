"""The folder of all durable topics: who may use it, what is in it, and the logs that it has.

What is in the folder:

    DIR/lock                                   held while a broker runs, as is DIR/topics
    DIR/clock                                  the time of the last orderly stop
    DIR/topics/orders.5f3a90c1e2d4b768.6f1a…/  a topic: the readable part of its name, a hash of
                                               that, its epoch
"""

import errno
import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from zaichik.base.clock import SystemClock
from zaichik.core.jumps import Jump
from zaichik.storage.cleaning.loading import load
from zaichik.storage.cleaning.table_log import TableLog
from zaichik.storage.clock_file import CLOCK, ClockFile
from zaichik.storage.disk import (
    LINK,
    RESERVE,
    Disk,
    DiskFull,
    PosixDisk,
    StorageFailed,
    reserved,
    sync_folder,
    sync_parents,
)
from zaichik.storage.file_systems import doubtful, has_stable_inodes
from zaichik.storage.ownership import denied, foreign_owner
from zaichik.storage.recovery import Recovered, identify, new_state, recover
from zaichik.storage.resources import DiskBudget, LogResources, SyncTimes
from zaichik.storage.segment import NewerFormat, TopicHeader
from zaichik.storage.state import LogState
from zaichik.storage.topic_log import TopicLog
from zaichik.storage.work import DiskWork
from zaichik.storage.writer import DELETED, remove_folder
from zaichik_protocol import ErrorCode, Refused

logger = logging.getLogger("zaichik.log.store")

TOPICS = "topics"
# Anything else is not ours.
TOPIC_FOLDER = re.compile(rf"[A-Za-z0-9_-]{{0,40}}\.[0-9a-f]{{16}}\.[0-9a-f]+({DELETED})?")


# Errors of file systems that cannot lock a folder: of some that are on other machines.
NO_FOLDER_LOCKS = {errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.ENOTSUP}
OWN_FILE = re.compile(r"topic|[0-9]{20}\.(log|state)")


class CannotOpen(Exception):
    """The folder cannot be used.

    Args:
        problem: why, and what to do.
        code: the exit code of a program that needs it; see `sysexits.h`.
    """

    def __init__(self, problem: str, code: int) -> None:
        super().__init__(problem)
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from the problem alone, which is not enough.
        return type(self), (str(self), self.code), self.__dict__


class Store(DiskBudget):
    """The logs of all durable topics of one broker, and the budget of bytes that they share.

    Args:
        disk: where they are.
        lock: what `exclusive_lock` returned for the folder.
        clock: returns seconds, for measuring; threads call it.

    Attributes:
        recovered: the topics found at the start, with their logs, in the order of their epochs.
        clock_us: the latest time in the folder: of a record, or of an orderly stop.
        work: what threads are to do for the logs.
        used, limit: see `DiskBudget`.
    """

    def __init__(
        self,
        disk: Disk,
        lock: "FolderLock | None" = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        super().__init__()
        self.recovered: list[tuple[TopicHeader, Recovered, TopicLog]] = []
        self.clock_file = ClockFile(disk)
        self.clock_us = self.clock_file.time_us
        self.work = DiskWork(self._forget)
        self._resources = LogResources(self.work, self, sync_times=SyncTimes(clock))
        self._disk = disk
        self._lock = lock
        # Folders of topics whose epochs are not known, and why.
        self._unreadable: dict[str, str] = {}
        self._misnamed: dict[str, str] = {}  # by topics that are found nowhere else: folders
        self._logs: dict[TopicLog, None] = {}
        self._load()

    @classmethod
    def open(cls, path: Path) -> "Store":
        """Returns the store in a folder, which is made if it is missing.

        Raises:
            CannotOpen: it cannot be used.
        """
        disk, lock = opened(path)
        try:
            return cls(disk, lock)
        except CannotOpen as error:
            lock.release()
            problem = f"{path} cannot be used for durable topics: {error}"
            raise CannotOpen(problem, error.code) from error
        except NewerFormat as error:
            lock.release()
            problem = f"{path} was written by a newer zaichik: {error}; nothing was changed"
            raise CannotOpen(problem, os.EX_CONFIG) from error
        except (StorageFailed, DiskFull, OSError) as error:
            lock.release()
            problem = f"{path} cannot be used for durable topics: {error}"
            raise CannotOpen(problem, os.EX_IOERR) from error
        except BaseException:
            lock.release()
            raise

    def _load(self) -> None:
        """Open all topics, having checked that this version can, before anything is changed."""
        # If an earlier process was killed, what it has named or removed may not be on the disk.
        # From here on it must be, for it is believed: see `recover`, too.
        self._disk.sync_names(TOPICS)
        newest: dict[str, tuple[str, TopicHeader, Recovered]] = {}
        for folder in self._own_folders():
            recovered = self._recover(folder)
            if recovered is None or recovered.topic is None:
                continue
            topic = recovered.topic
            self.clock_us = max(self.clock_us, recovered.state.accepted_us, topic.epoch)
            old = newest.get(topic.name)
            if old is None or old[1].epoch < topic.epoch:
                newest[topic.name] = folder, topic, recovered
            if old is None:
                continue
            # The deletion of the older one was interrupted, or somebody has brought it back.
            older = old[0]
            if old[1].epoch > topic.epoch:
                older = folder
            self._disk.rename(older, f"{older}.older")
            logger.warning(
                "%s is of an older topic of the same name; it has .older at its end now", older
            )
        by_epoch = sorted(newest.values(), key=lambda it: it[1].epoch)
        for folder, topic, recovered in by_epoch:
            log = self._open(folder, topic, recovered)
            self.recovered.append((topic, recovered, log))
            self._misnamed.pop(topic.name, None)

    def _own_folders(self) -> list[str]:
        """Returns the folders of topics that are to be opened. Nothing is changed before.

        Raises:
            CannotOpen: there is a symbolic link.
            NewerFormat: a later version wrote one of them.
        """
        own: list[str] = []
        folders = folders_of(self._disk)
        for folder, kind in folders.items():
            link = ""
            with suppress(PermissionError):  # which is reported when it is opened
                link = link_in(self._disk, folder, kind)
            if link:
                raise CannotOpen(link, os.EX_CANTCREAT)
        for folder in folders:
            topic: TopicHeader | None = None
            with suppress(OSError):  # which is reported when it is opened
                topic, _ = identify(self._disk, folder, self._disk.files(folder))
            problem = misnamed(folder, topic)
            if topic is not None and problem:
                of = f"{TOPICS}/{own_folder(topic)}"
                logger.error("%s is not opened, for it is not %s: %s", folder, of, problem)
                self._misnamed[topic.name] = folder
            else:
                own.append(folder)
        return own

    def _recover(self, folder: str) -> Recovered | None:
        """Returns the log in a folder; None if nothing is to be kept of it."""
        disk = self._disk
        try:
            if is_unfinished(disk, folder):
                remove_folder(disk, folder)
                return None
            recovered = recover(disk, folder, self.jumps)
            load(disk, recovered)
        except PermissionError as error:
            self._note_denied(folder, denied(error))
            return None
        except OSError as error:
            recovered = Recovered(
                None, LogState(0, 0), damage=f"it cannot be read: {error.strerror}"
            )
        if recovered.damage:
            damage = recovered.damage.removeprefix(f"{folder}/")
            logger.error("%s: %s; see `zaichik check`", folder, damage)
        if recovered.torn:
            logger.warning(
                "%s: %d bytes at the end were never synced, and were cut off",
                folder,
                recovered.torn,
            )
        if recovered.topic is None:
            name = folder.removeprefix(f"{TOPICS}/")
            self._unreadable[name] = "is damaged; `zaichik check` tells more"
        return recovered

    def _note_denied(self, folder: str, reason: str) -> None:
        """Note that a topic's folder may not be opened: that is no damage."""
        logger.error("%s cannot be opened: %s", folder, reason)
        self._unreadable[folder.removeprefix(f"{TOPICS}/")] = f"cannot be opened: {reason}"

    @property
    def jumps(self) -> Sequence[Jump]:
        """Returns the jumps of the broker's clock that are known."""
        return self.clock_file.jumps

    @property
    def ahead_us(self) -> int:
        """Returns by how much the broker's clock is ahead of the machine's; see `ClockFile`."""
        return self.clock_file.ahead_us

    def system_clock(self) -> SystemClock:
        """Returns the broker's clock: it does not go back behind what was accepted before.

        Blocks.

        Raises:
            CannotOpen: what the clocks say now cannot be written down.
        """
        try:
            return self.clock_file.start(self.clock_us)
        except (StorageFailed, OSError) as error:
            problem = f"{CLOCK} cannot be written: {error}"
            raise CannotOpen(problem, os.EX_IOERR) from error

    def check(self, name: str) -> None:
        """See `zaichik.core.log.Logs`."""
        folder = folder_of(name)
        if name in self._misnamed:
            problem = (
                f"the folder {self._misnamed[name]} has a topic of that name, but was renamed or "
                "copied; stop the broker and rename it back: `zaichik check` says to what"
            )
            raise Refused(ErrorCode.DAMAGED, problem, "topic")
        for unreadable, why in self._unreadable.items():
            if unreadable.startswith(folder):
                problem = f"the folder {unreadable} of a topic of that name {why}"
                raise Refused(ErrorCode.DAMAGED, problem, "topic")

    def create(self, name: str, epoch: int, settings: dict[str, int]) -> TopicLog:
        """See `zaichik.core.log.Logs`."""
        topic = TopicHeader(name, epoch, settings)
        folder = f"{TOPICS}/{folder_of(name)}.{epoch:x}"
        recovered = Recovered(topic, new_state(topic))
        return self._open(folder, topic, recovered)

    def _open(self, folder: str, topic: TopicHeader, recovered: Recovered) -> TopicLog:
        """Returns the log in a folder, which is found, or new."""
        kind = TopicLog
        if topic.is_table:
            kind = TableLog
        log = kind(self._disk, folder, topic, recovered, self._resources)
        self._logs[log] = None
        return log

    def sync_p99_us(self) -> int | None:
        """See `zaichik.core.log.Logs`."""
        return self._resources.sync_times.p99_us()

    def _forget(self, log: TopicLog) -> None:
        """Note that a topic's deletion is complete."""
        self._logs.pop(log, None)

    # -- the end -----------------------------------------------------------------------------------

    def stop_cleaning(self) -> None:
        """Have nothing rewritten any more, so that what waits for the disk is soon written."""
        for log in self._logs:
            log.stop_cleaning()

    def save(self, now_us: int) -> None:
        """Write checkpoints and the time, so that the next start has less to read.

        Blocks.
        """
        for log in self._logs:
            log.close()
        self.clock_file.save(now_us)

    def release(self) -> None:
        """Release the folder. No thread may be at work in it."""
        if self._lock is not None:
            self._lock.release()

    def close(self, now_us: int) -> None:
        """Save, and release the folder. Blocks."""
        try:
            self.save(now_us)
        finally:
            self.release()


def opened(path: Path) -> "tuple[PosixDisk, FolderLock]":
    """Returns a folder for durable topics, which is made if it is missing, and its lock.

    Nothing in it has been read.

    Raises:
        CannotOpen: it cannot be used.
    """
    try:
        _check_owner(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / TOPICS).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise _cannot_use(path, error) from error
    if not os.access(path / TOPICS, os.R_OK | os.W_OK | os.X_OK):
        raise CannotOpen(
            f"{path} cannot be used for durable topics: it cannot be written", os.EX_CANTCREAT
        )
    lock = exclusive_lock(path)
    try:
        mounts = _mounts()
        _warn_of_file_system(path, mounts)
        _warn_of_reserve(path)
        sync_folder(path)
        sync_parents(path)
        is_stable = has_stable_inodes(path.resolve(), mounts)
    except (StorageFailed, OSError) as error:
        lock.release()
        problem = f"{path} cannot be used for durable topics: {error}"
        raise CannotOpen(problem, os.EX_IOERR) from error
    except BaseException:
        lock.release()
        raise
    return PosixDisk(path, has_stable_inodes=is_stable), lock


def _mounts() -> str:
    """Returns what `doubtful` asks for; "" where there is none: only Linux has it."""
    try:
        return Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _warn_of_file_system(path: Path, mounts: str) -> None:
    """Log it if the folder is on a file system that should not be trusted."""
    doubt = doubtful(path.resolve(), mounts)
    if doubt:
        logger.warning("the folder of durable topics %s", doubt)


def _warn_of_reserve(path: Path) -> None:
    """Log it if there is so little room that nothing can be published."""
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    if free < RESERVE:
        logger.warning(
            "there is no room for messages of durable topics in %s: %s",
            path,
            reserved(free, RESERVE),
        )


def _check_owner(path: Path) -> None:
    """Refuse to make files as root that the folder's own user could not read.

    Raises:
        CannotOpen: the folder is another user's.
    """
    for folder in (path, path / TOPICS):
        if not folder.exists():
            continue
        owner = foreign_owner(folder)
        if owner:
            raise CannotOpen(
                f"{folder} belongs to {owner}: start the broker as that user, or what it writes "
                "would be root's alone; if root is to have the folder, change its owner",
                os.EX_CANTCREAT,
            )


class FolderLock:
    """Locks of a folder: exclusive, to change what is in it, or shared, to read it in peace.

    One is on the file `lock`, as in every version; the other is on the folder of the topics itself.
    A file that only serves as a lock can be removed, and the next process would lock a new one.

    Args:
        path: the folder.
        how: LOCK_EX for a broker, LOCK_SH for a check.
        flags: how the file `lock` is opened.

    Raises:
        BlockingIOError: another process has the folder.
        OSError: it cannot be locked.
    """

    def __init__(self, path: Path, how: int, flags: int) -> None:
        self._descriptors: list[int] = []
        try:
            with suppress(FileNotFoundError):  # a check makes no file
                self._lock(path / "lock", flags, how)
            self._lock_topics(path, how)
        except BaseException:
            self.release()
            raise

    def _lock(self, path: Path, flags: int, how: int) -> None:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self._descriptors.append(descriptor)
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)

    def _lock_topics(self, path: Path, how: int) -> None:
        try:
            self._lock(path / TOPICS, os.O_RDONLY | os.O_DIRECTORY, how)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno not in NO_FOLDER_LOCKS:
                raise
            logger.warning(
                "the file system of %s locks no folders, so never remove the file lock in it", path
            )

    def release(self) -> None:
        """Release the folder."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def exclusive_lock(path: Path) -> FolderLock:
    """Returns a lock of a folder that keeps every other process out: the folder may be changed.

    Raises:
        CannotOpen: another process has it, or it cannot be made.
    """
    try:
        return FolderLock(path, fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT)
    except BlockingIOError as error:
        problem = f"another broker uses {path}; stop it, or choose another folder"
        raise CannotOpen(problem, os.EX_CANTCREAT) from error
    except OSError as error:
        raise _cannot_use(path, error) from error


def shared_lock(path: Path) -> FolderLock:
    """Returns a lock of a folder that keeps brokers out: the folder may be read.

    Raises:
        CannotOpen: a broker has it.
        OSError: it cannot be opened.
    """
    try:
        return FolderLock(path, fcntl.LOCK_SH, os.O_RDONLY)
    except BlockingIOError as error:
        raise CannotOpen(f"a broker uses {path}; stop it first", os.EX_CANTCREAT) from error


def folders_of(disk: Disk) -> dict[str, int]:
    """Returns the paths of the topics' folders, in order, each with FOLDER or LINK.

    There may be ten thousand: all are listed at once, and no other call lists them again.
    """
    folders: dict[str, int] = {}
    for name, kind in sorted(disk.files(TOPICS).items()):
        if kind < 0 and TOPIC_FOLDER.fullmatch(name):
            folders[f"{TOPICS}/{name}"] = kind
    return folders


def own_folder(topic: TopicHeader) -> str:
    """Returns the name of a topic's folder."""
    return f"{folder_of(topic.name)}.{topic.epoch:x}"


def misnamed(folder: str, topic: TopicHeader | None) -> str:
    """Returns why the folder of a topic is not the topic's, for a person; "" if it may be.

    A copy has another name, and what is acknowledged must not go into it.
    """
    if topic is None:
        return ""
    own = own_folder(topic)
    _, _, name = folder.rpartition("/")
    if name.removesuffix(DELETED) == own:
        return ""
    return (
        f"it was copied or renamed, for the folder of topic {topic.name!r} is {own}; "
        f"a broker leaves it alone. If there is no {own}, stop the broker and rename this folder "
        "to that; otherwise it is a copy: move it elsewhere"
    )


def link_in(disk: Disk, folder: str, kind: int) -> str:
    """Returns why a folder of a topic cannot be used, for a person: it has symbolic links.

    "" if it has none. What is behind a link can be elsewhere, or not be there, when the broker
    starts; so it is neither followed nor overlooked.

    Args:
        disk: where it is.
        folder: its path.
        kind: FOLDER, or LINK if it is one itself.
    """
    links: list[str] = []
    if kind == LINK:
        links.append(folder)
    else:
        for name, size in disk.files(folder).items():
            if size == LINK and OWN_FILE.fullmatch(name):
                links.append(f"{folder}/{name}")
    if not links:
        return ""
    return f"{links[0]} is a symbolic link; move it back, or mount the other place there"


def is_unfinished(disk: Disk, folder: str) -> bool:
    """Returns whether the deletion of a topic was interrupted, or its creation.

    A start removes what is there.
    """
    return folder.endswith(DELETED) or all(name.startswith(".") for name in disk.files(folder))


def _cannot_use(path: Path, error: OSError) -> CannotOpen:
    problem = error.strerror
    if path.is_file():
        problem = "it is not a folder"
    return CannotOpen(f"{path} cannot be used for durable topics: {problem}", os.EX_CANTCREAT)


def folder_of(name: str) -> str:
    """Returns the first part of the name of a topic's folder.

    It is readable, and valid on any file system.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{readable}.{digest}"
