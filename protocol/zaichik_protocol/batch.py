"""A batch of messages, as two Arrow binary columns: keys and payloads.

A column of n byte strings is n + 1 offsets followed by all the bytes, end to end. String i lies
between offset i and offset i + 1. That shape is why a batch can be checked, cut and read without
touching individual messages: checking is two passes over integers, cutting is two slices, and Arrow
(so Spark, too) takes the columns as they are.

    count u32 | key offsets i32[count + 1] | payload offsets i32[count + 1]
    | key bytes | payload bytes

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
_ONE = Struct("<4i")  # the offsets of a batch of one message
_WHOLE_ONE = Struct("<I4i")  # its count as well
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
            raise ValueError(
                f"a batch needs one key per payload and at least one of each, not {len(keys)} and "
                f"{count}"
            )
        if count == 1:
            key, payload = keys[0], payloads[0]
            return cls(_WHOLE_ONE.pack(1, 0, len(key), 0, len(payload)) + key + payload, 1)
        key_bytes = b"".join(keys)
        key_offsets = _offsets(keys) if key_bytes else bytes((count + 1) * _OFFSET_SIZE)
        return cls(
            b"".join((_COUNT.pack(count), key_offsets, _offsets(payloads), key_bytes, *payloads)),
            count,
        )

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
        column = (count + 1) * _OFFSET_SIZE
        body_at = _COUNT.size + 2 * column
        if len(data) < body_at:
            raise ValueError(
                f"{count} messages need {body_at} bytes of offsets, here are {len(data)}"
            )
        size = len(data) - body_at

        # Most programs publish one message at a time. If something is wrong with it, what follows
        # finds out what.
        if count == 1:
            key_at, key_end, payload_at, payload_end = _ONE.unpack_from(data, _COUNT.size)
            starts_right = key_at == 0 and payload_at == 0
            if starts_right and key_end >= 0 and size - key_end == payload_end >= 0:
                return cls(data, count)

        offsets = f"<{count + 1}i"
        keys = 0
        # Most batches have no keys, and one comparison of bytes shows it.
        if not data.startswith(bytes(column), _COUNT.size):
            keys = _checked_end("key", unpack_from(offsets, data, _COUNT.size))
        payloads = _checked_end("payload", unpack_from(offsets, data, _COUNT.size + column))
        if keys + payloads != size:
            raise ValueError(f"offsets end at {keys} + {payloads} bytes, here are {size}")
        return cls(data, count)

    @property
    def _body_at(self) -> int:
        return _COUNT.size + 2 * (self.count + 1) * _OFFSET_SIZE

    @property
    def size(self) -> int:
        """Bytes of all keys and payloads together: what credit and size limits count."""
        return len(self.data) - _COUNT.size - 2 * (self.count + 1) * _OFFSET_SIZE

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
        return unpack_from(
            f"<{self.count + 1}i", self.data, _COUNT.size + (self.count + 1) * _OFFSET_SIZE
        )

    def keys(self) -> list[bytes]:
        """Every message's key, b"" for those that have none."""
        return (
            list(self._column(self._body_at, self.key_offsets))
            if self.key_size
            else [b""] * self.count
        )

    def payloads(self) -> list[bytes]:
        """Every message's payload."""
        return list(self.each_payload())

    def each_payload(self) -> Iterator[bytes]:
        """Returns the payloads one by one.

        Each is sliced only when it is asked for, which is kinder to the processor's caches.
        """
        offsets = self.payload_offsets
        return self._column(len(self.data) - offsets[-1], offsets)

    def _column(self, start: int, offsets: tuple[int, ...]) -> Iterator[bytes]:
        data = self.data[
            start : start + offsets[-1]
        ]  # a copy, but slices of bytes cost a third of a view's
        for begin, end in pairwise(offsets):
            yield data[begin:end]

    def up_to_payloads(self) -> bytes:
        """Returns the bytes before the first payload.

        A `Batch` made of them has the same `keys`, and no payloads.
        """
        return self.data[: self._body_at + self.key_size]

    def fitting(self, start: int, stop: int, max_bytes: int) -> int:
        """Returns the end of the longest run of messages from `start` on that fits that many bytes.

        It is `stop` at most.

        Found by bisection in the offsets, so a piece of a large batch costs no more than one of a
        small batch.
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
        """Returns messages `start` up to, not including, `stop` as a batch of their own.

        If that is all of them, it is this batch itself.
        """
        if (start, stop) == (0, self.count):
            return self
        if not 0 <= start < stop <= self.count:
            raise ValueError(f"cannot cut {start} to {stop} out of {self.count} messages")
        # the piece's offsets alone: a small piece of a large batch must be cheap
        row = f"<{stop - start + 1}i"
        keys = unpack_from(row, self.data, _COUNT.size + start * _OFFSET_SIZE)
        payloads = unpack_from(
            row, self.data, _COUNT.size + (self.count + 1 + start) * _OFFSET_SIZE
        )
        keys_at = self._body_at
        payloads_at = keys_at + self.key_size
        offsets = [offset - keys[0] for offset in keys] + [
            offset - payloads[0] for offset in payloads
        ]
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
    """Returns the last offset of a column.

    The offsets must begin at 0 and never decrease, which is checked.
    """
    # Sorting sorted integers is one pass in C: the fastest way to ask whether they ever decrease.
    if offsets[0] != 0 or sorted(offsets) != list(offsets):
        raise ValueError(f"{name} offsets must begin at 0 and never decrease")
    return offsets[-1]


def _offsets(strings: Sequence[bytes]) -> bytes:
    """Where each of the strings begins if they are laid end to end, and where the last one ends."""
    return pack(f"<{len(strings) + 1}i", *accumulate(map(len, strings), initial=0))


def bitmap_size(stored: int, compacted: int) -> int:
    """Returns the bytes of the bitmap of messages that were compacted away.

    0 if none was.
    """
    return (stored + compacted + 7) // 8 if compacted else 0
