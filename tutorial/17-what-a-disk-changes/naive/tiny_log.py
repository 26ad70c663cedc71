"""A log: it gives back what it was given, whatever the machine does."""

from struct import Struct
from typing import Protocol

TOP = Struct("<I")  # how long the body is


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


def packed(body: bytes) -> bytes:
    """A record: a header, and the body."""
    return TOP.pack(len(body)) + body


def unpacked(data: bytes, at: int) -> bytes | None:
    """The body of the record that begins there; None: it isn't whole."""
    start = at + TOP.size
    if start > len(data):
        return None
    (length,) = TOP.unpack_from(data, at)
    body = data[start : start + length]
    return body if len(body) == length else None


def recover(data: bytes) -> tuple[list[bytes], int]:
    """The bodies of all records, and where they end."""
    bodies, at = [], 0
    while (body := unpacked(data, at)) is not None:
        bodies.append(body)
        at += TOP.size + len(body)
    return bodies, at


class Log:
    """Bodies, in the order in which they came."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.bodies, self._end = recover(disk.read())

    def write(self, *bodies: bytes) -> None:
        """Put these at the end, as one group."""
        data = b"".join(map(packed, bodies))
        self._disk.write(self._end, data)
        self._end += len(data)
        self.bodies += bodies
