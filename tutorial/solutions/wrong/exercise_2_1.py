"""The length is read from whatever is there. Two bytes of it are a number, too.

Fails at: a frame cut in its length
"""


def missing(buffer: bytes) -> int:
    """How many bytes of the frame have to come."""
    length = int.from_bytes(buffer[:4], "little")
    if length < 8:
        raise ValueError(f"a length of {length}")
    return max(0, 4 + length - len(buffer))
