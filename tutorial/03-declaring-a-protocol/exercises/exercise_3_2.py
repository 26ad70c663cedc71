"""Exercise 3.2: whose fault is a name?

The body of a CreateTopic begins with the topic's name: a u16, the number of bytes, and that many bytes of UTF-8.

* If the bytes do not add up (the body ends inside the name), the frame is bad: MALFORMED, and the connection ends.
* If they add up but are not UTF-8, the name is bad: INVALID_FIELD, and the connection goes on.
"""

MALFORMED, INVALID_FIELD, GOOD = 1, 64, 0


def judge(body: bytes) -> int:
    """MALFORMED, INVALID_FIELD or GOOD, for a body that has a name and nothing else."""
    raise NotImplementedError("this is yours to write")
