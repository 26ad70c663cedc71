r"""A recording, as bytes: a header, then records. Each checksum continues the one before it.

    header  magic "zaichik flight\r\n" | version u16 | protocol u16 | size u32 | about, JSON |
            crc u32
    record  size u32 | kind u8 | connection u32 | now_us i64 | payload | crc u32

Numbers are little-endian, as on the wire. Each CRC-32 is over everything from the beginning of the
file up to itself, other checksums excluded. So a record is believed only after all that came before
it: one that is torn, changed, missing or out of place is found, and nothing after it is read.
"""

# Not compiled: its time is spent in `struct`, `json` and `zlib`.

import json
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple
from zlib import crc32

from zaichik.base.json_text import NotJson, parsed
from zaichik_protocol import PROTOCOL_VERSION, ErrorCode, Refused

MAGIC = b"zaichik flight\r\n"
VERSION = 2  # 1 had no durable topics, and is read as well
# MAGIC, the version of the format and that of the protocol, and how many bytes of JSON follow.
HEADER = Struct("<16sHHI")
MOST_HEADER = 64 * 1024  # bytes, of which about 1 KiB is used
RECORD = Struct("<IBIq")
CHECK = Struct("<I")
OUTPUT = Struct("<IQ")  # its checksum, and how many bytes it has
# Offset of the first message, how many there are; then the batch. 0: as the reader's last one.
ENTRY = Struct("<QI")
HOLD = Struct("<q")  # by how many bytes it has grown; then the client's name
# The bytes of each piece of output that are checked where payloads are masked: those before the
# first key.
CHECKED_IF_MASKED = 20


class FlightKind(IntEnum):
    """What a record holds.

    It is a call, or an answer that the broker got while it carried out the call before.
    """

    # peer, client that is charged; payloads are JSON lists of arguments unless it says otherwise
    CONNECT = 1
    LOG_IN = 2  # name of the user
    FRAME = 3  # a request, as on the wire; without user and secret of a Hello
    REFUSE = 4  # code, message, field, request id, request type
    OUTPUT = 5  # see `OUTPUT`; nothing if the broker has raised an exception
    CALL = 6  # of a `SubscriptionManager`: the method's name, arguments; one of `CALLS`
    RECHECK = 7  # whether rights may have changed, whether the login has ended
    HOLD = 8  # incomplete frames and unsent output of a client; see `HOLD`
    DISCONNECT = 9  # reason, reason by the conversation itself
    SWEEP = 10
    END = 11
    RIGHT = 12  # an answer: action, topic, whether the user has the right
    SHOWN = 13  # an answer: resident, disconnects, access, as `describe` shows them
    WAIVE = 14  # all pairs of a user and a topic that the user has a name in, and may not read
    # output is taken; only if the broker asks for anything meanwhile: it is before the answers
    TAKE = 15
    # From here on, the number is that of a log: a topic's on a disk.
    # what a start has found: name, head, end, epoch, settings, what is lost, a checkpoint as base64
    RECOVERED = 16
    # all of these are put into the broker; if its clock has jumped, or is ahead: jumps, and by how
    # much
    RESTORE = 17
    LOG = 18  # a call of a log: the method's name, arguments; see `RecordedLog`
    ENTRY = 19  # an answer: see `ENTRY`, with its time; nothing if it has to be read first
    DAMAGED = 20  # an answer in its place: code, message, field
    # an answer: the name of a value that has changed, the value; of all logs together if the number
    # is 0
    VALUE = 21
    # after RECOVERED, of a table: head, deleted_below, expired, superseded; see `KeepLast`
    TABLE = 22
    # after that: some of its messages, which were accepted at the record's time: how many, u32; the
    # offset of each, i64; the batch
    ROWS = 23


KINDS = {kind.value: kind for kind in FlightKind}
CALLS = (
    "restrict",
    "drop_replies",
    "note_unsent",
    "accept_no_more",
    "stop",
    "give_up",
    "end",
    "close",
)


