"""Batches of records: those that were recorded, and others as producers write them.

The others serve tests of what no recording has: epochs, damage, sizes.
"""

import gzip
import struct

from crc32c import crc32c
from kafka.protocol.producer import ProduceRequest
from recorded_kafka import RECORDED

from zaichik.apps.kafka.frames import decoded, header_of

GZIP = 1
PRODUCE = 0
WORDS = b"the same words again and again"


def recorded_records(name: str) -> bytes:
    """The records of a recorded Produce request."""
    for frame in RECORDED[name]:
        header = header_of(frame)
        if header.key == PRODUCE:
            request = decoded(ProduceRequest, frame[header.size :], header.version)
            return request.topic_data[0].partition_data[0].records
    raise AssertionError(f"{name} has no Produce request")


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
