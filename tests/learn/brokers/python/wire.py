"""Frames, fields, batches, errors: the bytes of the protocol, and nothing of what a broker does with them."""

import struct
from itertools import pairwise
from typing import NamedTuple

HELLO, CREATE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, COMMIT, PING, CLOSE, DESCRIBE, DELETE, DISCONNECT = range(1, 12)
SETTLE, DEAD = 14, 15
MESSAGES, LAGGED, ENDED, GO_AWAY, DELETIONS_MISSED = range(0x40, 0x45)
ERROR = 0xFF
REPLY = 0x80
FOREVER = 2**64 - 1

# Flags.
DUPLICATE = 1
OWNED, SHARED, BY_KEY = 1, 2, 4
NAMED, RESUMED, OF_TABLE = 1, 2, 4
FORGET = 1
IF_EMPTY = 1
TOMBSTONES = 1
HOLES, REDELIVERED, TICKETS = 1, 2, 4
DELAYED = 1
SELECTED = 1
RETRYABLE, FATAL = 1, 2
REQUEST_FLAGS = {
    HELLO: 0,
    CREATE: 0,
    PUBLISH: TOMBSTONES,
    SUBSCRIBE: OWNED | SHARED | BY_KEY,
    UNSUBSCRIBE: FORGET,
    COMMIT: 0,
    PING: 0,
    CLOSE: 0,
    DESCRIBE: 0,
    DELETE: IF_EMPTY,
    DISCONNECT: 0,
    SETTLE: DELAYED,
    DEAD: SELECTED,
}

# What a Settle says of a message, and what a Dead does.
DONE, RETRY, REJECT, RELEASE, GIVE_BACK, LOSE, EXTEND = range(7)
LIST, REVIVE, FORGET_DEAD, FORGET_NAME = range(4)

# Error codes.
MALFORMED, FRAME_TOO_LARGE, HELLO_REQUIRED, UNSUPPORTED_VERSION, HANDSHAKE_TIMEOUT, FRAME_TIMEOUT, IDLE_TIMEOUT = range(
    1, 8
)
AUTH_FAILED, TOO_MANY_CONNECTIONS, SLOW_CONSUMER, INTERNAL = range(8, 12)
INVALID_FIELD, UNSUPPORTED, NO_SUCH_TOPIC, TOPIC_EXISTS, TOO_MANY_TOPICS, TOO_MANY_SUBSCRIPTIONS = range(64, 70)
NO_SUCH_SUBSCRIPTION, NOT_IN_FLIGHT, OFFSET_AHEAD, EPOCH_CHANGED, FORBIDDEN = range(70, 75)
MESSAGE_TOO_LARGE, BATCH_TOO_LARGE, TOPIC_FULL, SEQUENCE_GAP, PRODUCER_UNKNOWN = range(75, 80)
NO_MEMORY, NOT_EMPTY, TAKEN_OVER = range(80, 83)
TABLE_FULL, NO_SUCH_NAME = 85, 86
MAY_RETRY = {HANDSHAKE_TIMEOUT, FRAME_TIMEOUT, IDLE_TIMEOUT, TOO_MANY_CONNECTIONS, SLOW_CONSUMER, TOPIC_FULL, NO_MEMORY}
FIRST_HARMLESS = 64

# Reasons for an end.
UNTIL, NAME_TAKEN, _FORBIDDEN, DELETED = range(1, 5)
STOPPING, DISCONNECTED = 1, 2

# Limits.
MAX_HELLO = 4096
MAX_FRAME = 1179648
MAX_BATCH = 8192
MAX_MESSAGE = 1048576
MAX_CREDIT = 1000000
MAX_KEY = 1024
MAX_NAME = 200

# What Welcome tells besides.
HEARTBEAT, OWNER, TABLES, SHARING = 1, 2, 8, 16
FEATURES = HEARTBEAT | OWNER | TABLES | SHARING
IDLE_MS = 3000
BROKER_NAME = "python-from-the-text 1"


class Fault(Exception):
    """What is wrong with a request: an error code, the field at fault, and a sentence."""

    def __init__(self, code: int, field: str = "", text: str = "") -> None:
        super().__init__(text)
        self.code, self.field, self.text = code, field, text or f"error {code} {field}"


class Batch(NamedTuple):
    """Messages as two columns; ``size`` is what the batch field takes on the wire."""

    keys: list[bytes]
    payloads: list[bytes]

    @property
    def size(self) -> int:
        return 12 + 8 * len(self.keys) + self.payload_size

    @property
    def payload_size(self) -> int:
        return sum(map(len, self.keys)) + sum(map(len, self.payloads))


