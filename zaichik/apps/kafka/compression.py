"""Unpacking the records of a batch: gzip always; zstd, lz4 and snappy where pyarrow is installed.

What is unpacked is bounded, whatever it says about itself: a kilobyte can unpack to a gigabyte.
"""

import struct
import zlib

from zaichik.apps.kafka.codes import Code

# Producers bound their batches before compression: librdkafka at 1 MB, Java at a guess of the
# ratio.
MAX_UNPACKED = 8 * 1024 * 1024

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_ARROW_NAMES = {LZ4: "lz4", ZSTD: "zstd"}
# Java's library of snappy puts blocks into a stream of its own, which begins with this.
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEAD = len(_XERIAL) + 8


class BadBatch(Exception):
    """A batch of records that is not stored.

    Args:
        problem: why, for a person.
        code: Kafka's error code for it.
    """

    def __init__(self, problem: str, code: Code = Code.INVALID_RECORD) -> None:
        super().__init__(problem)
        self.code = code


def unpacked(kind: int, data: bytes) -> bytes:
    """Returns the records as they were before compression.

    Args:
        kind: of compression, as the attributes of a batch name it.
        data: what was compressed.

    Raises:
        BadBatch: the kind is unknown or needs pyarrow, the data is damaged, or it is too large.
    """
    match kind:
        case 0:
            return data
        case 1:
            return _gunzipped(data)
        case 2 | 3 | 4:
            return _by_arrow(kind, data)
        case _:
            raise BadBatch(f"compression {kind} is unknown", Code.UNSUPPORTED_COMPRESSION_TYPE)


def _gunzipped(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        result = decompressor.decompress(data, MAX_UNPACKED + 1)
    except zlib.error as error:
        raise BadBatch(f"gzip: {error}", Code.CORRUPT_MESSAGE) from error
    _check_size(len(result))
    if not decompressor.eof:
        raise BadBatch("gzip: the end is missing", Code.CORRUPT_MESSAGE)
    return result


def _by_arrow(kind: int, data: bytes) -> bytes:
    try:
        import pyarrow as pa
    except ImportError:
        problem = "only gzip can be unpacked here; for other kinds, install pyarrow"
        raise BadBatch(problem, Code.UNSUPPORTED_COMPRESSION_TYPE) from None
    try:
        if kind == SNAPPY:
            return b"".join(_snappy_blocks(pa.Codec("snappy"), data))
        with pa.CompressedInputStream(pa.BufferReader(data), _ARROW_NAMES[kind]) as stream:
            result: bytes = stream.read(MAX_UNPACKED + 1)
    # What Arrow raises at damaged data is one of these, by the codec.
    except (OSError, ValueError, struct.error) as error:
        raise BadBatch(f"the compressed records: {error}", Code.CORRUPT_MESSAGE) from error
    _check_size(len(result))
    return result


def _snappy_blocks(codec: "object", data: bytes) -> list[bytes]:
    """Returns the blocks of snappy data, which is one block, or Java's stream of several."""
    if not data.startswith(_XERIAL):
        return [_snappy_block(codec, data)]
    blocks: list[bytes] = []
    total = 0
    at = _XERIAL_HEAD
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        at += 4
        blocks.append(_snappy_block(codec, data[at : at + size]))
        total += len(blocks[-1])
        _check_size(total)
        at += size
    return blocks


def _snappy_block(codec: "object", block: bytes) -> bytes:
    """Returns a block unpacked; it begins with its size as a varint."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _check_size(size)
    result: bytes = codec.decompress(block, size, asbytes=True)  # type: ignore[attr-defined]
    return result


def _check_size(size: int) -> None:
    if size > MAX_UNPACKED:
        problem = f"a batch unpacks to more than {MAX_UNPACKED} bytes"
        raise BadBatch(problem, Code.MESSAGE_TOO_LARGE)
