"""The frames we know, each declared once: what is said, and how it lies in bytes."""

from construct import Bytes, GreedyBytes, Int8ul, Int16ul, Int32ul, Int64ul, Prefixed, Struct, Terminated

HEADER = Struct("length" / Int32ul, "type" / Int8ul, "flags" / Int8ul, "zero" / Int16ul, "id" / Int32ul)
TEXT = Prefixed(Int16ul, GreedyBytes)  # it stays bytes: whether they are good UTF-8 is another question

HELLO = Struct(
    "magic" / Bytes(4),
    "version_min" / Int16ul,
    "version_max" / Int16ul,
    "features" / Int64ul,
    "client" / TEXT,
    "auth" / Int8ul,
    "user" / TEXT,
    "secret" / TEXT,
    Terminated,
)
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
PING = Struct("value" / Int64ul, Terminated)
ERROR = Struct(
    "code" / Int16ul,
    "request_type" / Int8ul,
    "field" / TEXT,
    "retry_after_ms" / Int32ul,
    "message" / TEXT,
)

REQUESTS = {0x01: HELLO, 0x07: PING}
REPLY, ERROR_TYPE, FATAL_FLAG = 0x80, 0xFF, 0x02


def encode(kind: int, frame_id: int, body: bytes, flags: int = 0) -> bytes:
    """A frame of this body."""
    return HEADER.build({"length": 8 + len(body), "type": kind, "flags": flags, "zero": 0, "id": frame_id}) + body
