"""The same declaration in construct: the reference that what is derived from it is tested against.

construct reads a field at a time through many Python calls, which takes longer than all the rest of
a broker's work on a frame. So no frame travels through it. `zaichik dissect` does, which explains
bytes that are not a frame; and tests, which hold the two equal over all inputs.

Four traps of construct:

* Compiled parsers accept truncated input. These are interpreted.
* Bytes left over after a Struct pass unnoticed, unless the Struct ends in `Terminated`.
* `PascalString` decodes while it parses, so that bad UTF-8 would look like a bad frame. Strings
  stay bytes here; who reads them decodes them, and can say which *field* is wrong.
* A `Switch` without a match silently yields None. Types are looked up in a dict instead.
"""

# Not compiled: it is a declaration.

from collections.abc import Iterable
from typing import Any

from construct import (
    Array,
    Bytes,
    Const,
    ConstructError,
    GreedyBytes,
    If,
    Int8ul,
    Int16ul,
    Int32sl,
    Int32ul,
    Int64sl,
    Int64ul,
    Prefixed,
    PrefixedArray,
    Struct,
    Terminated,
    this,
)

from zaichik_protocol import layout
from zaichik_protocol.batch import Batch, bitmap_size
from zaichik_protocol.errors import ErrorCode, ProtocolError, Unencodable
from zaichik_protocol.frames import (
    EVENTS,
    REPLIES,
    REQUESTS,
    Frame,
    Hello,
    Messages,
    Published,
)
from zaichik_protocol.layout import (
    BATCH,
    DELTAS,
    HEADER_SIZE,
    MIN_LENGTH,
    NUMBERS,
    REST,
    SETTINGS,
    TEXT,
)

_KINDS: dict[layout.FieldType, Any] = {
    layout.U8: Int8ul,
    layout.U16: Int16ul,
    layout.U32: Int32ul,
    layout.U64: Int64ul,
    layout.I64: Int64sl,
    layout.MAGIC: Const(layout.MAGIC.value),
    TEXT: Prefixed(Int16ul, GreedyBytes),
    SETTINGS: PrefixedArray(Int8ul, Struct("setting" / Int8ul, "value" / Int64ul)),
    DELTAS: PrefixedArray(Int32ul, Int32ul),
    NUMBERS: PrefixedArray(Int32ul, Int64ul),
    REST: GreedyBytes,
    BATCH: GreedyBytes,  # read by batch.Batch, so that a bad batch is a bad field
}


def _in_construct(field: layout.Field) -> Any:
    kind = _KINDS[field.kind]
    if field.only:
        kind = If(lambda context: context._params[field.only], kind)  # noqa: SLF001 (so construct names what it was told)
    return field.name / kind * field.meaning


HEADER = Struct(*map(_in_construct, layout.HEADER))

# It knows lengths only: batch.py checks the values of the offsets.
_COLUMNS: tuple[Any, ...] = (
    Int32ul,
    Array(this.count + 1, Int32sl),
    Array(this.count + 1, Int32sl),
    Bytes(lambda known: known.key_offsets[-1]),
    Bytes(lambda known: known.payload_offsets[-1]),
)
BATCH_COLUMNS = Struct(
    *(
        name / column * meaning
        for (name, _, meaning), column in zip(layout.BATCH_COLUMNS, _COLUMNS, strict=True)
    ),
    Terminated,
)


# Of each frame. It is parsed and built with the frame's flags as parameters.
BODIES = {
    cls: Struct(*map(_in_construct, cls.FIELDS), Terminated)
    for cls in (*REQUESTS, *REPLIES, *EVENTS)
}


def reason(error: ConstructError) -> str:
    """Returns what construct says, without the path of its parser, which is on the line before."""
    return str(error).rpartition("\n")[2]


