"""One client's conversation with us: bytes in, bytes out, no socket."""

import secrets
from typing import Any

from construct import ConstructError, Container
from errors import (
    FIRST_HARMLESS,
    FRAME_TOO_LARGE,
    HELLO_REQUIRED,
    MALFORMED,
    UNSUPPORTED,
    UNSUPPORTED_VERSION,
    Refused,
    require,
)
from frames import BadLength, FrameBuffer
from layouts import (
    ERROR,
    ERROR_TYPE,
    FATAL,
    HEADER,
    PING,
    REPLY,
    REQUESTS,
    WELCOME,
    encode,
)
from limits import (
    MAX_BATCH,
    MAX_CREDIT,
    MAX_FIRST_FRAME,
    MAX_FRAME,
    MAX_MESSAGE,
)

BOOT = secrets.randbits(64) or 1  # each run of the broker has its own


class Conversation:
    """What one client has said so far, and what we answer."""

    def __init__(self) -> None:
        self.is_over = False
        self._is_welcome = False
        self._buffer = FrameBuffer(MAX_FIRST_FRAME)

    def receive(self, data: bytes) -> bytes:
        """What to answer to what a read has brought."""
        self._buffer.feed(data)
        replies = b""
        try:
            while not self.is_over and (frame := self._buffer.next_frame()):
                replies += self._answer(frame)
        except BadLength as bad:
            is_large = bad.length > self._buffer.largest
            code = FRAME_TOO_LARGE if is_large else MALFORMED
            replies += self._error(0, 0, Refused(code, "length", str(bad)))
        return replies

    def _answer(self, frame: bytes) -> bytes:
        """The reply to one request; nothing if it asks for silence."""
        header = HEADER.parse(frame)
        try:
            name, fields = self._judge(header, frame[HEADER.sizeof() :])
            reply = self._carry_out(name, fields)
        except Refused as refused:
            return self._error(header.type, header.id, refused)
        if header.id == 0:
            return b""
        return encode(header.type | REPLY, header.id, reply)

    def _error(self, kind: int, frame_id: int, refused: Refused) -> bytes:
        """An Error frame. A fatal one is the last that this client gets."""
        is_fatal = refused.code < FIRST_HARMLESS
        self.is_over = is_fatal or not self._is_welcome
        fields = {
            "code": refused.code,
            "request_type": kind,
            "field": refused.field.encode(),
            "retry_after_ms": 0,
            "message": refused.message.encode(),
        }
        flags = FATAL if self.is_over else 0
        return encode(ERROR_TYPE, frame_id, ERROR.build(fields), flags)

    def _judge(
        self, header: Container[Any], body: bytes
    ) -> tuple[str, Container[Any]]:
        """The request's name and fields, judged from outside to inside."""
        require(header.zero == 0, MALFORMED, "zero", "this must be 0")
        name, layout = REQUESTS.get(header.type, ("unknown", None))
        is_hello = name == "hello"
        good = is_hello or self._is_welcome
        require(good, HELLO_REQUIRED, "", "say Hello first")
        good = layout and not (is_hello and self._is_welcome)
        require(good, UNSUPPORTED, "type", "unknown request type")
        require(header.flags == 0, UNSUPPORTED, "flags", "these must be 0")
        try:
            return name, layout.parse(body)
        except ConstructError:
            raise Refused(MALFORMED, "", "fields and size differ") from None

    def _carry_out(self, name: str, fields: Container[Any]) -> bytes:
        """Do what was asked for. Returns the reply's body."""
        match name:
            case "hello":
                return self._hello(fields)
            case "ping":
                return PING.build(fields)
            case _:
                raise NotImplementedError(name)

    def _hello(self, fields: Container[Any]) -> bytes:
        """Welcome the client, and tell it what it may do."""
        require(fields.magic == b"ZAIK", MALFORMED, "magic", "not ZAIK")
        good = fields.version_min <= 1 <= fields.version_max
        require(good, UNSUPPORTED_VERSION, "", "we speak version 1 only")
        self._is_welcome = True
        self._buffer.largest = MAX_FRAME
        limits = {
            "max_frame": MAX_FRAME,
            "max_batch": MAX_BATCH,
            "max_message": MAX_MESSAGE,
            "max_credit": MAX_CREDIT,
            "idle_ms": 0,
        }
        about = {"version": 1, "features": 0, "boot": BOOT, "broker": b"mine"}
        return WELCOME.build(about | limits)
