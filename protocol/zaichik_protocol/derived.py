"""What writes and reads a frame, derived from its declaration.

Whoever writes such code by hand has a `struct` for the numbers that follow one another, and a
function for each field whose length varies. That is all that `FrameFormat` has. There is one for
each frame and each combination of its flags, because with a flag there may be other fields.

It raises without saying much at the first thing that is wrong. What exactly is wrong, and which
error that is, `problem` finds out in a second pass, a field at a time.
"""

import dataclasses
import struct
from collections.abc import Iterator
from itertools import combinations
from operator import attrgetter
from struct import Struct
from typing import Any, Final

from zaichik_protocol.errors import ErrorCode, Unencodable
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame
from zaichik_protocol.layout import BATCH, MIN_LENGTH, U32, DoesNotAddUp, Field, Integer, Run, Step

# Of a frame. A batch is a piece of its own, so that nobody need copy it to send it.
Pieces = tuple[bytes, ...]

_HEADER = "<IHHI"  # length, type with flags above it, zero, id
HEADER = Struct(_HEADER)
_BEFORE = 2  # TYPE and id: what a frame is asked for before its fields
WRONG = (struct.error, ValueError)  # what a value raises that does not fit, and bytes that do not


class FrameFormat:
    """How frames of one class with one combination of flags are written and read.

    Args:
        cls: the class.
        bits: of the flags that are set.

    Attributes:
        cls: the class.
    """

    def __init__(self, cls: type[Frame], bits: int) -> None:
        self.cls = cls
        self._flags: dict[str, Any] = {name: True for name, bit in cls.FLAGS.items() if bits & bit}
        self._fields = [
            field for field in cls.FIELDS if not field.only or field.only in self._flags
        ]
        self._absent = [field.name for field in cls.FIELDS if field not in self._fields]
        # Most frames fit whatever their fields say, and need not be asked.
        optional = [field for field in cls.FIELDS if field.only]
        has_some = not optional or len(self._absent) < len(optional)
        self._may_misfit = cls.misfit is not Frame.misfit and has_some
        self._code = cls.TYPE | bits << 8

        # Numbers at the beginning are one piece with the header. What follows are runs of numbers,
        # and fields of other kinds.
        letters = _letters(self._fields)
        self._head = Struct(_HEADER + letters)
        self._leading = Struct("<" + letters)
        self._steps = _steps(self._fields, len(letters))
        self._ends_in_batch = bool(self._fields) and self._fields[-1].kind is BATCH
        self._written = self._steps
        if self._ends_in_batch:
            self._written = self._steps[:-1]

        # What is asked of a frame begins with TYPE, so that it is two attributes at least: of one,
        # attrgetter returns the value itself, and not a tuple.
        names = [field.name for field in self._fields]
        self._values_of: Any = attrgetter("TYPE", "id", *names)
        # What is not there is asked for together as well, and has to have its default.
        defaults = {item.name: item.default for item in dataclasses.fields(cls)}
        self._absent_of: Any = attrgetter("TYPE", *self._absent)
        self._unset = (cls.TYPE, *[defaults[name] for name in self._absent])
        self._in_head = _BEFORE + len(letters)

        # In which order the class takes them.
        is_keyword = {item.name: item.kw_only for item in dataclasses.fields(cls)}
        self._positional = [at for at, name in enumerate(names) if not is_keyword[name]]
        self._keywords = [(name, at) for at, name in enumerate(names) if is_keyword[name]]
        self._is_plain = not self._keywords and not self._flags

    def encode(self, frame: Frame) -> Pieces:
        """Returns the bytes of a frame, header and all.

        Raises:
            ValueError, struct.error: a value does not fit; `unencodable` says which.
        """
        if self._absent and self._absent_of(frame) != self._unset:
            raise ValueError("a field is set without its flag")
        if self._may_misfit and frame.misfit():
            raise ValueError("its fields do not go together")
        values = self._values_of(frame)
        tail = b""
        for step, index in self._written:
            tail += step.write(values, _BEFORE + index)
        batch = b""
        if self._ends_in_batch:
            batch = values[-1].data
        length = MIN_LENGTH + self._leading.size + len(tail) + len(batch)
        data = self._head.pack(length, self._code, 0, *values[1 : self._in_head]) + tail
        if self._ends_in_batch:
            return (data, batch)
        return (data,)

    def decode(self, frame_id: int, data: bytes, at: int, end: int) -> Frame:
        """Returns the frame whose body lies in `data` from `at` to `end`.

        Raises:
            ValueError, struct.error: there is none; `problem` says why.
        """
        values: list[Any] = [*self._leading.unpack_from(data, at)]
        at += self._leading.size
        if at > end:
            raise DoesNotAddUp("the first numbers are cut off")
        for step, _ in self._steps:
            at = step.read(data, at, end, values)
        if at != end:
            raise DoesNotAddUp("some bytes are left over")
        if self._is_plain:
            frame = self.cls(frame_id, *values)
        else:
            # Loops, for a comprehension is a call.
            positional: list[Any] = [frame_id]
            for index in self._positional:
                positional.append(values[index])  # noqa: PERF401
            keywords = self._flags.copy()
            for name, index in self._keywords:
                keywords[name] = values[index]
            frame = self.cls(*positional, **keywords)
        if self._may_misfit and frame.misfit():
            raise ValueError("its fields do not go together")
        return frame

    def unencodable(self, frame: Frame) -> Unencodable:
        """Returns what is wrong with a frame that cannot be encoded."""
        name = self.cls.__name__
        misfits = [field for field in self._absent if getattr(frame, field)]
        if self._may_misfit and not misfits:
            misfits = [frame.misfit()]
        if any(misfits):
            return Unencodable(f"{name}: {misfits[0]} does not go with the other fields")
        for part in (Field("id", U32, ""), *self._fields):
            try:
                part.kind.write((getattr(frame, part.name),), 0)
            except struct.error:
                why = f"{part.name} does not fit its field"
                return Unencodable(f"{name} cannot be encoded: {why}")
            except ValueError as error:
                return Unencodable(f"{name} cannot be encoded: {part.name}: {error}")
        return Unencodable(f"{name} cannot be encoded: it is longer than a frame can be")

    def problem(self, frame_id: int, data: bytes, at: int, end: int) -> tuple[ErrorCode, str, str]:
        """Returns what is wrong with a body that cannot be decoded: the error, why, which field.

        That its bytes do not add up comes first, wherever it is found.
        """
        parts = []
        for field in self._fields:
            try:
                stop = field.kind.end(data, at, end)
            except DoesNotAddUp as cut:
                return self._malformed(f"{field.name} {cut}")
            parts.append((field, at, stop))
            at = stop
        if at < end:
            return self._malformed("there are bytes after its last field")
        values: dict[str, Any] = dict(self._flags)
        for field, begin, stop in parts:
            found: list[Any] = []
            try:
                field.kind.read(data, begin, stop, found)
            except ValueError as error:
                return ErrorCode.INVALID_FIELD, f"{field.name}: {error}", field.name
            values[field.name] = found[0]
        name = self.cls(id=frame_id, **values).misfit()
        return ErrorCode.INVALID_FIELD, f"{name} does not go with the other fields", name

    def _malformed(self, why: str) -> tuple[ErrorCode, str, str]:
        what = f"the body of this {self.cls.__name__} does not add up"
        return ErrorCode.MALFORMED, f"{what}: {why}", ""


