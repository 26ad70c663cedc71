"""Exercise 3.2: whose fault is a name?"""

from construct import ConstructError, GreedyBytes, Int16ul, Prefixed, Struct, Terminated

MALFORMED, INVALID_FIELD, GOOD = 1, 64, 0
BODY = Struct("name" / Prefixed(Int16ul, GreedyBytes), Terminated)


def judge(body: bytes) -> int:
    """MALFORMED, INVALID_FIELD or GOOD, for a body that has a name and nothing else."""
    try:
        BODY.parse(body).name.decode()
    except ConstructError:
        return MALFORMED
    except UnicodeDecodeError:
        return INVALID_FIELD
    return GOOD