class Body:
    """Takes fields from the front of a body; a body that ends too early or too late is MALFORMED."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.long: list[str] = []

    def raw(self, size: int) -> bytes:
        if self.at + size > len(self.data):
            raise Fault(MALFORMED, text="the body ends inside a field")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "little")

    def u8(self) -> int:
        return self.number(1)

    def u16(self) -> int:
        return self.number(2)

    def u32(self) -> int:
        return self.number(4)

    def u64(self) -> int:
        return self.number(8)

    def string(self) -> bytes:
        return self.raw(self.u16())

    def numbers(self, field: str) -> list[int]:
        """A list; one that is too long is wrong once the body has been found to be whole."""
        raw = self.raw(8 * self.u32())
        if len(raw) > 8 * MAX_BATCH:
            self.long.append(field)
        return list(struct.unpack(f"<{len(raw) // 8}Q", raw))

    def settings(self) -> list[tuple[int, int]]:
        return [(self.u8(), self.u64()) for _ in range(self.u8())]

    def rest(self) -> bytes:
        return self.raw(len(self.data) - self.at)

    def end(self) -> None:
        if self.at < len(self.data):
            raise Fault(MALFORMED, text="the body goes on after its last field")
        if self.long:
            raise Fault(INVALID_FIELD, self.long[0], f"a list has at most {MAX_BATCH} numbers")


def text(raw: bytes, field: str) -> str:
    """The str that the bytes are; bad UTF-8 is INVALID_FIELD."""
    try:
        return raw.decode()
    except UnicodeDecodeError as wrong:
        raise Fault(INVALID_FIELD, field, "this is not UTF-8") from wrong


def has_control(name: str) -> bool:
    return any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in name)


def topic_name(raw: bytes) -> str:
    name = text(raw, "topic")
    if not 1 <= len(raw) <= MAX_NAME:
        raise Fault(INVALID_FIELD, "topic", "a topic's name has 1 to 200 bytes")
    if has_control(name):
        raise Fault(INVALID_FIELD, "topic", "a topic's name has no control characters")
    if name.startswith("$"):
        raise Fault(INVALID_FIELD, "topic", "names that begin with $ are the broker's own")
    return name


def session_name(raw: bytes) -> str:
    name = text(raw, "name")
    if len(raw) > MAX_NAME:
        raise Fault(INVALID_FIELD, "name", "a name has at most 200 bytes")
    if has_control(name):
        raise Fault(INVALID_FIELD, "name", "a name has no control characters")
    return name


def column(offsets: tuple[int, ...], data: bytes) -> list[bytes]:
    return [data[a:b] for a, b in pairwise(offsets)]


def good_offsets(offsets: tuple[int, ...]) -> bool:
    if offsets[0] != 0:
        return False
    return all(a <= b for a, b in pairwise(offsets))


def decode_batch(raw: bytes) -> Batch:
    """The batch in the bytes; one that breaks the rules of its layout is INVALID_FIELD."""

    def bad(why: str) -> Fault:
        return Fault(INVALID_FIELD, "batch", why)

    if len(raw) < 4:
        raise bad("it ends inside its count")
    (count,) = struct.unpack_from("<I", raw)
    if count == 0:
        raise bad("it has no messages")
    start = 12 + 8 * count
    if start > len(raw):
        raise bad("it ends inside its offsets")
    key_offsets = struct.unpack_from(f"<{count + 1}i", raw, 4)
    payload_offsets = struct.unpack_from(f"<{count + 1}i", raw, 8 + 4 * count)
    if not good_offsets(key_offsets):
        raise bad("the key offsets do not begin at 0, or decrease")
    if not good_offsets(payload_offsets):
        raise bad("the payload offsets do not begin at 0, or decrease")
    middle = start + key_offsets[-1]
    if middle + payload_offsets[-1] > len(raw):
        raise bad("the offsets go beyond the bytes")
    if middle + payload_offsets[-1] < len(raw):
        raise bad("bytes follow the payloads")
    return Batch(column(key_offsets, raw[start:middle]), column(payload_offsets, raw[middle:]))


def check_batch_limits(batch: Batch) -> None:
    if any(len(key) > MAX_KEY for key in batch.keys):
        raise Fault(INVALID_FIELD, "batch", "a key has more than 1,024 bytes")
    if len(batch.keys) > MAX_BATCH:
        raise Fault(BATCH_TOO_LARGE, "batch", "it has too many messages")
    if batch.payload_size > MAX_MESSAGE:
        raise Fault(MESSAGE_TOO_LARGE if len(batch.keys) == 1 else BATCH_TOO_LARGE, "batch", "it has too many bytes")


def offsets_of(strings: list[bytes]) -> list[int]:
    at, offsets = 0, [0]
    for string in strings:
        at += len(string)
        offsets.append(at)
    return offsets


def encode_batch(keys: list[bytes], payloads: list[bytes]) -> bytes:
    count = len(keys)
    offsets = [*offsets_of(keys), *offsets_of(payloads)]
    return struct.pack(f"<I{2 * count + 2}i", count, *offsets) + b"".join(keys) + b"".join(payloads)


def string(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<H", len(raw)) + raw


def settings(values: dict[int, int]) -> bytes:
    return bytes([len(values)]) + b"".join(struct.pack("<BQ", number, values[number]) for number in sorted(values))


def numbers(values: list[int]) -> bytes:
    return struct.pack(f"<I{len(values)}Q", len(values), *values)


def frame(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return struct.pack("<IBBHI", 8 + len(body), kind, flags, 0, number) + body


def error(fault: Fault, request_type: int, number: int, *, fatal: bool) -> bytes:
    flags = (RETRYABLE if fault.code in MAY_RETRY else 0) | (FATAL if fatal else 0)
    retry_after_ms = 1000 if fault.code in MAY_RETRY else 0
    body = struct.pack("<HB", fault.code, request_type) + string(fault.field)
    return frame(ERROR, flags, number, body + struct.pack("<I", retry_after_ms) + string(fault.text))
