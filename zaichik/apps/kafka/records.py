"""Batches of Kafka's records, in their format 2, from and to rows of keys and payloads.

    base offset   8    of the first record; ours to set
    length        4    of what follows
    leader epoch  4
    magic         1    2
    checksum      4    CRC-32C of what follows
    attributes    2    compression (3 bits), whose time it is (1 bit), transactions (2 bits)
    last delta    4    of offsets
    times     8 + 8    of the first record, and the latest, in ms since 1970
    producer  8 + 2    its id and epoch; -1 without idempotence
    sequence      4    of the first record
    count         4    of records, which follow, compressed as a whole or not at all

A record is a size, attributes, the deltas of time and offset to the batch's, key, value, and
headers; numbers are varints, zigzag encoded, and a length of -1 means null.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from crc32c import crc32c

from zaichik.apps.kafka.codes import Code
from zaichik.apps.kafka.compression import MAX_UNPACKED, BadBatch, unpacked

HEAD = Struct(">qiibIhiqqqhii")
BEFORE_LENGTH = 12  # bytes up to where the length counts from
BEFORE_MAGIC = 16
CHECKSUM_AT = 17
BEFORE_ATTRIBUTES = 21  # where the checksum begins to count
MAGIC = 2

COMPRESSION = 0x07  # of the attributes
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

NO_PRODUCER = -1
# What Python takes for a row, besides the bytes of key and payload.
ROW_BYTES = 130
# Of one batch: a million empty records compress to 11 kB, and take a second and 100 MB to read.
# Java's producers split a batch that is refused for its size.
MAX_RECORDS = 100_000
MAX_VARINT_BYTES = 10

Row = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Produced:
    """A batch that a producer has sent.

    Attributes:
        producer, epoch, sequence: the idempotent producer, its epoch and the number of its first
            record; `NO_PRODUCER` if it is not idempotent.
        rows: key and payload of each record; None for null.
        headers: how many headers the records had, which are not kept.
        size: bytes of the records as they were packed, which keys and payloads are most of.
    """

    producer: int
    epoch: int
    sequence: int
    rows: list[Row]
    headers: int
    size: int = 0

    @property
    def memory(self) -> int:
        """How many bytes it takes, about."""
        return self.size + len(self.rows) * ROW_BYTES


# -- what producers send -------------------------------------------------------------------------


def memory_of(data: bytes) -> int:
    """Returns how many bytes a batch takes at most while it is unpacked, about.

    It is what the batch says of itself, and `unpack` holds it to that.
    """
    if len(data) < HEAD.size:
        return len(data)
    _, _, _, _, _, attributes, _, _, _, _, _, _, count = HEAD.unpack_from(data)
    size = len(data)
    if attributes & COMPRESSION:
        size = MAX_UNPACKED
    # The records as they have come, and once more as rows.
    rows = min(max(int(count), 0), MAX_RECORDS)
    return 2 * size + rows * ROW_BYTES


def unpack(data: bytes) -> Produced:
    """Returns the one batch that `data` is.

    As in Kafka, a partition of a request has exactly one. Each may unpack to a thousand times its
    size, so several of them have no bound together.

    Raises:
        BadBatch: something is wrong with it, so nothing of it is to be stored.
    """
    if not data:
        raise BadBatch("there is no batch", Code.INVALID_RECORD)
    if len(data) <= BEFORE_MAGIC:
        raise BadBatch("a batch is cut off", Code.CORRUPT_MESSAGE)
    # Formats 0 and 1 are shorter, and have this byte at the same place.
    magic = data[BEFORE_MAGIC]
    if magic != MAGIC:
        problem = f"records have format {magic}, and only 2 is known"
        raise BadBatch(problem, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    if len(data) < HEAD.size:
        raise BadBatch("a batch is cut off", Code.CORRUPT_MESSAGE)
    head = HEAD.unpack_from(data)
    _, length, _, _, checksum, attributes, _, _, _, producer, epoch, sequence, count = head
    end = BEFORE_LENGTH + length
    if end > len(data) or length < HEAD.size - BEFORE_LENGTH:
        raise BadBatch("a batch is cut off", Code.CORRUPT_MESSAGE)
    if crc32c(data[BEFORE_ATTRIBUTES:end]) != checksum:
        raise BadBatch("a batch has the wrong checksum", Code.CORRUPT_MESSAGE)
    if end < len(data):
        raise BadBatch("a partition has more than one batch", Code.INVALID_RECORD)
    if attributes & (TRANSACTIONAL | CONTROL):
        raise BadBatch("transactions are not offered", Code.INVALID_REQUEST)
    if count > MAX_RECORDS:
        problem = f"a batch has {count} records, and may have {MAX_RECORDS}"
        raise BadBatch(problem, Code.MESSAGE_TOO_LARGE)
    body = unpacked(attributes & COMPRESSION, data[HEAD.size : end])
    rows, headers = _rows(body, count)
    return Produced(producer, epoch, sequence, rows, headers, len(body))


def _rows(body: bytes, count: int) -> tuple[list[Row], int]:
    """Returns the rows of so many records, and how many headers they had."""
    rows: list[Row] = []
    headers = 0
    at = 0
    # `count` is the sender's word: the loop ends at the end of the body in any case.
    for _ in range(count):
        size, at = _varint_at(body, at)
        end = at + size
        if size < 0 or end > len(body):
            raise BadBatch("a record is cut off", Code.CORRUPT_MESSAGE)
        row, more = _row(body[at:end])
        rows.append(row)
        headers += more
        at = end
    if at != len(body) or count < 0:
        raise BadBatch("a batch has more records than it says", Code.CORRUPT_MESSAGE)
    return rows, headers


def _row(record: bytes) -> tuple[Row, int]:
    """Returns a record's key and payload, and how many headers it has."""
    at = 1  # after the attributes, which mean nothing yet
    _, at = _varint_at(record, at)  # the producer's time
    _, at = _varint_at(record, at)  # the delta of the offset
    key, at = _bytes_at(record, at)
    payload, at = _bytes_at(record, at)
    headers, at = _varint_at(record, at)
    if headers < 0:
        raise BadBatch("a record has a negative number of headers", Code.CORRUPT_MESSAGE)
    if key == b"":
        raise BadBatch("an empty key is not a key here", Code.INVALID_RECORD)
    return (key, payload), headers


