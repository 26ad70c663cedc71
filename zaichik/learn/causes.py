"""What wrong bytes usually mean: from a stream that makes no sense to a sentence that helps.

No check depends on this. It only guesses, from the few mistakes that nearly everybody makes once,
and says nothing where it has no good guess.
"""

import string

from zaichik.learn import notation
from zaichik.learn.layouts import HEADER, LAYOUTS, MAX_LENGTH, REQUESTS

REFUSED = (
    "nothing listens at that port any more: the server has ended, or has closed its "
    "listening socket"
)
RESET = "the connection was reset (RST): by a crash, or by closing a socket that had unread bytes"
ENDED = "the server closed the connection itself: look for an exception in its output"

EXACT = 2**53  # up to here, a double has every integer
_PRINTABLE = set(string.printable.encode())


def of_bytes(data: bytes, sent: bytes = b"") -> str:
    """A guess at what bytes that aren't a frame are; "" without one.

    Args:
        data: what came, starting where a frame should begin.
        sent: what was sent before, to recognise an echo.
    """
    if not data:
        return ""
    if len(data) >= HEADER.size and data[: HEADER.size] in sent:
        return "these are the request's own bytes: the server echoes instead of replying"
    if set(data[:16]) <= _PRINTABLE:
        return f"this is text, {notation.text(data, 40)}, where a frame's binary header should be"
    little, big = int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")
    if len(data) >= 4 and little < 8:
        return (
            "the length counts everything after itself: the other 8 bytes of the header, and "
            "the body"
        )
    if len(data) >= 4 and little > MAX_LENGTH and 8 <= big <= MAX_LENGTH:
        return f"read as big-endian, the length would be {big}: but integers are little-endian"
    return ""


def of_number(expected: object, came: object) -> str:
    """A guess how one number became another; "" without one.

    A language whose only numbers are doubles rounds those above 2⁵³.
    """
    if not isinstance(expected, int) or not isinstance(came, int) or expected <= EXACT:
        return ""
    if int(float(expected)) != came:
        return ""
    return "rounded to 53 bits, as a double is: JavaScript's Number, for example; there, use BigInt"


def of_unfinished(data: bytes) -> str:
    """A guess why the rest of a frame that begins with these bytes didn't come; "" without one."""
    if len(data) < HEADER.size:
        return "a frame began, but not even its header of 12 bytes came"
    length, kind, *_ = HEADER.unpack_from(data)
    announced = 4 + length
    if len(data) == length:
        return (
            f"the length is {length}, and {len(data)} bytes came in all: it seems to count its own "
            "four "
            "bytes, which it must not"
        )
    if int.from_bytes(data[:4], "big") == len(data) - 4:
        return "read as big-endian, the length would be right: but integers are little-endian"
    name = LAYOUTS[kind][0] if kind in LAYOUTS else f"type {kind:#04x}"
    came = f"the frame ({name}) announces {announced} bytes in all, but {len(data)} came"
    return f"{came}: is its length right?"


def of_bad_body(data: bytes, following: bytes) -> str:
    """A guess why the body of a frame does not fit its fields; "" without one.

    Args:
        data: the frame as cut by its length.
        following: what came after it.
    """
    kind = data[4]
    if kind in REQUESTS:
        return "this is a request's type; a reply has the top bit set, as in 0x87 for 0x07"
    if following and len(following) < HEADER.size:
        return (
            f"{len(following)} more bytes follow that aren't a frame: the length seems to leave "
            "out part "
            "of the header (it counts everything after its own four bytes)"
        )
    return ""
