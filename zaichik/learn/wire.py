"""The wire format, implemented a second time: frames encoded and parsed with a table and `struct`.

The project has a declaration and a codec already. A tester that used them would agree with their
mistakes, so this is a second reading of `protocol/README.md`. It keeps what the codec throws away:
where in the frame each field is, because that is what a learner needs to know.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from zaichik.learn import notation
from zaichik.learn.layouts import DEFAULTS, EVENTS, HEADER, LAYOUTS, MAX_LENGTH, TYPES, fields_of

AFTER_LAST = "after the last field"  # where extra bytes are

HEADER_FIELDS = (("length", "u32"), ("type", "u8"), ("flags", "u8"), ("zero", "u16"), ("id", "u32"))
_INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i64": "<q"}


class BadFrame(Exception):
    """Bytes that are not a frame of this protocol.

    Attributes:
        at: the position in the frame where the problem begins, in bytes.
        field: the field it begins in.
        problem: what is wrong, as a sentence.
        so_far: the frame with the fields that could be read; None if not even its type could.
    """

    so_far: "Frame | None" = None

    def __init__(self, at: int, field: str, problem: str) -> None:
        super().__init__(problem)
        self.at = at
        self.field = field
        self.problem = problem

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from the problem alone, which is not enough.
        return type(self), (self.at, self.field, self.problem), self.__dict__


@dataclass(frozen=True, slots=True, repr=False)
class Span:
    """A field of a frame, and its bytes.

    Attributes:
        name, kind, value: the field's name, layout and value.
        at: the position of its first byte in the frame.
        raw: its bytes.
    """

    name: str
    kind: str
    at: int
    raw: bytes
    value: Any

    def __repr__(self) -> str:
        # Only a Hello has a field of that name.
        frame = "Hello" if self.name == "secret" else ""
        return (
            f"Span({self.name}={notation.value(frame, self.name, self.kind, self.value)} at "
            f"{self.at})"
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was delivered."""

    offset: int
    key: bytes
    payload: bytes


@dataclass(frozen=True, slots=True, repr=False)
class Frame:
    """A frame that has been parsed.

    Attributes:
        name: such as "Published"; "type 0x7e" if the protocol has no such type.
        data: all its bytes.
        spans: header and body, field by field, in order.
    """

    name: str
    type: int
    flags: int
    id: int
    data: bytes
    spans: tuple[Span, ...]

    def __getitem__(self, field: str) -> Any:
        """The value of a field."""
        return self.span(field).value

    def span(self, field: str) -> Span:
        """A field with its position.

        Raises:
            KeyError: this frame has none of that name.
        """
        for span in self.spans:
            if span.name == field:
                return span
        raise KeyError(f"{self.name} has no field {field}")

    @property
    def secret(self) -> bytes:
        """The secret bytes at the end of the frame; b"" if it has none."""
        return (
            self.span("secret").raw[2:]
            if self.name == "Hello" and self.spans[-1].name == "secret"
            else b""
        )

    def __repr__(self) -> str:
        return f"Frame({self.name}, {', '.join(map(repr, self.spans))})"

    @property
    def is_event(self) -> bool:
        """Whether it came unasked."""
        return self.type in EVENTS

    @property
    def messages(self) -> list[Message]:
        """The messages in a Messages frame, each with its offset."""
        pairs = self["batch"]
        deltas = self["deltas"] if self.flags & 1 else range(len(pairs))
        return [
            Message(self["base"] + delta, *pair) for delta, pair in zip(deltas, pairs, strict=True)
        ]


# -- encoding --------------------------------------------------------------------------------------


def encode(name: str, /, *, frame_id: int, flags: int = 0, zero: int = 0, **fields: Any) -> bytes:
    """The bytes of a frame. Fields that are not given have the table's defaults."""
    given = DEFAULTS.get(name, {}) | fields
    body = b"".join(
        encode_field(kind, given.pop(field)) for field, kind in fields_of(TYPES[name], flags)
    )
    if given:
        raise TypeError(f"{name} has no field {', '.join(given)}")
    return raw_frame(TYPES[name], body, frame_id=frame_id, flags=flags, zero=zero)


