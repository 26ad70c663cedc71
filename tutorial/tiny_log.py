"""A log in one file: it gives back what it was given, whatever happens.

The plain twin of zaichik/storage, and the program of chapter 17 of the tutorial.

The idea. A log is a file that only grows at its end. What was *acknowledged*
is on the disk: a write comes back only after a sync. Records that are synced
together are a *group*, and a group is begun only after the sync of the one
before. So after a crash the end of the file may hold a part of one group, and
everything before that is good.

A record is a header and a body. Numbers are little-endian, u32:

    magic | checksum of the rest of the header
          | length of the body | checksum of the body | where its group begins
    body

There are two checksums, so that a length is checked before it's used, and a
header can be trusted when its body is lost. The group's place decides what bad
bytes are. If a header of a later group follows, they were synced once, and
the log is *damaged*: it can be read up to there, and takes no more. If none
does, they are a *torn* end: they were never acknowledged, and are cut off.

`append` is for many threads. What gathers while one group is written and
synced is the next group; there is no timer. This is group commit. A sync that
fails is never tried again, because Linux then counts as written what isn't:
the log has *failed*, and only a new start can find out what is on the disk.

Limits. To stay short, it leaves out what zaichik/storage does:

* It is one file, read into memory as a whole, and nothing is ever deleted.
* A full disk is a failure. zaichik takes the group back and goes on.
* A body that contains records of a log may make a torn end look damaged
  (exercise 17.2). zaichik's checksums begin with a salt of each file.
* A bad bit in the last group looks torn. zaichik's checkpoints prove what was
  synced, as soon as a topic has been quiet for a second or so.
* After a failed sync, the system's memory may hold what the disk doesn't, and
  a start reads from there. zaichik has that memory dropped first.
"""

import os
import sys
from pathlib import Path
from struct import Struct
from threading import Event, Lock
from typing import Protocol
from zlib import crc32

MAGIC = b"tiny"
TOP = Struct("<4sI")  # the magic, and a checksum of the rest
REST = Struct("<III")  # the body's length and checksum, and its group's place
SIZE = TOP.size + REST.size
WHOLE, TORN, DAMAGED, FAILED = "whole", "torn", "damaged", "failed"


class Disk(Protocol):
    """A file, as far as a log needs one."""

    def read(self) -> bytes:
        """All that's in it."""

    def write(self, at: int, data: bytes) -> None:
        """Put these bytes there."""

    def sync(self) -> None:
        """Come back when all that was written is on the disk."""

    def cut(self, at: int) -> None:
        """Let the file end there, on the disk, too."""


class File:
    """A file of this machine."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.sync()  # what is to be read may be in memory only
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)  # a file that isn't listed is as good as lost
        os.close(folder)

    def read(self) -> bytes:
        """See `Disk`."""
        return os.pread(self._file, os.fstat(self._file).st_size, 0)

    def write(self, at: int, data: bytes) -> None:
        """See `Disk`."""
        while data:
            written = os.pwrite(self._file, data, at)
            at, data = at + written, data[written:]

    def sync(self) -> None:
        """See `Disk`."""
        if sys.platform == "darwin":  # where a mere sync stops at the drive
            import fcntl

            fcntl.fcntl(self._file, fcntl.F_FULLFSYNC)
        else:
            os.fdatasync(self._file)

    def cut(self, at: int) -> None:
        """See `Disk`."""
        os.ftruncate(self._file, at)
        self.sync()


def packed(body: bytes, group_at: int) -> bytes:
    """A record: a header, and the body."""
    rest = REST.pack(len(body), crc32(body), group_at)
    return TOP.pack(MAGIC, crc32(rest)) + rest + body


def header(data: bytes, at: int) -> tuple[int, ...] | None:
    """What the rest of the header there says; None: it isn't one."""
    if len(data) - at < SIZE:
        return None
    rest = data[at + TOP.size : at + SIZE]
    if TOP.unpack_from(data, at) != (MAGIC, crc32(rest)):
        return None
    return REST.unpack(rest)


def unpacked(data: bytes, at: int) -> bytes | None:
    """The body of the record that begins there; None: it isn't whole."""
    if (found := header(data, at)) is None:
        return None
    length, crc, _ = found
    body = data[at + SIZE : at + SIZE + length]
    return body if (len(body), crc32(body)) == (length, crc) else None


def judged(data: bytes, end: int) -> str:
    """What the bytes are that follow the last good record."""
    at = data.find(MAGIC, end)
    while at >= 0:
        found = header(data, at)
        if found and found[2] > end:  # begun after these were synced
            return DAMAGED
        at = data.find(MAGIC, at + 1)
    return TORN if end < len(data) else WHOLE


def recover(data: bytes) -> tuple[list[bytes], int, str]:
    """The bodies of all records, where they end, and what follows."""
    bodies, at = [], 0
    while (body := unpacked(data, at)) is not None:
        bodies.append(body)
        at += SIZE + len(body)
    return bodies, at, judged(data, at)


class Log:
    """Bodies, in the order in which they came."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock, self._turn = Lock(), Lock()
        self._next: tuple[list[bytes], Event] = ([], Event())
        self.bodies, self._end, self.verdict = recover(disk.read())
        if self.verdict == TORN:
            disk.cut(self._end)

    def write(self, *bodies: bytes) -> None:
        """Put these at the end, as one group, and on the disk."""
        self._require()
        data = b"".join(packed(body, self._end) for body in bodies)
        try:
            self._disk.write(self._end, data)
            self._disk.sync()
        except OSError:
            self.verdict = FAILED  # for good
            raise
        self._end += len(data)
        self.bodies += bodies

    def append(self, body: bytes) -> None:
        """Come back when it's on the disk. Any number of threads may ask."""
        with self._lock:
            group, done = self._next
            group.append(body)
            is_first = len(group) == 1
        if is_first:  # who writes, for all that join while it waits
            with self._turn:
                with self._lock:
                    self._next = ([], Event())
                try:
                    self.write(*group)
                finally:
                    done.set()
        done.wait()
        self._require()  # whoever wrote it may have failed

    def _require(self) -> None:
        if self.verdict in {DAMAGED, FAILED}:
            raise OSError(f"the log is {self.verdict}: its end is unknown")
