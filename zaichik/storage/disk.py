"""All that a log asks of a file system, and how an operating system does it.

Every method blocks, so only worker threads call them. There is no table of open files: a file is
opened, written, synced and closed again, because opening costs microseconds and a sync a
millisecond. So the log needs no more descriptors than it has threads.
"""

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

# Nothing was stored, and there may be room later. EFBIG: a limit of this process or of the file
# system, which newer and smaller files do not reach.
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# How opening a file to be written fails if others have changed it: it is gone, or in the place of a
# new one there is another, or a link.
CHANGED = {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ELOOP}
MIB = 1024 * 1024
# Bytes that stay free: for checkpoints, and for the person who has to make room.
RESERVE = 64 * MIB
# What `Disk.files` says instead of a size.
FOLDER = -1
LINK = -2


class StorageFailed(Exception):
    """The disk may have lost what was written. There is no way to know, so the broker ends."""


def failure_of(error: StorageFailed | OSError) -> StorageFailed:
    """Returns a disk's error as the exception that ends a broker."""
    if isinstance(error, StorageFailed):
        return error
    return StorageFailed(str(error))


class DiskFull(Exception):
    """There is no room. Nothing was written."""


class FileTooLong(DiskFull):
    """The file may not grow. Nothing was written; another file may have room."""


class ReserveReached(OSError):
    """A write would use bytes that stay free."""


class FileChanged(StorageFailed):
    """Somebody else has changed the file that is written. Nothing was written."""


