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


def encode(kind: int, frame_id: int, body: bytes, flags: int = 0) -> bytes:
    """A frame of this body."""
    header = {"length": 8 + len(body), "type": kind, "flags": flags}
    return HEADER.build({**header, "zero": 0, "id": frame_id}) + body
