"""Bytes to named fields, for `zaichik dissect` and the hexdumps of the wire document.

Reads by the same declaration as the codec, but field by field, so that it can also explain bytes
that are not a frame: where a cut one ends, and in the middle of which field.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from construct import Construct, ConstructError, Struct

from zaichik.base.counted import counted
from zaichik_protocol.codec import FrameDecoder
from zaichik_protocol.declaration import BATCH_COLUMNS, BODIES, HEADER, reason
from zaichik_protocol.errors import ProtocolError
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame, Hello
from zaichik_protocol.layout import HEADER_SIZE, LENGTH_SIZE

# A secret is never shown. Where a Hello is wrong, it may be in any text, or among the bytes that
# are left: of those, only as many are shown as a field has before its text.
_SHOWN_OF_HELLO = {"magic": 4, "client": 2, "user": 2, "secret": 2, "rest": 0}

_TYPES = {cls.TYPE: cls for cls in REQUESTS + REPLIES + EVENTS}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a frame and the bytes it lies in.

    Attributes:
        offset: of its first byte, from the beginning of all the bytes.
        data: its bytes; if `problem` says that some are missing, those that are there.
        frame: the name of the frame it belongs to.
        name, value: as in the declaration; value is None if there is a problem.
        meaning: the declaration's text.
        problem: "", or what is wrong here.
        hidden: how many of the last of its bytes nobody may read: those of a secret, or of what is
            wrong and may have one in it.
    """

    offset: int
    data: bytes
    frame: str
    name: str
    value: Any
    meaning: str
    problem: str = ""
    hidden: int = 0


def dissect(data: bytes) -> Iterator[Field]:
    """Yields every field of every frame in these bytes, up to the end or an invalid header.

    A field without bytes is left out, unless it should have some. After the first problem inside a
    body, the rest of that frame is skipped; the next frame follows.
    """
    offset = 0
    while offset < len(data):
        header = list(_walk(HEADER, data[offset : offset + HEADER_SIZE], offset, "?", {}))
        values = {field.name: field.value for field in header}
        cls = _TYPES.get(values.get("type") or 0)
        name = cls.__name__ if cls else "unknown"
        for field in header:
            yield replace(field, frame=name)
        if header[-1].problem:
            return
        end = offset + LENGTH_SIZE + values["length"]
        body_at = offset + HEADER_SIZE
        body = data[body_at:end]
        if end < body_at:
            problem = f"length {values['length']} is less than a header's 8"
            yield Field(body_at, b"", name, "body", None, "", problem)
            return
        if cls is None:
            unknown = f"no frame has type 0x{values['type']:02x}"
            yield Field(body_at, body, name, "body", None, "", unknown)
        else:
            is_cut = end > len(data)
            has_problem = False
            for field in _body_of(cls, body, body_at, values["flags"], is_cut=is_cut):
                has_problem = has_problem or bool(field.problem)
                yield field
            if not is_cut and not has_problem:
                yield from _misread(data[offset:end], cls, end)
        if end > len(data):
            missing = counted(end - len(data), "byte")
            problem = f"the frame is cut here: {missing} missing"
            yield Field(len(data), b"", name, "cut", None, "", problem)
        offset = end


def _body_of(
    cls: type[Frame], body: bytes, body_at: int, bits: int, *, is_cut: bool
) -> Iterator[Field]:
    """Yields the fields of a body that have bytes, or should have some."""
    flags = {flag: bool(bits & bit) for flag, bit in cls.FLAGS.items()}
    fields = _body(BODIES[cls], body, body_at, cls.__name__, flags)
    if cls is Hello:
        fields = _without_secret(list(fields), is_cut=is_cut)
    for field in fields:
        if field.data or field.problem:
            yield field


def _without_secret(fields: list[Field], *, is_cut: bool) -> Iterator[Field]:
    """Yields the fields of a Hello, and hides what may be a secret."""
    # If it is cut, what is there is what it says.
    is_wrong = any(field.problem for field in fields) and not is_cut
    for field in fields:
        is_hidden = (
            field.name == "secret"
            or bool(field.problem)
            or (is_wrong and isinstance(field.value, bytes))
        )
        shown = _SHOWN_OF_HELLO.get(field.name, len(field.data))
        yield replace(field, hidden=max(0, len(field.data) - shown)) if is_hidden else field


def _misread(frame: bytes, cls: type[Frame], offset: int) -> Iterator[Field]:
    """Yields the codec's objection to a frame of the right lengths: flags, UTF-8, a batch."""
    decoder = FrameDecoder((cls,), max_frame=len(frame))
    decoder.receive_data(frame)
    try:
        decoder.next_frame()
    except ProtocolError as error:
        yield Field(offset, b"", cls.__name__, error.field or "frame", None, "", error.message)


def _body(
    layout: Struct, data: bytes, offset: int, frame: str, flags: dict[str, bool]
) -> Iterator[Field]:
    for field in _walk(layout, data, offset, frame, flags):
        if field.name == "batch" and not field.problem:
            yield from _walk(BATCH_COLUMNS, field.data, field.offset, frame, {})
        else:
            yield field


def _walk(
    layout: Struct, data: bytes, offset: int, frame: str, flags: dict[str, bool]
) -> Iterator[Field]:
    stream = BytesIO(data)
    values: dict[str, Any] = dict(flags)
    for sub in layout.subcons:
        begin = stream.tell()
        problem = ""
        try:
            value = sub.parse_stream(stream, **values)
        except ConstructError as error:
            value, problem = None, _problem(sub, data[begin:], error)
        end = len(data) if problem else stream.tell()
        if sub.name is None:  # Terminated: no field, but a problem if bytes are left
            if problem:
                yield Field(
                    offset + begin,
                    data[begin:],
                    frame,
                    "rest",
                    None,
                    "",
                    "bytes after the last field",
                )
            return
        values[sub.name] = value
        yield Field(offset + begin, data[begin:end], frame, sub.name, value, str(sub.docs), problem)
        if problem:
            return


def _problem(sub: "Construct[Any, Any]", rest: bytes, error: ConstructError) -> str:
    if not rest:
        return f"{sub.name} is missing"
    return f"{sub.name} is wrong or cut: {reason(error)}"
