"""A batch of messages, as two Arrow binary columns: keys and payloads.

A column of n byte strings is n + 1 offsets followed by all the bytes, end to end. String i lies between
offset i and offset i + 1. That shape is why a batch can be checked, cut and read without touching individual
messages: checking is two passes over integers, cutting is two slices, and Arrow (so Spark, too) takes the
columns as they are.

    count u32 | key offsets i32[count + 1] | payload offsets i32[count + 1] | key bytes | payload bytes

A `Batch` holds those very bytes and nothing else: what one client sent is what the ring stores and
what every subscriber is sent. An empty key means that the message has no key.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from struct import Struct, pack, unpack_from
from typing import Self

_COUNT = Struct("<I")
_OFFSET = Struct("<i")
_OFFSET_SIZE = _OFFSET.size


@dataclass(frozen=True, slots=True)
class Batch:
    """One or more messages. Make one with `of` from messages or with `parse` from the wire's bytes.

    Attributes:
        data: the bytes as they travel.
        count: the number of messages, at least 1.
    """

    data: bytes
    count: int

    @classmethod
    def of(cls, messages: Iterable[tuple[bytes, bytes]]) -> Self:
        """The batch of these (key, payload) pairs; b"" stands for no key."""
        pairs = list(messages)
        return cls.of_columns([key for key, _ in pairs], [payload for _, payload in pairs])

    @classmethod
    def of_columns(cls, keys: Sequence[bytes], payloads: Sequence[bytes]) -> Self:
        """The batch of two columns of equal length, message i being `keys[i]` and `payloads[i]`."""
        count = len(payloads)
        if count == 0 or len(keys) != count:
            raise ValueError(f"a batch needs one key per payload and at least one of each, not {len(keys)} and {count}")
        key_bytes = b"".join(keys)
        key_offsets = _offsets(keys) if key_bytes else bytes((count + 1) * _OFFSET_SIZE)
        return cls(b"".join((_COUNT.pack(count), key_offsets, _offsets(payloads), key_bytes, *payloads)), count)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Returns the batch that these bytes make up.

        Raises:
            ValueError: they are not a batch; the message says what does not fit.
        """
        if len(data) < _COUNT.size:
            raise ValueError(f"a batch begins with a count of 4 bytes, here are {len(data)}")
        count: int = _COUNT.unpack_from(data)[0]
        if count == 0:
            raise ValueError("a batch of no messages")
        batch = cls(data, count)
        if len(data) < batch._body_at:
            raise ValueError(f"{count} messages need {batch._body_at} bytes of offsets, here are {len(data)}")
        # Most batches have no keys, and one comparison of bytes shows it.
        no_keys = data.startswith(bytes((count + 1) * _OFFSET_SIZE), _COUNT.size)
        keys = 0 if no_keys else _checked_end("key", batch.key_offsets)
        payloads = _checked_end("payload", batch.payload_offsets)
        if keys + payloads != batch.size:
            raise ValueError(f"offsets end at {keys} + {payloads} bytes, here are {batch.size}")
        return batch

    @property
    def _body_at(self) -> int:
        return _COUNT.size + 2 * (self.count + 1) * _OFFSET_SIZE

    @property
    def size(self) -> int:
        """Bytes of all keys and payloads together: what credit and size limits count."""
        return len(self.data) - self._body_at

    @property
    def key_size(self) -> int:
        """Bytes of all keys together."""
        last: int = unpack_from("<i", self.data, _COUNT.size + self.count * _OFFSET_SIZE)[0]
        return last

    @property
    def key_offsets(self) -> tuple[int, ...]:
        """Offsets into the key bytes, count + 1 of them."""
        return unpack_from(f"<{self.count + 1}i", self.data, _COUNT.size)

    @property
    def payload_offsets(self) -> tuple[int, ...]:
        """Offsets into the payload bytes, count + 1 of them."""
        return unpack_from(f"<{self.count + 1}i", self.data, _COUNT.size + (self.count + 1) * _OFFSET_SIZE)

    def keys(self) -> list[bytes]:
        """Every message's key, b"" for those that have none."""
        return list(self._column(self._body_at, self.key_offsets)) if self.key_size else [b""] * self.count

    def payloads(self) -> list[bytes]:
        """Every message's payload."""
        return list(self.each_payload())

    def each_payload(self) -> Iterator[bytes]:
        """The payloads one by one, each sliced only when it is asked for: kinder to the processor's caches."""
        offsets = self.payload_offsets
        return self._column(len(self.data) - offsets[-1], offsets)

    def _column(self, start: int, offsets: tuple[int, ...]) -> Iterator[bytes]:
        data = self.data[start : start + offsets[-1]]  # a copy, but slices of bytes cost a third of a view's
        for begin, end in pairwise(offsets):
            yield data[begin:end]

    def up_to_payloads(self) -> bytes:
        """The bytes before the first payload: a `Batch` made of them has the same `keys`, and no payloads."""
        return self.data[: self._body_at + self.key_size]

    def fitting(self, start: int, stop: int, max_bytes: int) -> int:
        """Returns the end of the longest run of messages from `start` on that fits that many bytes; at most `stop`.

        Found by bisection in the offsets, so a piece of a large batch costs no more than one of a small batch.
        """
        limit = self._before(start) + max_bytes
        return start + bisect_right(range(start + 1, stop + 1), limit, key=self._before)

    def _before(self, index: int) -> int:
        """Bytes of the keys and payloads of all messages before that one."""
        at = _COUNT.size + index * _OFFSET_SIZE
        keys: int = _OFFSET.unpack_from(self.data, at)[0]
        payloads: int = _OFFSET.unpack_from(self.data, at + (self.count + 1) * _OFFSET_SIZE)[0]
        return keys + payloads

    def cut(self, start: int, stop: int) -> "Batch":
        """Messages `start` up to, not including, `stop` as a batch of their own (itself, if that is all of them)."""
        if (start, stop) == (0, self.count):
            return self
        if not 0 <= start < stop <= self.count:
            raise ValueError(f"cannot cut {start} to {stop} out of {self.count} messages")
        row = f"<{stop - start + 1}i"  # the piece's offsets alone: a small piece of a large batch must be cheap
        keys = unpack_from(row, self.data, _COUNT.size + start * _OFFSET_SIZE)
        payloads = unpack_from(row, self.data, _COUNT.size + (self.count + 1 + start) * _OFFSET_SIZE)
        keys_at = self._body_at
        payloads_at = keys_at + self.key_size
        offsets = [offset - keys[0] for offset in keys] + [offset - payloads[0] for offset in payloads]
        return Batch(
            pack(f"<I{len(offsets)}i", stop - start, *offsets)
            + self.data[keys_at + keys[0] : keys_at + keys[-1]]
            + self.data[payloads_at + payloads[0] : payloads_at + payloads[-1]],
            stop - start,
        )

    def select(self, indices: Sequence[int]) -> "Batch":
        """The messages at these indices, in this order, as a batch of their own."""
        keys, payloads = self.keys(), self.payloads()
        return Batch.of_columns([keys[i] for i in indices], [payloads[i] for i in indices])


def _checked_end(name: str, offsets: tuple[int, ...]) -> int:
    """Returns the last offset of a column, having checked that they begin at 0 and never decrease."""
    # Sorting sorted integers is one pass in C: the fastest way to ask whether they ever decrease.
    if offsets[0] != 0 or sorted(offsets) != list(offsets):
        raise ValueError(f"{name} offsets must begin at 0 and never decrease")
    return offsets[-1]


def _offsets(strings: Sequence[bytes]) -> bytes:
    """Where each of the strings begins if they are laid end to end, and where the last one ends."""
    return pack(f"<{len(strings) + 1}i", *accumulate(map(len, strings), initial=0))


def bitmap_size(stored: int, compacted: int) -> int:
    """Returns the size of the bitmap of the messages that were compacted away, in bytes; 0 if none was."""
    return (stored + compacted + 7) // 8 if compacted else 0
