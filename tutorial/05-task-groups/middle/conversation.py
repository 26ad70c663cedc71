"""One client's conversation with us: bytes in, bytes out, and no socket anywhere."""

import secrets
from typing import Any

from construct import ConstructError, Container
from frames import BadLength, FrameBuffer
from layouts import ERROR, ERROR_TYPE, FATAL_FLAG, HEADER, PING, REPLY, REQUESTS, WELCOME, encode

LARGEST_BEFORE_HELLO = 4096  # a stranger gets little memory
LARGEST = 1_179_648  # a batch of 1 MiB, and what goes around it
BOOT = secrets.randbits(64) or 1  # by this number a client knows whether it has come back to the same broker

MALFORMED, FRAME_TOO_LARGE, HELLO_REQUIRED, UNSUPPORTED_VERSION = 1, 2, 3, 4
INVALID_FIELD, UNSUPPORTED = 64, 65
FIRST_HARMLESS = 64  # errors below it end the connection


class Refused(Exception):
    """A request that is answered with an Error: its code, the field at fault, and what to tell the client."""

    def __init__(self, code: int, field: str, message: str) -> None:
        super().__init__(message)
        self.code, self.field, self.message = code, field, message


def require(good: object, code: int, field: str, message: str) -> None:
    """Refuse the request, unless all is good."""
    if not good:
        raise Refused(code, field, message)


def is_utf8(data: bytes) -> bool:
    """Whether these bytes are a text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Conversation:
    """What one client has said so far. `is_over` when nothing more is to be read from it."""

    def __init__(self) -> None:
        self.is_over = False
        self._is_welcome = False
        self._buffer = FrameBuffer(LARGEST_BEFORE_HELLO)

    def receive(self, data: bytes) -> bytes:
        """What to answer to what a read has brought."""
        self._buffer.feed(data)
        replies = b""
        try:
            while not self.is_over and (frame := self._buffer.next_frame()):
                replies += self._answer(frame)
        except BadLength as bad:
            code = MALFORMED if bad.length <= self._buffer.largest else FRAME_TOO_LARGE
            replies += self._error(0, 0, Refused(code, "length", str(bad)))
        return replies

    def _answer(self, frame: bytes) -> bytes:
        """The reply to one frame: what was asked for, or an Error, or nothing for one that asks for silence."""
        header = HEADER.parse(frame)
        try:
            reply = self._carry_out(header, self._parsed(header, frame[HEADER.sizeof() :]))
        except Refused as refused:
            return self._error(header.type, header.id, refused)
        return encode(header.type | REPLY, header.id, reply) if header.id else b""

    def _parsed(self, header: Container[Any], body: bytes) -> Container[Any]:
        """The fields of a body, judged from the outside to the inside."""
        require(header.zero == 0, MALFORMED, "zero", "two bytes of the header are not 0")
        require(self._is_welcome or header.type == 0x01, HELLO_REQUIRED, "", "say Hello first")
        is_known = header.type in REQUESTS and not (self._is_welcome and header.type == 0x01)
        require(is_known, UNSUPPORTED, "type", "this is no request that we know")
        require(header.flags == 0, UNSUPPORTED, "flags", "this request has no flags")
        try:
            return REQUESTS[header.type].parse(body)
        except ConstructError:
            raise Refused(MALFORMED, "", "the body's fields do not add up to its length") from None

    def _carry_out(self, header: Container[Any], fields: Container[Any]) -> bytes:
        """Do what was asked for. Returns the reply's body."""
        if REQUESTS[header.type] is PING:
            return PING.build(fields)
        return self._welcome(fields)

    def _welcome(self, hello: Container[Any]) -> bytes:
        """From here on we know with whom we speak, and tell what we can do."""
        require(hello.magic == b"ZAIK", MALFORMED, "magic", "a client must begin with ZAIK")
        require(hello.version_min <= 1 <= hello.version_max, UNSUPPORTED_VERSION, "", "we speak version 1 only")
        require(hello.auth <= 2, INVALID_FIELD, "auth", "it must be 0, 1 or 2")
        for name in ("client", "user", "secret"):
            require(is_utf8(hello[name]), INVALID_FIELD, name, "this is not UTF-8")
        self._is_welcome = True
        self._buffer.largest = LARGEST
        limits = {"max_frame": LARGEST, "max_batch": 8192, "max_message": 1_048_576, "max_credit": 1_000_000}
        return WELCOME.build({"version": 1, "features": 0, "boot": BOOT, **limits, "idle_ms": 0, "broker": b"mine"})

    def _error(self, kind: int, frame_id: int, refused: Refused) -> bytes:
        """An Error frame. A fatal one is the last that this client gets."""
        self.is_over = refused.code < FIRST_HARMLESS or not self._is_welcome
        texts = {"field": refused.field.encode(), "message": refused.message.encode()}
        body = ERROR.build({"code": refused.code, "request_type": kind, "retry_after_ms": 0, **texts})
        return encode(ERROR_TYPE, frame_id, body, flags=FATAL_FLAG if self.is_over else 0)
