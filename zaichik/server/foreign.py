"""Clients of other protocols, recognised by their first bytes.

Pointing a browser or a TLS client at the broker's port is a common mistake, and "a frame of length
542393671" helps nobody to find it. So the broker's log names the protocol. These clients get no
reply in our protocol, which they would not understand; HTTP and TLS clients get one in their own,
because they show it to their users.
"""

import re

HTTP_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    b"This is a zaichik broker, which does not speak HTTP. Use a zaichik client.\n"
)
PROTOCOL_VERSION_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"  # of TLS; it is fatal
ANSWERS = {
    "HTTP": HTTP_ANSWER,
    "TLS": PROTOCOL_VERSION_ALERT,
}
FIRST_BYTES = 16  # enough to tell them all apart

_KNOWN = {
    # Our decoder needs four bytes for a length, too. So the first four letters have to do.
    "HTTP": rb"GET |HEAD|POST|PUT |PATC|DELE|OPTI|CONN|TRAC|PRI ",
    "TLS": rb"\x16\x03[\x00-\x04]",
    "SSH": rb"SSH-",
    "Redis": rb"\*\d[\d\r]|(PING|INFO|AUTH|QUIT)\b",
    "MQTT": rb"\x10.{1,4}\x00[\x04\x06]",
    "AMQP": rb"AMQP",
}


def recognised(first: bytes) -> str:
    """Returns the name of the protocol that begins with these bytes; "" if none is known to.

    Call it only if their length field is too large for a first frame of ours: a valid frame may
    begin like any of them.
    """
    for name, pattern in _KNOWN.items():
        if re.match(pattern, first, re.DOTALL):
            return name
    return ""
