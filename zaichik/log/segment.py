"""A segment: one file of a topic's log, its head, and where in it which offsets are.

    00000000000000150000.log     head of 4 KiB: the topic, the first offset, a salt; then records
    00000000000000150000.index   offset u64 | accepted_us i64 | position u32, for a record every 64 KiB

A segment begins with the first record that needs it. No run of the broker goes on in a segment of an earlier one,
unless that has no messages, for its name is the offset of the first. So a segment whose end is known never changes. The
index is a cache. It is written when its segment is complete, and made again from the records if it is missing or wrong.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from zaichik.log.disk import Disk
from zaichik.log.record import HEADER, Header, header

HEAD_SIZE = 4096
INDEX_EVERY = 64 * 1024  # bytes
FORMAT = 1
_SEALED = Struct("<16sII")  # what it is, bytes, checksum
_INDEX_MARK, _HEAD_MARK = b"zaichik index 1\n", b"zaichik log 1\n\0\0"


def seal(mark: bytes, data: bytes, salt: int = 0) -> bytes:
    """Returns data with a mark, its size and its checksum before it."""
    return _SEALED.pack(mark, len(data), crc32(data, salt)) + data


def unseal(mark: bytes, data: bytes, salt: int = 0) -> bytes | None:
    """Returns the data that was sealed so; None if it is not whole."""
    if len(data) < _SEALED.size:
        return None
    found, size, crc = _SEALED.unpack_from(data)
    inner = data[_SEALED.size : _SEALED.size + size]
    return inner if found == mark and len(inner) == size and crc32(inner, salt) == crc else None


class NewerFormat(Exception):
    """A later zaichik has written this: nothing here may be touched."""


def named(files: Iterable[str], suffix: str) -> list[str]:
    """Returns the names that are an offset with that suffix, the lowest first. Other files are not ours."""
    return sorted(name for name in files if re.fullmatch(rf"[0-9]{{20}}\.{suffix}", name))


class Topic(NamedTuple):
    """A topic's identity and settings, as they are kept on the disk.

    Attributes:
        name, epoch: see `TopicController`.
        settings: by name.
    """

    name: str
    epoch: int
    settings: dict[str, int]

    def told(self) -> dict[str, Any]:
        """Returns what a file says about it."""
        return {"format": FORMAT, **self._asdict()}

    @classmethod
    def of(cls, told: dict[str, Any]) -> "Topic":
        """Returns the topic that a file tells of.

        Raises:
            NewerFormat: the file is not for this version to read.
        """
        if told["format"] > FORMAT:
            raise NewerFormat(
                f"the log of {told['name']!r} has format {told['format']}, and this zaichik knows {FORMAT}"
            )
        return cls(told["name"], told["epoch"], told["settings"])


class Segment:
    """One file of a log.

    Args:
        folder: of the topic.
        base: the offset of its first message.
        salt: begins its checksums.
        accepted_us: of its first record.
        size: bytes on the disk.

    Attributes:
        path, base, salt, accepted_us, size: see above.
        offsets, times, positions: the index, as columns; empty if it is not known yet.
    """

    def __init__(self, folder: str, base: int, salt: int, accepted_us: int, size: int = HEAD_SIZE) -> None:
        self.path = f"{folder}/{base:020}.log"
        self.base = base
        self.salt = salt
        self.accepted_us = accepted_us
        self.size = size
        self.offsets, self.times, self.positions = array("Q"), array("q"), array("I")

    def head(self, topic: Topic) -> bytes:
        """Returns the first bytes of the file."""
        told = {**topic.told(), "base": self.base, "salt": self.salt, "accepted_us": self.accepted_us}
        return seal(_HEAD_MARK, json.dumps(told).encode()).ljust(HEAD_SIZE, b"\0")

    @classmethod
    def opened(cls, disk: Disk, folder: str, base: int, size: int) -> "tuple[Segment, Topic] | None":
        """Returns a segment that is on the disk, and the topic it is of; None if its head is not whole.

        Raises:
            NewerFormat: it is not for this version to read.
        """
        head = disk.read(f"{folder}/{base:020}.log", 0, HEAD_SIZE)
        data = unseal(_HEAD_MARK, head)
        if data is None or len(head) < HEAD_SIZE:
            return None
        told = json.loads(data)
        topic = Topic.of(told)
        return (cls(folder, base, told["salt"], told["accepted_us"], size), topic) if told["base"] == base else None

    # -- the index ---------------------------------------------------------------------------------------------

    def note(self, offset: int, accepted_us: int, position: int) -> None:
        """Remember where a record is, if the last one remembered is far enough away."""
        if not self.positions or position - self.positions[-1] >= INDEX_EVERY:
            self.positions.append(position)  # first: other threads look for an offset or a time, and then for this
            self.offsets.append(offset)
            self.times.append(accepted_us)

    def position(self, offset: int) -> int:
        """Returns where to begin to look for an offset: at most 64 KiB and a record before it."""
        index = bisect_right(self.offsets, offset) - 1
        return self.positions[index] if index >= 0 else HEAD_SIZE

    def place_of_time(self, time_us: int) -> tuple[int, int]:
        """Returns the offset and the position at which to begin to look for what was accepted then or later."""
        index = bisect_right(self.times, time_us - 1) - 1
        return (self.offsets[index], self.positions[index]) if index >= 0 else (self.base, HEAD_SIZE)

    def index(self) -> bytes:
        """Returns the index as the content of its file."""
        return seal(_INDEX_MARK, self.offsets.tobytes() + self.times.tobytes() + self.positions.tobytes(), self.salt)

    @property
    def index_path(self) -> str:
        """The index's file."""
        return self.path.removesuffix(".log") + ".index"

    def load_index(self, disk: Disk, names: dict[str, int]) -> None:
        """Read the index of a segment that is complete, or else make it from the records."""
        name = self.index_path.rpartition("/")[2]
        data = unseal(_INDEX_MARK, disk.read(self.index_path, 0, names[name]), self.salt) if name in names else None
        if data is None:
            made = Segment("", self.base, self.salt, self.accepted_us)  # two threads may do this at the same time
            for position, found in headers(disk, self, HEAD_SIZE):
                made.note(found.record.base, found.record.accepted_us, position)
            self.times, self.positions, self.offsets = made.times, made.positions, made.offsets
            return
        count = len(data) // 20
        times, positions, offsets = array("q"), array("I"), array("Q")
        offsets.frombytes(data[: 8 * count])
        times.frombytes(data[8 * count : 16 * count])
        positions.frombytes(data[16 * count :])
        self.positions, self.offsets, self.times = positions, offsets, times


def headers(disk: Disk, segment: Segment, position: int) -> Iterator[tuple[int, Header]]:
    """Returns the headers from a position on, and where they are, up to the first that is not whole."""
    data, start = b"", position
    while position < segment.size:
        at = position - start
        if len(data) - at < HEADER.size:
            data, start, at = disk.read(segment.path, position, 4 * INDEX_EVERY), position, 0
        found = header(data, at, segment.salt)
        if found is None:
            return
        yield position, found
        position += found.size