def encode(frame: Frame) -> bytes:
    """Returns the bytes of a frame, header and all.

    Raises:
        Unencodable: a value does not fit its field.
    """
    cls = type(frame)
    flags = {name: getattr(frame, name) for name in cls.FLAGS}
    bits = sum(bit for name, bit in cls.FLAGS.items() if flags[name])
    if name := _misfit(frame):
        raise Unencodable(f"{cls.__name__}: {name} does not go with the other fields")
    try:
        values = {field.name: _to_wire(getattr(frame, field.name)) for field in cls.FIELDS}
        data = BODIES[cls].build(values, **flags)
        header = {
            "length": MIN_LENGTH + len(data),
            "type": cls.TYPE,
            "flags": bits,
            "zero": 0,
            "id": frame.id,
        }
        return HEADER.build(header) + data
    except (ConstructError, ValueError) as error:
        path = isinstance(error, ConstructError) and error.path  # "(building) -> topic -> topic"
        why = f"{path.split()[2]} does not fit its field" if path else error
        raise Unencodable(f"{cls.__name__} cannot be encoded: {why}") from None


def _to_wire(value: Any) -> Any:
    match value:
        case str():
            return value.encode()
        case Batch():
            return value.data
        case tuple() if value and isinstance(value[0], tuple):
            return [{"setting": setting, "value": number} for setting, number in value]
        case _:
            return value


def decode(accepts: Iterable[type[Frame]], data: bytes) -> Frame:
    """Returns the frame that exactly these bytes are, if it is one of those.

    Raises:
        ProtocolError: it is not.
    """
    header = HEADER.parse(data)

    def wrong(code: ErrorCode, message: str, field: str = "") -> ProtocolError:
        return ProtocolError(code, message, field, request_id=header.id, request_type=header.type)

    if header.zero != 0:
        raise wrong(ErrorCode.MALFORMED, "bytes 6 and 7 of a frame must be 0", "zero")
    types = {cls.TYPE: cls for cls in accepts}
    cls = types.get(header.type)
    if cls is None and types.keys() == {Hello.TYPE}:
        raise wrong(ErrorCode.HELLO_REQUIRED, "the first frame must be a Hello")
    if cls is None:
        why = f"frame type 0x{header.type:02x} is not known here"
        raise wrong(ErrorCode.UNSUPPORTED, why, "type")
    if unknown := header.flags & ~sum(cls.FLAGS.values()):
        why = f"{cls.__name__} has no flag bits 0x{unknown:02x}"
        raise wrong(ErrorCode.UNSUPPORTED, why, "flags")
    flags = {name: bool(header.flags & bit) for name, bit in cls.FLAGS.items()}
    try:
        parsed = BODIES[cls].parse(data[HEADER_SIZE:], **flags)
    except ConstructError as error:
        problem = f"the body of this {cls.__name__} does not add up: {reason(error)}"
        raise wrong(ErrorCode.MALFORMED, problem) from None
    values: dict[str, Any] = {}
    for field in cls.FIELDS:
        if field.only and not flags[field.only]:
            continue
        try:
            values[field.name] = _from_wire(field.kind, parsed[field.name])
        except ValueError as error:
            raise wrong(ErrorCode.INVALID_FIELD, f"{field.name}: {error}", field.name) from None
    frame = cls(id=header.id, **values, **flags)
    if name := _misfit(frame):
        raise wrong(ErrorCode.INVALID_FIELD, f"{name} does not go with the other fields", name)
    return frame


def _from_wire(kind: layout.FieldType, value: Any) -> Any:
    if kind is TEXT:
        return value.decode()
    if kind is BATCH:
        return Batch.parse(value)
    if kind is SETTINGS:
        return tuple((item.setting, item.value) for item in value)
    return tuple(value) if kind in {DELTAS, NUMBERS} else value


def _misfit(frame: Frame) -> str:
    """Returns the field that does not fit the others, for example too long for them.

    "" if there is none.
    """
    for field in frame.FIELDS:
        if field.only and not getattr(frame, field.only) and getattr(frame, field.name):
            return field.name
    match frame:
        case Messages(batch=batch, deltas=deltas, holes=True):
            return "" if len(deltas) == batch.count else "deltas"
        case Published(stored=stored, compacted=compacted, dropped=dropped):
            return "" if len(dropped) == bitmap_size(stored, compacted) else "dropped"
        case _:
            return ""
