"""The types of fields: where each ends, and what its bytes say.

They are plain data and a few small functions. A frame's declaration (`frames`) names one for each
field; `derived` makes of them what writes and reads that frame; `declaration` says the same in
construct, as the reference for tests and for `zaichik dissect`.

Where a field ends is asked apart from what it says. Bytes that do not add up are a bad frame, which
ends the connection. A value that is wrong in a frame that does add up is a bad field, which is
refused, and the connection goes on.

No slice of bytes begins after its end: in Python it is empty, but compiled it is an error.
"""

import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from struct import Struct
from typing import Any

from zaichik_protocol.batch import Batch


class DoesNotAddUp(ValueError):
    """The bytes of a body are not those of its fields: some are missing, or some are left over."""


_CUT = "is cut off by the end of the frame"


class Step(ABC):
    """A piece of a body that is read and written at once: a field, or several numbers."""

    @abstractmethod
    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """Append what lies in `data` from `at` on, and return where it ends.

        Raises:
            DoesNotAddUp: the frame ends before, at `end`, or these bytes are none of this type.
            ValueError: they are, and say nothing.
        """

    @abstractmethod
    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """Returns the bytes of the value at `index`, or of the values from there on.

        Raises:
            ValueError, struct.error: it does not fit.
        """


class FieldType(Step):
    """The type of a field.

    Attributes:
        name: what documents call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def end(self, data: bytes, at: int, end: int) -> int:
        """Returns where the field that begins at `at` ends, whatever it says.

        Raises:
            DoesNotAddUp: as of `read`.
        """


class Run(Step):
    """Several numbers that follow one another: read and written by one call.

    Args:
        letters: what the struct module calls them.
    """

    def __init__(self, letters: str) -> None:
        self._struct = Struct("<" + letters)
        self._count = len(letters)

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """As of every step."""
        stop = at + self._struct.size
        if stop > end:
            raise DoesNotAddUp(_CUT)
        values += self._struct.unpack_from(data, at)
        return stop

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """As of every step."""
        return self._struct.pack(*values[index : index + self._count])


class Integer(FieldType):
    """A number of a fixed size, little-endian.

    Attributes:
        letter: what the struct module calls it.
    """

    def __init__(self, name: str, letter: str) -> None:
        super().__init__(name)
        self.letter = letter
        self._struct = Struct("<" + letter)

    def end(self, data: bytes, at: int, end: int) -> int:
        """After always as many bytes."""
        stop = at + self._struct.size
        if stop > end:
            raise DoesNotAddUp(_CUT)
        return stop

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """Any bytes are a number."""
        stop = self.end(data, at, end)
        values += self._struct.unpack_from(data, at)
        return stop

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """A number fits if it has no more bytes."""
        return self._struct.pack(values[index])


class Constant(FieldType):
    """Bytes that are always the same."""

    def __init__(self, name: str, value: bytes) -> None:
        super().__init__(name)
        self.value = value

    def end(self, data: bytes, at: int, end: int) -> int:
        """Where they end, if they are there."""
        stop = at + len(self.value)
        if stop > end:
            raise DoesNotAddUp(_CUT)
        if data[at:stop] != self.value:
            raise DoesNotAddUp(f"is not {self.value.decode()}")
        return stop

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """They say nothing else."""
        values.append(self.value)
        return self.end(data, at, end)

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """There is only one value."""
        if values[index] != self.value:
            raise struct.error("another constant")
        return self.value


class Counted(FieldType):
    """A count, then that many items of a fixed size.

    Args:
        letter: the count's, in the struct module.
        size: bytes of an item.
    """

    def __init__(self, name: str, letter: str, size: int) -> None:
        super().__init__(name)
        self._count = Struct("<" + letter)
        self._size = size

    def end(self, data: bytes, at: int, end: int) -> int:
        """After the last item, whatever they say."""
        items_at = at + self._count.size
        if items_at > end:
            raise DoesNotAddUp(_CUT)
        count: int = self._count.unpack_from(data, at)[0]
        stop = items_at + count * self._size
        if stop > end:
            raise DoesNotAddUp(_CUT)
        return stop


class Text(Counted):
    """A length u16, then that many bytes of UTF-8."""

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """UTF-8 or nothing."""
        stop = self.end(data, at, end)
        values.append(data[at + self._count.size : stop].decode())
        return stop

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """At most 65,535 bytes have a length."""
        data: bytes = values[index].encode()
        return self._count.pack(len(data)) + data


class Settings(Counted):
    """A count u8, then that many of a setting u8 and its value u64."""

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """Any bytes are settings; which there are is not known here."""
        stop = self.end(data, at, end)
        values.append(tuple(_SETTING.iter_unpack(data[at + self._count.size : stop])))
        return stop

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """At most 255 have a count."""
        settings = values[index]
        data = self._count.pack(len(settings))
        for setting, value in settings:
            data += _SETTING.pack(setting, value)
        return data


class Numbers(Counted):
    """A count u32, then that many numbers.

    Args:
        letter: theirs, in the struct module.
    """

    def __init__(self, name: str, letter: str) -> None:
        super().__init__(name, "I", struct.calcsize("<" + letter))
        self._letter = letter

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """Any bytes are numbers."""
        stop = self.end(data, at, end)
        first = at + self._count.size
        count = (stop - first) // self._size
        values.append(struct.unpack_from(f"<{count}{self._letter}", data, first))
        return stop

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """Each has its bytes."""
        numbers = values[index]
        return struct.pack(f"<I{len(numbers)}{self._letter}", len(numbers), *numbers)


class Rest(FieldType):
    """All the bytes up to the end of the frame."""

    def end(self, data: bytes, at: int, end: int) -> int:
        """With the frame."""
        return end

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """They are what they are."""
        values.append(data[at:end])
        return end

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """Any bytes."""
        data: bytes = values[index]
        return data


class Batched(FieldType):
    """All the bytes up to the end of the frame: a batch."""

    def end(self, data: bytes, at: int, end: int) -> int:
        """With the frame. A bad batch is a bad field, and not a bad frame."""
        return end

    def read(self, data: bytes, at: int, end: int, values: list[Any]) -> int:
        """The batch is checked."""
        values.append(Batch.parse(data[at:end]))
        return end

    def write(self, values: tuple[Any, ...], index: int) -> bytes:
        """A batch is kept as the bytes that it travels as."""
        batch: Batch = values[index]
        return batch.data


_SETTING = Struct("<BQ")

U8, U16, U32 = Integer("u8", "B"), Integer("u16", "H"), Integer("u32", "I")
U64, I64 = Integer("u64", "Q"), Integer("i64", "q")
MAGIC = Constant("4 bytes", b"ZAIK")
TEXT = Text("str", "H", 1)
SETTINGS = Settings("settings", "B", _SETTING.size)
DELTAS = Numbers("u32[]", "I")
NUMBERS = Numbers("u64[]", "Q")
REST = Rest("rest")
BATCH = Batched("batch")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a frame's body, or of the header.

    Attributes:
        name: of the attribute that has its value.
        kind: how it is laid out.
        meaning: the same for people.
        only: the flag with which it is there; "": always.
    """

    name: str
    kind: FieldType
    meaning: str
    only: str = ""


HEADER = (
    Field("length", U32, "bytes that follow this field: 8 + the body's"),
    Field("type", U8, "which frame this is"),
    Field("flags", U8, "bits whose meaning the type defines; all others 0"),
    Field("zero", U16, "always 0"),
    Field("id", U32, "of the request, in requests and replies; of the subscription, in events"),
)
LENGTH_SIZE = 4
HEADER_SIZE = 12
MIN_LENGTH = HEADER_SIZE - LENGTH_SIZE

# The columns inside a `batch` field, for documents: name, type, meaning. batch.py reads them.
BATCH_COLUMNS = (
    ("count", "u32", "messages, at least 1"),
    (
        "key_offsets",
        "i32[count + 1]",
        "message i's key is key bytes [i] … [i + 1]; empty: no key",
    ),
    ("payload_offsets", "i32[count + 1]", "message i's payload is payload bytes [i] … [i + 1]"),
    ("key_bytes", "bytes", "all keys, end to end"),
    ("payload_bytes", "bytes", "all payloads, end to end"),
)
