"""Salvage: what can still be found out about a segment whose head is damaged.

Without its salt, a record cannot be told from any other bytes. But the checksum can be inverted: of
the 2^32 salts with which it may begin, exactly one leads to the checksum in a record's header. A
disk may have put records of another file there, so it is not the first record that decides, but the
most of them.

A checkpoint may have the salt as well, but perhaps that of a file which this one has replaced. So
it decides where records leave it open: where none is whole, or all may be of another file.
"""

import errno
import secrets
from zlib import crc32

from zaichik.storage.disk import Disk, PosixDisk
from zaichik.storage.record import CHECKED_FROM, HEADER, MAGIC_BYTES, RecordHeader, header
from zaichik.storage.segment import HEAD_SIZE, Segment

SECTOR = 512  # bytes: no more than that is lost around a place that cannot be read
# Records that a sector of another file can hold, also where sectors have 4 KiB.
MOST_FOREIGN_RECORDS = 4096 // HEADER.size
MOST_READ = 64 * 1024 * 1024  # bytes that are searched for a good record


def salvage(disk: Disk, folder: str, base: int, size: int, salts: list[int]) -> Segment:
    """Returns a segment as it may have been, of time 0 if that is not known.

    Its salt may be in the checkpoints, the newest one last; those of a file that it has replaced
    have another salt.
    """
    # If no record tells the salt, any one will do: then there is nothing to be read with it.
    salt = secrets.randbits(32)
    if salts:
        salt = salts[-1]
    segment = Segment(folder, base, salt, 0, max(size, HEAD_SIZE))
    data = b""
    if size > HEAD_SIZE:
        data = disk.read(segment.path, HEAD_SIZE, MOST_READ)
    counts: dict[int, int] = {}  # of whole records, by salts
    times: dict[int, int] = {}  # of the first one
    at = data.find(MAGIC_BYTES)
    while at >= 0:
        possible = salt_of(data[at : at + HEADER.size])
        head = header(data, at, possible)
        if head is not None and _is_whole(data, at, head, segment, possible):
            times.setdefault(possible, head.accepted_us)
            counts[possible] = counts.get(possible, 0) + 1
            if counts[possible] > MOST_FOREIGN_RECORDS:
                break
        at = data.find(MAGIC_BYTES, at + 1)
    if counts:
        segment.salt = _likeliest(counts, salts)
        segment.accepted_us = times[segment.salt]
    return segment


def _likeliest(counts: dict[int, int], salts: list[int]) -> int:
    """Returns the salt of most records, or that of a checkpoint where they leave it open."""

    def likelihood(salt: int) -> tuple[bool, bool, int]:
        count = counts[salt]
        return count > MOST_FOREIGN_RECORDS, salt in salts, count

    return max(counts, key=likelihood)


def _is_whole(data: bytes, at: int, head: RecordHeader, segment: Segment, salt: int) -> bool:
    """Returns whether a whole record begins there, which may be where it was written."""
    if not head.may_be_at(HEAD_SIZE + at, segment.base):
        return False
    return head.record(data, at, salt) is not None


def salt_of(head: bytes) -> int:
    """Returns the salt of a record's header, if these bytes are one.

    A salt changes the checksum by an amount that is linear in the bits of the salt, and the same
    for all data of one length. So the change that each bit makes is known, and Gaussian elimination
    finds the bits that together make the change that there is.
    """
    crc = int.from_bytes(head[4:8], "little")
    checked = head[CHECKED_FROM:]
    plain = crc32(checked)
    # By the highest bit of a change of the checksum: the change, and the salt bits that cause it.
    changes: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        bits = 1 << bit
        change = crc32(checked, bits) ^ plain
        while change.bit_length() in changes:
            other, more = changes[change.bit_length()]
            change ^= other
            bits ^= more
        changes[change.bit_length()] = change, bits
    answer = 0
    left = crc ^ plain
    while left:
        change, bits = changes[left.bit_length()]
        left ^= change
        answer ^= bits
    return answer


class PatientDisk(PosixDisk):
    """A disk with sectors that cannot be read: they are read as zeros, which are never a record."""

    def read(self, path: str, at: int, size: int) -> bytes:
        """See `Disk`."""
        try:
            return super().read(path, at, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        if size <= SECTOR:
            return bytes(size)
        half = size // 2
        return self.read(path, at, half) + self.read(path, at + half, size - half)
