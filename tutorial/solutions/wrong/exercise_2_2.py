"""Incomplete is taken for complete: a number is returned although its last byte has not come.

Fails at: a number whose last byte is missing is not there yet
"""


def length(buffer: bytes) -> int | None:
    """The number in the bytes that are there."""
    value = 0
    for place, byte in enumerate(buffer[:4]):
        value += (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    return value if buffer else None
