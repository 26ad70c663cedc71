"""The frames we know, each declared once: its fields, and their bytes."""

from construct import (
    Bytes,
    GreedyBytes,
    Int8ul,
    Int16ul,
    Int32ul,
    Int64ul,
    Prefixed,
    PrefixedArray,
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

SUBSCRIBE = Struct(
    "topic" / TEXT,
    "name" / TEXT,
    "start" / Int8ul,
    "value" / Int64ul,
    "epoch" / Int64ul,
    "until" / Int64ul,
    "credit" / Int32ul,
    "credit_bytes" / Int32ul,
    Terminated,
)
REQUESTS |= {0x04: ("subscribe", SUBSCRIBE)}
PLACES = ("epoch", "start", "live", "committed")
SUBSCRIBED = Struct(*(name / Int64ul for name in PLACES))
MESSAGES = Struct(
    "base" / Int64ul, "accepted_us" / Int64ul, "batch" / GreedyBytes
)
MESSAGES_TYPE = 0x40

SETTINGS = PrefixedArray(Int8ul, Struct("number" / Int8ul, "value" / Int64ul))
CREATE = Struct("topic" / TEXT, "settings" / SETTINGS, Terminated)
CREATED = Struct("created" / Int8ul, "epoch" / Int64ul, "settings" / SETTINGS)
REQUESTS |= {0x02: ("create", CREATE)}

UNSUBSCRIBE = Struct("subscription" / Int32ul, Terminated)
REQUESTS |= {0x05: ("unsubscribe", UNSUBSCRIBE)}
FLAGS = {"unsubscribe": 0x01}  # FORGET, which is for another kind of broker

COMMIT = Struct("subscription" / Int32ul, "next" / Int64ul, Terminated)
COMMITTED = Struct("committed" / Int64ul)
REQUESTS |= {0x06: ("commit", COMMIT)}
LAGGED = Struct("from_offset" / Int64ul, "to_offset" / Int64ul)
LAGGED_TYPE = 0x41

ENDED = Struct("code" / Int16ul, "next" / Int64ul, "text" / TEXT)
ENDED_TYPE = 0x42

DUPLICATE = 0x01  # a flag of Published: this was stored before

CLOSE = Struct(Terminated)
REQUESTS |= {0x08: ("close", CLOSE)}
GO_AWAY = Struct("code" / Int16ul, "text" / TEXT)
GO_AWAY_TYPE = 0x43

SHARED = 0x10  # a feature: workers share a name
TICKETS = PrefixedArray(Int32ul, Int64ul)
SHARING = Struct(
    *SUBSCRIBE.subcons[:-1],  # all of it but Terminated
    "timeout_ms" / Int32ul,
    "max_deliveries" / Int16ul,
    "tickets" / TICKETS,
    Terminated,
)
FLAGS |= {"subscribe": 0x02}
FLAGGED = {("subscribe", 0x02): SHARING}  # with this flag, it's this body
HANDED_OUT = Struct(
    "base" / Int64ul,
    "accepted_us" / Int64ul,
    "ticket" / Int64ul,
    "number" / Int16ul,
    "batch" / GreedyBytes,
)
REDELIVERED, HAS_TICKET = 0x02, 0x04  # flags of Messages

SETTLE = Struct(
    "subscription" / Int32ul,
    "outcome" / Int8ul,
    "reason" / TEXT,
    "tickets" / TICKETS,
    Terminated,
)
SETTLED = Struct("late" / TICKETS)
REQUESTS |= {0x0E: ("settle", SETTLE)}

DELAYED = Struct(
    "subscription" / Int32ul,
    "outcome" / Int8ul,
    "delay_ms" / Int64ul,
    "reason" / TEXT,
    "tickets" / TICKETS,
    Terminated,
)
FLAGS |= {"settle": 0x01}
FLAGGED |= {("settle", 0x01): DELAYED}

DEAD = Struct(
    "topic" / TEXT,
    "name" / TEXT,
    "user" / TEXT,
    "action" / Int8ul,
    "from_offset" / Int64ul,
    "count" / Int16ul,
    Terminated,
)
DEAD_PAGE = Struct(
    "more" / Int8ul, "done" / Int32ul, "next" / Int64ul, "json" / GreedyBytes
)
REQUESTS |= {0x0F: ("dead", DEAD)}


def encode(kind: int, frame_id: int, body: bytes, flags: int = 0) -> bytes:
    """A frame of this body."""
    header = {"length": 8 + len(body), "type": kind, "flags": flags}
    return HEADER.build({**header, "zero": 0, "id": frame_id}) + body
