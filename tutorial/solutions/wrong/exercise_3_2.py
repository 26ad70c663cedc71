"""PascalString decodes while it parses, so a bad name looks like a bad frame, and ends the connection.

Fails at: bytes that are not UTF-8
"""

from construct import ConstructError, Int16ul, PascalString, Struct, Terminated

MALFORMED, INVALID_FIELD, GOOD = 1, 64, 0
BODY = Struct("name" / PascalString(Int16ul, "utf8"), Terminated)


def judge(body: bytes) -> int:
    """MALFORMED or GOOD."""
    try:
        BODY.parse(body)
    except ConstructError:
        return MALFORMED
    return GOOD
