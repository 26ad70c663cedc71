"""Frames to bytes and bytes to frames, without a socket in sight.

`encode` turns a frame into its bytes. A `FrameDecoder` is fed bytes in whatever pieces a network delivers and
gives frames back. It keeps three outcomes strictly apart:

* a **frame**: whole and valid, taken from the buffer;
* `NEED_DATA`: not all here yet. That is never an error and nothing is taken;
* `ProtocolError`: the peer is wrong. If the error is fatal the stream is out of step for good, and asking
  again raises it again. If it is not, the bad frame has been taken and the next one can be read.
"""

import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from enum import Enum
from typing import Any, Final

from construct import Construct, ConstructError, Renamed

from zaichik_protocol import hot
from zaichik_protocol.batch import Batch
from zaichik_protocol.errors import ErrorCode, ProtocolError
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame, Hello, Messages, Published
from zaichik_protocol.layout import BODIES, HEADER, HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH, TEXT, reason

HELLO_MAX_FRAME = 4096  # before Hello nobody is owed more memory than a greeting needs


class NeedData(Enum):
    """The type of `NEED_DATA`, the answer "not all here yet"."""

    NEED_DATA = "NEED_DATA"


NEED_DATA: Final = NeedData.NEED_DATA


def _is_text(sub: "Construct[Any, Any]") -> bool:
    while isinstance(sub, Renamed):  # construct wraps a field once for its name and once for its docs
        sub = sub.subcon
    return sub is TEXT


_ATTRIBUTES = {cls: {field.name for field in fields(cls)} - {"id", *cls.FLAGS} for cls in BODIES}
_TEXTS = {cls: {sub.name for sub in body.subcons if _is_text(sub)} for cls, body in BODIES.items()}


def encode(frame: Frame) -> bytes:
    """The bytes of a frame, header and all.

    Raises:
        ValueError: a value does not fit its field; the message names the frame and what does not fit.
    """
    cls = type(frame)
    if twin := hot.ENCODERS.get(cls):
        with suppress(struct.error, ValueError):
            return twin(frame)
    return encode_by_declaration(frame)


def encode_by_declaration(frame: Frame) -> bytes:
    """What `encode` does, without the fast twins: the reference they are tested against."""
    cls = type(frame)
    flags = {name: getattr(frame, name) for name in cls.FLAGS}
    try:
        values = {name: _to_wire(getattr(frame, name)) for name in _ATTRIBUTES[cls]}
        body = BODIES[cls].build(values, **flags)
        bits = sum(bit for name, bit in cls.FLAGS.items() if flags[name])
        header = {
            "length": MIN_LENGTH + len(body),
            "type": cls.TYPE,
            "flags": bits,
            "zero": 0,
            "id": frame.id,
        }
        return HEADER.build(header) + body
    except (ConstructError, UnicodeEncodeError) as error:
        raise ValueError(f"{cls.__name__} cannot be encoded: {error}") from None


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