def raw_frame(kind: int, body: bytes, *, frame_id: int, flags: int = 0, zero: int = 0) -> bytes:
    """A frame with any body, whether it makes sense or not."""
    return HEADER.pack(8 + len(body), kind, flags, zero, frame_id) + body


def encode_field(kind: str, value: Any) -> bytes:
    """The bytes of one field. Bytes given in place of another type are used unchanged."""
    match kind:
        case "magic" | "rest":
            return bytes(value)
        case "str":
            data = value if isinstance(value, bytes) else value.encode()
            return struct.pack("<H", len(data)) + data
        case "settings":
            pairs = list(value.items() if isinstance(value, dict) else value)
            return struct.pack("<B", len(pairs)) + b"".join(
                struct.pack("<BQ", *pair) for pair in pairs
            )
        case "batch":
            return value if isinstance(value, bytes) else encode_batch(value)
        case "deltas":
            return struct.pack(f"<{len(value) + 1}I", len(value), *value)
        case "numbers":
            return struct.pack(f"<I{len(value)}Q", len(value), *value)
        case _:
            return struct.pack(_INTEGERS[kind], value)


def encode_batch(messages: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A batch: the columns of keys and of payloads."""
    count = len(messages)
    columns = [[message[index] for message in messages] for index in (0, 1)]
    offsets = [
        struct.pack(f"<{count + 1}i", *accumulate(map(len, column), initial=0))
        for column in columns
    ]
    return (
        struct.pack("<I", count) + b"".join(offsets) + b"".join(columns[0]) + b"".join(columns[1])
    )


# -- parsing ---------------------------------------------------------------------------------------


def frame_size(data: bytes | bytearray) -> int | None:
    """The size of the frame at the front of these bytes; None if its length field is incomplete.

    Raises:
        BadFrame: no frame can be that long or that short.
    """
    if len(data) < 4:
        return None
    length = int.from_bytes(data[:4], "little")
    if not 8 <= length <= MAX_LENGTH:
        limits = "the minimum is 8, and no frame is that large"
        raise BadFrame(0, "length", f"a length of {length:,} is impossible: {limits}")
    return 4 + length


def take_frame(buffer: bytearray) -> bytes | None:
    """The bytes of the frame at the front, removed from the buffer; None if it is incomplete.

    Raises:
        BadFrame: no frame can begin like this.
    """
    size = frame_size(buffer)
    if size is None or len(buffer) < size:
        return None
    frame = bytes(buffer[:size])
    del buffer[:size]
    return frame


def parse(data: bytes) -> Frame:
    """Parse bytes that are exactly one frame.

    Raises:
        BadFrame: they are not a frame; says where that shows.
    """
    spans: list[Span] = []
    at = _read_fields("header", HEADER_FIELDS, data, 0, spans)
    _, kind, flags, zero, frame_id = (span.value for span in spans)
    if zero:
        raise BadFrame(6, "zero", f"bytes 6 and 7 of a frame must be 0, but are {zero}")
    if kind not in LAYOUTS:
        return Frame(f"type {kind:#04x}", kind, flags, frame_id, data, tuple(spans))
    name = LAYOUTS[kind][0]
    try:
        at = _read_fields(name, fields_of(kind, flags), data, at, spans)
        _must_end(name, data, at)
        _check_deltas({span.name: span for span in spans})
    except BadFrame as bad:
        bad.so_far = Frame(name, kind, flags, frame_id, data, tuple(spans))
        raise
    return Frame(name, kind, flags, frame_id, data, tuple(spans))


def _read_fields(
    name: str, fields: Iterable[tuple[str, str]], data: bytes, at: int, spans: list[Span]
) -> int:
    """Add a span for each field, starting at `at`. Returns where the last one ends."""
    for field, kind in fields:
        value, end = _read(kind, data, at, f"{name}.{field}")
        spans.append(Span(field, kind, at, data[at:end], value))
        at = end
    return at


def _must_end(name: str, data: bytes, at: int) -> None:
    if more := len(data) - at:
        problem = f"{name} has {more} more {_bytes(more)} after its last field"
        raise BadFrame(at, AFTER_LAST, problem)


def _check_deltas(spans: dict[str, Span]) -> None:
    """Check that there is one for each message, from 0 on, each greater than the one before."""
    if "deltas" in spans:
        deltas = spans["deltas"].value
        if len(deltas) != len(spans["batch"].value) or deltas[0] or deltas != sorted(set(deltas)):
            came = notation.numbers(deltas)
            problem = (
                f"deltas must be one for each message, start at 0 and increase; they are {came}"
            )
            raise BadFrame(spans["deltas"].at, "deltas", problem)


def _bytes(count: int) -> str:
    return "byte" if count == 1 else "bytes"


def _read(kind: str, data: bytes, at: int, field: str) -> tuple[Any, int]:
    """The value of the field that begins at `at`, and where it ends."""

    def take(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            left = len(data) - at
            problem = f"{field} needs {size} {_bytes(size)}, but the frame ends after {left}"
            raise BadFrame(at, field.partition(".")[2], problem)
        at += size
        return data[at - size : at]

    def integer(layout: str) -> int:
        return int(struct.unpack(_INTEGERS[layout], take(struct.calcsize(_INTEGERS[layout])))[0])

    begin = at
    match kind:
        case "magic":
            return take(4), at
        case "str":
            raw = take(integer("u16"))
            try:
                return raw.decode(), at
            except UnicodeDecodeError:
                raise BadFrame(begin, field.partition(".")[2], f"{field} is not UTF-8") from None
        case "settings":
            return [(integer("u8"), integer("u64")) for _ in range(integer("u8"))], at
        case "deltas":
            return [integer("u32") for _ in range(integer("u32"))], at
        case "numbers":
            return [integer("u64") for _ in range(integer("u32"))], at
        case "rest":
            return data[at:], len(data)
        case "batch":
            return _read_batch(data[at:], begin), len(data)
        case _:
            return integer(kind), at


def _read_batch(data: bytes, at: int) -> list[tuple[bytes, bytes]]:
    """The pairs of key and payload in a batch that began at `at` in its frame."""

    def wrong(problem: str) -> BadFrame:
        return BadFrame(at, "batch", f"the batch {problem}")

    count = int.from_bytes(data[:4], "little")
    if len(data) < 4 or not count:
        raise wrong("has no messages; a Messages frame has at least one")
    row = 4 * (count + 1)
    if 4 + 2 * row > len(data):
        raise wrong(f"has count = {count}, but is too short for two rows of {count + 1} offsets")
    rows = [struct.unpack_from(f"<{count + 1}i", data, 4 + index * row) for index in (0, 1)]
    strings = data[4 + 2 * row :]
    ends = rows[0][-1] + rows[1][-1]
    if any(offsets[0] or list(offsets) != sorted(offsets) for offsets in rows):
        found = f"keys {notation.numbers(rows[0])}; payloads {notation.numbers(rows[1])}"
        raise wrong(f"has offsets that do not begin at 0, or that decrease: {found}")
    if ends != len(strings):
        raise wrong(f"announces {ends} bytes of keys and payloads, but has {len(strings)}")
    split = rows[0][-1]
    keys, payloads = strings[:split], strings[split:]
    columns = [
        [column[a:b] for a, b in pairwise(row)]
        for column, row in ((keys, rows[0]), (payloads, rows[1]))
    ]
    return list(zip(*columns, strict=True))
