"""A record: one entry of a topic's log, as bytes.

    magic u32 | header_crc u32 | body_crc u32 | body_len u32 | base u64 | accepted_us i64 | count u32 | kind u16 |
    zero u16 | producer u64 | sequence u64 | group_at u32 | dropped_len u32 | dropped | the rest of the body

Numbers are little-endian, as on the wire. There are two checksums, so that a length is trusted before it is used, and a
header can be believed when its body is lost. Both begin with the salt of the segment: bytes that another file has left
on the disk never pass for a record of this one. `group_at` is where the group of records that were synced together
begins. It tells an unsynced tail from damage: a later group is begun only after the sync of the one before.
"""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

HEADER = Struct("<IIIIQqIHHQQII")
MAGIC = 0x4B49415A  # the letters ZAIK
_MAGIC = Struct("<I").pack(MAGIC)
_CHECKED_FROM = 8  # the header's checksum is over everything after it


class Kind(IntEnum):
    """What a record says."""

    MESSAGES = 0  # the body is a batch; of 0 messages if compaction dropped all of them
    POSITIONS = 1  # the body is JSON: the committed offset of each named subscription that has moved; null: forgotten
    REFUSED = 3  # a numbered batch was refused for good; the body is JSON: code, message, field


@dataclass(frozen=True, slots=True)
class Record:
    """What is written about one publish, or about positions.

    Attributes:
        base: the offset of its first message; without messages, of the next one to come.
        accepted_us: when the broker accepted it.
        count: how many offsets it takes.
        body: bytes; see `kind`.
        kind: see `Kind`.
        producer, sequence: of a numbered batch; else 0.
        dropped: a bit for each message published, set if it was compacted; empty if none was.
    """

    base: int
    accepted_us: int
    count: int = 0
    body: bytes = b""
    kind: int = Kind.MESSAGES
    producer: int = 0
    sequence: int = 0
    dropped: bytes = b""

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return HEADER.size + len(self.dropped) + len(self.body)

    def pack(self, salt: int, group_at: int) -> bytes:
        """Returns the record as the bytes for a segment with that salt, in the group that begins there."""
        body = self.dropped + self.body
        fields = (
            len(body), self.base, self.accepted_us, self.count, self.kind, 0, self.producer, self.sequence, group_at,
            len(self.dropped),
        )  # fmt: skip
        body_crc = crc32(body, salt)
        header = HEADER.pack(MAGIC, 0, body_crc, *fields)
        header_crc = crc32(header[_CHECKED_FROM:], salt)
        return HEADER.pack(MAGIC, header_crc, body_crc, *fields) + body


class Header(NamedTuple):
    """A record's header that has passed its check.

    Attributes:
        record: the record, without its body.
        size: bytes of the whole record.
        group_at: where its group begins.
        body_crc: the checksum of the body.
        dropped: how many bytes of the body are the bitmap.
    """

    record: Record
    size: int
    group_at: int
    body_crc: int
    dropped: int


def header(data: bytes, at: int, salt: int) -> Header | None:
    """Returns the header that begins at that index of the data; None if there is none, or not all of it."""
    if len(data) - at < HEADER.size or not data.startswith(_MAGIC, at):
        return None
    _, crc, body_crc, body, base, accepted_us, count, kind, _, producer, sequence, group_at, dropped = (
        HEADER.unpack_from(data, at)
    )
    if crc32(data[at + _CHECKED_FROM : at + HEADER.size], salt) != crc:
        return None
    found = Record(base, accepted_us, count, kind=kind, producer=producer, sequence=sequence)
    return Header(found, HEADER.size + body, group_at, body_crc, dropped)


def unpack(data: bytes, at: int, salt: int) -> tuple[Record, Header] | None:
    """Returns the record that begins at that index of the data, and its header; None if it is not whole."""
    found = header(data, at, salt)
    if found is None or len(data) - at < found.size:
        return None
    body = data[at + HEADER.size : at + found.size]
    if crc32(body, salt) != found.body_crc:
        return None
    top = found.record
    dropped, rest = body[: found.dropped], body[found.dropped :]
    record = Record(top.base, top.accepted_us, top.count, rest, top.kind, top.producer, top.sequence, dropped)
    return record, found


def next_header(data: bytes, start: int, salt: int) -> tuple[int, Header] | None:
    """Returns the first valid header from that index on, and where it is; None if there is none."""
    at = data.find(_MAGIC, start)
    while at >= 0:
        if found := header(data, at, salt):
            return at, found
        at = data.find(_MAGIC, at + 1)
    return None
