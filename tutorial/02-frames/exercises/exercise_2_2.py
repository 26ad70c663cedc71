"""Exercise 2.2: the length of an MQTT packet.

MQTT writes a length in 1 to 4 bytes. Each holds 7 bits of the number, the lowest 7 bits first; the top bit (0x80) says
that another byte follows. 5 is 05; 127 is 7f; 128 is 80 01; 16,384 is 80 80 01.
"""

NOT_YET = None


def length(buffer: bytes) -> int | None:
    """The number that the buffer begins with; None if its bytes are not all there yet.

    Raises:
        ValueError: the fourth byte says that a fifth follows.
    """
    raise NotImplementedError("this is yours to write")
