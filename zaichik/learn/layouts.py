"""The tables of the wire format: frames with their fields, errors, settings, starts.

Written from `protocol/README.md` and nothing else, like this whole package. Kinds of fields are
named as there; a learner reads them in a stage's text.
"""

import struct
from typing import Any

NEVER = FOREVER = 2**64 - 1
MAX_LENGTH = 64 * 1024 * 1024  # a broker that announces more has lost its place in the stream
HEADER = struct.Struct("<IBBHI")  # length, type, flags, zero, id

# A name, and the body's fields with their kinds. A number in brackets is the flag bit with which
# the field is there.
LAYOUTS: dict[int, tuple[str, str]] = {
    0x01: (
        "Hello",
        (
            "magic:magic version_min:u16 version_max:u16 features:u64 client:str auth:u8 user:str "
            "secret:str"
        ),
    ),
    0x02: ("CreateTopic", "topic:str settings:settings"),
    0x03: ("Publish", "producer:u64 sequence:u64 topic:str batch:batch"),
    0x04: (
        "Subscribe",
        (
            "topic:str name:str start:u8 value:u64 epoch:u64 until:u64 credit:u32 credit_bytes:u32 "
            "[1]owner:u64 [1]attempt:u32 [2]timeout_ms:u32 [2]max_deliveries:u16 [2]tickets:numbers"
        ),
    ),
    0x05: ("Unsubscribe", "subscription:u32"),
    0x06: ("Commit", "subscription:u32 next:u64"),
    0x07: ("Ping", "value:u64"),
    0x08: ("Close", ""),
    0x09: ("Describe", "kind:u8 prefix:str after:str limit:u16"),
    0x0A: ("Delete", "topic:str epoch:u64"),
    0x0B: ("Disconnect", "connection:u64"),
    0x0C: ("Explain", "topic:str subscription:str offset:u64 time:u64 key:rest"),
    0x0D: ("AdvanceClock", "to_us:u64"),
    0x0E: ("Settle", "subscription:u32 outcome:u8 [1]delay_ms:u64 reason:str tickets:numbers"),
    0x0F: (
        "Dead",
        "topic:str name:str user:str action:u8 from_offset:u64 count:u16 [1]offsets:numbers",
    ),
    0x81: (
        "Welcome",
        (
            "version:u16 features:u64 boot:u64 max_frame:u32 max_batch:u32 max_message:u32 "
            "max_credit:u32 "
            "idle_ms:u32 broker:str"
        ),
    ),
    0x82: ("TopicCreated", "created:u8 epoch:u64 settings:settings"),
    0x83: ("Published", "first_offset:u64 stored:u32 compacted:u32 subscribers:u32 dropped:rest"),
    0x84: ("Subscribed", "epoch:u64 start:u64 live:u64 committed:u64"),
    0x85: ("Unsubscribed", ""),
    0x86: ("Committed", "committed:u64"),
    0x87: ("Pong", "value:u64"),
    0x88: ("Closed", ""),
    0x89: ("Described", "more:u8 json:rest"),
    0x8A: ("Deleted", ""),
    0x8B: ("Disconnected", ""),
    0x8C: ("Explained", "json:rest"),
    0x8D: ("ClockAdvanced", ""),
    0x8E: ("Settled", "late:numbers"),
    0x8F: ("DeadPage", "more:u8 done:u32 next:u64 json:rest"),
    0xFF: ("Error", "code:u16 request_type:u8 field:str retry_after_ms:u32 message:str"),
    0x40: (
        "Messages",
        "base:u64 accepted_us:i64 [4]ticket:u64 [4]number:u16 [1]deltas:deltas batch:batch",
    ),
    0x41: ("Lagged", "from_offset:u64 to_offset:u64"),
    0x42: ("SubscriptionEnded", "code:u16 next:u64 text:str"),
    0x43: ("GoAway", "code:u16 text:str"),
    0x44: ("DeletionsMissed", "below:u64"),
}
KINDS = {  # of fields that are not integers
    "magic": "the four letters ZAIK",
    "str": "u16, the number of bytes, then the bytes, in UTF-8",
    "settings": "u8, their number, then for each a u8 (which one) and a u64 (its value)",
    "batch": (
        "u32 n; n + 1 offsets (i32) of keys; n + 1 offsets of payloads; all keys; all payloads"
    ),
    "numbers": "u32, their number, then as many u64",
    "rest": "everything up to the end of the frame",
}
TYPES = {name: number for number, (name, _) in LAYOUTS.items()}
REQUESTS, EVENTS = range(0x01, 0x10), range(0x40, 0x45)
REPLY = 0x80