class Disk(Protocol):
    """A folder on a disk. Paths are relative to it, with slashes."""

    def files(self, folder: str) -> dict[str, int]:
        """Returns the sizes of the files in a folder, by name, or `FOLDER`, or `LINK`.

        Nothing if there is no such folder. A symbolic link is never followed.
        """

    def read(self, path: str, at: int, size: int) -> bytes:
        """Returns that many bytes from there on; fewer at the end of the file."""

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        """Write these bytes at `at`, the end of the file, and sync them.

        At 0 the file is made, and must be new. A hidden file (its name begins with a dot) will take
        the place of another one, so that it may use bytes that otherwise stay free.

        Raises:
            FileChanged: the file does not end at `at`, or is not the one that was written before.
            DiskFull: the file ends at `at`, as before; a new one is gone again.
            StorageFailed: what the file holds now is unknown.
        """

    def replace(self, path: str, data: bytes) -> None:
        """Make the file hold this data, or leave it as it was; the folder is made if it is missing.

        Raises:
            DiskFull, StorageFailed: as above.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder, and sync that."""

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files of one folder, in this order, or one empty folder; and sync that."""

    def drop_cache(self, path: str) -> None:
        """Make the next reads of a file come from the disk.

        What the system has in memory may not be there.
        """

    def sync_names(self, folder: str) -> None:
        """Put the names in a folder on the disk.

        A process can see names that an earlier one has given, and not synced before it was killed.
        """


class PosixDisk:
    """A folder of this machine.

    Args:
        root: the folder.
        reserve: bytes that a write must leave free on the file system.
        has_stable_inodes: whether a file keeps its inode; see `file_systems`.
    """

    def __init__(
        self, root: Path, reserve: int = RESERVE, *, has_stable_inodes: bool = True
    ) -> None:
        self.root = root
        self.reserve = reserve
        self._has_stable_inodes = has_stable_inodes
        # By its writer, the file that was written last, and its inode: a log has one such file, and
        # perhaps a hidden one.
        self._written: dict[str, tuple[str, int]] = {}

    def files(self, folder: str) -> dict[str, int]:
        """See `Disk`."""
        try:
            with os.scandir(self.root / folder) as found:
                sizes = {}
                for it in found:
                    if it.is_symlink():
                        sizes[it.name] = LINK
                    elif it.is_dir(follow_symlinks=False):
                        sizes[it.name] = FOLDER
                    else:
                        sizes[it.name] = it.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            return {}
        return sizes

    def read(self, path: str, at: int, size: int) -> bytes:
        """See `Disk`."""
        with (self.root / path).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, at)

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        """See `Disk`."""
        reserve = self.reserve
        if _is_hidden(path):
            reserve = 0
        try:
            self._written[_writer_of(path)] = path, self._put(path, at, pieces, reserve)
        except StorageFailed as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in CHANGED:
                raise FileChanged(str(error)) from error
            raise

    def _put(self, path: str, at: int, pieces: Sequence[bytes], reserve: int) -> int:
        """Write, and return the inode."""
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        if not at:
            flags |= os.O_CREAT | os.O_EXCL
        try:
            file = os.open(self.root / path, flags, 0o600)
        except OSError as error:
            raise _failure(error, path) from error
        try:
            status = os.fstat(file)
            if at and any(pieces):
                self._check_unchanged(path, at, status)
            if not any(pieces) or status.st_size > at:
                os.ftruncate(file, at)
            self._write(file, at, pieces, reserve)
        except OSError as error:
            self._take_back(file, path, at)
            raise _failure(error, path) from error
        else:
            _sync(file, path)
        finally:
            os.close(file)
        if not at:
            self._sync_folder(path)
        return status.st_ino

    def _check_unchanged(self, path: str, at: int, status: os.stat_result) -> None:
        """Refuse to write where nobody could read it: in a file that was removed, or has a hole."""
        written, inode = self._written.get(_writer_of(path), ("", 0))
        problem = ""
        if not status.st_nlink:
            problem = "it was removed"
        elif status.st_size < at:
            problem = f"it has {status.st_size} bytes instead of {at}"
        elif written != path:
            return  # a start has found it, and knows its length
        elif self._has_stable_inodes and status.st_ino != inode:
            problem = "it is another file"
        elif status.st_size > at:
            problem = f"it has {status.st_size} bytes instead of {at}"
        if problem:
            raise FileChanged(f"{path} was changed by another program: {problem}")

    def _write(self, file: int, at: int, pieces: Sequence[bytes], reserve: int) -> None:
        size = sum(map(len, pieces))
        room = os.fstatvfs(file)
        free = room.f_bavail * room.f_frsize
        if size and free - size < reserve:
            raise ReserveReached(errno.ENOSPC, reserved(free, reserve))
        data = memoryview(b"".join(pieces))
        while data:
            written = os.pwrite(file, data, at)
            at += written
            data = data[written:]

    def _take_back(self, file: int, path: str, at: int) -> None:
        """Cut off an incomplete write, and sync that.

        The reply will say that nothing of it was stored.
        """
        try:
            if at:
                os.ftruncate(file, at)
                _sync(file, path)
            else:
                (self.root / path).unlink()
                self._sync_folder(path)
        except OSError as error:
            raise StorageFailed(
                f"{path}: an incomplete write cannot be undone: {error.strerror}"
            ) from error

    def replace(self, path: str, data: bytes) -> None:
        """See `Disk`."""
        target = self.root / path
        try:
            if not target.parent.exists():
                target.parent.mkdir(mode=0o700)
                self._sync_folder(str(target.parent.relative_to(self.root)))
            hidden = target.with_name(f".{target.name}")
            hidden.unlink(missing_ok=True)
            self._put(str(hidden.relative_to(self.root)), 0, [data], 0)  # this may use the reserve
            hidden.replace(target)
            self._forget(path)
        except OSError as error:
            raise _failure(error, path) from error
        self._sync_folder(path)

    def _forget(self, path: str) -> None:
        """Note that a path is another file now."""
        writer = _writer_of(path)
        if self._written.get(writer, ("", 0))[0] == path:
            del self._written[writer]

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        (self.root / old).rename(self.root / new)
        self._written.pop(old, None)
        self._sync_folder(new)

    def remove(self, paths: Sequence[str]) -> None:
        """See `Disk`."""
        for path in paths:
            self._written.pop(path, None)
            target = self.root / path
            if target.is_dir() and not target.is_symlink():
                target.rmdir()
            else:
                target.unlink(missing_ok=True)
        if paths:
            self._sync_folder(paths[-1])

    def drop_cache(self, path: str) -> None:
        """See `Disk`."""
        file = os.open(self.root / path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _sync(file, path)
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)

    def sync_names(self, folder: str) -> None:
        """See `Disk`."""
        sync_folder(self.root / folder)

    def _sync_folder(self, path: str) -> None:
        sync_folder((self.root / path).parent)


def _is_hidden(path: str) -> bool:
    _, _, name = path.rpartition("/")
    return name.startswith(".")


def _writer_of(path: str) -> str:
    """Returns what distinguishes those who write: a log, and what is made beside it."""
    if _is_hidden(path):
        return path
    folder, _, _ = path.rpartition("/")
    return folder


def reserved(free: int, reserve: int) -> str:
    """Returns that a disk has some bytes left, and more than that stay free, for a person."""
    return (
        f"{free // MIB} MiB are free, and {reserve // MIB} MiB stay free, for checkpoints and for "
        "whoever makes room"
    )


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(folder, str(path))
    finally:
        os.close(folder)


def sync_parents(path: Path) -> None:
    """Put the name of a folder on the disk, and those of the folders it is in.

    Where another file system begins, it is mounted, so there is no name to lose. A parent that this
    user may not open was made by somebody else, and so was everything above it.
    """
    # Not by its absolute path: above a working folder of this user's, there may be one that it may
    # not search, and then no absolute path leads anywhere.
    folder = path
    status = folder.stat()
    while True:
        parent = folder / ".."
        try:
            above = parent.stat()
        except PermissionError:
            return
        is_root = above.st_ino == status.st_ino
        if above.st_dev != status.st_dev or is_root:
            return
        with suppress(PermissionError):
            sync_folder(parent)
        folder = parent
        status = above


def _sync(file: int, path: str) -> None:
    """Put a file on the disk.

    A failure is never retried: the system may count the lost pages as written.
    """
    try:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(file)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be synced: {error.strerror}") from error


def _failure(error: OSError, path: str) -> Exception:
    if isinstance(error, ReserveReached):
        return DiskFull(f"there is no room on the disk for {path}: {error.strerror}")
    if error.errno == errno.EFBIG:
        return FileTooLong(
            f"there is no room in {path}: it has reached the limit of a file's size (ulimit -f, or "
            "LimitFSIZE of a service)"
        )
    if error.errno in FULL:
        return DiskFull(f"there is no room on the disk for {path}")
    return StorageFailed(f"{path} cannot be written: {error.strerror}")
