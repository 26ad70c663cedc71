"""Every error the wire knows, in one table, and the two exceptions that carry them.

An error has a *code*. The code says whether the connection survives it (`fatal`) and whether the
very same request may succeed later (`retryable`). Nobody has to remember which is which: the
frame's flags repeat it.
"""

from enum import IntEnum
from typing import Self


class _Explained(IntEnum):
    """A number of the wire together with its meaning in words.

    A code is looked up by its number alone, as in `ErrorCode(77)`; a number that the table lacks is
    a `ValueError`.
    """

    meaning: str
    retryable: bool

    def __new__(cls, value: int, meaning: str = "", retryable: bool = False) -> Self:  # noqa: FBT001, FBT002 (columns)
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.retryable = retryable
        return member


RETRYABLE = True


class ErrorCode(_Explained):
    """What can go wrong, as the `code` of an `Error` frame.

    Codes below 64 are fatal: the broker sends the error, then closes. The others answer one request
    and the connection goes on.
    """

    @property
    def fatal(self) -> bool:
        """Whether the connection ends with this error."""
        return self < 64

    MALFORMED = (
        1,
        "the bytes are not a frame of this protocol: declared lengths do not add up to the frame",
    )
    FRAME_TOO_LARGE = 2, "a frame announces more bytes than the broker accepts"
    HELLO_REQUIRED = 3, "the first frame was not a Hello"
    UNSUPPORTED_VERSION = (
        4,
        "no protocol version is known to both sides; the message names the broker's range",
    )
    HANDSHAKE_TIMEOUT = 5, "no complete Hello came in time", RETRYABLE
    FRAME_TIMEOUT = 6, "a frame was begun and not completed in time", RETRYABLE
    IDLE_TIMEOUT = 7, "a client that promised a heartbeat was silent for too long", RETRYABLE
    AUTH_FAILED = 8, "the broker does not accept these credentials"
    TOO_MANY_CONNECTIONS = 9, "the broker is at its limit of connections", RETRYABLE
    SLOW_CONSUMER = 10, "the peer did not read what was waiting for it", RETRYABLE
    INTERNAL = 11, "the broker has a bug; its log has the traceback"
    TLS_REQUIRED = 12, "this port speaks TLS, and the peer does not"
    INVALID_FIELD = 64, "a field has a value outside its range; `field` names it"
    UNSUPPORTED = 65, "the broker does not know this request, option or flag"
    NO_SUCH_TOPIC = 66, "the topic does not exist, and this broker, or this request, creates none"
    TOPIC_EXISTS = 67, "the topic exists with other settings; the message lists the differences"
    TOO_MANY_TOPICS = 68, "the broker is at its limit of topics"
    TOO_MANY_SUBSCRIPTIONS = (
        69,
        "the connection is at its limit of subscriptions, or the broker at its limit of names",
    )
    NO_SUCH_SUBSCRIPTION = 70, "this connection has no subscription of that id"
    NOT_IN_FLIGHT = 71, "a commit beyond what has been delivered"
    OFFSET_AHEAD = 72, "a start beyond the end of the topic"
    EPOCH_CHANGED = (
        73,
        "the topic is not the one that the epoch identifies: its offsets mean something else",
    )
    FORBIDDEN = 74, "the user may not do this"
    MESSAGE_TOO_LARGE = 75, "one message has more bytes than the broker accepts"
    BATCH_TOO_LARGE = (
        76,
        "the batch has more messages or bytes than the broker, or this topic's ring, accepts",
    )
    TOPIC_FULL = 77, "storing would drop what a reader still needs", RETRYABLE
    SEQUENCE_GAP = 78, "a producer's batch is missing before this one"
    PRODUCER_UNKNOWN = (
        79,
        "the broker has forgotten this producer and cannot tell a retry from a new batch",
    )
    NO_MEMORY = 80, "the broker has no room for what it would have to hold or remember", RETRYABLE
    NOT_EMPTY = (
        81,
        (
            "the topic holds messages, or has readers or named positions, and was to be deleted "
            "only if empty; or the shared name has readers, and was to be forgotten"
        ),
    )
    TAKEN_OVER = (
        82,
        "the name belongs to another owner by now, or to a later attempt of the same one",
    )
    STORAGE_FULL = 83, "the disk has no room; nothing was stored", RETRYABLE
    DAMAGED = 84, "what the disk has kept of the topic is damaged; the message says where"
    TABLE_FULL = 85, "the table would hold more than it may; keys must be deleted first"
    NO_SUCH_NAME = 86, "the topic has no shared name like this"


class EndCode(_Explained):
    """Why a subscription ended without being asked to, as the `code` of `SubscriptionEnded`."""

    UNTIL = 1, "it reached the `until` it asked for"
    TAKEN_OVER = 2, "another subscription took over its name"
    FORBIDDEN = 3, "the right to read the topic was withdrawn"
    DELETED = 4, "the topic was deleted"
    DAMAGED = 5, "what comes next is damaged on the disk"


class GoAwayCode(_Explained):
    """Why the broker is about to close the connection, as the `code` of `GoAway`."""

    STOPPING = 1, "the broker is stopping; come back later", RETRYABLE
    DISCONNECTED = 2, "an operator ended this connection"
    STORAGE = 3, "the disk of the broker has failed", RETRYABLE
    CREDENTIALS_ENDED = 4, "the login has expired, or was removed"


class Refused(Exception):
    """A request that cannot be carried out, and why: the content of an `Error` frame.

    Args:
        code: which error.
        message: one sentence for a person: the cause and the next step.
        field: the name of the field at fault, "" where no single field is.

    Attributes:
        request_id, request_type: of the request at fault; 0 if there is none, or it is unknown.
    """

    def __init__(self, code: ErrorCode, message: str, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.request_id = self.request_type = 0

    def __reduce__(self) -> tuple[object, ...]:
        # By default it would be made again from the message alone, which is not enough.
        return type(self), (self.code, self.message, self.field), self.__dict__


class Unencodable(ValueError):
    """A frame with a value that does not fit its field.

    The message names the frame and what does not fit.
    """


class ProtocolError(Refused):
    """Bytes from the peer that break the protocol.

    If `code.fatal`, the stream is out of step and the connection must be closed. Otherwise the
    frame itself was whole and has been taken from the buffer: answer it and go on.

    Args:
        code, message, field: as in `Refused`.
        request_id: the id of the offending frame; 0 if that was not read.
        request_type: its type; 0 if that was not read.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        field: str = "",
        *,
        request_id: int = 0,
        request_type: int = 0,
    ) -> None:
        super().__init__(code, message, field)
        self.request_id = request_id
        self.request_type = request_type
