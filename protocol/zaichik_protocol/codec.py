"""Frames to bytes and bytes to frames, without a socket in sight.

`encode` turns a frame into its bytes. A `FrameDecoder` is fed bytes in whatever pieces a network
delivers and gives frames back. It keeps three outcomes strictly apart:

* a **frame**: whole and valid, taken from the buffer;
* `NEED_DATA`: not all here yet. That is never an error and nothing is taken;
* `ProtocolError`: the peer is wrong. If the error is fatal the stream is out of step for good, and
  asking again raises it again. If it is not, the bad frame has been taken and the next one can be
  read.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Final

from zaichik_protocol.derived import FORMATS, HEADER, WRONG, Pieces, formats_of
from zaichik_protocol.errors import ErrorCode, ProtocolError
from zaichik_protocol.frames import EVENTS, REPLIES, REQUESTS, Frame, Hello
from zaichik_protocol.layout import HEADER_SIZE, LENGTH_SIZE, MIN_LENGTH

HELLO_MAX_FRAME = 4096  # before Hello, a peer gets no more memory than a greeting needs

# The largest length that a broker's frame can have. Offsets within a batch have 31 bits, so a
# broker cannot be configured to take more at once, and what a disk has kept is sent whatever the
# limits of today are. Half of all lengths that are not lengths are larger, and refused at once.
REPLY_MAX_FRAME = 2**31


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


def encode_pieces(frame: Frame) -> Pieces:
    """Returns the bytes of a frame, in pieces to be sent in order.

    A batch's own bytes are one of the pieces. Values must have the types that are declared: others
    are errors of Python's own.

    Raises:
        Unencodable: a value does not fit its field.
    """
    cls = type(frame)
    bits = 0
    for name, bit in cls.FLAGS.items():
        if getattr(frame, name):
            bits |= bit
    form = FORMATS[cls.TYPE | bits << 8]
    try:
        return form.encode(frame)
    except WRONG:
        raise form.unencodable(frame) from None


class FrameDecoder:
    """Bytes in any pieces in; frames, `NEED_DATA` or `ProtocolError` out.

    `for_client` and `for_broker` make the two that are needed.

    Args:
        accepts: the frame classes that may come.
        max_frame: largest length field accepted.

    Attributes:
        needed: the size of the next frame in bytes; until its length field is complete, the size of
            that field.
    """

    def __init__(self, accepts: Iterable[type[Frame]], max_frame: int) -> None:
        self._formats = formats_of(tuple(accepts))
        self._max_frame = max_frame
        self._data = b""  # what came last, if nothing precedes it; frames are cut from it in place
        self._at = 0  # where the next frame begins in it
        self._later = bytearray()  # what came after it, while a frame was incomplete
        self.needed = LENGTH_SIZE
        self._fatal: ProtocolError | None = None

    @classmethod
    def for_client(cls) -> "FrameDecoder":
        """A decoder of what brokers send, with any length that a frame of theirs can have."""
        return cls(REPLIES + EVENTS, max_frame=REPLY_MAX_FRAME)

    @classmethod
    def for_broker(cls) -> "FrameDecoder":
        """Returns a decoder of what clients send.

        Before `greeted`, that is a Hello of modest size, and nothing else.
        """
        return cls((Hello,), max_frame=HELLO_MAX_FRAME)

    def greeted(self, max_frame: int) -> None:
        """Accept every request from now on, with lengths up to `max_frame`.

        The Hello was accepted.
        """
        self._formats = formats_of(REQUESTS)
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
        data, begin = self._data, self._at
        if len(data) - begin + len(self._later) >= self.needed:
            length = int.from_bytes(data[begin : begin + LENGTH_SIZE], "little")
            # Judged as soon as it is here: a body that is not acceptable is never waited for.
            if not MIN_LENGTH <= length <= self._max_frame:
                raise self._kept(self._of_length(length))
            end = begin + LENGTH_SIZE + length
            if end <= len(data):
                self.needed = LENGTH_SIZE
                if end < len(data):
                    self._at = end
                else:
                    self._data, self._at = b"", 0  # an idle decoder keeps no buffer
                _, code, zero, frame_id = HEADER.unpack_from(data, begin)
                form = self._formats.get(code)
                if form is None or zero:
                    raise self._kept(self._refusal(code, zero, frame_id))
                body_at = begin + HEADER_SIZE
                try:
                    return form.decode(frame_id, data, body_at, end)
                except WRONG:
                    problem = form.problem(frame_id, data, body_at, end)
                    raise self._kept(_refused(*problem, code, frame_id)) from None
            self.needed = LENGTH_SIZE + length
        if begin:
            # A few bytes must not keep all that came with them alive until the next ones arrive.
            self._data, self._at = data[begin:], 0
        return NEED_DATA

    def _kept(self, error: ProtocolError) -> ProtocolError:
        """Returns an error, after which nothing is read any more if it is fatal."""
        if error.code.fatal:
            self._fatal = error
            self._data, self._at, self._later = b"", 0, bytearray()
        return error

    def _of_length(self, length: int) -> ProtocolError:
        if length < MIN_LENGTH:
            problem = (
                f"a frame of length {length}; the least is {MIN_LENGTH}. Is the peer "
                "speaking zaichik's protocol?"
            )
            return ProtocolError(ErrorCode.MALFORMED, problem)
        problem = (
            f"a frame of length {length}; the limit is {self._max_frame}. Send smaller batches"
        )
        return ProtocolError(ErrorCode.FRAME_TOO_LARGE, problem)

    def _refusal(self, code: int, zero: int, frame_id: int) -> ProtocolError:
        """Returns what is wrong with a header that nothing here reads."""
        if zero:
            why = "bytes 6 and 7 of a frame must be 0"
            return _refused(ErrorCode.MALFORMED, why, "zero", code, frame_id)
        known = {form.cls.TYPE: form.cls for form in self._formats.values()}
        number = code & 0xFF
        cls = known.get(number)
        if cls is None and known.keys() == {Hello.TYPE}:
            why = "the first frame must be a Hello"
            return _refused(ErrorCode.HELLO_REQUIRED, why, "", code, frame_id)
        if cls is None:
            why = f"frame type 0x{number:02x} is not known here"
            return _refused(ErrorCode.UNSUPPORTED, why, "type", code, frame_id)
        unknown = (code >> 8) & ~sum(cls.FLAGS.values())
        why = f"{cls.__name__} has no flag bits 0x{unknown:02x}"
        return _refused(ErrorCode.UNSUPPORTED, why, "flags", code, frame_id)


def _refused(error: ErrorCode, message: str, field: str, code: int, frame_id: int) -> ProtocolError:
    return ProtocolError(error, message, field, request_id=frame_id, request_type=code & 0xFF)
