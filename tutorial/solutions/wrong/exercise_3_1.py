"""Nothing says that the body ends here, so whatever follows is passed over in silence.

Fails at: a body that is too long is refused
"""

from construct import Int32ul, Int64ul, Struct

COMMIT = Struct("subscription" / Int32ul, "next" / Int64ul)
