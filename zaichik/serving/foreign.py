"""Clients of other protocols that knock at the wrong door, known by their first bytes.

A browser or a TLS client that is pointed at the broker's port is a common mistake, and "a frame of length 542393671"
is no help to whoever makes it. So the broker's log names what came. These clients are not told in our protocol, which
they do not understand; only HTTP has an answer that every one of its clients shows to a person.
"""

import re

HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a zaichik broker, which does not speak HTTP. Use a zaichik client.\n"
)
FIRST_BYTES = 16  # enough to tell them all apart

_KNOWN = {
    "HTTP": rb"GET |HEAD|POST|PUT |PATC|DELE|OPTI|CONN|TRAC|PRI ",  # four bytes are enough for our decoder, too
    "TLS": rb"\x16\x03[\x00-\x04]",
    "SSH": rb"SSH-",
    "Redis": rb"\*\d[\d\r]|(PING|INFO|AUTH|QUIT)\b",
    "MQTT": rb"\x10.{1,4}\x00[\x04\x06]",
    "AMQP": rb"AMQP",
}


def recognised(first: bytes) -> str:
    """The protocol that begins so, "" if none of those known does.

    To be asked only if what came is too long for a first frame of ours: a short one may begin with any of them.
    """
    return next((name for name, pattern in _KNOWN.items() if re.match(pattern, first, re.DOTALL)), "")
