"""What wrong bytes usually mean: the border between a stream that makes no sense and a sentence that helps.

Nothing here is needed to judge a broker. It only guesses, from the few mistakes that nearly everybody makes once, and
says nothing where it has no good guess.
"""

import string

from zaichik.learn import shown
from zaichik.learn.layouts import HEADER, LAYOUTS, MAX_LENGTH, REQUESTS

REFUSED = "nothing listens at that port any more: the server has ended, or has closed its listening socket"
RESET = "the connection was torn down (RST): a server that crashes, or closes a socket with unread bytes, does that"
ENDED = "it ended the connection by itself: look for an exception in its output"

_PRINTABLE = set(string.printable.encode())


def of_bytes(data: bytes, sent: bytes = b"") -> str:
    """A guess at what bytes are that cannot be read as a frame; "" without one.

    Args:
        data: what came, from where a frame should begin.
        sent: what was sent before, to recognise an echo.
    """
    if not data:
        return ""
    if len(data) >= HEADER.size and data[: HEADER.size] in sent:
        return "these are the request's own bytes: the server echoes instead of answering with a frame of its own"
    if set(data[:16]) <= _PRINTABLE:
        return f"this is text, {shown.text(data, 40)}, where the binary header of a frame should be"
    little, big = int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")
    if len(data) >= 4 and little < 8:
        return "the length counts everything after itself: the other 8 bytes of the header, and the body"
    if len(data) >= 4 and little > MAX_LENGTH and 8 <= big <= MAX_LENGTH:
        return f"read as big-endian, the length is {big}, which makes sense: integers here are little-endian"
    return ""


def of_unfinished(data: bytes) -> str:
    """A guess why the rest of a frame that began with these bytes did not come; "" without one."""
    if len(data) < HEADER.size:
        return "a frame was begun, and not even its header of 12 bytes came"
    length, kind, *_ = HEADER.unpack_from(data)
    announced = 4 + length
    if len(data) == length:
        return (
            f"the length says {length}, and {len(data)} bytes came in all: it seems to count its own four bytes, "
            "which it must not"
        )
    if int.from_bytes(data[:4], "big") == len(data) - 4:
        return "read as big-endian, the length is just right: integers here are little-endian"
    name = LAYOUTS[kind][0] if kind in LAYOUTS else f"type {kind:#04x}"
    return f"the frame ({name}) announces {announced} bytes in all, and {len(data)} came: is its length right?"


def of_bad_body(data: bytes, following: bytes) -> str:
    """A guess why the body of a frame does not come out even; "" without one.

    Args:
        data: the frame as its length cuts it.
        following: what came behind it.
    """
    kind = data[4]
    if kind in REQUESTS:
        return "this is the type of a request; a reply has the top bit set, as in 0x87 for a Ping's 0x07"
    if following and len(following) < HEADER.size:
        return (
            f"{len(following)} more bytes follow that are no frame: the length seems to leave out part of the header "
            "(it counts everything after its own four bytes)"
        )
    return ""
