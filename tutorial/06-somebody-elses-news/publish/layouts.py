"""The frames we know, each declared once: its fields, and their bytes."""

from construct import (
    Bytes,
    GreedyBytes,
    Int8ul,
    Int16ul,
    Int32ul,
    Int64ul,
    Prefixed,
    Struct,
    Terminated,
)

HEADER = Struct(
    "length" / Int32ul,
    "type" / Int8ul,
    "flags" / Int8ul,
    "zero" / Int16ul,
    "id" / Int32ul,
)
PING = Struct("value" / Int64ul, Terminated)

REQUESTS = {0x07: ("ping", PING)}  # names and bodies, by their types
REPLY = 0x80  # a reply's type is its request's with this bit set

TEXT = Prefixed(Int16ul, GreedyBytes)  # bytes: they may not be valid UTF-8
MAGIC = Bytes(4)

HELLO = Struct(
    "magic" / MAGIC,
    "version_min" / Int16ul,
    "version_max" / Int16ul,
    "features" / Int64ul,
    "client" / TEXT,
    "auth" / Int8ul,
    "user" / TEXT,
    "secret" / TEXT,
    Terminated,
)
REQUESTS |= {0x01: ("hello", HELLO)}
WELCOME = Struct(
    "version" / Int16ul,
    "features" / Int64ul,
    "boot" / Int64ul,
    "max_frame" / Int32ul,
    "max_batch" / Int32ul,
    "max_message" / Int32ul,
    "max_credit" / Int32ul,
    "idle_ms" / Int32ul,
    "broker" / TEXT,
)

ERROR = Struct(
    "code" / Int16ul,
    "request_type" / Int8ul,
    "field" / TEXT,
    "retry_after_ms" / Int32ul,
    "message" / TEXT,
)
ERROR_TYPE, FATAL = 0xFF, 0x02  # the second one is a flag

PUBLISH = Struct(
    "producer" / Int64ul,
    "sequence" / Int64ul,
    "topic" / TEXT,
    "batch" / GreedyBytes,
)
REQUESTS |= {0x03: ("publish", PUBLISH)}
PUBLISHED = Struct(
    "first_offset" / Int64ul,
    "stored" / Int32ul,
    "compacted" / Int32ul,
    "subscribers" / Int32ul,
    "dropped" / GreedyBytes,
)


def encode(kind: int, frame_id: int, body: bytes, flags: int = 0) -> bytes:
    """A frame of this body."""
    header = {"length": 8 + len(body), "type": kind, "flags": flags}
    return HEADER.build({**header, "zero": 0, "id": frame_id}) + body
