"""Exercise 2.2: the length of an MQTT packet."""

NOT_YET = None
LONGEST = 4


def length(buffer: bytes) -> int | None:
    """The number that the buffer begins with; None if its bytes are not all there yet.

    Raises:
        ValueError: the fourth byte says that a fifth follows.
    """
    value = 0
    for place, byte in enumerate(buffer[:LONGEST]):
        value += (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    if len(buffer) >= LONGEST:
        raise ValueError("a length of more than four bytes")
    return NOT_YET
