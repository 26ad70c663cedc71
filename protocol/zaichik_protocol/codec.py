"""Frames to bytes and bytes to frames, without a socket in sight.

`encode` turns a frame into its bytes. A `FrameDecoder` is fed bytes in whatever pieces a network delivers and
gives frames back. It keeps three outcomes strictly apart:

* a **frame**: whole and valid, taken from the buffer;
* `NEED_DATA`: not all here yet. That is never an error and nothing is taken;
* `ProtocolError`: the peer is wrong. If the error is fatal the stream is out of step for good, and asking
  again raises it again. If it is not, the bad frame has been taken and the next one can be read.
"""

import dataclasses
import struct
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from construct import ConstructError

from zaichik_protocol import hot
from zaichik_protocol.batch import Batch, bitmap_size
from zaichik_protocol.errors import ErrorCode, ProtocolError, Unencodable
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame, Hello, Messages, Published, Subscribe
from zaichik_protocol.layout import (
    BATCH,
    DELTAS,
    HEADER,
    HEADER_SIZE,
    LENGTH_SIZE,
    MIN_LENGTH,
    SETTINGS,
    TEXT,
    reason,
)

HELLO_MAX_FRAME = 4096  # before Hello, a peer gets no more memory than a greeting needs


class NeedData(Enum):
    """The type of `NEED_DATA`, the answer "not all here yet"."""

    NEED_DATA = "NEED_DATA"


NEED_DATA: Final = NeedData.NEED_DATA


def encode(frame: Frame) -> bytes:
    """The bytes of a frame, header and all.

    Raises:
        Unencodable: a value does not fit its field.
    """
    return b"".join(encode_pieces(frame))


def encode_pieces(frame: Frame) -> hot.Pieces:
    """The bytes of a frame, to be sent one piece after the other; a batch's own bytes are one of the pieces.

    Raises:
        Unencodable: a value does not fit its field.
    """
    if twin := hot.ENCODERS.get(type(frame)):
        try:
            return twin(frame)
        except (struct.error, ValueError):
            pass  # the declaration finds out what is wrong with it
    return (encode_by_declaration(frame),)


def encode_by_declaration(frame: Frame) -> bytes:
    """What `encode` does, without the fast twins: the reference they are tested against."""
    cls = type(frame)
    flags = {name: getattr(frame, name) for name in cls.FLAGS}
    bits = sum(bit for name, bit in cls.FLAGS.items() if flags[name])
    if name := _misfit(frame):
        raise Unencodable(f"{cls.__name__}: {name} does not go with the other fields")
    try:
        values = {sub.name: _to_wire(getattr(frame, sub.name)) for sub in cls.BODY.subcons if sub.name}
        body = cls.BODY.build(values, **flags)
        header = {"length": MIN_LENGTH + len(body), "type": cls.TYPE, "flags": bits, "zero": 0, "id": frame.id}
        return HEADER.build(header) + body
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


