"""An offset of 8 bytes is read as one of 4: small numbers look right, and the body is too long.

Fails at: fields become the same bytes again
"""

from construct import Int32ul, Struct

COMMIT = Struct("subscription" / Int32ul, "next" / Int32ul)
