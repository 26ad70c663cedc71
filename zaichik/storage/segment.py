"""A segment: one file of a topic's log, its head, and an index of the offsets in it.

    00000000000000150000.log     head of 4 KiB: the topic, the first offset, a salt; then records

A segment begins with the first record that needs it. A run of the broker does not continue a
segment of an earlier run, unless that has no messages, for its name is the offset of the first. So
a segment whose end is known never changes. The index, from offsets to positions in the file, is
kept in memory. The writer and the readers add to it as they go: a reader that wants what has not
been read since the start goes through the headers before it.
"""

import json
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

from zaichik.base.json_text import NotJson, parsed_object
from zaichik.storage.disk import Disk
from zaichik.storage.shapes import U32, are_ranges, are_settings, is_number, is_text, is_time

HEAD_SIZE = 4096
INDEX_EVERY = 64 * 1024  # bytes
FORMAT = 1
TABLE_FORMAT = 2  # of the files of a table, which have records and heads that format 1 has not
_HEAD_MARK = b"zaichik log 1\n"
_CHECKSUM = 9  # bytes: eight digits, and the end of the line


def seal(mark: bytes, data: bytes) -> bytes:
    """Returns data with two lines before it: a mark, and its checksum."""
    return b"%b%08x\n%b" % (mark, crc32(data), data)


def unseal(mark: bytes, data: bytes) -> bytes | None:
    """Returns the data that `seal` was given; None if it is not whole."""
    inner = data[len(mark) + _CHECKSUM :]
    if data == seal(mark, inner):
        return inner
    return None


def unseal_object(mark: bytes, data: bytes) -> dict[str, Any] | None:
    """Returns the JSON object that `seal` was given; None if it is not whole, or none."""
    inner = unseal(mark, data)
    if inner is None:
        return None
    try:
        return parsed_object(inner)
    except NotJson:
        return None


class NewerFormat(Exception):
    """A later version of zaichik has written this: nothing here may be touched."""


def sorted_names(files: Iterable[str], suffix: str) -> list[str]:
    """Returns the names that are an offset with that suffix, the lowest first.

    Other files are not ours.
    """
    return sorted(name for name in files if re.fullmatch(rf"[0-9]{{20}}\.{suffix}", name))