class FrameDecoder:
    """Bytes in any pieces in; frames, `NEED_DATA` or `ProtocolError` out.

    `for_client` and `for_broker` make the two that are needed.

    Args:
        accepts: the frame classes that may come.
        max_frame: largest length field accepted.

    Attributes:
        needed: the size of the next frame in bytes; until its length field is complete, the size of that field.
    """

    def __init__(self, accepts: Iterable[type[Frame]], max_frame: int) -> None:
        self._types = {cls.TYPE: cls for cls in accepts}
        self._max_frame = max_frame
        self._data = b""  # what came last, if nothing precedes it; frames are cut from it in place
        self._at = 0  # where the next frame begins in it
        self._later = bytearray()  # what came after it, while a frame was incomplete
        self.needed = LENGTH_SIZE
        self._fatal: ProtocolError | None = None

    @classmethod
    def for_client(cls) -> "FrameDecoder":
        """A decoder of what brokers send. A client trusts the broker it chose with any length."""
        return cls(REPLIES + EVENTS, max_frame=2**32 - 1)

    @classmethod
    def for_broker(cls) -> "FrameDecoder":
        """A decoder of what clients send: a Hello of modest size, and nothing else before `greeted`."""
        return cls((Hello,), max_frame=HELLO_MAX_FRAME)

    def greeted(self, max_frame: int) -> None:
        """Accept every request from now on, with lengths up to `max_frame`: the Hello was accepted."""
        self._types = {cls.TYPE: cls for cls in REQUESTS}
        self._max_frame = max_frame

    @property
    def buffered(self) -> int:
        """Bytes received that belong to no frame returned so far."""
        return len(self._data) - self._at + len(self._later)

    def receive_data(self, data: bytes) -> None:
        """Store bytes, unless a fatal error came before. Nothing is parsed before `next_frame`."""
        if self._fatal is not None:
            return
        if self._at == len(self._data):
            self._data, self._at = data, 0
        elif self.buffered + len(data) < self.needed:
            self._later += data
        else:
            self._data = b"".join((memoryview(self._data)[self._at :], self._later, data))
            self._at = 0
            self._later.clear()

    def next_frame(self) -> Frame | NeedData:
        """The next frame, or `NEED_DATA` if it is not all here.

        Raises:
            ProtocolError: see the module's docstring.
        """
        if self._fatal is not None:
            raise self._fatal
        try:
            return self._next_frame()
        except ProtocolError as error:
            if error.code.fatal:
                self._fatal = error
                self._data, self._at, self._later = b"", 0, bytearray()
            raise

    def _next_frame(self) -> Frame | NeedData:
        if self.buffered < self.needed:
            return self._wait_for_data()
        data, begin = self._data, self._at
        length = int.from_bytes(data[begin : begin + LENGTH_SIZE], "little")
        # Judged as soon as it is here: a body that is not acceptable is never waited for.
        if length < MIN_LENGTH:
            problem = f"a frame of length {length}; the least is {MIN_LENGTH}. Is the peer speaking zaichik's protocol?"
            raise ProtocolError(ErrorCode.MALFORMED, problem)
        if length > self._max_frame:
            problem = f"a frame of length {length}; the limit is {self._max_frame}. Send smaller batches"
            raise ProtocolError(ErrorCode.FRAME_TOO_LARGE, problem)
        end = begin + LENGTH_SIZE + length
        if len(data) < end:
            self.needed = LENGTH_SIZE + length
            return self._wait_for_data()
        self.needed = LENGTH_SIZE
        self._data, self._at = (data, end) if end < len(data) else (b"", 0)  # an idle decoder keeps no buffer
        _, code, flags, zero, frame_id = hot.HEADER.unpack_from(data, begin)
        cls = self._types.get(code)
        twin = None if cls is None or zero else hot.FLAGGED.get((cls, flags)) if flags else hot.DECODERS.get(cls)
        if twin is not None:
            try:
                return twin(frame_id, data, begin + HEADER_SIZE, end)
            except (struct.error, ValueError):
                pass  # the declaration finds out what is wrong with it
        return self.decode_by_declaration(data[begin:end])

    def _wait_for_data(self) -> NeedData:
        if self._at:  # a few bytes must not keep all that came with them alive until the next ones arrive
            self._data, self._at = self._data[self._at :], 0
        return NEED_DATA

    def decode_by_declaration(self, data: bytes) -> Frame:
        """The frame that exactly these bytes are: the reference the fast twins are tested against."""
        header = HEADER.parse(data)

        def wrong(code: ErrorCode, message: str, field: str = "") -> ProtocolError:
            return ProtocolError(code, message, field, request_id=header.id, request_type=header.type)

        if header.zero != 0:
            raise wrong(ErrorCode.MALFORMED, "bytes 6 and 7 of a frame must be 0", "zero")
        cls = self._types.get(header.type)
        if cls is None and self._types.keys() == {Hello.TYPE}:
            raise wrong(ErrorCode.HELLO_REQUIRED, "the first frame must be a Hello")
        if cls is None:
            raise wrong(ErrorCode.UNSUPPORTED, f"frame type 0x{header.type:02x} is not known here", "type")
        if unknown := header.flags & ~sum(cls.FLAGS.values()):
            raise wrong(ErrorCode.UNSUPPORTED, f"{cls.__name__} has no flag bits 0x{unknown:02x}", "flags")
        values: dict[str, Any] = {name: bool(header.flags & bit) for name, bit in cls.FLAGS.items()}
        try:
            body = cls.BODY.parse(data[HEADER_SIZE:], **values)
        except ConstructError as error:
            problem = f"the body of this {cls.__name__} does not add up: {reason(error)}"
            raise wrong(ErrorCode.MALFORMED, problem) from None
        for item in dataclasses.fields(cls):
            if kind := item.metadata.get("kind"):
                try:
                    values[item.name] = _from_wire(kind, body[item.name])
                except ValueError as error:
                    raise wrong(ErrorCode.INVALID_FIELD, f"{item.name}: {error}", item.name) from None
        frame = cls(id=header.id, **values)
        if name := _misfit(frame):
            raise wrong(ErrorCode.INVALID_FIELD, f"{name} does not go with the other fields", name)
        return frame


def _from_wire(kind: Any, value: Any) -> Any:
    if kind is TEXT:
        return value.decode()
    if kind is BATCH:
        return Batch.parse(value)
    if kind is SETTINGS:
        return tuple((item.setting, item.value) for item in value)
    if kind is DELTAS:
        return tuple(value or ())
    return 0 if value is None else value  # None: the field is present only with its flag bit, which is not set


def _misfit(frame: Frame) -> str:
    """Returns the field that does not go with the others: too long for them, say; "" if there is none."""
    match frame:
        case Messages(batch=batch, deltas=deltas, holes=holes) if len(deltas) != (batch.count if holes else 0):
            return "deltas"
        case Published(stored=stored, compacted=compacted, dropped=dropped):
            return "" if len(dropped) == bitmap_size(stored, compacted) else "dropped"
        case Subscribe(owned=False, owner=owner, attempt=attempt) if owner or attempt:
            return "owner" if owner else "attempt"
        case _:
            return ""
