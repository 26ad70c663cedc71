"""What we say no to, and with which number."""

MALFORMED, FRAME_TOO_LARGE, HELLO_REQUIRED, UNSUPPORTED_VERSION = 1, 2, 3, 4
INVALID_FIELD, UNSUPPORTED, TOPIC_EXISTS = 64, 65, 67
NO_SUCH_SUBSCRIPTION, NOT_IN_FLIGHT = 70, 71
OFFSET_AHEAD, EPOCH_CHANGED = 72, 73
MESSAGE_TOO_LARGE, BATCH_TOO_LARGE = 75, 76
SEQUENCE_GAP, PRODUCER_UNKNOWN = 78, 79
NO_SUCH_TOPIC, NO_SUCH_NAME = 66, 86
FIRST_HARMLESS = 64  # smaller numbers end the connection


class Refused(Exception):
    """Answered with an Error: its number, the field at fault, and why."""

    def __init__(self, code: int, field: str, message: str) -> None:
        super().__init__(message)
        self.code, self.field, self.message = code, field, message


def require(good: object, code: int, field: str, message: str) -> None:
    """Refuse the request, unless all is good."""
    if not good:
        raise Refused(code, field, message)


def require_text(value: bytes, field: str) -> None:
    """Refuse bytes that are not valid UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        raise Refused(INVALID_FIELD, field, "not valid UTF-8") from None
