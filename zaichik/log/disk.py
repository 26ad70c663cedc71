"""All that a log asks of a file system, and how an operating system does it.

Every method blocks, so only worker threads call them. There is no table of open files: a file is opened, written,
synced and closed again, because opening costs microseconds and a sync a millisecond. So the log needs no more
descriptors than it has threads.
"""

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

FULL = {errno.ENOSPC, errno.EDQUOT}
RESERVE = 64 * 1024 * 1024  # bytes that stay free: for checkpoints, and for the person who has to make room


class StorageFailed(Exception):
    """The disk may have lost what was written. There is no way to know, so the broker ends."""


def failure_of(error: StorageFailed | OSError) -> StorageFailed:
    """Returns a disk's error as the exception that ends a broker."""
    return error if isinstance(error, StorageFailed) else StorageFailed(str(error))


class DiskFull(Exception):
    """There is no room. Nothing was written."""


class Disk(Protocol):
    """A folder on a disk. Paths are relative to it, with slashes."""

    def files(self, folder: str) -> dict[str, int]:
        """Returns the sizes of the files in a folder, by name, folders as -1; nothing if there is no such folder."""

    def read(self, path: str, at: int, size: int) -> bytes:
        """Returns that many bytes from there on; fewer at the end of the file."""

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        """Write these bytes at `at`, the end of the file, and sync them. At 0 the file is made, and must be new.

        Raises:
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
        """Make the next reads of a file come from the disk: what the system has in memory may not be there."""


class PosixDisk:
    """A folder of this machine.

    Args:
        root: the folder.
        reserve: bytes that a write must leave free on the file system.
    """

    def __init__(self, root: Path, reserve: int = RESERVE) -> None:
        self.root = root
        self.reserve = reserve

    def files(self, folder: str) -> dict[str, int]:
        """See `Disk`."""
        try:
            with os.scandir(self.root / folder) as found:
                return {
                    it.name: -1 if it.is_dir(follow_symlinks=False) else it.stat(follow_symlinks=False).st_size
                    for it in found
                }
        except FileNotFoundError:
            return {}

    def read(self, path: str, at: int, size: int) -> bytes:
        """See `Disk`."""
        with (self.root / path).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), size, at)

    def write(self, path: str, at: int, pieces: Sequence[bytes]) -> None:
        """See `Disk`."""
        self._put(path, at, pieces, self.reserve)

    def _put(self, path: str, at: int, pieces: Sequence[bytes], reserve: int) -> None:
        try:
            file = os.open(self.root / path, os.O_RDWR | os.O_CLOEXEC | (0 if at else os.O_CREAT | os.O_EXCL), 0o600)
        except OSError as error:
            raise _failure(error, path) from error
        try:
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

    def _write(self, file: int, at: int, pieces: Sequence[bytes], reserve: int) -> None:
        size = sum(map(len, pieces))
        room = os.fstatvfs(file)
        if size and room.f_bavail * room.f_frsize - size < reserve:
            raise OSError(errno.ENOSPC, f"a write would leave less than {reserve} bytes free")
        if not size or os.fstat(file).st_size > at:
            os.ftruncate(file, at)
        data = memoryview(b"".join(pieces))
        while data:
            written = os.pwrite(file, data, at)
            at, data = at + written, data[written:]

    def _take_back(self, file: int, path: str, at: int) -> None:
        """Cut off an incomplete write, and sync that: the reply will say that nothing of it was stored."""
        try:
            if at:
                os.ftruncate(file, at)
                _sync(file, path)
            else:
                (self.root / path).unlink()
        except OSError as error:
            raise StorageFailed(f"{path}: an incomplete write cannot be undone: {error.strerror}") from error

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
        except OSError as error:
            raise _failure(error, path) from error
        self._sync_folder(path)

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        (self.root / old).rename(self.root / new)
        self._sync_folder(new)

    def remove(self, paths: Sequence[str]) -> None:
        """See `Disk`."""
        for path in paths:
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

    def _sync_folder(self, path: str) -> None:
        sync_folder((self.root / path).parent)


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(folder, str(path))
    finally:
        os.close(folder)


def _sync(file: int, path: str) -> None:
    """Put a file on the disk. A failure is never retried: the system may count the lost pages as written."""
    try:
        if sys.platform == "darwin":
            import fcntl

            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(file)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be synced: {error.strerror}") from error


def _failure(error: OSError, path: str) -> Exception:
    if error.errno in FULL:
        return DiskFull(f"there is no room on the disk for {path}")
    return StorageFailed(f"{path} cannot be written: {error.strerror}")
