"""Salvage: what can still be found out about a segment whose head is damaged.

Without its salt, a record cannot be told from any other bytes. But a checkpoint may have the salt. Or the checksum can
be inverted: of the 2^32 salts with which it may begin, exactly one leads to the checksum in a record's header.
"""

import errno
import secrets
from zlib import crc32

from zaichik.log.disk import Disk, PosixDisk
from zaichik.log.record import CHECKED_FROM, HEADER, MAGIC_BYTES, header
from zaichik.log.segment import HEAD_SIZE, Segment

SECTOR = 512  # bytes: no more than that is lost around a place that cannot be read
MOST_READ = 64 * 1024 * 1024  # bytes that are searched for a good record


def salvaged(disk: Disk, folder: str, base: int, size: int, salts: list[int]) -> Segment:
    """Returns a segment as it may have been, of time 0 if that is not known.

    Its salt may be in the checkpoints, the newest one last; those of a file that it has replaced have another salt.
    """
    segment = Segment(folder, base, salts[-1] if salts else secrets.randbits(32), 0, max(size, HEAD_SIZE))
    data = disk.read(segment.path, HEAD_SIZE, MOST_READ) if size > HEAD_SIZE else b""
    at = data.find(MAGIC_BYTES)
    while at >= 0:
        possible = salt_of(data[at : at + HEADER.size])
        head = header(data, at, possible)
        if head is not None and possible in (salts or [possible]) and head.record(data, at, possible) is not None:
            segment.salt, segment.accepted_us = possible, head.accepted_us
            break
        at = data.find(MAGIC_BYTES, at + 1)
    return segment


def salt_of(head: bytes) -> int:
    """Returns the salt of a record's header, if these bytes are one.

    A salt changes the checksum by an amount that is linear in the bits of the salt, and the same for all data of one
    length. So the change that each bit makes is known, and Gaussian elimination finds the bits that together make the
    change that there is.
    """
    crc, checked, answer = int.from_bytes(head[4:8], "little"), head[CHECKED_FROM:], 0
    plain = crc32(checked)
    changes = dict[int, tuple[int, int]]()  # by their highest bits: a change, and the bits of a salt that make it
    for bit in range(32):
        change, bits = crc32(checked, 1 << bit) ^ plain, 1 << bit
        while change.bit_length() in changes:
            other, more = changes[change.bit_length()]
            change, bits = change ^ other, bits ^ more
        changes[change.bit_length()] = change, bits
    left = crc ^ plain
    while left:
        change, bits = changes[left.bit_length()]
        left, answer = left ^ change, answer ^ bits
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