class FlightRecord(NamedTuple):
    """One record.

    Attributes:
        kind, payload: see `FlightKind`.
        number: the connection's; 0 if it is about none.
        now_us: the clock's reading that the call has, or was recorded with it; 0 if none was taken.
    """

    kind: FlightKind
    number: int
    now_us: int
    payload: bytes

    @property
    def values(self) -> list[Any]:
        """What was `packed`.

        Raises:
            ValueError: it is something else, and nothing that zaichik has recorded.
        """
        values = parsed(self.payload)
        if not isinstance(values, list):
            raise NotJson("it is not a list")
        return values


class Unreadable(Exception):
    """The file is not a recording that this zaichik can replay; the message is a sentence."""


def packed(*values: Any) -> bytes:
    """Returns values as a payload."""
    return json.dumps(values).encode()


def told(refusal: Refused) -> tuple[int, str, str]:
    """Returns a refusal as values, for `packed`."""
    return refusal.code.value, refusal.message, refusal.field


def refusal(code: int, message: str, field: str) -> Refused:
    """Returns the refusal with these values; see `told`."""
    return Refused(ErrorCode(code), message, field)


def header(about: dict[str, Any]) -> tuple[bytes, int]:
    """Returns the beginning of a recording, and the checksum that its records continue."""
    text = json.dumps(about).encode()
    data = HEADER.pack(MAGIC, VERSION, PROTOCOL_VERSION, len(text)) + text
    return data + CHECK.pack(crc32(data)), crc32(data)


class Recording:
    """A recording to be read.

    Args:
        data: the file's bytes, or a map of them.

    Attributes:
        about: what the header says, as JSON.
        problem: after the last record, why there are no more; "" if the recording has come to its
            end.
        is_damaged: whether the reason is another one than that the file is too short.

    Raises:
        Unreadable: the file is not a recording, or of another version.
    """

    def __init__(self, data: Any) -> None:
        start = data[: HEADER.size].ljust(HEADER.size, b"\0")
        magic, version, protocol, size = HEADER.unpack(start)
        self._at = HEADER.size + size
        if magic != MAGIC or not self._at <= min(len(data), MOST_HEADER):
            raise Unreadable("it is not a zaichik recording, or it breaks off in its header")
        if version > VERSION:
            raise Unreadable(
                f"it is from a newer zaichik: its format is {version}, this one reads {VERSION}"
            )
        self._crc = crc32(data[: self._at])
        if data[self._at : self._at + CHECK.size] != CHECK.pack(self._crc):
            raise Unreadable("its header is damaged")
        if protocol != PROTOCOL_VERSION:
            spoken = f"in version {protocol} of the protocol"
            raise Unreadable(
                f"its clients spoke {spoken}; this zaichik speaks version {PROTOCOL_VERSION}"
            )
        self.about: bytes = bytes(data[HEADER.size : self._at])
        self._data, self._at = data, self._at + CHECK.size
        self.problem, self.is_damaged = "", False

    def records(self) -> Iterator[FlightRecord]:
        """Yields the records, END included, up to the end.

        Or up to the first that cannot be trusted.
        """
        data = self._data
        at = self._at
        size = len(data)
        record = None
        while size - at >= RECORD.size:
            head = data[at : at + RECORD.size]
            length, kind, number, now_us = RECORD.unpack(head)
            end = at + RECORD.size + length
            if end + CHECK.size > size:
                break
            payload = data[at + RECORD.size : end]
            self._crc = crc32(payload, crc32(head, self._crc))
            if data[end : end + CHECK.size] != CHECK.pack(self._crc):
                self.problem = f"it is damaged after byte {at}"
                self.is_damaged = True
                return
            if kind not in KINDS:
                self.problem = f"it has a record of an unknown kind, {kind}, after byte {at}"
                self.is_damaged = True
                return
            at = end + CHECK.size
            record = FlightRecord(KINDS[kind], number, now_us, payload)
            yield record
        if at < size:
            self.problem = f"it breaks off in the middle of a record, after byte {at}"
        elif record is None or record.kind is not FlightKind.END:
            self.problem = (
                "it has no end: the broker was killed, or could not write on, or is still running"
            )
