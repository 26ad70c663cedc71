"""Batches of records as producers write them, made here by hand.

They serve tests of what no recording has: epochs, damage, sizes.
"""

import gzip
import struct

from crc32c import crc32c

GZIP = 1


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(delta: int, key: bytes | None, payload: bytes | None, headers=()) -> bytes:
    body = b"\0" + varint(0) + varint(delta) + sized(key) + sized(payload) + varint(len(headers))
    for name, value in headers:
        body += sized(name) + sized(value)
    return varint(len(body)) + body


def batch(
    *rows: tuple[bytes | None, bytes | None],
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    headers=(),
    count: int | None = None,
    body: bytes | None = None,
    magic: int = 2,
) -> bytes:
    """A batch; what is not named is as a plain producer has it."""
    if body is None:
        body = b"".join(record(n, key, value, headers) for n, (key, value) in enumerate(rows))
    if attributes & 7 == GZIP:
        body = gzip.compress(body)
    count = len(rows) if count is None else count
    checked = struct.pack(
        ">hiqqqhii", attributes, count - 1, 0, 0, producer, epoch, sequence, count
    )
    checked += body
    checksum = struct.pack(">I", crc32c(checked))
    rest = struct.pack(">ib", 0, magic) + checksum + checked
    return struct.pack(">qi", 0, len(rest)) + rest
