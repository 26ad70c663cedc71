"""Batches: several messages as two columns, their keys and payloads."""

import struct
from itertools import pairwise

from errors import (
    BATCH_TOO_LARGE,
    INVALID_FIELD,
    MESSAGE_TOO_LARGE,
    require,
)
from limits import MAX_BATCH, MAX_KEY, MAX_MESSAGE

Message = tuple[bytes, bytes]  # its key and its payload
COUNT = struct.Struct("<I")
OFFSET_SIZE = 4


def decode_batch(batch: bytes) -> list[Message]:
    """The messages of a batch.

    A column has one offset more than it has strings: string i goes from
    offset i to offset i + 1.
    """
    require(len(batch) >= COUNT.size, INVALID_FIELD, "batch", "no count")
    (count,) = COUNT.unpack_from(batch)
    strings = COUNT.size + 2 * OFFSET_SIZE * (count + 1)
    good = count > 0 and strings <= len(batch)
    require(good, INVALID_FIELD, "batch", "it is empty, or cut off")
    offsets = struct.unpack_from(f"<{2 * (count + 1)}i", batch, COUNT.size)
    keys, payloads = offsets[: count + 1], offsets[count + 1 :]
    for column in (keys, payloads):
        good = column[0] == 0 and list(column) == sorted(column)
        require(good, INVALID_FIELD, "batch", "offsets go back")
    end = strings + keys[-1] + payloads[-1]
    require(end == len(batch), INVALID_FIELD, "batch", "the sizes differ")
    cut_keys = _cut(batch, strings, keys)
    cut_payloads = _cut(batch, strings + keys[-1], payloads)
    return list(zip(cut_keys, cut_payloads, strict=True))


def check_sizes(batch: list[Message]) -> None:
    """Refuse what is larger than our Welcome allows."""
    good = all(len(key) <= MAX_KEY for key, _ in batch)
    require(good, INVALID_FIELD, "batch", "a key is too long")
    count = len(batch)
    require(count <= MAX_BATCH, BATCH_TOO_LARGE, "batch", "too many")
    size = sum(len(key) + len(payload) for key, payload in batch)
    code = MESSAGE_TOO_LARGE if count == 1 else BATCH_TOO_LARGE
    require(size <= MAX_MESSAGE, code, "batch", "too many bytes")


def _cut(batch: bytes, start: int, offsets: tuple[int, ...]) -> list[bytes]:
    """The strings of one column, whose bytes begin at `start`."""
    return [batch[start + a : start + b] for a, b in pairwise(offsets)]