ERRORS = {
    1: "MALFORMED",
    2: "FRAME_TOO_LARGE",
    3: "HELLO_REQUIRED",
    4: "UNSUPPORTED_VERSION",
    5: "HANDSHAKE_TIMEOUT",
    6: "FRAME_TIMEOUT",
    7: "IDLE_TIMEOUT",
    8: "AUTH_FAILED",
    9: "TOO_MANY_CONNECTIONS",
    10: "SLOW_CONSUMER",
    11: "INTERNAL",
    12: "TLS_REQUIRED",
    64: "INVALID_FIELD",
    65: "UNSUPPORTED",
    66: "NO_SUCH_TOPIC",
    67: "TOPIC_EXISTS",
    68: "TOO_MANY_TOPICS",
    69: "TOO_MANY_SUBSCRIPTIONS",
    70: "NO_SUCH_SUBSCRIPTION",
    71: "NOT_IN_FLIGHT",
    72: "OFFSET_AHEAD",
    73: "EPOCH_CHANGED",
    74: "FORBIDDEN",
    75: "MESSAGE_TOO_LARGE",
    76: "BATCH_TOO_LARGE",
    77: "TOPIC_FULL",
    78: "SEQUENCE_GAP",
    79: "PRODUCER_UNKNOWN",
    80: "NO_MEMORY",
    81: "NOT_EMPTY",
    82: "TAKEN_OVER",
    83: "STORAGE_FULL",
    84: "DAMAGED",
    85: "TABLE_FULL",
    86: "NO_SUCH_NAME",
}
ERROR_CODES = {name: code for code, name in ERRORS.items()}
OF_TABLE = 4  # a flag of Subscribed
RETRYABLE, FATAL = 1, 2  # flags of an Error: retry later; the broker closes afterwards
RETRYABLE_ERRORS = {
    "HANDSHAKE_TIMEOUT",
    "FRAME_TIMEOUT",
    "IDLE_TIMEOUT",
    "TOO_MANY_CONNECTIONS",
    "SLOW_CONSUMER",
    "TOPIC_FULL",
    "NO_MEMORY",
    "STORAGE_FULL",
}

HEARTBEAT, OWNER, DURABLE, TABLES, SHARED = 1, 2, 4, 8, 16  # the features
ENDS = {  # reasons for an end, by the event that gives them
    "SubscriptionEnded": {1: "UNTIL", 2: "TAKEN_OVER", 3: "FORBIDDEN", 4: "DELETED", 5: "DAMAGED"},
    "GoAway": {1: "STOPPING", 2: "DISCONNECTED", 3: "STORAGE", 4: "CREDENTIALS_ENDED"},
}

TTL, WINDOW, CAPACITY, MAX_BYTES, MAX_KEYS = range(1, 6)  # the settings of a topic
SETTINGS = {
    1: "retention_ttl_ms", 2: "compaction_window_ms", 3: "capacity", 4: "max_bytes", 5: "max_keys",
    6: "journal_bytes", 7: "overflow", 8: "durable", 9: "log_bytes", 10: "segment_bytes",
    11: "table", 12: "tombstones_ms",
}  # fmt: skip
TABLE, TOMBSTONES_MS = 11, 12  # these a broker may leave out, too
DURATIONS = {TTL, WINDOW, TOMBSTONES_MS}  # for these, all ones mean forever
JOURNAL_BYTES, OVERFLOW, KEPT, LOG_BYTES, SEGMENT_BYTES = range(
    6, 11
)  # settings that a broker may leave out
CENTURY_MS = 3_155_760_000_000  # the longest finite duration
EARLIEST, LATEST, OFFSET, TIME = range(4)  # where a subscription starts

# The least a Welcome must grant for the checks to find room. The protocol has lower floors
# (welcome.2).
LEAST = {
    "boot": 1,
    "max_frame": 263_000,
    "max_batch": 16,
    "max_message": 262_144,
    "max_credit": 1000,
}

# A request's fields where a check does not give others.
DEFAULTS: dict[str, dict[str, Any]] = {
    "Hello": {
        "magic": b"ZAIK",
        "version_min": 1,
        "version_max": 1,
        "features": 0,
        "client": "zaichik learn",
        "auth": 0,
        "user": "",
        "secret": "",
    },
    "CreateTopic": {"settings": ()},
    "Publish": {"producer": 0, "sequence": 0},
    "Subscribe": {
        "name": "",
        "start": EARLIEST,
        "value": 0,
        "epoch": 0,
        "until": NEVER,
        "credit": LEAST["max_credit"],
        "credit_bytes": 8 * 1024 * 1024,
    },
    "Ping": {"value": 0},
    "Describe": {"kind": 0, "prefix": "", "after": "", "limit": 100},
    "Delete": {"epoch": 0},
    "Explain": {"subscription": "", "offset": 0, "time": 0, "key": b""},
}


def fields_of(kind: int, flags: int) -> list[tuple[str, str]]:
    """Names and kinds of the fields that a frame of this type has in its body."""
    fields = []
    for word in LAYOUTS[kind][1].split():
        bit, bracket, rest = word.removeprefix("[").partition("]")
        if not bracket or flags & int(bit):
            name, _, field_kind = (rest if bracket else word).partition(":")
            fields.append((name, field_kind))
    return fields


def error_flags(error: str) -> int:
    """The flags of an Error in reply to a request, once a Hello has been accepted."""
    return FATAL * (ERROR_CODES[error] < 64) | RETRYABLE * (error in RETRYABLE_ERRORS)


def reply_to(name: str) -> str:
    """The name of the reply to a request that is carried out."""
    return LAYOUTS[TYPES[name] | REPLY][0]


def describe(names: tuple[str, ...]) -> list[str]:
    """Frames with types and fields, then the kinds of fields other than integers; a line each."""
    lines: list[str] = []
    kinds: dict[str, str] = {}
    for name in names:
        fields = fields_of(TYPES[name], 0)
        kinds |= {kind: KINDS[kind] for _, kind in fields if kind in KINDS}
        lines.append(
            f"{name} ({TYPES[name]:#04x}): " + (", ".join(map(" ".join, fields)) or "no body")
        )
    return [*lines, *(f"{kind} is {meaning}" for kind, meaning in kinds.items())]