def _letters(fields: list[Field]) -> str:
    """Returns the letters of the fields that are numbers, up to the first that is none."""
    letters = ""
    for field in fields:
        if not isinstance(field.kind, Integer):
            break
        letters += field.kind.letter
    return letters


def _steps(fields: list[Field], begin: int) -> list[tuple[Step, int]]:
    """Returns the steps of the fields from `begin` on, each with the index of its first field."""
    steps: list[tuple[Step, int]] = []
    while begin < len(fields):
        letters = _letters(fields[begin:])
        if letters:
            steps.append((Run(letters), begin))
            begin += len(letters)
        else:
            steps.append((fields[begin].kind, begin))
            begin += 1
    return steps


def _formats() -> Iterator[tuple[int, FrameFormat]]:
    for cls in (*REQUESTS, *REPLIES, *EVENTS):
        for count in range(len(cls.FLAGS) + 1):
            for flags in combinations(cls.FLAGS.values(), count):
                bits = sum(flags)
                yield cls.TYPE | bits << 8, FrameFormat(cls, bits)


# By the two bytes of the header that say what a frame is: its type, and its flags above.
FORMATS: Final = dict(_formats())
_SOME: Final[dict[tuple[type[Frame], ...], dict[int, FrameFormat]]] = {}


def formats_of(classes: tuple[type[Frame], ...]) -> dict[int, FrameFormat]:
    """Returns the formats of these frames. All who ask for the same get the same table."""
    table = _SOME.get(classes)
    if table is None:
        table = {code: form for code, form in FORMATS.items() if form.cls in classes}
        _SOME[classes] = table
    return table
