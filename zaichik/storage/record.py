"""A record: one entry of a topic's log, as bytes.

    magic u32 | header_crc u32 | body_crc u32 | body_len u32 | base u64 | accepted_us i64 |
    count u32 | kind u16 | zero u16 | producer u64 | sequence u64 | group_at u32 |
    dropped_len u32 | dropped | the rest of the body

Numbers are little-endian, as on the wire. There are two checksums, so that a length is trusted
before it is used, and a header can be believed when its body is lost. Both begin with the salt of
the segment: bytes that another file has left on the disk never pass for a record of this one.
`group_at` is where the group of records that were synced together begins. It distinguishes an
unsynced tail from damage: a group is begun only after the sync of the one before.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

HEADER = Struct("<IIIIQqIHHQQII")
MAGIC = 0x4B49415A  # the letters ZAIK
_FIRST_FIELDS = Struct("<IIIIQqI")
MAGIC_BYTES = Struct("<I").pack(MAGIC)
CHECKED_FROM = 8  # the header's checksum is over everything after it


class RecordKind(IntEnum):
    """What a record says."""

    MESSAGES = 0  # the body is a batch; of 0 messages if compaction dropped all of them
    # the body is JSON: the committed offset of each named subscription that has moved; null:
    # forgotten
    POSITIONS = 1
    # a repair found these offsets damaged; the body is zeros, so that later records keep their
    # places
    LOST = 2
    # the body is JSON: the next ticket, and what has changed of shared names; see `saved_names`
    NAMES = 4
    REFUSED = 3  # a numbered batch was refused for good; the body is JSON: code, message, field


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What is written about one publish, or about positions.

    Attributes:
        base: the offset of its first message; without messages, of the next one to come.
        accepted_us: when the broker accepted it.
        count: how many offsets it takes.
        body: bytes; see `kind`.
        kind: see `RecordKind`.
        producer, sequence: of a numbered batch; else 0.
        dropped: a bit for each message published, set if it was compacted; empty if none was.
    """

    base: int
    accepted_us: int
    count: int = 0
    body: bytes = b""
    kind: int = RecordKind.MESSAGES
    producer: int = 0
    sequence: int = 0
    dropped: bytes = b""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return HEADER.size + len(self.dropped) + len(self.body)

    def pack(self, salt: int, group_at: int) -> bytes:
        """Returns the record as bytes, for a segment with that salt.

        `group_at` is where its group begins.
        """
        body = self.dropped + self.body
        fields = (
            len(body),
            self.base,
            self.accepted_us,
            self.count,
            self.kind,
            0,
            self.producer,
            self.sequence,
            group_at,
            len(self.dropped),
        )
        body_crc = crc32(body, salt)
        header = HEADER.pack(MAGIC, 0, body_crc, *fields)
        header_crc = crc32(header[CHECKED_FROM:], salt)
        return HEADER.pack(MAGIC, header_crc, body_crc, *fields) + body


class RecordHeader(NamedTuple):
    """A record's header that has passed its check.

    Attributes:
        body_crc, body: the checksum and the bytes of what follows.
        base, accepted_us, kind, producer, sequence: see `StoredRecord`.
        messages: its count.
        group_at: where its group begins.
        dropped: how many bytes of the body are the bitmap.
    """

    body_crc: int
    body: int
    base: int
    accepted_us: int
    messages: int
    kind: int
    zero: int
    producer: int
    sequence: int
    group_at: int
    dropped: int

    @property
    def size(self) -> int:
        """Bytes of the whole record."""
        return HEADER.size + self.body

    @property
    def end(self) -> int:
        """The offset after its last message."""
        return self.base + self.messages

    def may_be_at(self, position: int, least: int) -> bool:
        """Returns whether a record with this header can have been written at a position of a file.

        What a disk has written in the wrong place can be whole otherwise, and of the same file. But
        no group begins after its records, and no record has offsets of those before it.

        Args:
            position: the place.
            least: the offset after the records before that place.
        """
        return self.group_at <= position and self.base >= least

    def record(self, data: bytes, at: int, salt: int) -> StoredRecord | None:
        """Returns the record whose header is at that index of the data; None if it is not whole."""
        begin = at + HEADER.size
        body, bitmap = data[begin : begin + self.body], self.dropped
        if len(body) < self.body or crc32(body, salt) != self.body_crc:
            return None
        _, _, base, accepted_us, count, kind, _, producer, sequence, _, _ = self
        return StoredRecord(
            base, accepted_us, count, body[bitmap:], kind, producer, sequence, body[:bitmap]
        )


def header(data: bytes, at: int, salt: int) -> RecordHeader | None:
    """Returns the header that begins at that index of the data.

    None if there is none, or not all of it.
    """
    if len(data) - at < HEADER.size or not data.startswith(MAGIC_BYTES, at):
        return None
    _, crc, *fields = HEADER.unpack_from(data, at)
    checked = data[at + CHECKED_FROM : at + HEADER.size]
    if crc32(checked, salt) != crc:
        return None
    return RecordHeader(*fields)


def next_header(data: bytes, start: int, salt: int) -> int | None:
    """Returns the index of the first valid header from that one on; None if there is none."""
    at = data.find(MAGIC_BYTES, start)
    while at >= 0 and header(data, at, salt) is None:
        at = data.find(MAGIC_BYTES, at + 1)
    if at < 0:
        return None
    return at


def skip(data: bytes, at: int, salt: int, wanted: int) -> tuple[int, int]:
    """Returns the index after the records from that index on that end below an offset.

    And the offset after the last of them. The first one must end below it. Only their headers are
    looked at, and each must go on where the one before has ended.
    A reader may have to skip hundreds of thousands of them.
    """
    last = len(data) - HEADER.size
    end = -1
    while at <= last:
        magic, crc, _, body, base, _, count = _FIRST_FIELDS.unpack_from(data, at)
        checked = data[at + CHECKED_FROM : at + HEADER.size]
        if magic != MAGIC or base + count >= wanted or crc32(checked, salt) != crc:
            break
        if base != end and end >= 0:
            break
        at += HEADER.size + body
        end = base + count
    return at, end