def _bytes_at(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Returns the bytes whose length is there, None for null, and where they end."""
    size, at = _varint_at(data, at)
    if size < 0:
        return None, at
    end = at + size
    if end > len(data):
        raise BadBatch("a record is cut off", Code.CORRUPT_MESSAGE)
    return data[at:end], end


def _varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number that is there, and where it ends."""
    value = shift = 0
    for byte in data[at : at + MAX_VARINT_BYTES]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + shift // 7
    raise BadBatch("a number in a record is cut off", Code.CORRUPT_MESSAGE)


# -- what consumers get --------------------------------------------------------------------------


def pack(base: int, deltas: Iterable[int], time_ms: int, rows: Iterable[Row]) -> bytes:
    """Returns one batch of records that were all accepted at the same time.

    Args:
        base: the offset that the deltas count from.
        deltas: of each record's offset, rising.
        time_ms: when the broker accepted them, in ms since 1970.
        rows: key and payload of each, None for null; at least one.
    """
    body = bytearray()
    count = last = 0
    for delta, (key, payload) in zip(deltas, rows, strict=False):
        record = b"\0\0" + _varint(delta) + _sized(key) + _sized(payload) + b"\0"
        body += _varint(len(record))
        body += record
        count += 1
        last = delta
    head = HEAD.pack(
        base,
        HEAD.size - BEFORE_LENGTH + len(body),
        0,
        MAGIC,
        0,
        LOG_APPEND_TIME,
        last,
        time_ms,
        time_ms,
        NO_PRODUCER,
        -1,
        -1,
        count,
    )
    data = bytearray(head)
    data += body
    checksum = crc32c(bytes(memoryview(data)[BEFORE_ATTRIBUTES:]))
    data[CHECKSUM_AT:BEFORE_ATTRIBUTES] = checksum.to_bytes(4, "big")
    return bytes(data)


def _sized(value: bytes | None) -> bytes:
    if value is None:
        return b"\x01"  # -1
    return _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Returns a number that is not negative as a zigzag varint."""
    value <<= 1
    if value < 0x80:
        return _SHORT[value]
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


_SHORT = [bytes([number]) for number in range(0x80)]
