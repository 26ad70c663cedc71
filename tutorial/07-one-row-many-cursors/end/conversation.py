"""One client's conversation with us: bytes in, bytes out, no socket."""

import secrets
from typing import Any

from batches import check_sizes, decode_batch
from clock import now_us
from construct import ConstructError, Container
from errors import (
    FIRST_HARMLESS,
    FRAME_TOO_LARGE,
    HELLO_REQUIRED,
    INVALID_FIELD,
    MALFORMED,
    UNSUPPORTED,
    UNSUPPORTED_VERSION,
    Refused,
    require,
    require_text,
)
from frames import BadLength, FrameBuffer
from layouts import (
    CREATED,
    ERROR,
    ERROR_TYPE,
    FATAL,
    HEADER,
    PING,
    PUBLISHED,
    REPLY,
    REQUESTS,
    SUBSCRIBED,
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
from readers import Reader
from settings import check_settings
from topics import Topics

BOOT = secrets.randbits(64) or 1  # each run of the broker has its own


class Conversation:
    """What one client has said so far, and what we answer."""

    def __init__(self, topics: Topics) -> None:
        self.is_over = False
        self._readers: list[Reader] = []
        self._new_readers: list[Reader] = []
        self._topics = topics
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
            fields.id = header.id
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
            case "create":
                return self._create(fields)
            case "publish":
                return self._publish(fields)
            case "subscribe":
                return self._subscribe(fields)
            case _:
                raise NotImplementedError(name)

    def _hello(self, fields: Container[Any]) -> bytes:
        """Welcome the client, and tell it what it may do."""
        require(fields.magic == b"ZAIK", MALFORMED, "magic", "not ZAIK")
        good = fields.version_min <= 1 <= fields.version_max
        require(good, UNSUPPORTED_VERSION, "", "we speak version 1 only")
        require(fields.auth <= 2, INVALID_FIELD, "auth", "not 0, 1 or 2")
        for name in ("client", "user", "secret"):
            require_text(fields[name], name)
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

    def _publish(self, fields: Container[Any]) -> bytes:
        """Put a batch into its topic's row."""
        good = fields.producer == 0
        require(good, UNSUPPORTED, "producer", "not supported: send 0")
        batch = decode_batch(fields.batch)
        check_sizes(batch)
        topic = self._topics.find(fields.topic)
        reply = {
            "first_offset": topic.publish(batch, now_us()),
            "stored": len(batch),
            "compacted": 0,
            "subscribers": topic.readers,
            "dropped": b"",
        }
        return PUBLISHED.build(reply)

    def _create(self, fields: Container[Any]) -> bytes:
        """Make a topic, or agree that it is there already."""
        pairs = [(each.number, each.value) for each in fields.settings]
        named = check_settings(pairs)
        is_new = fields.topic not in self._topics
        topic = self._topics.find(fields.topic)
        topic.configure(named)
        settings = [
            {"number": number, "value": value}
            for number, value in topic.settings.items()
        ]
        reply = {"created": is_new, "epoch": topic.epoch}
        return CREATED.build({**reply, "settings": settings})

    def _subscribe(self, fields: Container[Any]) -> bytes:
        """Give the client a place at the end of a topic's row."""
        require_text(fields.name, "name")
        require(not fields.name, UNSUPPORTED, "name", "not supported here")
        topic = self._topics.find(fields.topic)
        reader = Reader(topic, fields)
        self._readers.append(reader)
        self._new_readers.append(reader)
        topic.readers += 1
        here = reader.cursor
        places = {"start": here, "live": here, "committed": here}
        return SUBSCRIBED.build({"epoch": topic.epoch, **places})

    def take_new_readers(self) -> list[Reader]:
        """The readers added since the last call."""
        taken, self._new_readers = self._new_readers, []
        return taken

    def close(self) -> None:
        """Stop counting its readers."""
        for reader in self._readers:
            reader.topic.readers -= 1