class FrameDecoder:
    """Bytes in any pieces in; frames, `NEED_DATA` or `ProtocolError` out.

    Args:
        accepts: the frame classes that may come: `REQUESTS` for a broker, `REPLIES + EVENTS` for a client.
        max_frame: largest length field accepted. Assign a larger one once the Hello is done.
    """

    def __init__(self, accepts: Iterable[type[Frame]] = REQUESTS, max_frame: int = HELLO_MAX_FRAME) -> None:
        self.max_frame = max_frame
        self._types = {cls.TYPE: cls for cls in accepts}
        self._hello_required = False
        self._buffer = bytearray()
        self._fatal: ProtocolError | None = None

    @classmethod
    def for_client(cls) -> "FrameDecoder":
        """A decoder of what brokers send. A client trusts the broker it chose with any length."""
        return cls(REPLIES + EVENTS, max_frame=2**32 - 1)

    @classmethod
    def for_broker(cls) -> "FrameDecoder":
        """A decoder of what clients send: a Hello of modest size, and nothing else before `greeted`."""
        decoder = cls((Hello,))
        decoder._hello_required = True
        return decoder

    def greeted(self, max_frame: int) -> None:
        """The Hello was accepted: from now on all requests may come, with lengths up to `max_frame`."""
        if self._hello_required:
            self._hello_required = False
            self._types = {cls.TYPE: cls for cls in REQUESTS}
            self.max_frame = max_frame

    @property
    def buffered(self) -> int:
        """Bytes received that belong to no frame returned so far."""
        return len(self._buffer)

    def receive_data(self, data: bytes) -> None:
        """Store bytes, unless a fatal error came before. Nothing is looked at before `next_frame`."""
        if self._fatal is None:
            self._buffer += data

    def next_frame(self) -> Frame | NeedData:
        """The next frame, or `NEED_DATA` if it is not all here.

        Raises:
            ProtocolError: see the module's text.
        """
        if self._fatal is not None:
            raise self._fatal
        try:
            return self._next_frame()
        except ProtocolError as error:
            if error.code.fatal:
                self._fatal = error
                self._buffer.clear()
            raise

    def _next_frame(self) -> Frame | NeedData:
        if len(self._buffer) < LENGTH_SIZE:
            return NEED_DATA
        length = int.from_bytes(self._buffer[:LENGTH_SIZE], "little")
        # Judged as soon as it is here: a body that is not acceptable is never waited for.
        if length < MIN_LENGTH:
            raise ProtocolError(
                ErrorCode.MALFORMED,
                f"a frame of length {length}: at least {MIN_LENGTH} are needed. Is this zaichik's protocol?",
            )
        if length > self.max_frame:
            raise ProtocolError(
                ErrorCode.FRAME_TOO_LARGE,
                f"a frame of length {length}; at most {self.max_frame} are accepted. Send smaller batches.",
            )
        size = LENGTH_SIZE + length
        if len(self._buffer) < size:
            return NEED_DATA
        frame = bytes(memoryview(self._buffer)[:size])
        del self._buffer[:size]
        _, code, flags, zero, frame_id = hot.HEADER.unpack_from(frame)
        cls = self._types.get(code)
        if cls is not None and not flags and not zero and (twin := hot.DECODERS.get(cls)):
            with suppress(struct.error, ValueError):
                return twin(frame_id, frame)
        return self.decode_by_declaration(frame)

    def decode_by_declaration(self, data: bytes) -> Frame:
        """The frame that exactly these bytes are: the reference the fast twins are tested against."""
        header = HEADER.parse(data)
        at = {"request_id": header.id, "request_type": header.type}
        if header.zero != 0:
            raise ProtocolError(ErrorCode.MALFORMED, "bytes 6 and 7 of a frame must be 0", "zero", **at)
        cls = self._types.get(header.type)
        if cls is None and self._hello_required:
            raise ProtocolError(ErrorCode.HELLO_REQUIRED, "the first frame must be a Hello", **at)
        if cls is None:
            raise ProtocolError(
                ErrorCode.UNSUPPORTED, f"frame type 0x{header.type:02x} is not known here", "type", **at
            )
        if unknown := header.flags & ~sum(cls.FLAGS.values()):
            raise ProtocolError(
                ErrorCode.UNSUPPORTED, f"{cls.__name__} has no flag bits 0x{unknown:02x}", "flags", **at
            )
        flags = {name: bool(header.flags & bit) for name, bit in cls.FLAGS.items()}
        try:
            body = BODIES[cls].parse(data[HEADER_SIZE:], **flags)
        except ConstructError as error:
            raise ProtocolError(
                ErrorCode.MALFORMED,
                f"the body of this {cls.__name__} does not add up: {reason(error)}",
                **at,
            ) from None
        values = {name: _from_wire(cls, name, body[name], at) for name in _ATTRIBUTES[cls]}
        frame = cls(id=header.id, **flags, **values)
        _check_counts(frame, at)
        return frame


def _from_wire(cls: type[Frame], name: str, value: Any, at: dict[str, int]) -> Any:
    try:
        if name in _TEXTS[cls]:
            return value.decode()
        match name:
            case "batch":
                return Batch.parse(value)
            case "settings":
                return tuple((item.setting, item.value) for item in value)
            case "deltas":
                return tuple(value or ())
            case _:
                return value
    except UnicodeDecodeError as error:
        message = f"not UTF-8 at byte {error.start}"
    except ValueError as error:
        message = str(error)
    raise ProtocolError(ErrorCode.INVALID_FIELD, f"{name}: {message}", name, **at)


def _check_counts(frame: Frame, at: dict[str, int]) -> None:
    """Lists that run beside a batch must be as long as it is."""
    match frame:
        case Messages(batch=batch, deltas=deltas, holes=True) if len(deltas) != batch.count:
            message = f"{len(deltas)} deltas beside a batch of {batch.count} messages"
            raise ProtocolError(ErrorCode.INVALID_FIELD, message, "deltas", **at)
        case Published(stored=stored, compacted=compacted, dropped=dropped):
            expected = (stored + compacted + 7) // 8 if compacted else 0
            if len(dropped) != expected:
                message = f"a bitmap of {len(dropped)} bytes; {expected} belong here"
                raise ProtocolError(ErrorCode.MALFORMED, message, "dropped", **at)