class TopicHeader(NamedTuple):
    """A topic's identity and settings, as they are kept on the disk.

    Attributes:
        name, epoch: see `TopicController`.
        settings: by name.
        lost: the offsets that repairs have found damaged, as pairs: the first, and the one after
            the last.
    """

    name: str
    epoch: int
    settings: dict[str, int]
    lost: tuple[tuple[int, int], ...] = ()

    def is_of(self, other: "TopicHeader") -> bool:
        """Returns whether both are of the same topic."""
        return self.name == other.name and self.epoch == other.epoch

    def fields(self) -> dict[str, Any]:
        """Returns what each file says about the topic."""
        version = FORMAT
        if self.is_table:
            version = TABLE_FORMAT
        return {
            "format": version,
            "name": self.name,
            "epoch": self.epoch,
            "settings": self.settings,
        }

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return bool(self.settings.get("table"))

    @classmethod
    def of(cls, fields: dict[str, Any]) -> "TopicHeader | None":
        """Returns the topic that a file describes; None if what it says makes no sense.

        Raises:
            NewerFormat: a later version wrote the file.
        """
        version = fields.get("format")
        name = fields.get("name")
        if not is_number(version) or not is_text(name):
            return None
        if version > TABLE_FORMAT:
            raise NewerFormat(
                f"the log of {name!r} has format {version}, and this zaichik knows {TABLE_FORMAT}"
            )
        epoch = fields.get("epoch")
        settings = fields.get("settings")
        ranges = fields.get("lost", [])
        if not is_number(epoch) or not are_settings(settings) or not are_ranges(ranges):
            return None
        lost = tuple((begin, end) for begin, end in ranges)
        return cls(name, epoch, settings, lost)


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
        until: of one that rewriting has made: what begins below this offset is left over from what
            it has replaced. Else 0.
        clean_below: no message in it is superseded by one below this offset.
        deleted_below: of one that rewriting has made: an offset above every tombstone that is gone
            from it.
        besides: bytes of one that this run of the broker has rewritten, besides its live messages
            and what is stuck: its head, headers, positions. 0 if that is not known.
        stuck_below, stuck_bytes: of tombstones that are gone from the table and could not be left
            out yet: the offset after the last one, and what they take.
        is_rewritable: whether it was not found damaged.
        offsets, times, positions: the index, as columns; empty if it is not known yet.
    """

    def __init__(
        self, folder: str, base: int, salt: int, accepted_us: int, size: int = HEAD_SIZE
    ) -> None:
        self.path = f"{folder}/{base:020}.log"
        self.base = base
        self.salt = salt
        self.accepted_us = accepted_us
        self.size = size
        self.until = 0
        self.clean_below = 0
        self.deleted_below = 0
        self.besides = 0
        self.stuck_below = 0
        self.stuck_bytes = 0
        self.is_rewritable = True
        self.offsets = array("Q")
        self.times = array("q")
        self.positions = array("I")
        self._noting = Lock()

    def head(self, topic: TopicHeader) -> bytes:
        """Returns the first bytes of the file."""
        fields = {
            **topic.fields(),
            "base": self.base,
            "salt": self.salt,
            "accepted_us": self.accepted_us,
        }
        if topic.is_table:
            fields["until"] = self.until
            fields["clean_below"] = self.clean_below
            fields["deleted_below"] = self.deleted_below
        return seal(_HEAD_MARK, json.dumps(fields).encode()).ljust(HEAD_SIZE, b"\0")

    @classmethod
    def open(
        cls, disk: Disk, folder: str, base: int, size: int
    ) -> "tuple[Segment, TopicHeader] | None":
        """Returns a segment that is on the disk, and its topic; None if its head is not whole.

        Raises:
            NewerFormat: a later version wrote it.
        """
        head = disk.read(f"{folder}/{base:020}.log", 0, HEAD_SIZE)
        fields = unseal_object(_HEAD_MARK, head.rstrip(b"\0"))
        if fields is None or len(head) < HEAD_SIZE:
            return None
        topic = TopicHeader.of(fields)
        # Its name is not that of the file: somebody has renamed or copied it.
        if topic is None or fields.get("base") != base:
            return None
        salt = fields.get("salt")
        accepted_us = fields.get("accepted_us")
        if not is_number(salt, U32) or not is_time(accepted_us):
            return None
        segment = cls(folder, base, salt, accepted_us, size)
        of_table = [fields.get(name, 0) for name in ("until", "clean_below", "deleted_below")]
        if not all(is_number(value) for value in of_table):
            return None
        segment.until, segment.clean_below, segment.deleted_below = of_table
        return segment, topic

    # -- the index ---------------------------------------------------------------------------------

    def note(self, offset: int, accepted_us: int, position: int) -> None:
        """Remember where a record is, if the last one remembered is far enough away."""
        with self._noting:  # two readers may come here at the same time
            if not self.positions or position - self.positions[-1] >= INDEX_EVERY:
                # First: other threads look for an offset or a time, and then for this.
                self.positions.append(position)
                self.offsets.append(offset)
                self.times.append(accepted_us)

    def position(self, offset: int) -> int:
        """Returns the position from which to look for an offset."""
        index = bisect_right(self.offsets, offset) - 1
        if index < 0:
            return HEAD_SIZE
        return self.positions[index]

    def place_of_time(self, time_us: int) -> tuple[int, int]:
        """Returns the offset and the position from which to look for a time, or later ones."""
        index = bisect_right(self.times, time_us - 1) - 1
        if index < 0:
            return self.base, HEAD_SIZE
        return self.offsets[index], self.positions[index]
